"""What an optimiser is: something whose `step` lowers a loss inside the compiled loop of `fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import tensorflow as tf

Loss = Callable[[], tf.Tensor]


class Optimizer(ABC):
    """A stochastic optimiser. `start` makes its state for a model; `step` runs inside the compiled graph."""

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
