"""What the sparse formats share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def repeated_row(matrix: csr_matrix) -> int | None:
    """The first row of a CSR matrix with sorted indices that stores a column twice."""
    same = matrix.indices[1:] == matrix.indices[:-1]
    starts = matrix.indptr[1:-1]
    same[starts[(starts > 0) & (starts < matrix.nnz)] - 1] = False
    return (
        int(np.searchsorted(matrix.indptr, np.flatnonzero(same)[0], "right")) - 1
        if same.any()
        else None
    )
