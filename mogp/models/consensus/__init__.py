"""What annotators say together: votes, and EM for a hidden class and a confusion matrix of each
annotator.

Models of annotators start from it (`mogp.models.annotator_start`), and `mogp.book.baselines`
compares with it.
"""
