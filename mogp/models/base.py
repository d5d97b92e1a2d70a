"""`MOGP`: what every model answers, from training to tables of predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from check_shapes import check_shapes
from gpflow.config import default_float
from gpflow.models import BayesianModel, ExternalDataTrainingLossMixin
from gpflow.utilities import parameter_dict

from mogp.compiling import repeated
from mogp.data import Array, LabelData
from mogp.models import tables
from mogp.models.given import Predictor, known_values
from mogp.models.reads import Data as Data
from mogp.models.reads import ReadsData
from mogp.models.reads import Replica as Replica
from mogp.models.stages import Stage
from mogp.optimizers import Adam, Falling, Optimizer, Problem
from mogp.priors import Marginals

MANY_ROWS = 2000
"""Up to so many rows a step takes all of them."""
ROWS = 500
"""Of more, a step takes so many."""
Given = Mapping[str, npt.ArrayLike] | None
QUANTILES = (0.025, 0.5, 0.975)


class MOGP(ReadsData, Predictor, BayesianModel, ExternalDataTrainingLossMixin):
    """A model of outputs with names, over inputs of `P` columns.

    Every model is trained by `mogp.fit`, asked by the methods below, and saved by `mogp.save`. A
    model that cannot do one of these raises `mogp.errors.UnsupportedError`, which says what to use
    instead.

    A family says how it is trained (`check`, `elbo`, and where it needs to `batches`, `stages`) and
    how it predicts (`Predictor`, and `_conditioned` for `given=`): these methods read inputs `X` as
    the kernels do, `[N, P]`, or `[N, P + 1]` with the number of a replica as last column, and
    answer in the units of scaled data (`ReadsData.scaling`). What a user calls is in the units of
    the data.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.models import ExactLMC
    >>> model = ExactLMC(data)
    >>> list(model.predict([0.5], quantiles=()).columns)
    ['row', 'x', 'output', 'target', 'mean', 'sd']
    """

    _untraced: ClassVar[tuple[str, ...]] = ("schema", "scaling", "_prepare")
    _prepare: Callable[[Any], MOGP] | None = None
    usual_batches: ClassVar[bool] = False
    """Whether a step takes some of the rows where there are many."""
    compiles = False
    """Whether predictions are made of TensorFlow operations only, which a graph can hold."""

    # --- what it is

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
        if not isinstance(data, tuple):
            return self._training_loss(data)
        return repeated(lambda: self._training_loss(data))  # a batch, of tensors

    def log_prior_density(self) -> tf.Tensor:
        """Log density of the priors that trainable parameters have."""
        trained = self.trainable_parameters
        densities = [p.log_prior_density() for p in trained if p.prior is not None]
        dtype = trained[0].dtype if trained else default_float()
        return tf.add_n(densities) if densities else tf.zeros([], dtype)

    def batches(self, data: Any, size: Any = None, seed: int = 0) -> Callable[[Any], Any]:
        """Mini-batches as the model reads them: a function from the step to its batch.

        Args:
            data: what to draw from.
            size: rows a step; None for all data at every step.
            seed: of the draws.
        """
        source: Callable[[Any], Any] = self.scaled(data).batches(size, seed)
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
            found = parameter_dict(self._prepare(self.scaled(data)))
            for path, own in parameter_dict(self).items():
                own.unconstrained_variable.assign(found[path].unconstrained_variable)
            self._prepare = None

    def stages(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> list[Stage]:
        """The parts of a training, in order; arguments are those of `problem`."""
        return [Stage("model", lambda: self.problem(data, size, seed), self.usual_optimizer())]

    def usual_stages(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> list[Stage]:
        """The stages of a training of which the caller of `fit` left the optimiser open."""
        return self.stages(data, size, seed)

    def last_step(self, data: Data) -> str:
        """What `fit` does after the last step of its recipe, in a sentence; "" if nothing.

        Args:
            data: that it was trained on.
        """
        return ""

    def usual_optimizer(self) -> Optimizer:
        """What trains it unless the caller of `fit` says otherwise."""
        return Falling(Adam(0.05))

    def usual_rows(self, data: Data) -> int | None:
        """Rows a step unless the caller of `fit` says otherwise; None for all. 500 where there are
        more than 2000, of models that read mini-batches.
        """
        return ROWS if self.usual_batches and data.X.shape[0] > MANY_ROWS else None

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
        source, shift = self.batches(data, size, seed), self.jacobian(data)
        before = self.before_step()
        count = number_of_targets(data)
        return Problem(
            self, self.training_loss, source, before, size is None, shift=shift, targets=count
        )

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
        told = self._told(X, given)
        if told is not self or not self.compiles:
            return self._f_units(told._predict_f(X, outputs, full_cov), outputs)
        f = repeated(lambda: self._predict_f(X, outputs, full_cov))
        return self._f_units(f, outputs)

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
        X, outputs = self.at(Xnew, replica), self._wanted(output)
        told = self._told(X, given)
        if told is not self or not self.compiles:
            return self._y_units(told._predict_y(X, outputs), outputs)
        return self._y_units(repeated(lambda: self._predict_y(X, outputs)), outputs)

    def predict_log_density(self, data: Any) -> dict[str, tf.Tensor]:
        """Log predictive density of every observed target, noise included: `[N_d]` for each output
        by name.

        Args:
            data: some or all outputs of the model.
        """
        whole = self.aligned(data)
        found = self._log_densities(self.scaled(whole))
        for name, jacobian in zip(self.names, self.log_jacobian(whole), strict=True):
            if jacobian.any():
                found[name] = found[name] - jacobian
        return self.of_data(found, data)

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
        check_samples(samples)
        X = self.at(Xnew, replica)
        outputs = range(len(self.names)) if output is None else [self.index(output)]
        F = self._told(X, given)._draw_f(X, outputs, samples, seed)
        return self._f_draws(F, outputs)

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
        check_samples(samples)
        X, outputs = self.at(Xnew, replica), self._wanted(output)
        Y = self._told(X, given)._draw_y(X, outputs, samples, seed)
        return self._y_draws(Y, outputs)

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
        X, shown = self.at(Xnew, replica), self.read(Xnew)
        rows = Xnew.index if isinstance(Xnew, pd.DataFrame | pd.Series) else None
        spread, told = tables.Spread(quantiles, samples, seed), self._told(X, given)
        return tables.predicted(self, X, shown, self._wanted(output), rows, spread, told)

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
        if not known:
            return self
        units = self.scaling
        scaled = known if units is None else {d: units.targets(y, d) for d, y in known.items()}
        return self._conditioned(X, scaled)

    def _conditioned(self, X: tf.Tensor, known: Mapping[int, Array]) -> Predictor:
        """Predictions at `X`, given scaled targets `[N]` of some outputs, NaN where not known."""
        raise self.unsupported(
            "cannot be conditioned on outputs at new rows",
            "Add them to the training data, or use a chain (GPAR, gplar).",
        )

    @abstractmethod
    def _log_densities(self, data: Any) -> dict[str, tf.Tensor]:
        """Log predictive density of every observed target of scaled data, by name."""

    def _counted_with(self, output: int) -> Sequence[int]:
        """Outputs whose predictions have as many columns as those of this one."""
        return [output]

    def _y_units(self, y: Marginals, outputs: Sequence[int]) -> Marginals:
        """Mean and variance of targets in the units of the data."""
        if not self._has_units:
            return y
        counts = [tables.target_count(self, d) for d in outputs]
        m, s = (np.repeat(a[list(outputs)], counts) for a in self._affine())
        found = Marginals(y.mean * s + m, y.var * s**2)
        if self.scaling is None or not self.scaling.transforms:
            return found
        each = np.repeat(list(outputs), counts)
        mean, var = (np.array(a) for a in found)
        for column, d in enumerate(each):
            g = self.scaling.transform(d)
            if g is not None:
                mean[:, column], var[:, column] = g.moments(mean[:, column], var[:, column])
        return Marginals(tf.constant(mean), tf.constant(var))


def check_samples(samples: int) -> None:
    """Raise unless at least one draw is asked for.

    Args:
        samples: how many.
    """
    if samples < 1:
        raise ValueError(f"samples={samples}; at least one is needed.")


def number_of_targets(data: Data) -> int:
    """Targets that were observed; of labels, the points.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> number_of_targets(MultiOutputData.from_arrays([0.0, 1.0], [[1.0, np.nan], [2.0, 3.0]]))
    3
    """
    if isinstance(data, LabelData):
        return data.num_points
    return sum(int(own.observed.sum()) for own in data.outputs)
