"""Data at the door: tables of several outputs, points with labels, and the mini-batches that models
read.

`MultiOutputData` and `LabelData` check what they are given once. Batches (`mogp.data.batches`,
`class_batches`, `padded`) need TensorFlow and are imported where they are used.
"""

from mogp.data.labels import LabelData, Matrix, is_sparse, sparse_rows, unit_rows
from mogp.data.table import Array, MultiOutputData, Output

__all__ = [
    "Array",
    "LabelData",
    "Matrix",
    "MultiOutputData",
    "Output",
    "is_sparse",
    "sparse_rows",
    "unit_rows",
]
