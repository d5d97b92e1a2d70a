"""MLGPF: points with some of many labels, by a factor model of Gaussian processes (Panos, chapter
4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
from mogp.likelihoods.logistic import log_expected_odds
from mogp.models.label_blocks import Ranking, best_labels, blocks, tiles
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Factors
from mogp.posteriors.base import by_latent
from mogp.priors import Conditional, Marginals, MixingPrior, View

_MOST_NUMBERS = 1 << 27
_NEWTON_STEPS = 50
_ROUNDING = 1e-10


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
        return best_labels(self.prior, self._latent_means(Xnew), k)

    def scores(self, Xnew: Any) -> Array:
        r"""Mean utilities $\bar f_k$ of all labels, `[N, K]`."""
        latents, table = self._latent_means(Xnew), self._empty(Xnew)
        for rows, labels in tiles(*table.shape):
            table[rows, labels] = self.prior.mix(latents[rows], range(labels.start, labels.stop))
        return table

    def predict_proba(self, Xnew: Any) -> Array:
        r"""Probabilities $\mathbb E\,\sigma(f_k)$ of all labels, `[N, K]`."""
        likelihood = self.likelihood.likelihoods[0]
        return self._filled(Xnew, lambda view: likelihood.predictive(view)[0])

    def log_odds(self, Xnew: Any) -> Array:
        r"""$\log\frac{p_k}{1 - p_k}$ of the probabilities $p_k = \mathbb E\,\sigma(f_k)$, `[N, K]`,
        however small.
        """
        return self._filled(Xnew, lambda view: log_expected_odds(*view.marginals()))

    def predict_log_density(self, data: MultiOutputData | LabelData) -> dict[str, tf.Tensor]:
        r"""$\sum_k \log p(y_{nk})$ of each point, labels taken one by one, by the name of the
        output.
        """
        self.aligned(data)
        self.likelihood.check(data)
        with parameters_read_once():
            factors = self.factors()
            parts = [self._log_density(own, factors) for own in self._parts(self.scaled(data))]
        return {self.names[0]: tf.concat(parts, 0)}

    def _log_density(self, data: LabelData, factors: Factors) -> tf.Tensor:
        """Of some points, `[n]`: of having no label at all, and the odds of those that they
        have.
        """
        likelihood, batch = self.likelihood.likelihoods[0], data.full()
        conditional = self.condition(batch.X, factors)
        every = View(conditional, 0, self.prior.num_functions, None)
        none: dict[int, tf.Tensor] = {}
        for rows, view in self._tiles(conditional, data.num_points):
            none[rows.start] = none.get(rows.start, 0) + likelihood.log_none(view)
        return tf.concat(list(none.values()), 0) + likelihood.log_own(every, batch.outputs[0].Y)

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
            scaled = self.scaled(data)
            width = self._width(scaled.X, self.prior.num_latents)
            for rows in blocks(scaled.num_points, max(width, self.prior.num_functions)):
                batch = scaled.take(rows).full()
                functions = self.condition(batch.X, factors)
                view = self._view(functions, [0], together(batch.outputs, [0]))
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
        width = max(self.prior.num_functions, most * (most + self.prior.num_latents))
        table = self._empty(X)
        for rows in blocks(X.shape[0], width):
            table[rows] = self._given_block(X[rows], signs[rows], factors)
        return table

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

    def _latent_means(self, Xnew: Any) -> tf.Tensor:
        r"""Means $\bar h_p(x) = k(x, Z)\alpha_p$ of the latent GPs, `[N, P]`: no variance is
        computed.
        """
        X, kernels = self._rows(Xnew), self.prior.kernels
        with parameters_read_once():
            alpha = self.posterior.weights(self.factors())
            parts = [tf.zeros([0, self.prior.num_latents], alpha.dtype)]
            for rows in blocks(X.shape[0], self._width(X, len(kernels))):
                Kuf = self.inducing.Kuf(kernels, self.at(X[rows]))
                parts.append(
                    tf.transpose(by_latent(tf.linalg.matvec(Kuf, alpha, transpose_a=True)))
                )
        return tf.concat(parts, 0)

    def _filled(self, Xnew: Any, function: Callable[[View], tf.Tensor]) -> Array:
        """A function of the labels by themselves, `[N, K]`."""
        X, table = self._rows(Xnew), self._empty(Xnew)
        with parameters_read_once():
            factors = self.factors()
            for block in blocks(X.shape[0], self._width(X, self.prior.num_latents)):
                own = X[block]
                conditional, part = self.condition(self.at(own), factors), table[block]
                for rows, view in self._tiles(conditional, own.shape[0]):
                    part[rows, view.first : view.first + view.size] = function(view)
        return table

    def _tiles(self, conditional: Conditional, points: int) -> Iterator[tuple[slice, View]]:
        """Some points, and some labels at them, in the order of `tiles`."""
        for rows, labels in tiles(points, self.prior.num_functions):
            own = tf.range(rows.start, rows.stop, dtype=tf.int64)
            yield rows, View(conditional, labels.start, labels.stop - labels.start, own)

    def _parts(self, data: Any) -> Iterator[LabelData]:
        width = self._width(data.X, self.prior.num_latents)
        return (data.take(rows) for rows in blocks(data.num_points, width))

    def _width(self, X: Matrix, tables: int) -> int:
        """Numbers that a point takes: its inputs, and `M` in each of some tables."""
        inputs = -(-(X.nnz if is_sparse(X) else X.size) // max(1, X.shape[0]))
        return max(inputs, tables * self.inducing.num_inducing)

    def _empty(self, Xnew: Any) -> Array:
        return np.empty((Xnew.shape[0], self.prior.num_functions))


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
