"""`use`: the kind of floating-point numbers that models compute with."""

from __future__ import annotations

import gpflow
import numpy as np

__all__ = ["use"]

_DTYPES = {"float64": np.float64, "float32": np.float32}


def use(*, dtype: str) -> None:
    """Choose the floating-point numbers of models, and of the data that are read for them.

    It holds from then on, for all models that are built afterwards (it is GPflow's default float;
    `gpflow.config.as_context` makes the choice for a block of code). A model keeps its own: use the
    same `dtype` when you train it, ask it or load it.

    In float32 a training step takes less time and half the memory. Covariances of inducing
    variables get a jitter of 1e-4 of their mean diagonal, in place of 1e-6: uncertainty close to
    the inducing points is not resolved below that.

    Args:
        dtype: "float64", the default of the library, or "float32".

    >>> import mogp
    >>> mogp.use(dtype="float32")
    >>> from mogp import MultiOutputData
    >>> from mogp.models import HGP
    >>> data = MultiOutputData.from_arrays([0.0, 1.0, 2.0], [0.1, 0.9, 0.2])
    >>> HGP(data).predict_y([0.5]).mean.dtype.name
    'float32'
    >>> mogp.use(dtype="float64")
    """
    if dtype not in _DTYPES:
        raise ValueError(f"dtype={dtype!r}; choose {' or '.join(map(repr, _DTYPES))}.")
    gpflow.config.set_default_float(_DTYPES[dtype])
