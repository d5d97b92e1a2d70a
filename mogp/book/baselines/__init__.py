"""What the documents compare with and no user needs: baselines with a `fit` of their own."""
