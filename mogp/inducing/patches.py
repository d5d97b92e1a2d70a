"""Inducing patches: values of the patch responses of convolutional latent GPs."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.inducing.points import InducingPoints
from mogp.kernels import KernelStack, Patches, PatchStack


class InducingPatches(InducingPoints):
    """Inducing patches `Z [M, E]` shared by the kernels of a `PatchStack`, or `[G, M, E]`, a set
    for each.

    The inducing variables are responses of patches, `u_g = r_g(Z_g)`, where the latent GPs are
    functions of images: `Kuu [G, M, M]` is the covariance between patches and `Kuf [G, M, N]` that
    of patches with images.
    """

    def __init__(self, Z: npt.ArrayLike, patches: Patches) -> None:
        super().__init__(Z)
        if self.Z.shape[-1] != patches.length:
            raise ValueError(
                f"inducing patches have {self.Z.shape[-1]} pixels; patches of {patches.patch} have"
                f" {patches.length}."
            )
        self.patches = patches

    @property
    def input_dim(self) -> int:
        """Pixels of an image."""
        return self.patches.pixels

    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[G, M, M]`."""
        return self._stack(kernels).responses.K(tf.convert_to_tensor(self.Z))

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """`[G, M, N]` for images `X [N, pixels]`."""
        return self._stack(kernels).Kuf(tf.convert_to_tensor(self.Z), X)

    def _stack(self, kernels: KernelStack) -> PatchStack:
        if not isinstance(kernels, PatchStack):
            raise TypeError(
                "inducing patches need kernels on images; give the prior a mogp.kernels.PatchStack."
            )
        return kernels


def patch_subset(
    data: MultiOutputData | npt.ArrayLike,
    patches: Patches,
    count: int,
    sets: int | None = None,
    seed: int = 0,
) -> InducingPatches:
    """A random subset of the distinct patches of the images; `sets` of them (all alike at the
    start), or one shared.
    """
    if count < 1:
        raise ValueError(f"{count} inducing patches were asked for; at least 1 is needed.")
    X = data.X if isinstance(data, MultiOutputData) else np.asarray(data, dtype=float)
    rng = np.random.default_rng(seed)
    images = X if len(X) <= _IMAGES else X[rng.choice(len(X), _IMAGES, replace=False)]
    distinct = np.unique(patches.cut(images).reshape(-1, patches.length), axis=0)
    if count > len(distinct):
        warnings.warn(
            f"{count} inducing patches were asked for, the images have {len(distinct)} distinct"
            " ones: using those.",
            stacklevel=2,
        )
    elif count < len(distinct):
        distinct = distinct[rng.choice(len(distinct), count, replace=False)]
    return InducingPatches(
        distinct if sets is None else np.repeat(distinct[None], sets, axis=0), patches
    )


_IMAGES = 2000
