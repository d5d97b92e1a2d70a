"""`MOGP`: what every model answers, from training to tables of predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from check_shapes import check_shapes
from gpflow.models import BayesianModel, ExternalDataTrainingLossMixin
from gpflow.utilities import parameter_dict

from mogp.data import (
    Array,
    InputColumn,
    LabelData,
    MultiOutputData,
    Output,
    Schema,
)
from mogp.data.batches import input_rows
from mogp.errors import UnsupportedError
from mogp.models import tables
from mogp.models.given import Predictor, known_values
from mogp.models.points import read_points
from mogp.models.stages import Stage
from mogp.optimizers import Problem
from mogp.priors import Marginals

Data = MultiOutputData | LabelData
Replica = int | npt.ArrayLike | None
Given = Mapping[str, npt.ArrayLike] | None
QUANTILES = (0.025, 0.5, 0.975)


class MOGP(Predictor, BayesianModel, ExternalDataTrainingLossMixin):
    """A model of outputs with names, over inputs of `P` columns.

    Every model is trained by `mogp.fit`, asked by the methods below, and saved by `mogp.save`. A
    model that cannot do one of these raises `mogp.errors.UnsupportedError`, which says what to use
    instead.

    A family says how it is trained (`check`, `elbo`, and where it needs to `batches`, `stages`) and
    how it predicts (`Predictor`, and `_conditioned` for `given=`): these methods read inputs `X` as
    the kernels do, `[N, P]`, or `[N, P + 1]` with the number of a replica as last column.

    Attributes:
        schema: names of outputs, input columns and classes: those of the data the model was built
            from, or else of the first it is fitted on.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.models import ExactLMC
    >>> model = ExactLMC(data)
    >>> list(model.predict([0.5], quantiles=()).columns)
    ['row', 'x', 'output', 'target', 'mean', 'sd']
    """

    schema: Schema
    has_replicas: ClassVar[bool] = False
    _prepare: Callable[[Any], MOGP] | None = None

    # --- what it is a model of

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return self.schema.names

    @property
    @abstractmethod
    def input_dim(self) -> int:
        """Columns of the inputs, `P`, without a replica number."""

    @property
    def columns(self) -> tuple[tuple[str, Any], ...]:
        """What the columns of `predict_y` are: pairs (output, target).

        The target is the name of a class, or a number: 0 for an output with a single column.
        """
        return tuple((self.names[d], t) for d in self.reported for t in self.targets(d))

    def targets(self, output: int | str) -> tuple[Any, ...]:
        """What the columns of `predict_y` are for one output: classes, or numbers from 0."""
        d = self.index(output)
        count = tables.target_count(self, d)
        classes = self.schema.classes_of(d)
        return classes if classes and len(classes) == count > 1 else tuple(range(count))

    @property
    def reported(self) -> range:
        """The outputs that predictions of targets are of unless one is named: all."""
        return range(len(self.names))

    def index(self, output: int | str) -> int:
        """Position of an output given by name or position."""
        if isinstance(output, str):
            if output not in self.names:
                raise KeyError(
                    f"no output {output!r}; the outputs are {tables.listed(self.names)}."
                )
            return self.names.index(output)
        if not 0 <= output < len(self.names):
            raise IndexError(f"no output {output}; there are {len(self.names)}.")
        return int(output)

    def choices(self) -> dict[str, str]:
        """What the model is made of, in words: for `print(model)`."""
        return {}

    def __str__(self) -> str:
        return tables.described(self)

    # --- training

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
            # Variables, not values: the way through a transform and back would cost digits.
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
        self.schema = self.schema.completed(self.aligned(data).schema)
        source = self.batches(data, size, seed)
        return Problem(self, self.training_loss, source, self.before_step(), whole=size is None)

    # --- prediction

    def predict_f(
        self,
        Xnew: Any,
        output: int | str | None = None,
        *,
        replica: Replica = None,
        given: Given = None,
        full_cov: bool = False,
    ) -> Marginals:
        """Mean and variance of the latent functions at `Xnew [N, P]`: `[N, J]`.

        Args:
            Xnew: where.
            output: only the `J_d` functions of this output; all `J` if None.
            replica: for models with replicas the number of one, or `[N]` of them; 0 if None.
            given: values `[N]` of outputs that are known at these rows, by name, NaN where one is
                not: predictions are conditioned on all of them jointly. See `mogp.models.given`.
            full_cov: covariances between rows, `[J, N, N]`, in place of variances.
        """
        X = self.at(Xnew, replica)
        outputs = range(len(self.names)) if output is None else [self.index(output)]
        return self._told(X, given)._predict_f(X, outputs, full_cov)

    @check_shapes("return.mean: [N, T]", "return.var: [N, T]")
    def predict_y(
        self,
        Xnew: Any,
        output: int | str | None = None,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> Marginals:
        """Mean and variance of the targets at `Xnew [N, P]`, noise included: `[N, T]`.

        The columns are those of `columns`, or of one output. For classes they are probabilities.

        Args:
            Xnew: where.
            output: only this one.
            replica: see `predict_f`.
            given: see `predict_f`; a target that is given is predicted as itself, with variance 0.
        """
        X = self.at(Xnew, replica)
        return self._told(X, given)._predict_y(X, self._wanted(output))

    @abstractmethod
    def predict_log_density(self, data: Any) -> dict[str, tf.Tensor]:
        """Log predictive density of every observed target, noise included: `[N_d]` for each output
        by name.
        """

    @check_shapes("return: [S, N, J]")
    def predict_f_samples(
        self,
        Xnew: Any,
        output: int | str | None = None,
        samples: int = 1,
        seed: int = 0,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> tf.Tensor:
        """Draws `[samples, N, J]` of the latent functions at `Xnew`, joint over rows and functions.

        Args:
            Xnew: where.
            output: only the functions of this output.
            samples: how many.
            seed: the same gives the same draws.
            replica: see `predict_f`.
            given: see `predict_f`.
        """
        _check_samples(samples)
        X = self.at(Xnew, replica)
        outputs = range(len(self.names)) if output is None else [self.index(output)]
        return self._told(X, given)._draw_f(X, outputs, samples, seed)

    @check_shapes("return: [S, N, T]")
    def predict_y_samples(
        self,
        Xnew: Any,
        output: int | str | None = None,
        samples: int = 1,
        seed: int = 0,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> tf.Tensor:
        """Draws `[samples, N, T]` of the targets at `Xnew`, joint over rows; labels for classes.

        As in `predict_y` the functions of an output are independent of each other where its
        likelihood takes them to be.

        Args:
            Xnew: where.
            output: only this one; the columns of all side by side if None.
            samples: how many.
            seed: the same gives the same draws.
            replica: see `predict_f`.
            given: see `predict_y`.
        """
        _check_samples(samples)
        X = self.at(Xnew, replica)
        return self._told(X, given)._draw_y(X, self._wanted(output), samples, seed)

    def predict_classes(
        self, Xnew: Any, output: int | str = 0, *, replica: Replica = None
    ) -> npt.NDArray[np.int64]:
        """Number of the most probable class of one output at each row of `Xnew [N, P]`: `[N]`."""
        X, d = self.at(Xnew, replica), self.index(output)
        return tables.most_probable(self, X, d)

    def predict(
        self,
        Xnew: Any,
        output: int | str | None = None,
        quantiles: Sequence[float] = QUANTILES,
        samples: int = 1000,
        seed: int = 0,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> pd.DataFrame:
        """Predictions of targets as a long table, a row for each row of `Xnew` and target.

        Its columns are `row` (the index of `Xnew`), the input columns (unless there are more than
        20), `output`, `target` (the name of a class, or a number), `mean`, `sd`, and one for each
        quantile.

        Args:
            Xnew: where; a data frame is read by the names of its columns.
            output: only this one.
            quantiles: of the target, from draws of it; none are drawn for `()`.
            samples: how many draws.
            seed: of the draws.
            replica: see `predict_f`.
            given: see `predict_y`.
        """
        X = self.at(Xnew, replica)
        rows = Xnew.index if isinstance(Xnew, pd.DataFrame | pd.Series) else None
        spread, told = tables.Spread(quantiles, samples, seed), self._told(X, given)
        return tables.predicted(self, X, self._wanted(output), rows, spread, told)

    def predictions(
        self,
        data: Data,
        quantiles: Sequence[float] = QUANTILES,
        samples: int = 1000,
        seed: int = 0,
    ) -> pd.DataFrame:
        """The table of `predict` for every observed target of the data, beside it: `observed`.

        Classes have a row each, and `observed` says which it was: 1, and 0 for the others.

        Args:
            data: some or all outputs of the model.
            quantiles: see `predict`.
            samples: see `predict`.
            seed: see `predict`.
        """
        return tables.compared(self, self.aligned(data), tables.Spread(quantiles, samples, seed))

    # --- what a family adds

    def _told(self, X: tf.Tensor, given: Given) -> Predictor:
        """What predicts at `X`: the model, or in its place what knows some targets there."""
        known = known_values(given or {}, self.index, X.shape[0])
        return self._conditioned(X, known) if known else self

    def _conditioned(self, X: tf.Tensor, known: Mapping[int, Array]) -> Predictor:
        """Predictions at `X`, given targets `[N]` of some outputs there, NaN where not known."""
        raise self.unsupported(
            "cannot be conditioned on outputs at new rows",
            "Add them to the training data, or use a chain (GPAR, gplar).",
        )

    # --- inputs and data

    def at(self, Xnew: Any, replica: Replica = None) -> tf.Tensor | tf.SparseTensor:
        """Inputs as the kernels read them, checked: `[N, P]`, or `[N, P + 1]` with a replica.

        Args:
            Xnew: an array or tensor, dense or sparse, or a data frame.
            replica: see `predict_f`.
        """
        if replica is not None:
            raise self.unsupported("has no replicas", "Leave replica out, or use hmogp_lv or HGP.")
        return self.read(Xnew)

    def read(self, Xnew: Any) -> tf.Tensor | tf.SparseTensor:
        """Inputs `[N, P]`, checked.

        Args:
            Xnew: see `at`.
        """
        return read_points(Xnew, self.schema.columns or (InputColumn(),) * self.input_dim)

    def aligned(self, data: Any) -> Any:
        """Data to predict, with an empty output for each of the model that they lack; raise unless
        they are of this model.

        Args:
            data: of some or all outputs, in the order of the model.
        """
        self.schema.check(data.schema, some=True)
        if data.input_dim != self.input_dim:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads {self.input_dim}."
            )
        if isinstance(data, LabelData) or len(data.names) == len(self.names):
            return data
        there = {o.name: o for o in data.outputs}
        return replace(
            data, outputs=tuple(there.get(n, Output.without_rows(n)) for n in self.names)
        )

    def of_data(self, found: dict[str, tf.Tensor], data: Data) -> dict[str, tf.Tensor]:
        """What was found for all outputs, for those that the data have."""
        missing = set(self.names) - set(data.names) if len(data.names) < len(self.names) else ()
        return {name: values for name, values in found.items() if name not in missing}

    def observed_at(self, data: Data) -> tuple[tf.Tensor, list[Array]]:
        """Inputs as the kernels read them, and for each output the rows at which it was observed.

        Args:
            data: aligned.
        """
        X = input_rows(data.X)(tf.range(data.X.shape[0], dtype=tf.int64))
        if isinstance(data, LabelData):
            return X, [np.arange(data.num_points)]
        return X, [o.rows for o in data.outputs]

    def _wanted(self, output: int | str | None) -> Sequence[int]:
        return self.reported if output is None else [self.index(output)]

    def unsupported(self, what: str, instead: str) -> UnsupportedError:
        """The error for what the model cannot do.

        Args:
            what: it cannot do, or has not.
            instead: what to use.
        """
        return UnsupportedError(f"{type(self).__name__} {what}. {instead}")


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise ValueError(f"samples={samples}; at least one is needed.")
