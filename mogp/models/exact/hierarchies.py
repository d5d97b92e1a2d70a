"""Exact hierarchical GPs: HGP, one for each output, and DHGP, one more level over all outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel
from gpflow.utilities import positive

from mogp.data import Array, MultiOutputData
from mogp.data.padded import PaddedSource, distinct_inputs
from mogp.kernels import KernelStack, hierarchical
from mogp.linalg import log_evidence
from mogp.models.choices import LevelKernels, ScalingChoice, chosen_levels
from mogp.models.exact.base import ExactMOGP
from mogp.models.exact.blocks import TreeBlocks, TreeFactors
from mogp.models.replicas import LEAST_VARIANCE, ReplicatedMOGP
from mogp.priors import Marginals

_COST_OF_BLOCKS = 10
"""Elimination takes as long as the evidence of dense matrices of so many times its `cost`."""

_AT_ONCE = 1000
"""Rows at which DHGP predicts at a time: each takes a vector of the length of all data."""


class HGP(ExactMOGP, ReplicatedMOGP):
    r"""A two-level GP for each output, exactly (Hensman, Lawrence and Rattray 2013).

    $y_d^r(x) = g_d(x) + f_d^r(x) + \epsilon$ with $g_d \sim GP(0, k_g)$, $f_d^r \sim GP(0, k_f)$
    and noise $\sigma_d^2$; kernels and noise are those of the output. Time grows with the cube of
    the rows of an output. The objective is the sum over outputs, so that one run of L-BFGS trains
    all.

    Args:
        data: outputs with replica numbers, crossed or nested. The model holds them, and trains on
            nothing else.
        kernel: copied for each output: a kernel for both levels, or the pair $k_g$ and $k_f$;
            Matérn-3/2 if None.
        noise: start value of the noise variances, of scaled targets.
        scaling: as in `hetmogp_lmc`.
        seed: nothing is drawn; accepted so that all constructors can be called alike.

    >>> import numpy as np
    >>> from mogp import MultiOutputData, fit
    >>> from mogp.models import HGP
    >>> x = np.arange(6.0)
    >>> data = MultiOutputData.from_arrays(x, np.sin(x), replica=[0, 1, 0, 1, 0, 1])
    >>> model = HGP(data)
    >>> before = float(model.elbo())
    >>> history = fit(model, data, steps=2, progress=False)
    >>> float(model.elbo()) > before, model.predict_y([0.5], replica=2).mean.shape.as_list()
    (True, [1, 1])
    """

    def __init__(
        self,
        data: MultiOutputData,
        *,
        kernel: LevelKernels = None,
        noise: float = 0.1,
        scaling: ScalingChoice = "standard",
        seed: int = 0,
    ) -> None:
        super().__init__(data, scaling)
        data = replace(self.scaled(data), nested=False)
        self.kernels = KernelStack(
            [
                hierarchical(_levels(kernel, "HGP", "an output, a replica", data), data.input_dim)
                for _ in data.names
            ]
        )
        self.noise = gpflow.Parameter(
            np.full(data.num_outputs, noise), transform=positive(lower=LEAST_VARIANCE)
        )
        source = PaddedSource(data)
        batch = source(0)
        rows = (
            np.tile(np.arange(len(source.X)), (len(data.names), 1))
            if batch.rows is None
            else batch.rows.numpy()
        )
        here = np.arange(source.longest) < source.sizes[:, None]
        self._X, self._Y = source.X[rows], np.where(here, batch.Y.numpy(), 0.0)
        self._here = here.astype(float)

    def _covariance(self) -> tf.Tensor:
        """`K_d + σ_d² I [D, n, n]`, with rows of the identity where an output has none."""
        here = tf.constant(self._here, gpflow.default_float())
        K = self.kernels.K(tf.constant(self._X, here.dtype)) * here[:, :, None] * here[:, None, :]
        return K + tf.linalg.diag(here * tf.convert_to_tensor(self.noise)[:, None] + (1 - here))

    def _evidence(self) -> tf.Tensor:
        r"""$\sum_d \log N(y_d \mid 0, K_d + \sigma_d^2 I)$."""
        K = self._covariance()
        missing = float(np.sum(1 - self._here))
        evidence = tf.reduce_sum(log_evidence(tf.constant(self._Y, K.dtype), K))
        return evidence + 0.5 * np.log(2 * np.pi) * missing

    def _projected(
        self, X: tf.Tensor, outputs: Sequence[int]
    ) -> tuple[KernelStack, tf.Tensor, tf.Tensor]:
        """The kernels, the means `[k, N]`, and what the data take off covariances, as factors."""

        def solve() -> tuple[tf.Tensor, tf.Tensor]:
            L = tf.linalg.cholesky(self._covariance())
            return L, tf.linalg.triangular_solve(L, tf.constant(self._Y, L.dtype)[:, :, None])

        L, alpha = (tf.gather(a, list(outputs)) for a in self._once(solve))
        own = KernelStack([self.kernels.kernels[d] for d in outputs])
        here = tf.constant(self._here[list(outputs)], X.dtype)
        cross = own.K(tf.constant(self._X[list(outputs)], X.dtype), X) * here[:, :, None]
        A = tf.linalg.triangular_solve(L, cross)
        return own, tf.linalg.matmul(A, alpha, transpose_a=True)[..., 0], A

    def _marginals(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        own, mean, A = self._projected(X, outputs)
        var = tf.maximum(own.K_diag(X) - tf.reduce_sum(tf.square(A), 1), LEAST_VARIANCE)
        return Marginals(tf.transpose(mean), tf.transpose(var))

    def _joint(self, X: tf.Tensor, outputs: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
        own, mean, A = self._projected(X, outputs)
        return mean, own.K(X) - tf.linalg.matmul(A, A, transpose_a=True)

    def _noise(self, outputs: Sequence[int]) -> tf.Tensor:
        return tf.linalg.diag(tf.gather(self.noise, list(outputs)))

    def choices(self) -> dict[str, str]:
        """Kernels and sizes, in words."""
        return {
            "prior": "two levels, an output and its replicas; exact,"
            f" {int(self._here.sum())} rows in all",
            "likelihood": "Gaussian, a variance for each output",
        }


class DHGP(ExactMOGP, ReplicatedMOGP):
    r"""Three levels, exactly: a function of all outputs, one of each output around it, one of each
    replica around that.

    $$\mathrm{cov}[f_d^r(x), f_{d'}^{r'}(x')] = k_g(x, x') + \mathbb 1[d = d'] k_e(x, x')
      + \mathbb 1[d = d', r = r'] k_f(x, x').$$

    Blocks are eliminated from the leaves of the tree to its root (`TreeBlocks`): time grows with
    the cube of the distinct inputs of all rows, and of those of each output. Outputs and replicas
    with equal inputs share their matrices. Where inputs hardly repeat, a dense factor of all rows
    takes less time, and is what is used.

    Args:
        data: outputs with replica numbers, crossed or nested. The model holds them, and trains on
            nothing else.
        kernel: a kernel, of which every level gets a copy, or $k_g$, $k_e$ and $k_f$, which are
            copied; Matérn-3/2 if None.
        noise: start value of the noise variance of scaled targets, which all outputs share.
        most_rows: evenly spaced rows that are kept of more, to bound the time; None keeps all.
        scaling: as in `hetmogp_lmc`.
        seed: nothing is drawn; accepted so that all constructors can be called alike.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import DHGP
    >>> x = np.arange(6.0)
    >>> Y = np.column_stack([np.sin(x), np.cos(x)])
    >>> model = DHGP(MultiOutputData.from_arrays(x, Y, replica=[0, 1, 0, 1, 0, 1]), most_rows=10)
    >>> model.num_rows, model.predict_y([0.5], replica=2).mean.shape.as_list()
    (10, [1, 2])
    """

    def __init__(
        self,
        data: MultiOutputData,
        *,
        kernel: LevelKernels = None,
        noise: float = 0.1,
        most_rows: int | None = None,
        scaling: ScalingChoice = "standard",
        seed: int = 0,
    ) -> None:
        super().__init__(data, scaling)
        data = replace(self.scaled(data), nested=False)
        kernels = _levels(kernel, "DHGP", "all outputs, an output, a replica", data)
        X, rows = distinct_inputs(data)
        D, R = data.num_outputs, int(X[:, -1].max()) + 1
        leaves_and_one_unseen = np.indices((D, R + 1)).reshape(2, -1).T
        self.kernel = hierarchical(kernels, data.input_dim, tree=leaves_and_one_unseen)
        self.noise = gpflow.Parameter(noise, transform=positive(lower=LEAST_VARIANCE))
        self.replicas = R
        output = np.repeat(np.arange(D), [len(r) for r in rows])
        table, y = (
            self._with_leaf(X[np.concatenate(rows)], output),
            np.concatenate([o.Y[:, 0] for o in data.outputs]),
        )
        if most_rows is not None and len(y) > most_rows:
            kept = np.unique(np.linspace(0, len(y) - 1, most_rows).round().astype(int))
            table, y, output = table[kept], y[kept], output[kept]
            self._log_scale = float(np.sum(np.log(self._affine()[1][output])))
        self._X, self._y = table, y
        self._inputs, place = np.unique(table[:, :-1], axis=0, return_inverse=True)
        leaf = table[:, -1].round().astype(np.int64)
        blocks = TreeBlocks(place.reshape(-1), [leaf, leaf // (R + 1), 0 * leaf])
        self._blocks = blocks if _COST_OF_BLOCKS * blocks.cost <= float(len(y)) ** 3 else None

    @property
    def num_rows(self) -> int:
        """Rows that the model holds."""
        return len(self._y)

    @property
    def levels(self) -> list[Kernel]:
        """$k_g$, $k_e$ and $k_f$."""
        return [
            self.kernel.kernels[0],
            *(product.kernels[0] for product in self.kernel.kernels[1:]),
        ]

    def _with_leaf(self, X: Array, output: npt.ArrayLike) -> Array:
        """Rows `[x, replica]` of outputs as `[x, leaf of the tree]`; replicas that were never seen
        share a leaf.
        """
        leaf = np.asarray(output) * (self.replicas + 1) + np.minimum(
            X[:, -1].round(), self.replicas
        )
        return np.column_stack([X[:, :-1], leaf])

    def _evidence(self) -> tf.Tensor:
        """Of all outputs together."""
        if self._blocks is None:
            return self._dense()
        factors = self._factorised(self._blocks)
        white = factors.whiten(tf.constant(self._y[:, None], factors.logdet.dtype))
        constant = self.num_rows * np.log(2 * np.pi)
        return -0.5 * (tf.reduce_sum(tf.square(white)) + factors.logdet + constant)

    def _factorised(self, blocks: TreeBlocks) -> TreeFactors:
        x = tf.constant(self._inputs, gpflow.default_float())
        return blocks.factorise([k(x) for k in self.levels[::-1]], tf.convert_to_tensor(self.noise))

    def _covariance(self) -> tf.Tensor:
        K = self.kernel(tf.constant(self._X, gpflow.default_float()))
        return K + tf.convert_to_tensor(self.noise) * tf.eye(len(self._y), dtype=K.dtype)

    def _dense(self) -> tf.Tensor:
        return log_evidence(tf.constant(self._y, gpflow.default_float()), self._covariance())

    def _projected(
        self, X: tf.Tensor, outputs: Sequence[int]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Rows of the tree, the mean there, and what the data take off covariances, as a factor."""

        def solve() -> tuple[Callable[[tf.Tensor], tf.Tensor], tf.Tensor]:
            whiten = self._whitening()
            return whiten, whiten(tf.constant(self._y[:, None], gpflow.default_float()))

        whiten, alpha = self._once(solve)
        each = [self._with_leaf(np.asarray(X), np.full(len(X), d)) for d in outputs]
        at = tf.constant(np.concatenate(each), X.dtype)
        A = whiten(self.kernel(tf.constant(self._X, X.dtype), at))
        return at, tf.linalg.matmul(A, alpha, transpose_a=True)[:, 0], A

    def _whitening(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """`V [rows, n]` to `A V` with `Aᵀ A = C⁻¹`, `C` the covariance of the rows."""
        if self._blocks is not None:
            return self._factorised(self._blocks).whiten
        return partial(tf.linalg.triangular_solve, tf.linalg.cholesky(self._covariance()))

    def _marginals(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        starts = range(0, max(len(X), 1), _AT_ONCE)
        found = [self._some(X[i : i + _AT_ONCE], d) for d in outputs for i in starts]
        mean, var = (
            tf.transpose(tf.reshape(tf.concat(parts, 0), [len(outputs), len(X)]))
            for parts in zip(*found, strict=True)
        )
        return Marginals(mean, tf.maximum(var, LEAST_VARIANCE))

    def _some(self, X: tf.Tensor, output: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance `[n]` of an output at a few rows."""
        at, mean, A = self._projected(X, [output])
        return mean, self.kernel(at, full_cov=False) - tf.reduce_sum(tf.square(A), 0)

    def _joint(self, X: tf.Tensor, outputs: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
        at, mean, A = self._projected(X, outputs)
        return mean[None], (self.kernel(at) - tf.linalg.matmul(A, A, transpose_a=True))[None]

    def _noise(self, outputs: Sequence[int]) -> tf.Tensor:
        return tf.convert_to_tensor(self.noise) * tf.eye(len(outputs), dtype=self.noise.dtype)

    def choices(self) -> dict[str, str]:
        """Kernels and sizes, in words."""
        return {
            "prior": "three levels, all outputs, an output and its replicas; exact,"
            f" {self.num_rows} rows in all",
            "likelihood": "Gaussian, one variance",
        }


def _levels(kernel: LevelKernels, model: str, levels: str, data: MultiOutputData) -> list[Kernel]:
    """A kernel for each of the levels that a model has."""
    count = len(levels.split(", "))
    chosen = chosen_levels(kernel, count, data.X)
    if len(chosen) != count:
        number = {2: "two", 3: "three"}[count]
        raise ValueError(f"{len(chosen)} kernels; {model} has {number} levels: {levels}.")
    return chosen
