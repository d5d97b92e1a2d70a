"""The likelihood of any number of labels, where most points have few of many."""

from __future__ import annotations

import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.likelihoods import Likelihood
from tensorflow_probability import distributions as tfd

from mogp.data.batches import Labels, shuffled
from mogp.likelihoods.base import ReadsFunctions, Targets, draw
from mogp.likelihoods.logistic import (
    expected_sigmoid,
    expected_softplus,
    log_expected_odds,
    log_expected_sigmoid,
)
from mogp.priors import View

__all__ = ["BernoulliLabels"]


class BernoulliLabels(Likelihood, ReadsFunctions):
    r"""Many labels, of which a point has few: $p(y_k = 1 \mid f) = \sigma(f_k)$.

    With $\mathcal P_n$ the labels of point $n$ among $k = 1..K$, the expected log-likelihood is

    $$-\sum_{k\in\mathcal P_n}\mathbb E\,\mathrm{softplus}(-f_k)
      - \sum_{k\notin\mathcal P_n}\mathbb E\,\mathrm{softplus}(f_k)
      = \sum_{k\in\mathcal P_n}\mathbb E f_k - \sum_{k=1}^K\mathbb E\,\mathrm{softplus}(f_k).$$

    Labels that a point has are always counted. The others can be sampled, `negatives` of them at
    each step, with weights that leave the expectation as it is:

    - `shared=True`: one set $C$ of $c$ labels for all points of a step, in which every label that a
      point has not weighs $K/c$: one dense product for the whole batch.
    - `shared=False`: $c$ labels for each point, out of those it has not, which weigh
      $(K-|\mathcal P_n|)/c$ (Panos, section 4.2): less noise with the same $c$, more work.

    In a `SparseMOGP`, targets are `Labels` of a batch (`LabelData`). The methods that GPflow's
    likelihoods have take targets $Y$ `[N, K]` of zeros and ones.

    Args:
        labels: $K$.
        negatives: sampled labels $c$ at each step; all if None or not less than $K$.
        shared: see above.
        nodes: points of the Gauss-Hermite quadrature.
        seed: seed of the draws.

    Shapes: F, Fmu, Fvar, Y [..., N, K].

    >>> import numpy as np
    >>> from mogp.likelihoods import BernoulliLabels
    >>> likelihood = BernoulliLabels(labels=3)
    >>> Fmu, Fvar = np.array([[2.0, 0.0, -2.0]]), np.zeros((1, 3))
    >>> p, _ = likelihood.predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(p, 3).tolist()
    [[0.881, 0.5, 0.119]]
    """

    def __init__(
        self,
        labels: int,
        negatives: int | None = None,
        *,
        shared: bool = True,
        nodes: int = 10,
        seed: int = 0,
    ) -> None:
        if labels < 1:
            raise ValueError(f"labels={labels}; at least one is needed.")
        if negatives is not None and negatives < 1:
            raise ValueError(
                f"negatives={negatives}; at least one label is sampled, or None for all."
            )
        super().__init__(input_dim=None, latent_dim=labels, observation_dim=labels)
        self.num_labels = labels
        self.negatives = None if negatives is None or negatives >= labels else negatives
        self.shared, self.nodes = shared, nodes
        self.generator = tf.random.Generator.from_seed(seed, alg="philox")

    # for batches of labels

    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        """The expected log-likelihood `[N]`, or an unbiased estimate if labels are sampled."""
        if self.negatives is None:
            return self.over_all(f, targets.Y)
        if self.shared:
            return self.over_shared(f, targets.Y, self.draw_shared())
        return self.over_own(f, targets.Y, *self.draw_own(targets.Y))

    def over_all(self, f: View, Y: Labels) -> tf.Tensor:
        """All labels of all rows."""
        every = f.marginals()
        scores = tf.gather_nd(every.mean, tf.stack([Y.row, Y.label], 1))
        return _by_row(scores, Y) - tf.reduce_sum(
            expected_softplus(every.mean, every.var, self.nodes), -1
        )

    def over_shared(self, f: View, Y: Labels, chosen: tf.Tensor) -> tf.Tensor:
        """The labels that rows have, and the others among those `chosen`, `[c]`, with weight $K/c$.

        `chosen` is ascending. This is the sum over all of $C$, minus what it holds of the labels
        that a row has: their moments are there anyway.
        """
        some, own = f.some(chosen), f.some(Y.label[:, None], Y.row)
        mean, softplus = own.mean[:, 0], expected_softplus(own.mean, own.var, self.nodes)[:, 0]
        count = tf.shape(chosen)[0]
        scale = tf.cast(self.num_labels, mean.dtype) / tf.cast(count, mean.dtype)
        place = tf.minimum(tf.searchsorted(chosen, Y.label), count - 1)
        among = tf.cast(tf.gather(chosen, place) == Y.label, mean.dtype)
        total = tf.reduce_sum(expected_softplus(some.mean, some.var, self.nodes), -1)
        return _by_row(mean - (1 - scale * among) * softplus, Y) - scale * total

    def over_own(self, f: View, Y: Labels, drawn: tf.Tensor, used: tf.Tensor) -> tf.Tensor:
        """The labels that rows have, and others `drawn` `[N, c]`, as far as `used`."""
        some, own = f.some(drawn), f.some(Y.label[:, None], Y.row)
        positive = -expected_softplus(-own.mean, own.var, self.nodes)[:, 0]
        negative = tf.where(used, expected_softplus(some.mean, some.var, self.nodes), 0)
        counted = tf.maximum(tf.reduce_sum(tf.cast(used, positive.dtype), -1), 1)
        scale = tf.cast(self.num_labels - Y.count, positive.dtype) / counted
        return _by_row(positive, Y) - scale * tf.reduce_sum(negative, -1)

    def draw_shared(self) -> tf.Tensor:
        """Draw `c` different labels, ascending."""
        key = self.generator.uniform([], maxval=1 << 30, dtype=tf.int64)
        return tf.sort(shuffled(tf.range(self.negatives, dtype=tf.int64), self.num_labels, key))

    def draw_own(self, Y: Labels) -> tuple[tf.Tensor, tf.Tensor]:
        """Draw `c` different labels `[N, c]` that each row has not.

        Returns them, and which of them count where a row has fewer to give. The `d`-th label that a
        row has not is `d` plus the number of labels it has up to there.
        """
        rows = tf.shape(Y.count)[0]
        others = self.num_labels - Y.count[:, None]
        key = self.generator.uniform([rows, 1], maxval=1 << 30, dtype=tf.int64)
        order = tf.range(self.negatives, dtype=tf.int64)[None]
        place = shuffled(tf.broadcast_to(order, [rows, self.negatives]), tf.maximum(others, 1), key)
        own = tf.RaggedTensor.from_value_rowids(
            Y.label, Y.row, nrows=tf.cast(rows, tf.int64), validate=False
        )
        # Padded beyond all labels, so that a search among the labels of a row never meets padding.
        labels = own.to_tensor(default_value=2 * self.num_labels)
        before = labels - tf.range(tf.shape(labels, tf.int64)[1])[None]
        skipped = tf.searchsorted(before, place, side="right", out_type=tf.int64)
        return tf.minimum(place + skipped, self.num_labels - 1), order < others

    def predictive(self, f: View) -> tuple[tf.Tensor, tf.Tensor]:
        """Probabilities of the labels `[N, K]`, and the variances of their indicators."""
        every = f.marginals()
        p = expected_sigmoid(every.mean, every.var)
        return p, p - p**2

    def log_density(self, f: View, targets: Targets) -> tf.Tensor:
        r"""$\sum_k\log\mathbb E\,\sigma(\pm f_k)$, `[N]`: the labels of a row are taken one by
        one.
        """
        return self.log_none(f) + self.log_own(f, targets.Y)

    def log_none(self, f: View) -> tf.Tensor:
        r"""$\sum_k\log\mathbb E\,\sigma(-f_k)$, `[N]`: no row has any of the labels."""
        every = f.marginals()
        return tf.reduce_sum(log_expected_sigmoid(-every.mean, every.var), -1)

    def log_own(self, f: View, Y: Labels) -> tf.Tensor:
        r"""$\sum_{k\in\mathcal P_n}\log\mathbb E\,\sigma(f_k)-\log\mathbb E\,\sigma(-f_k)$, `[N]`:
        what the labels that rows have change.
        """
        own = f.some(Y.label[:, None], Y.row)
        return _by_row(log_expected_odds(own.mean, own.var)[:, 0], Y)

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """One draw of the labels for each row of F [..., N, K], of the same shape.

        The same seed gives the same draw.
        """
        return draw(tfd.Independent(tfd.Bernoulli(logits=F), 1), F.dtype, seed)[..., 0]

    # for dense targets

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        return tf.reduce_sum(Y * F - tf.nn.softplus(F), -1)

    @inherit_check_shapes
    def _conditional_mean(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return tf.sigmoid(F)

    @inherit_check_shapes
    def _conditional_variance(self, X: TensorType, F: TensorType) -> tf.Tensor:
        p = tf.sigmoid(F)
        return p - p**2

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return tf.reduce_sum(Y * Fmu - expected_softplus(Fmu, Fvar, self.nodes), -1)

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        p = expected_sigmoid(Fmu, Fvar)
        return p, p - p**2

    @inherit_check_shapes
    def _predict_log_density(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return tf.reduce_sum(log_expected_sigmoid((2 * Y - 1) * Fmu, Fvar), -1)


def _by_row(values: tf.Tensor, Y: Labels) -> tf.Tensor:
    """Sums of the values `[n]` of the labels of each row, `[N]`."""
    return tf.math.unsorted_segment_sum(values, Y.row, tf.shape(Y.count)[0])
