"""What annotators say together: votes, and EM for class labels.

Models of annotators start from it (`mogp.models.annotator_start`), and `mogp.book.baselines`
compares with it.
"""
