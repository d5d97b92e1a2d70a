"""What an optimiser is: something whose `step` lowers a loss inside the compiled loop of `fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

Loss = Callable[[], tf.Tensor]


class Optimizer(ABC):
    """A stochastic optimiser. `start` makes its state for a model; `step` runs inside the compiled
    graph.
    """

    @abstractmethod
    def start(self, model: tf.Module) -> None:
        """Create the state (moments and the like) for the trainable variables of the model."""

    @abstractmethod
    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """Change the model's variables once; returns the loss before the change."""

    @property
    @abstractmethod
    def variables(self) -> Sequence[tf.Variable]:
        """The state, so that a checkpoint can restore it."""


class Evaluation(NamedTuple):
    """The loss and its derivatives, averaged over the points at which an optimiser looked at it.

    Attributes:
        value: the loss.
        gradients: with respect to the optimiser's own variables; None where the loss does not
            depend on one.
        curvature: what the optimiser wants to know of second derivatives, or None.
        others: gradients with respect to the variables that were named beside.
    """

    value: tf.Tensor
    gradients: list[Any]
    curvature: Any
    others: list[Any]


class GradientOptimizer(Optimizer):
    """An optimiser that moves some variables by the gradients of the loss, and can share an
    evaluation with another.
    """

    def start(self, model: tf.Module) -> None:
        """Create the state for all trainable variables."""
        self.start_on(model.trainable_variables)

    def start_on(self, variables: Sequence[tf.Variable]) -> None:
        """Create the state for these variables; others are left alone."""
        self._trained = list(variables)
        self._create(self._trained)

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One update."""
        seen = self.evaluate(loss)
        self.apply(seen)
        return seen.value

    def evaluate(self, loss: Loss, others: Sequence[tf.Variable] = ()) -> Evaluation:
        """The loss and its gradients where this optimiser wants them; `others` are variables it
        does not move.
        """
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*self._trained, *others])
            value = loss()
        gradients = tape.gradient(value, [*self._trained, *others])
        return Evaluation(
            value, gradients[: len(self._trained)], None, gradients[len(self._trained) :]
        )

    @abstractmethod
    def _create(self, variables: Sequence[tf.Variable]) -> None: ...

    @abstractmethod
    def apply(self, seen: Evaluation) -> None:
        """Move the variables."""


class Flat:
    """Several variables seen as one vector, in the widest of their precisions."""

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        self._variables = list(variables)
        self.dtype = tf.float64 if any(v.dtype == tf.float64 for v in variables) else tf.float32
        self.size = sum(v.shape.num_elements() for v in variables)

    def read(self) -> tf.Tensor:
        """The values, `[n]`."""
        return self.flatten(self._variables)

    def write(self, values: tf.Tensor) -> None:
        """Set all variables to their parts of a vector `[n]`."""
        start = 0
        for variable in self._variables:
            part = values[start : start + variable.shape.num_elements()]
            variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))
            start += variable.shape.num_elements()

    def flatten(self, tensors: Sequence[tf.Tensor | tf.Variable | None]) -> tf.Tensor:
        """Tensors of the variables' shapes as one vector `[n]`; zeros for None."""
        pieces = [
            tf.zeros(v.shape.num_elements(), self.dtype)
            if t is None
            else tf.cast(tf.reshape(tf.convert_to_tensor(t), [-1]), self.dtype)
            for v, t in zip(self._variables, tensors, strict=True)
        ]
        return tf.concat([tf.zeros(0, self.dtype), *pieces], 0)
