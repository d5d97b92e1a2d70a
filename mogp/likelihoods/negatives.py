"""A softmax of which a step reads few classes: the label, and wrong classes drawn for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf
from gpflow.base import TensorType

from mogp.likelihoods.multiclass import Covariance, Softmax
from mogp.modules import with_tensors
from mogp.priors import Marginals, View, independent_functions

__all__ = ["SampledClasses"]


class SampledClasses(Softmax):
    """A bound on the log softmax that is a sum over wrong classes, of which it draws some.

    Args:
        classes: number of classes $C$.
        negatives: wrong classes $s$ for each row and step; all $C - 1$ if None or larger.
        covariance, prediction_samples, seed: as in `Softmax`.
    """

    def __init__(
        self,
        classes: int,
        negatives: int | None = None,
        *,
        covariance: Covariance = "exact",
        prediction_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            classes, covariance=covariance, prediction_samples=prediction_samples, seed=seed
        )
        if negatives is not None and negatives < 1:
            raise ValueError(
                f"negatives={negatives}; at least one wrong class is needed, or None for all."
            )
        self.negatives = min(classes - 1, classes - 1 if negatives is None else negatives)
        self._wrong: Any = classes - 1
        self._most_wrong = classes - 1

    def contrasts(self, f: View, Y: tf.Tensor) -> Marginals:
        """Moments of $f_c - f_y$ for the drawn wrong classes $c$ of each row, `[N, s]`."""
        labels = tf.cast(Y[:, 0], tf.int64)
        return f.contrasts(
            self.draw_negatives(labels), labels, independent=self.covariance == "independent"
        )

    def _view(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tuple[View, tf.Tensor]:
        """Independent functions with the moments `[..., N, C]`, and their targets, as rows."""
        rows = tf.shape(Fmu)[:-1]
        flat = [tf.reshape(a, [-1, self.num_classes]) for a in (Fmu, Fvar)]
        f = View(independent_functions(Marginals(*flat)), 0, self.num_classes, None)
        return f, tf.reshape(tf.broadcast_to(Y, tf.concat([rows, [1]], 0)), [-1, 1])

    def draw_negatives(self, labels: TensorType) -> tf.Tensor:
        """Draw `s` different wrong classes for the labels `[N]`, `[N, s]`.

        Every subset is equally likely.
        """
        labels = tf.cast(labels, tf.int64)
        N, s = tf.shape(labels)[0], self.negatives
        if isinstance(self._wrong, int) and s == self._wrong:
            drawn = tf.tile(tf.range(s, dtype=tf.int64)[None], [N, 1])
        elif s * s <= self._most_wrong:
            drawn = self._draw_one_by_one(N)
        else:
            drawn = self._draw_by_rank(N)
        # Drawn among C - 1 places; those from the label on move up by one, which skips it.
        return drawn + tf.cast(drawn >= labels[:, None], tf.int64)

    def _draw_one_by_one(self, N: tf.Tensor) -> tf.Tensor:
        """Floyd's sampling: $O(s^2)$ for each row, whatever the number of classes."""
        u = self.generator.uniform([self.negatives, N], dtype=tf.float64)
        drawn: list[tf.Tensor] = []
        for k in range(self.negatives):
            last = tf.cast(self._wrong - self.negatives + k, tf.int64)
            one = tf.cast(u[k] * tf.cast(last + 1, tf.float64), tf.int64)
            if drawn:
                # A number drawn before gives way to the last, which could not have been drawn yet.
                one = tf.where(tf.reduce_any([one == other for other in drawn], axis=0), last, one)
            drawn.append(one)
        return tf.stack(drawn, axis=1)

    def _draw_by_rank(self, N: tf.Tensor) -> tf.Tensor:
        """The classes with the largest of random keys: $O(C)$ for each row."""
        keys = self.generator.uniform([N, self._most_wrong], dtype=tf.float64)
        if not isinstance(self._wrong, int):
            keys = tf.where(
                tf.range(self._most_wrong, dtype=tf.int64) < self._wrong[:, None], keys, -1.0
            )
        return tf.cast(tf.math.top_k(keys, self.negatives, sorted=False).indices, tf.int64)

    @property
    def _scale(self) -> Any:
        """$(C - 1)/s$, one number, or one for each row."""
        return tf.cast(self._wrong, tf.float64) / self.negatives

    # rows of several outputs, evaluated at once

    @property
    def alike(self) -> Any:
        """Equal for likelihoods that one call can serve, whatever their numbers of classes."""
        return self.negatives, self.negatives == self.num_classes - 1, self.covariance

    def merged(self, members: Sequence[Self], sizes: Sequence[tf.Tensor]) -> Self:
        """One likelihood for the rows of several outputs, `sizes` of them each, in order."""
        wrong = [member.num_classes - 1 for member in members]
        by_row = self._wrong
        if min(wrong) < max(wrong):
            by_row = tf.repeat(tf.constant(wrong, tf.int64), tf.stack(sizes))
        # The copy shares the generator, so that draws go on where they were.
        return with_tensors(self, {}, _wrong=by_row, _most_wrong=max(wrong))
