"""Data at the door: tables of several outputs, points with labels, and the mini-batches that models
read.

`MultiOutputData` and `LabelData` check what they are given once. Batches (`mogp.data.batches`,
`class_batches`, `padded`) need TensorFlow and are imported where they are used.
"""

from mogp.data.inputs import InputColumn, column_names, columns_agree, read_inputs
from mogp.data.labels import LabelData, unit_rows
from mogp.data.matrices import (
    Matrix,
    as_dense,
    distinct_rows,
    is_sparse,
    sparse_inputs,
    sparse_rows,
)
from mogp.data.outputs import Output
from mogp.data.scaling import Scaling
from mogp.data.schema import Names, Schema
from mogp.data.table import Array, MultiOutputData
from mogp.data.transforms import Transform

__all__ = [
    "Array",
    "InputColumn",
    "LabelData",
    "Matrix",
    "MultiOutputData",
    "Names",
    "Output",
    "Scaling",
    "Schema",
    "Transform",
    "as_dense",
    "column_names",
    "columns_agree",
    "distinct_rows",
    "is_sparse",
    "read_inputs",
    "sparse_inputs",
    "sparse_rows",
    "unit_rows",
]
