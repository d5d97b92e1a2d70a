"""Convolutional kernels for images: sums over patches, by what is known of them or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Convolutional, IsotropicStationary

from mogp.kernels.known_patches import DistinctPatches, TwoLevels
from mogp.kernels.pieces import by_pieces
from mogp.kernels.products import square_distance
from mogp.kernels.stack import (
    KernelStack,
    Key,
    key,
    parameters_read_once,
    proxy,
    rows,
    stacked,
)
from mogp.modules import own_parameters, with_tensors

_BYTES_AT_ONCE = 1 << 27
_BYTES_IN_CACHE = 1 << 21

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Patches:
    """How images are cut: every window of `patch` pixels of an `image`, rows first.

    Attributes:
        image: height and width of the images in pixels; inputs are `[N, height x width]`, row by
            row.
        patch: height and width of a patch.
        ard: a lengthscale for every pixel of a patch, or one for all.
        shared_weights: one vector of patch weights for all latent GPs, or one for each.
        start: start values of the weights: "random" (standard normal, so that latent GPs differ) or
            "ones".

    >>> import numpy as np
    >>> from mogp.kernels import Patches
    >>> patches = Patches(image=(3, 3), patch=(2, 2))
    >>> patches.number, patches.length
    (4, 4)
    >>> patches.cut(np.arange(9.0)[None])[0, 0].tolist()
    [0.0, 1.0, 3.0, 4.0]
    """

    image: tuple[int, int]
    patch: tuple[int, int] = (3, 3)
    ard: bool = False
    shared_weights: bool = False
    start: Literal["random", "ones"] = "random"

    def __post_init__(self) -> None:
        if self.start not in ("random", "ones"):
            raise ValueError(f"start={self.start!r}; choose 'random' or 'ones'.")
        if min(*self.image, *self.patch) < 1 or any(
            p > i for p, i in zip(self.patch, self.image, strict=True)
        ):
            raise ValueError(
                f"patches of {self.patch} pixels do not fit in images of {self.image}."
            )

    @property
    def pixels(self) -> int:
        """Number of pixels of an image, the columns of the inputs."""
        return self.image[0] * self.image[1]

    @property
    def length(self) -> int:
        """Number of pixels of a patch, `E`."""
        return self.patch[0] * self.patch[1]

    @property
    def number(self) -> int:
        """Number of patches of an image, `P`."""
        return (self.image[0] - self.patch[0] + 1) * (self.image[1] - self.patch[1] + 1)

    def cut(self, X: npt.ArrayLike) -> Array:
        """All patches `[N, P, E]` of images `[N, height x width]`."""
        images = np.asarray(X, dtype=float)
        if images.ndim != 2 or images.shape[1] != self.pixels:
            raise ValueError(
                f"the images have shape {images.shape}; expected [N, {self.pixels}], "
                f"{self.image[0]} x {self.image[1]} pixels in a row."
            )
        stacked: Any = images.reshape(-1, *self.image)
        windows: Array = np.lib.stride_tricks.sliding_window_view(stacked, self.patch, axis=(1, 2))  # type: ignore[call-overload]
        return windows.reshape(len(images), self.number, self.length)

    def windows(self, X: tf.Tensor) -> tf.Tensor:
        """All patches `[N, P, E]` of a tensor of images `[N, height x width]`."""
        images = tf.reshape(X, [-1, *self.image, 1])
        found = tf.image.extract_patches(images, [1, *self.patch, 1], [1] * 4, [1] * 4, "VALID")
        return tf.reshape(found, [-1, self.number, self.length])

    def kernels(self, count: int, lengthscale: float = 1.0, seed: int = 0) -> list[Convolutional]:
        """Make `count` GPflow kernels with a squared exponential of unit variance on patches.

        Args:
            count: how many.
            lengthscale: start value of the lengthscales.
            seed: seed of the weights.
        """
        made: list[Convolutional] = []
        rng = np.random.default_rng(seed)
        for _ in range(count):
            lengthscales = np.full(self.length, lengthscale) if self.ard else lengthscale
            base = gpflow.kernels.SquaredExponential(lengthscales=lengthscales)
            gpflow.set_trainable(base.variance, False)
            weights = rng.standard_normal(self.number) if self.start == "random" else None
            made.append(Convolutional(base, self.image, self.patch, weights=weights))
            if self.shared_weights:
                made[-1].weights = made[0].weights
        return made


class PatchStack(KernelStack):
    r"""Convolutional kernels on images: GPflow's `Convolutional`, evaluated together.

    $u_g(x) = \frac1P\sum_p w_{gp}\, r_g(x^{[p]})$ with $r_g \sim GP(0, k_g)$, so that

    $$\mathrm{cov}(u_g(x), u_g(x')) = \frac1{P^2}\sum_{p,p'} w_{gp} w_{gp'} k_g(x^{[p]}, x'^{[p']}),
      \qquad \mathrm{cov}(u_g(x), r_g(z)) = \frac1P\sum_p w_{gp} k_g(x^{[p]}, z).$$

    The double sum has $P^2$ terms for each image (104 976 for 3 x 3 patches of 20 x 20 pixels). It
    is found in one of three ways, with equal results:

    - **by distinct patches**: equal patches have equal responses, so with
      $c_{gu} = \sum_{p:\,x^{[p]} = z_u} w_{gp}$ over a table of $U$ distinct patches $z_u$ the
      variance is $c_g^\top k_g(z, z)\, c_g / P^2$: $U^2$ kernel values for a whole batch. The table
      is that of the images in `table`, if they have at most 1024 patches; a batch with a patch that
      is not in it takes another way.
    - **by distance**, for variances: if the pixels of the images in `table` have two values, two
      patches differ in $h = 0 \dots E$ of them. With one lengthscale for all pixels the variance is
      $\sum_h k_g(h) S_{gh} / P^2$, where $S_{gh}$ sums $w_{gp} w_{gp'}$ over the pairs that differ
      in $h$ pixels: $E + 1$ kernel values for a whole batch.
    - **in pieces**: a few images at a time, recomputed for the gradient, so that no tensor grows
      with the batch.

    Args:
        kernels: with equal images and patches, squared exponentials or other isotropic stationary
            kernels on patches: their variance times a function of the distance.
        table: images `[N, pixels]` whose distinct patches make the table, and whose pixels have the
            two values; None for none.
        bytes_at_once: size of the largest tensor of a piece.

    >>> import numpy as np
    >>> from mogp.kernels import Patches, PatchStack
    >>> patches = Patches(image=(4, 4), patch=(2, 2), start="ones")
    >>> stack = PatchStack(patches.kernels(2))
    >>> np.round(stack.K_diag(np.ones((3, 16))), 3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        kernels: Sequence[Convolutional],
        table: npt.ArrayLike | None = None,
        bytes_at_once: int = _BYTES_AT_ONCE,
    ) -> None:
        super().__init__(kernels)
        self.patches = _common_form(self.kernels)
        self.responses = KernelStack([k.base_kernel for k in self.kernels])
        self._bytes = bytes_at_once
        self._seen = None if table is None else DistinctPatches.of(table, self.patches)
        self._levels = None if table is None or not self._isotropic else TwoLevels.of(table)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Variances `[G, N]` of the image functions at `X [N, pixels]`."""
        P, w, levels = self.patches.number, self._weights(), self._levels

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.linalg.matmul(c, self.responses.K(table)) * c, -1)

        def directly(images: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
            patches = self.patches.windows(images)
            return self._pairs(patches, patches, w)

        def in_pieces() -> tf.Tensor:
            return self._in_pieces(directly, X, self._in_cache(P**2), w)

        if self._seen is not None:
            return self._by_table(self._seen, X, w, by_table, in_pieces)
        if levels is None:
            return in_pieces()

        def by_distance(images: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
            apart = levels.square_distances(self.patches.length)
            k = self._correlations(self._over_lengthscales(apart[None]))
            return tf.linalg.matvec(levels.sums(self.patches.windows(images), w), k)

        size = self._bytes // (2 * tf.int64.size * P * (P + 1) // 2)
        return tf.cond(
            levels.known(X), lambda: self._in_pieces(by_distance, X, max(1, size), w), in_pieces
        )

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """Covariances `[G, N, N']` of the image functions.

        Args:
            X: `[N, pixels]`.
            X2: `[N', pixels]`; X itself if None.
        """
        other = X if X2 is None else X2
        N, N2, w = tf.shape(X)[0], tf.shape(other)[0], self._weights()
        cut = self.patches.windows

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.linalg.matmul(
                tf.linalg.matmul(c[:, :N], self.responses.K(table)), c[:, -N2:], transpose_b=True
            )

        def directly(pairs: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
            return self._pairs(cut(tf.gather(X, pairs // N2)), cut(tf.gather(other, pairs % N2)), w)

        def in_pieces() -> tf.Tensor:
            size = self._in_cache(self.patches.number**2)
            pairs = self._in_pieces(directly, tf.range(N * N2), size, w)
            return tf.reshape(pairs, [len(self), N, N2])

        if self._seen is None:
            return in_pieces()
        both = X if X2 is None else tf.concat([X, X2], 0)
        return self._by_table(self._seen, both, w, by_table, in_pieces)

    def Kuf(self, Z: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, M, N]` of patch responses with image functions.

        Args:
            Z: `[M, E]` or `[G, M, E]` patches.
            X: `[N, pixels]` images.
        """
        P, M, w = self.patches.number, int(Z.shape[-2]), self._weights()

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.linalg.matmul(self.responses.K(Z, table), c, transpose_b=True)

        def directly(images: tf.Tensor, w: tf.Tensor, Z: tf.Tensor) -> tf.Tensor:
            patches = tf.reshape(self.patches.windows(images), [-1, self.patches.length])
            k = self._correlations(self._distances(Z, patches))
            return tf.reshape(
                tf.linalg.matvec(tf.reshape(k, [len(self), -1, P]), w), [len(self), M, -1]
            )

        def in_pieces() -> tf.Tensor:
            return self._in_pieces(directly, X, self._in_cache(P * M), w, Z)

        if self._seen is None:
            return in_pieces()
        return self._by_table(self._seen, X, w, by_table, in_pieces)

    # ways to the sums

    def _by_table(
        self,
        seen: DistinctPatches,
        images: tf.Tensor,
        w: tf.Tensor,
        by_table: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        in_pieces: Callable[[], tf.Tensor],
    ) -> tf.Tensor:
        """`by_table(c, z)` if the table has all patches of the images, else in pieces."""
        ids, known = seen.find(images, self.patches)
        return tf.cond(
            known, lambda: by_table(self._spread(ids, w, len(seen.codes)), seen.table), in_pieces
        )

    def _in_pieces(
        self,
        correlations: Callable[..., tf.Tensor],
        rows: tf.Tensor,
        size: int,
        *parameters: tf.Tensor,
    ) -> tf.Tensor:
        """Covariances `[G, …, N]` of all rows, from `correlations(piece, *parameters)`."""
        shared = self._shared_parameters()

        # `by_pieces` only differentiates with respect to what it is passed, so the parameters go
        # in as tensors and are handed to the kernels by `parameters_read_once`.
        def of_piece(piece: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
            with parameters_read_once(dict(zip(shared, values[: len(shared)], strict=True))):
                return correlations(piece, *values[len(shared) :])

        found = by_pieces(of_piece, rows, (*shared.values(), *parameters), size)
        # A loop over pieces forgets the number of kernels, which later code reads.
        found = tf.ensure_shape(found, [len(self), *[None] * (found.shape.rank - 1)])
        variance = stacked([k.variance for k in self.responses.kernels])
        return found * tf.reshape(variance, [-1] + [1] * (found.shape.rank - 1))

    def _in_cache(self, terms: int) -> int:
        """Rows of a piece, where each row and latent GP makes `terms` numbers that are read again.

        Passes over tensors that stay in the cache take a fraction of the time.
        """
        row = np.dtype(gpflow.default_float()).itemsize * terms * len(self)
        return max(1, min(self._bytes, _BYTES_IN_CACHE) // row)

    def _weights(self) -> tf.Tensor:
        """Weights of the patches over their number, `[G, P]`."""
        return stacked([k.weights for k in self.kernels]) / self.patches.number

    def _shared_parameters(self) -> dict[Key, tf.Tensor]:
        """The stacked parameters of the kernels on patches."""
        bases = self.responses.kernels
        groups = [[getattr(base, name) for base in bases] for name in own_parameters(bases[0])]
        return {key(group): stacked(group) for group in groups}

    # kernels of patches, over their variances

    @property
    def _isotropic(self) -> bool:
        """Whether each kernel has one lengthscale for all pixels."""
        return bool(self.responses.kernels[0].lengthscales.shape.num_elements() == 1)

    def _pairs(self, a: tf.Tensor, b: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """Correlations `[G, n]` of `n` pairs of images with patches `a, b [n, P, E]`."""
        k = self._correlations(self._distances(a, b))
        return tf.reduce_sum(tf.linalg.matvec(k, w[:, None]) * w[:, None], -1)

    def _correlations(self, distances: tf.Tensor) -> tf.Tensor:
        """Kernels over their variances, `[G, …]`, at squared distances over lengthscales."""
        kernels = proxy(self.responses.kernels, rank=distances.shape.rank - 1)
        return with_tensors(kernels, {}, variance=tf.ones([], distances.dtype)).K_r2(distances)

    def _distances(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        """Squared distances over lengthscales, `[G, …, N, N']`, of patches `a, b […, N, E]`.

        With `b [N', E]`, `a` may also have a set for each kernel, `[G, N, E]`.
        """
        if not self._isotropic:
            lengthscales = rows([k.lengthscales for k in self.responses.kernels])
            shape = [len(self)] + [1] * (b.shape.rank - 1) + [self.patches.length]
            inverse = 1 / tf.reshape(lengthscales, shape)
            return square_distance(a * inverse, b * inverse)
        if a.shape.rank == b.shape.rank:
            return self._over_lengthscales(square_distance(a, b)[None])
        # One product for all sets.
        distances = square_distance(tf.reshape(a, [-1, a.shape[-1]]), b)
        return self._over_lengthscales(tf.reshape(distances, [*a.shape[:2], -1]))

    def _over_lengthscales(self, distances: tf.Tensor) -> tf.Tensor:
        """`[G, …]` from squared distances `[G, …]`, or `[1, …]` for all kernels."""
        lengthscales = stacked([k.lengthscales for k in self.responses.kernels])
        inverse = 1 / tf.square(tf.reshape(lengthscales, [-1]))
        if distances.shape[0] == 1:
            shape = tf.concat([[len(self)], tf.shape(distances)[1:]], 0)
            return tf.reshape(_outer(inverse, tf.reshape(distances, [-1])), shape)
        return distances * tf.reshape(inverse, [-1] + [1] * (distances.shape.rank - 1))

    def _spread(self, ids: tf.Tensor, w: tf.Tensor, U: int) -> tf.Tensor:
        """Weights `c [G, N, U]` by distinct patch, from `ids [N, P]` and `w [G, P]`."""
        N = tf.shape(ids, tf.int64)[0]
        # The cells of all images in one row: one segment sum serves the whole batch.
        cells = tf.reshape(ids + U * tf.range(N)[:, None], [-1])
        total = tf.math.unsorted_segment_sum(tf.tile(tf.transpose(w), [N, 1]), cells, N * U)
        return tf.transpose(tf.reshape(total, [N, U, len(self)]), [2, 0, 1])


@tf.custom_gradient
def _outer(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """The outer product `[G, N]` of `a [G]` and `b [N]`, for few `a` and many `b`.

    TensorFlow's own gradient makes two more tensors `[G, N]`; this one is two products.
    """

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return (
            tf.linalg.matmul(upstream, b[None], transpose_b=True)[:, 0],
            tf.linalg.matmul(a[None], upstream)[0],
        )

    return a[:, None] * b, gradient


def _common_form(kernels: Sequence[gpflow.kernels.Kernel]) -> Patches:
    wrong = {type(k).__name__ for k in kernels if not isinstance(k, Convolutional)}
    bases = [k.base_kernel for k in kernels if isinstance(k, Convolutional)]
    wrong |= {type(base).__name__ for base in bases if not isinstance(base, IsotropicStationary)}
    if wrong:
        raise TypeError(
            "expected gpflow Convolutional kernels with isotropic stationary bases, got"
            f" {', '.join(sorted(wrong))}."
        )
    forms = {(type(k.base_kernel), tuple(k.image_shape), tuple(k.patch_shape), k.colour_channels,
              tuple(k.base_kernel.lengthscales.shape)) for k in kernels}  # fmt: skip
    if len(forms) > 1:
        raise ValueError(
            "the kernels differ in their bases, images, patches or lengthscales (one, or one a"
            " pixel)."
        )
    _, image, patch, colours, _ = forms.pop()
    if colours != 1:
        raise ValueError(f"images with {colours} colour channels; expected one.")
    return Patches((image[0], image[1]), (patch[0], patch[1]))
