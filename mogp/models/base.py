"""`MOGP`: what all models have in common when they are trained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from gpflow.models import BayesianModel, ExternalDataTrainingLossMixin

from mogp.data import LabelData, MultiOutputData
from mogp.optimizers import Problem

Data = MultiOutputData | LabelData


class MOGP(BayesianModel, ExternalDataTrainingLossMixin):
    """A model with a bound `elbo` on the evidence, trained by `mogp.fit` on batches of data.

    A family says what it can be trained on (`check`), how it reads data (`batches`) and what it
    maximises (`elbo`).
    """

    @abstractmethod
    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data."""

    @abstractmethod
    def elbo(self, data: Any) -> tf.Tensor:
        """The objective: of a batch, or of all data."""

    def maximum_log_likelihood_objective(self, data: Any = None) -> tf.Tensor:
        """GPflow's name for the objective."""
        return self.elbo(data)

    def training_loss(self, data: Any = None) -> tf.Tensor:
        """The negative objective. (GPflow's own method takes a pair of matrices only.)"""
        return self._training_loss(data)

    def batches(self, data: Any, size: Any = None, seed: int = 0) -> Callable[[Any], Any]:
        """Mini-batches as the model reads them: a function from the step to its batch.

        Args:
            data: what to draw from.
            size: rows a step; None for all data at every step.
            seed: of the draws.
        """
        source: Callable[[Any], Any] = data.batches(size, seed)
        return source

    def before_step(self) -> Callable[[Any], None] | None:
        """What to do with a batch before each step, or None if there is nothing to do."""
        return None

    def problem(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> Problem:
        """What an optimiser minimises: the negative objective on batches of the data.

        Args:
            data: to train on, or a function from the step number to its batch.
            size: rows a step, as for `batches`.
            seed: of the mini-batches.
        """
        if callable(data):
            return Problem(self, self.training_loss, data, self.before_step())
        self.check(data)
        source = self.batches(data, size, seed)
        return Problem(self, self.training_loss, source, self.before_step(), whole=size is None)
