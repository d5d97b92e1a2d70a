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
    """Stationary kernels with variance fixed at one, for latent GPs that are mixed with weights.

    Args:
        count: how many.
        input_dim: number of inputs, `P`.
        lengthscales: one start value for all, or one for each kernel.
        kernel: the class of the kernels.
        ard: a lengthscale for each input (the default), or one for all.

    >>> from mogp.kernels import unit_kernels
    >>> kernels = unit_kernels(2, input_dim=3, lengthscales=[0.5, 2.0])
    >>> [k.lengthscales.numpy().tolist() for k in kernels]
    [[0.5, 0.5, 0.5], [2.0, 2.0, 2.0]]
    >>> kernels[0].variance.trainable
    False
    """
    starts = np.broadcast_to(np.asarray(lengthscales, dtype=float), (count,))
    kernels = [kernel(lengthscales=np.full(input_dim, start) if ard else start) for start in starts]
    for k in kernels:
        gpflow.set_trainable(k.variance, False)
    return kernels
