"""MLGPF: points with some of many labels, by a factor model of Gaussian processes (Panos, chapter
4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from mogp.data import Array, MultiOutputData
from mogp.data.batches import Batch
from mogp.data.drawn import together
from mogp.data.labels import LabelData, Matrix, is_sparse, sparse_rows
from mogp.kernels import parameters_read_once
from mogp.likelihoods.logistic import log_expected_sigmoid
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Factors
from mogp.posteriors.base import by_latent
from mogp.priors import Marginals, MixingPrior, View

_NUMBERS_AT_ONCE = 1 << 22
_MOST_NUMBERS = 1 << 27
_NEWTON_STEPS = 50
_ROUNDING = 1e-10


class Ranking(NamedTuple):
    """The best labels of each point, best first: their numbers `[N, k]` and their scores
    `[N, k]`.
    """

    labels: npt.NDArray[np.int64]
    scores: Array


class LabelMOGP(SparseMOGP):
    r"""A `SparseMOGP` whose one output is labels: $f_k(x) = \sum_p\phi_{kp}h_p(x) + b_k$,
    $p(y_k = 1) = \sigma(f_k)$.

    Prediction goes through the points in blocks, so that the table of all points and labels is
    never held, unless it is what was asked for. Inputs are dense or SciPy sparse. `mlgpf` builds
    such models.

    >>> import numpy as np
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.inducing import given_points
    >>> from mogp.likelihoods import BernoulliLabels
    >>> from mogp.models import LabelMOGP
    >>> from mogp.priors import ICM
    >>> prior = ICM(SquaredExponential(), functions=3, rank=2, bias=[0.0, 2.0, 1.0])
    >>> model = LabelMOGP(prior, given_points([[0.0], [1.0]]), BernoulliLabels(3))
    >>> model.top_labels(np.zeros((1, 1)), k=2).labels.tolist()  # nothing is known but the biases
    [[1, 2]]
    """

    prior: MixingPrior

    def top_labels(self, Xnew: Any, k: int = 5) -> Ranking:
        r"""The `k` labels with the largest mean utilities
        $\bar f_k = \sum_p\phi_{kp}\bar h_p + b_k$ at each point.
        """
        if not 1 <= k <= self.prior.num_functions:
            raise ValueError(
                f"k={k} of {self.prior.num_functions} labels; ask for at least one, and at most"
                " all."
            )
        found = [tf.math.top_k(scores, k) for scores in self._means(Xnew)]
        return Ranking(
            np.concatenate(
                [np.empty((0, k), np.int64), *(np.asarray(one.indices) for one in found)]
            ),
            np.concatenate([np.empty((0, k)), *(np.asarray(one.values) for one in found)]),
        )

    def scores(self, Xnew: Any) -> Array:
        r"""Mean utilities $\bar f_k$ of all labels, `[N, K]`."""
        return self._table(self._means(Xnew))

    def predict_proba(self, Xnew: Any) -> Array:
        r"""Probabilities $\mathbb E\,\sigma(f_k)$ of all labels, `[N, K]`."""
        likelihood = self.likelihood.likelihoods[0]
        return self._table(likelihood.predictive(view)[0] for view in self._views(Xnew))

    def log_odds(self, Xnew: Any) -> Array:
        r"""$\log\frac{p_k}{1 - p_k}$ of the probabilities $p_k = \mathbb E\,\sigma(f_k)$, `[N, K]`,
        however small.
        """
        return self._table(_log_odds_of(view.marginals()) for view in self._views(Xnew))

    def predict_log_density(self, data: MultiOutputData | LabelData) -> dict[str, tf.Tensor]:
        r"""$\sum_k \log p(y_{nk})$ of each point, labels taken one by one, by the name of the
        output.
        """
        self.aligned(data)
        self.likelihood.check(data)
        parts = [self._log_densities(own) for own in self._parts(self.scaled(data))]
        return {self.names[0]: tf.concat([part[self.names[0]] for part in parts], 0)}

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        self._check_table(X)
        return super()._predict_f(X, outputs, full_cov)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        self._check_table(X)
        return super()._predict_y(X, outputs)

    def _conditioned(self, X: tf.Tensor, known: Any) -> Any:
        raise self.unsupported(
            "cannot be conditioned on all labels of its rows", "Use given_labels, for some of them."
        )

    def _check_table(self, X: tf.Tensor) -> None:
        numbers = int(X.shape[0] or 0) * self.prior.num_functions
        if numbers > _MOST_NUMBERS:
            raise self.unsupported(
                f"has {self.prior.num_functions} labels: a table of {numbers} numbers is too large"
                " to make",
                "Use top_labels, which has the best labels of each point, or fewer points.",
            )

    def elbo(self, data: Batch | MultiOutputData | LabelData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch; of all the data, exactly, in blocks of
        points.
        """
        if isinstance(data, Batch):
            return super().elbo(data)
        self.check(data)
        with parameters_read_once():
            factors = self.factors()
            likelihood = self.likelihood.likelihoods[0]
            total = -self.kl_weight * self.kl(factors)
            for own in self._parts(self.scaled(data)):
                batch = own.full()
                view = self._view(
                    self.condition(batch.X, factors), [0], together(batch.outputs, [0])
                )
                total += tf.reduce_sum(likelihood.over_all(view, batch.outputs[0].Y))
            return total

    def given_labels(self, Xnew: Any, known: Any) -> Array:
        r"""Utilities of all labels, `[N, K]`, at points of which some labels are known.

        With $q(h) = \prod_p\mathcal N(h_p \mid m_p, s_p)$ at a point and $y_k = \pm1$ for the
        labels $k$ in $o$ that are known, $h$ is taken to be the most probable one,

        $$\hat h = \arg\min_h \sum_{k\in o}\mathrm{softplus}\big(-y_k(\phi_k^\top h + b_k)\big)
          + \tfrac12\sum_p\frac{(h_p - m_p)^2}{s_p},$$

        found by Newton's method on $f_o$, whose prior covariance is
        $C = \Phi_o\,\mathrm{diag}(s)\,\Phi_o^\top$. Where nothing is known these are the `scores`.

        Args:
            Xnew: points `[N, P]`.
            known: `[N, K]`, 1 for a label that a point has, -1 for one it has not, 0 (or no entry)
                where that is not known.
        """
        X, signs = self._rows(Xnew), csr_array(known)
        if signs.shape != (X.shape[0], self.prior.num_functions):
            raise ValueError(
                f"known has shape {signs.shape}; expected ({X.shape[0]},"
                f" {self.prior.num_functions}), a row a point."
            )
        strange = np.setdiff1d(signs.data, [-1, 0, 1])
        if len(strange):
            raise ValueError(
                f"known has entries {strange[:3].tolist()}; expected 1, -1, and 0 where it is not"
                " known."
            )
        signs.eliminate_zeros()
        most = int(np.diff(signs.indptr).max(initial=0))
        factors = self.factors()
        blocks = _blocks(
            X.shape[0], max(self.prior.num_functions, most * (most + self.prior.num_latents))
        )
        return self._table(self._given_block(X[rows], signs[rows], factors) for rows in blocks)

    def _given_block(self, X: Matrix, signs: csr_array, factors: Factors) -> Array:
        conditional: Any = self.condition(self.at(X), factors)
        m, s = (np.asarray(a).T for a in conditional.latents())
        s = np.maximum(s, 0)
        prior = self.prior
        labels, y = _padded(signs)
        own = (np.eye(prior.num_functions) if prior.W is None else np.asarray(prior.W))[labels] * (
            y != 0
        )[..., None]
        offset = 0 if prior.bias is None else np.asarray(prior.bias)[labels]
        slope = _mode_slope(
            y, np.einsum("nop,np->no", own, m) + offset, (own * s[:, None]) @ own.transpose(0, 2, 1)
        )
        h = m + s * np.einsum("nop,no->np", own, slope)
        return np.asarray(prior.mix(tf.constant(h, gpflow.default_float())))

    def _rows(self, Xnew: Any) -> Matrix:
        """Points that can be cut into blocks, and are finite."""
        X = sparse_rows(Xnew) if is_sparse(Xnew) else np.asarray(Xnew)
        wrong = int(np.sum(~np.isfinite(X.data if is_sparse(X) else X)))
        if wrong:
            raise ValueError(
                f"Xnew has {wrong} entries that are NaN or infinite; inputs must be finite numbers."
            )
        return X

    def _means(self, Xnew: Any) -> Iterator[tf.Tensor]:
        r"""Mean utilities of block after block, from $\bar h_p(x) = k(x, Z)\alpha_p$: no variance
        is computed.
        """
        X, prior, alpha = self._rows(Xnew), self.prior, self.posterior.weights(self.factors())
        for rows in _blocks(X.shape[0], prior.num_functions):
            Kuf = self.inducing.Kuf(prior.kernels, self.at(X[rows]))
            latents = by_latent(tf.linalg.matvec(Kuf, alpha, transpose_a=True))
            yield prior.mix(tf.transpose(latents))

    def _views(self, Xnew: Any) -> Iterator[View]:
        """The functions of all labels at block after block of points."""
        X, factors, labels = self._rows(Xnew), self.factors(), self.prior.num_functions
        for rows in _blocks(X.shape[0], self._width):
            yield View(self.condition(self.at(X[rows]), factors), 0, labels, None)

    def _parts(self, data: Any) -> Iterator[LabelData]:
        return (data.take(rows) for rows in _blocks(data.num_points, self._width))

    @property
    def _width(self) -> int:
        """Numbers that a point takes where variances are computed: `K` of them, and `M` for every
        latent GP.
        """
        return max(self.prior.num_functions, self.prior.num_latents * self.inducing.num_inducing)

    def _table(self, blocks: Iterable[Any]) -> Array:
        return np.concatenate(
            [np.empty((0, self.prior.num_functions)), *(np.asarray(one) for one in blocks)]
        )


def _blocks(points: int, width: int) -> Iterator[slice]:
    """Rows of blocks that have about `_NUMBERS_AT_ONCE` numbers, `width` a row."""
    size = max(1, _NUMBERS_AT_ONCE // width)
    return (slice(start, start + size) for start in range(0, points, size))


def _log_odds_of(f: Marginals) -> tf.Tensor:
    return log_expected_sigmoid(f.mean, f.var) - log_expected_sigmoid(-f.mean, f.var)


def _padded(signs: csr_array) -> tuple[npt.NDArray[np.int64], Array]:
    """Labels `[N, o]` and signs `[N, o]` of the entries of each row; 0 and 0 where a row has
    fewer.
    """
    counts = np.diff(signs.indptr)
    labels = np.zeros((signs.shape[0], max(1, counts.max(initial=0))), np.int64)
    filled = np.arange(labels.shape[1]) < counts[:, None]
    y = np.zeros(labels.shape)
    labels[filled], y[filled] = signs.indices, signs.data
    return labels, y


def _mode_slope(y: Array, mean: Array, C: Array) -> Array:
    r"""$\alpha = \partial_f\log p(y \mid f)$, `[N, o]`, at the mode of
    $\prod_k\sigma(y_kf_k)\,N(f \mid \bar f, C)$.

    There $f = \bar f + C\alpha$. Newton's steps (Rasmussen and Williams, algorithm 3.1), each
    halved as long as the objective of its row would fall. Entries with $y = 0$ have no say, and
    $\alpha = 0$.
    """
    seen = (y != 0).astype(float)
    alpha = np.zeros_like(mean)

    def objective(alpha: Array) -> Array:
        Ca = np.einsum("nij,nj->ni", C, alpha)
        value: Array = (seen * log_expit(y * (mean + Ca))).sum(1) - 0.5 * (alpha * Ca).sum(1)
        return value

    for _ in range(_NEWTON_STEPS):
        f = mean + np.einsum("nij,nj->ni", C, alpha)
        sigma = expit(y * f)
        root = np.sqrt(seen * sigma * (1 - sigma))
        b = root**2 * (f - mean) + y * (1 - sigma)
        B = np.eye(y.shape[1]) + root[:, :, None] * C * root[:, None]
        inner = root * np.einsum("nij,nj->ni", C, b)
        target = b - root * np.linalg.solve(B, inner[..., None])[..., 0]
        step = np.ones(len(y))
        now = objective(alpha)
        for _ in range(10):
            falls = objective(alpha + step[:, None] * (target - alpha)) < now - _ROUNDING * np.abs(
                now
            )
            if not falls.any():
                break
            step[falls] /= 2
        moved = step[:, None] * (target - alpha)
        alpha = alpha + moved
        if np.abs(moved).max(initial=0) < 1e-12:
            break
    return alpha
