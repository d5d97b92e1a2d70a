"""Inducing patches: values of the patch responses of convolutional latent GPs."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import inherit_check_shapes

from mogp.data import MultiOutputData
from mogp.inducing.points import InducingPoints
from mogp.kernels import KernelStack, Patches, PatchStack


class InducingPatches(InducingPoints):
    """Inducing patches: values of the patch responses of convolutional latent GPs.

    The inducing variables are responses of patches, `u_g = r_g(Z_g)`, where the latent GPs are
    functions of images: `Kuu [G, M, M]` is the covariance between patches and `Kuf [G, M, N]` that
    of patches with images.

    Args:
        Z: `[M, E]` patches shared by the kernels of a `PatchStack`, or `[G, M, E]`, a set for each.
        patches: how images are cut.

    >>> import numpy as np
    >>> from mogp.inducing import InducingPatches
    >>> from mogp.kernels import Patches, PatchStack
    >>> patches = Patches(image=(4, 4), patch=(2, 2))
    >>> points = InducingPatches(np.eye(4), patches)
    >>> points.Kuf(PatchStack(patches.kernels(3)), np.ones((5, 16))).shape.as_list()
    [3, 4, 5]
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

    @inherit_check_shapes
    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """Covariances `[G, M, M]` between the responses of the patches."""
        return self._stack(kernels).responses.K(tf.convert_to_tensor(self.Z))

    @inherit_check_shapes
    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, M, N]` of patch responses with image functions at `X [N, pixels]`."""
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
    """A random subset of the distinct patches of some images.

    Args:
        data: the images, `[N, pixels]`, or data whose inputs they are.
        patches: how images are cut.
        count: inducing patches in a set, `M`.
        sets: number of sets, which start alike; None for one that all kernels share.
        seed: seed of the choice.

    >>> import numpy as np
    >>> from mogp.inducing import patch_subset
    >>> from mogp.kernels import Patches
    >>> images = np.arange(32.0).reshape(2, 16)
    >>> patch_subset(images, Patches(image=(4, 4), patch=(2, 2)), count=6).Z.shape.as_list()
    [6, 4]
    """
    if count < 1:
        raise ValueError(f"{count} inducing patches were asked for; at least 1 is needed.")
    X = data.X if isinstance(data, MultiOutputData) else np.asarray(data, dtype=float)
    rng = np.random.default_rng(seed)
    # Patches repeat: those of some images are as good a choice, and sorting all takes memory.
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
