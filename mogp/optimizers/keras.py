"""Any optimiser of Keras: stochastic gradient descent, AdaDelta, RMSProp and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from gpflow.keras import tf_keras

from mogp.optimizers.base import Evaluation, GradientOptimizer


class Keras(GradientOptimizer):
    """An optimiser of Keras 2 on every trainable parameter.

    Args:
        optimizer: an object of `gpflow.keras.tf_keras.optimizers`. Its settings are used; its state
            is not.

    >>> import tensorflow as tf
    >>> from gpflow.keras import tf_keras
    >>> from mogp.optimizers import Keras
    >>> model = tf.Module()
    >>> model.x = tf.Variable(1.0)
    >>> optimizer = Keras(tf_keras.optimizers.SGD(learning_rate=0.25))
    >>> optimizer.start(model)
    >>> loss = optimizer.step(model, lambda: model.x**2)
    >>> round(float(model.x), 2)
    0.5
    """

    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, tf_keras.optimizers.Optimizer):
            raise TypeError(
                "expected an object of gpflow.keras.tf_keras.optimizers, got"
                f" {type(optimizer).__name__}."
            )
        self._given = optimizer

    def _create(self, variables: Sequence[tf.Variable]) -> None:
        self._keras = type(self._given).from_config(self._given.get_config())
        self._keras.build(variables)

    def apply(self, seen: Evaluation) -> None:
        """One update."""
        pairs = zip(seen.gradients, self._trained, strict=True)
        self._keras.apply_gradients([(g, v) for g, v in pairs if g is not None])

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """Counters and moments."""
        state: Sequence[tf.Variable] = self._keras.variables
        return state
