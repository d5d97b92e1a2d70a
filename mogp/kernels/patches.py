"""Convolutional kernels for images, through distinct patches or in pieces that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Convolutional, IsotropicStationary

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
from mogp.modules import own_parameters

_BYTES_AT_ONCE = 1 << 27
_LARGEST_TABLE = 1024
_CODES = 2**62

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
    is found in one of two ways, with equal results:

    - **by distinct patches**: equal patches have equal responses, so with
      $c_{gu} = \sum_{p:\,x^{[p]} = z_u} w_{gp}$ over a table of $U$ distinct patches $z_u$ the
      variance is $c_g^\top k_g(z, z)\, c_g / P^2$: $U^2$ kernel values for a whole batch. The table
      is that of the images in `table`, if they have at most 1024 patches; a batch with a patch that
      is not in it takes the other way.
    - **in pieces**: a few images at a time, recomputed for the gradient, so that no tensor grows
      with the batch.

    Args:
        kernels: with equal images and patches, squared exponentials or other isotropic stationary
            kernels on patches.
        table: images `[N, pixels]` whose distinct patches make the table; None for none.
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
        self._seen = None if table is None else _Distinct.of(table, self.patches)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Variances `[G, N]` of the image functions at `X [N, pixels]`."""

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.linalg.matmul(c, self.responses.K(table)) * c, -1)

        def directly(images: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
            patches = self._cut(images)
            return self._pairs(patches, patches, w)

        return self._either(X, by_table, directly, X, self.patches.number**2)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """Covariances `[G, N, N']` of the image functions.

        Args:
            X: `[N, pixels]`.
            X2: `[N', pixels]`; X itself if None.
        """
        other = X if X2 is None else X2
        N, N2 = tf.shape(X)[0], tf.shape(other)[0]

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.linalg.matmul(
                tf.linalg.matmul(c[:, :N], self.responses.K(table)), c[:, -N2:], transpose_b=True
            )

        def directly(pairs: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
            return self._pairs(
                self._cut(tf.gather(X, pairs // N2)), self._cut(tf.gather(other, pairs % N2)), w
            )

        both = X if X2 is None else tf.concat([X, X2], 0)
        covariances = self._either(
            both, by_table, directly, tf.range(N * N2), self.patches.number**2
        )
        return tf.reshape(covariances, [len(self), N, N2])

    def Kuf(self, Z: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, M, N]` of patch responses with image functions.

        Args:
            Z: `[M, E]` or `[G, M, E]` patches.
            X: `[N, pixels]` images.
        """
        P = self.patches.number

        def by_table(c: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            return tf.linalg.matmul(self.responses.K(Z, table), c, transpose_b=True)

        def directly(images: tf.Tensor, w: tf.Tensor, Z: tf.Tensor) -> tf.Tensor:
            k = self.responses.K(Z, tf.reshape(self._cut(images), [-1, self.patches.length]))
            return tf.linalg.matvec(tf.reshape(k, [len(self), k.shape[1], -1, P]), w[:, None, :])

        return self._either(X, by_table, directly, X, P * int(Z.shape[-2]), Z)

    # two ways

    def _either(
        self,
        images: tf.Tensor,
        by_table: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        directly: Callable[..., tf.Tensor],
        rows: tf.Tensor,
        terms: int,
        *parameters: tf.Tensor,
    ) -> tf.Tensor:
        """By the table if it has all patches of the images, else directly, in pieces.

        The first is `by_table(c / P, z)`.

        `directly(piece, w / P, *parameters)` is given pieces of `rows`; it makes `terms` numbers
        for each row and latent.
        """
        w = stacked([k.weights for k in self.kernels]) / self.patches.number
        size = max(1, self._bytes // (w.dtype.size * terms * len(self)))
        shared = self._shared_parameters()

        # `by_pieces` only differentiates with respect to what it is passed, so the parameters go
        # in as tensors and are handed to the kernels by `parameters_read_once`.
        def in_pieces() -> tf.Tensor:
            def of_piece(piece: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
                with parameters_read_once(dict(zip(shared, values[: len(shared)], strict=True))):
                    return directly(piece, *values[len(shared) :])

            return by_pieces(of_piece, rows, (*shared.values(), w, *parameters), size)

        seen = self._seen
        if seen is None:
            return in_pieces()
        ids, known = seen.find(images, self.patches)
        return tf.cond(
            known, lambda: by_table(self._spread(ids, w, len(seen.codes)), seen.table), in_pieces
        )

    def _shared_parameters(self) -> dict[Key, tf.Tensor]:
        """The stacked parameters of the kernels on patches."""
        bases = self.responses.kernels
        groups = [[getattr(base, name) for base in bases] for name in own_parameters(bases[0])]
        return {key(group): stacked(group) for group in groups}

    def _pairs(self, a: tf.Tensor, b: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, n]` of `n` pairs of images with patches `a, b [n, P, E]`."""
        lengthscales = rows([k.lengthscales for k in self.responses.kernels])[:, None]
        if lengthscales.shape[-1] == 1:
            distance = square_distance(a, b) / tf.square(lengthscales)
        else:
            distance = square_distance(a / lengthscales, b / lengthscales)
        k = proxy(self.responses.kernels, rank=3).K_r2(distance)
        return tf.reduce_sum(tf.linalg.matvec(k, w[:, None]) * w[:, None], -1)

    def _spread(self, ids: tf.Tensor, w: tf.Tensor, U: int) -> tf.Tensor:
        """Weights `c [G, N, U]` by distinct patch, from `ids [N, P]` and `w [G, P]`."""
        N = tf.shape(ids, tf.int64)[0]
        # The cells of all images in one row: one segment sum serves the whole batch.
        cells = tf.reshape(ids + U * tf.range(N)[:, None], [-1])
        total = tf.math.unsorted_segment_sum(tf.tile(tf.transpose(w), [N, 1]), cells, N * U)
        return tf.transpose(tf.reshape(total, [N, U, len(self)]), [2, 0, 1])

    def _cut(self, X: tf.Tensor) -> tf.Tensor:
        return _windows(X, self.patches)


def by_pieces(
    function: Callable[..., tf.Tensor], X: tf.Tensor, parameters: Sequence[tf.Tensor], size: int
) -> tf.Tensor:
    """Evaluate `function(X, *parameters) […, N]` on at most `size` rows of `X [N, …]` at a time.

    The gradient with respect to the parameters evaluates each piece again: no tensor is larger than
    a piece needs.
    """
    if X.shape[0] is not None and X.shape[0] <= size:
        return function(X, *parameters)
    N = tf.shape(X)[0]
    pieces = (N + size - 1) // size
    each = (N + pieces - 1) // tf.maximum(pieces, 1)
    padding = [[0, pieces * each - N], *[[0, 0]] * (X.shape.rank - 1)]
    cut = tf.reshape(tf.pad(X, padding), tf.concat([[pieces, each], tf.shape(X)[1:]], 0))

    @tf.custom_gradient
    def evaluate(
        *parameters: tf.Tensor,
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        values = tf.TensorArray(parameters[0].dtype, size=pieces)
        _, values = tf.while_loop(
            lambda i, _: i < pieces,
            lambda i, v: (i + 1, v.write(i, function(cut[i], *parameters))),
            (0, values),
            parallel_iterations=1,
        )
        joined = _last_but_one(values.stack())

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            end = [[0, 0]] * (upstream.shape.rank - 1) + [[0, pieces * each - N]]
            shape = tf.concat([tf.shape(upstream)[:-1], [pieces, each]], 0)
            by_piece = tf.reshape(tf.pad(upstream, end), shape)

            def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(parameters)
                    value = function(cut[i], *parameters)
                own = tape.gradient(
                    value, parameters, by_piece[..., i, :], unconnected_gradients="zero"
                )
                return i + 1, total + _flat(own)

            # One vector: sums of three tensors in a nested loop break TensorFlow's optimiser.
            start = (0, _flat([tf.zeros_like(p) for p in parameters]))
            total = tf.while_loop(lambda i, _: i < pieces, add, start, parallel_iterations=1)[1]
            parts = tf.split(total, [tf.size(p) for p in parameters])
            return [
                tf.reshape(part, tf.shape(p)) for part, p in zip(parts, parameters, strict=True)
            ]

        return joined[..., :N], gradient

    return evaluate(*parameters)


def _flat(values: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(value, [-1]) for value in values], 0)


def _last_but_one(values: tf.Tensor) -> tf.Tensor:
    """`[pieces, …, each]` as `[…, pieces x each]`."""
    order = [*range(1, values.shape.rank - 1), 0, values.shape.rank - 1]
    moved = tf.transpose(values, order)
    return tf.reshape(moved, tf.concat([tf.shape(moved)[:-2], [-1]], 0))


@dataclass(frozen=True)
class _Distinct:
    """The distinct patches of some images, found again by code: pixel levels as digits.

    Attributes:
        levels: `[L]` values that pixels have, ascending.
        codes: `[U]`, ascending.
        patches: `[U, E]`.
    """

    levels: Array
    codes: npt.NDArray[np.int64]
    patches: Array

    @property
    def table(self) -> tf.Tensor:
        """The patches, as models compute with them."""
        return tf.constant(self.patches, gpflow.default_float())

    @staticmethod
    def of(images: npt.ArrayLike, patches: Patches) -> _Distinct | None:
        """The distinct patches of images; None if there are too many for a table to pay."""
        levels = np.unique(np.asarray(images, dtype=float))
        if len(levels) == 0 or len(levels) ** patches.length >= _CODES:
            return None
        cut = patches.cut(images).reshape(-1, patches.length)
        codes = np.searchsorted(levels, cut) @ _digits(len(levels), patches.length)
        codes, first = np.unique(codes, return_index=True)
        if len(codes) > _LARGEST_TABLE:
            return None
        return _Distinct(levels, codes, cut[first])

    def find(self, X: tf.Tensor, patches: Patches) -> tuple[tf.Tensor, tf.Tensor]:
        """`ids [N, P]` of the patches of `X`, and whether the table has all of them."""
        levels = tf.constant(self.levels, X.dtype)
        level = tf.minimum(
            tf.searchsorted(levels, tf.reshape(X, [-1]), out_type=tf.int64), len(self.levels) - 1
        )
        exact = tf.reduce_all(tf.gather(levels, level) == tf.reshape(X, [-1]))
        digits = _windows(tf.reshape(level, tf.shape(X)), patches) * _digits(
            len(self.levels), patches.length
        )
        # A patch is a number in base `len(levels)`: only equal patches have equal codes.
        code = tf.reduce_sum(digits, -1)
        ids = tf.searchsorted(tf.constant(self.codes), tf.reshape(code, [-1]), out_type=tf.int64)
        ids = tf.minimum(tf.reshape(ids, tf.shape(code)), len(self.codes) - 1)
        return ids, exact & tf.reduce_all(tf.gather(tf.constant(self.codes), ids) == code)


def _digits(levels: int, length: int) -> npt.NDArray[np.int64]:
    return np.int64(levels) ** np.arange(length, dtype=np.int64)


def _windows(X: tf.Tensor, patches: Patches) -> tf.Tensor:
    """All patches `[N, P, E]` of images `[N, pixels]`."""
    images = tf.reshape(X, [-1, *patches.image, 1])
    windows = tf.image.extract_patches(images, [1, *patches.patch, 1], [1] * 4, [1] * 4, "VALID")
    return tf.reshape(windows, [-1, patches.number, patches.length])


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
