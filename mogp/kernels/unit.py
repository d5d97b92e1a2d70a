"""Unit-variance kernels for mixed latent GPs, where the mixing weights carry the amplitude."""

from __future__ import annotations

from collections.abc import Sequence

import gpflow
import numpy as np
import numpy.typing as npt


def unit_kernels(
    count: int,
    input_dim: int,
    lengthscales: npt.ArrayLike = 1.0,
    kernel: type[gpflow.kernels.Stationary] = gpflow.kernels.SquaredExponential,
    ard: bool = True,
) -> Sequence[gpflow.kernels.Kernel]:
    """`count` stationary kernels with a lengthscale for each input (ARD, unless `ard=False`) and
    variance fixed at one.

    `lengthscales` is one start value for all, or one a kernel.
    """
    starts = np.broadcast_to(np.asarray(lengthscales, dtype=float), (count,))
    kernels = [kernel(lengthscales=np.full(input_dim, start) if ard else start) for start in starts]
    for k in kernels:
        gpflow.set_trainable(k.variance, False)
    return kernels
