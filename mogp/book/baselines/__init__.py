r"""What the documents compare with and no user needs: baselines, each with its `fit`.

The baselines for several annotators (Giraldo, paper L; specification §9.4) take data with one
output and a target column for each of $R$ annotators: `data[0].Y [N, R]`, of which the entries
`data[0].observed [N, R]` count. $R_n$ are the annotators of row $n$. Class labels are
$0, \dots, K - 1$.

Each of them has `fit(data)`, `predict_y(X)` and `reliability(X)`.

- For classes, `predict_y` gives probabilities $p$ `[N, K]` and their variances $p (1 - p)$, and
  `reliability` the probability that an annotator is right `[N, R]`.
- For values, `predict_y` gives the mean and the variance `[N, 1]` of the value without noise, and
  `reliability` the variance of the noise of each annotator `[N, R]`.

The second matrix of `reliability` holds the variances of the first.
"""

from mogp.book.baselines.annotator_noise import LFCR, AnnotatorGPR
from mogp.book.baselines.confusion_matrices import LFC, DawidSkene
from mogp.models.consensus.random_answers import DGRL
from mogp.models.consensus.voting import average, majority_vote, vote_shares

__all__ = [
    "DGRL",
    "LFC",
    "LFCR",
    "AnnotatorGPR",
    "DawidSkene",
    "average",
    "majority_vote",
    "vote_shares",
]
