"""`MOGP`: what all models have in common when they are trained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from gpflow.models import BayesianModel, ExternalDataTrainingLossMixin
from gpflow.utilities import parameter_dict

from mogp.data import LabelData, MultiOutputData
from mogp.optimizers import Optimizer, Problem

Data = MultiOutputData | LabelData


@dataclass(frozen=True)
class Stage:
    """A part of a training: most models have one, `GPAR` one for each layer.

    Attributes:
        name: what is trained.
        problem: makes what is minimised, when it is the stage's turn.
        optimizer: what it is minimised with unless the caller of `fit` says otherwise; None for
            Adam.
        only: the one kind of optimiser that can do it; None for any.
    """

    name: str
    problem: Callable[[], Problem]
    optimizer: Optimizer | None = None
    only: type[Optimizer] | None = None


class MOGP(BayesianModel, ExternalDataTrainingLossMixin):
    """A model with a bound `elbo` on the evidence, trained by `mogp.fit` on batches of data.

    A family says what it can be trained on (`check`), how it reads data (`batches`) and what it
    maximises (`elbo`).
    """

    _prepare: Callable[[Any], MOGP] | None = None

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

    def start(self, data: Any) -> None:
        """Find start values that take training, if there are any and they have not been found.

        `fit` does so before its first step. A constructor that needs it leaves in `_prepare` a
        function from the data to a model of the same form that has them.
        """
        if self._prepare is not None:
            found = parameter_dict(self._prepare(data))
            for path, own in parameter_dict(self).items():
                own.unconstrained_variable.assign(found[path].unconstrained_variable)
            self._prepare = None

    def stages(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> list[Stage]:
        """The parts of a training, in order; arguments are those of `problem`."""
        return [Stage("model", lambda: self.problem(data, size, seed))]

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
