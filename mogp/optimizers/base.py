"""What an optimiser is: something that lowers the loss of a problem while `fit` watches."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gpflow
import numpy as np
import tensorflow as tf

from mogp.compiling import compiled
from mogp.data import Array
from mogp.errors import UnsupportedError

Loss = Callable[[], tf.Tensor]
EVERY = 50
"""Steps over which a rise of the objective is measured."""


@dataclass(frozen=True)
class Problem:
    """What is minimised.

    Attributes:
        model: its trainable variables are changed.
        loss: of a batch.
        batches: the batch of step 0, 1, …, in TensorFlow operations.
        before: called with the batch before each step, for what a likelihood stores of each row;
            None if there is nothing of the kind.
        whole: whether every batch is all the data.
        search: what `LBFGS` minimises, where the model has a faster way to it than `loss`.
        share: the share of the posterior for whose prior a batch speaks, on average: 1, or 1 / C
            for batches of one class out of C. The loss of such a batch is C times that of its
            class, so a natural step is multiplied by the share: C of them make one step.
        shift: what a loss that is reported has on top of `loss` (units of the targets, say). It
            stands apart so that models of one form share a compiled step.
        targets: how many observed targets the loss is of, None if nobody knows: what a rise of the
            objective is measured by.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Problem
    >>> model = tf.Module()
    >>> model.w = tf.Variable(3.0, dtype=tf.float64)
    >>> problem = Problem(model, lambda batch: tf.square(model.w - batch), lambda step: 1.0)
    >>> float(problem.loss(problem.batches(0)))
    4.0
    """

    model: tf.Module
    loss: Callable[[Any], tf.Tensor]
    batches: Callable[[Any], Any]
    before: Callable[[Any], None] | None = None
    whole: bool = True
    search: Search | None = None
    share: float = 1.0
    shift: float = 0.0
    targets: int | None = None


class Ending(NamedTuple):
    """How a run of an optimiser ended.

    Attributes:
        message: why, in words; "" if the optimiser has nothing to say.
        converged: whether by its own rule it is at an optimum; None if it has no rule.

    >>> Ending("L-BFGS: converged", True).converged
    True
    """

    message: str = ""
    converged: bool | None = None


class Search(ABC):
    """A loss and its gradient as SciPy asks for them: at one long vector of parameters.

    >>> import numpy as np
    >>> class Square(Search):
    ...     x = np.array([3.0])
    ...
    ...     def at(self, x):
    ...         return np.sum(x**2), 2 * x
    ...
    ...     def read(self):
    ...         return self.x
    ...
    ...     def write(self, x):
    ...         self.x = x
    >>> Square().at(np.array([2.0]))
    (4.0, array([4.]))
    """

    @abstractmethod
    def at(self, x: Array) -> tuple[Array, Array]:
        """The loss at `x [n]`, and its gradient `[n]`."""

    @abstractmethod
    def read(self) -> Array:
        """Where the parameters are, `[n]`."""

    @abstractmethod
    def write(self, x: Array) -> None:
        """Set the parameters to `x [n]`."""

    @property
    def bounds(self) -> list[tuple[float, float]] | None:
        """Between what each parameter stays; None if it may be anything."""
        return None


class Watch(Protocol):
    """What an optimiser tells of its steps, and is told in return.

    >>> from mogp.optimizers.quiet import Quiet
    >>> watch = Quiet(steps=5)
    >>> watch.left, watch.due()
    (5, 5)
    """

    @property
    def step(self) -> int:
        """Steps taken so far."""

    @property
    def left(self) -> int:
        """Steps that are left at most."""

    @property
    def objective(self) -> Array:
        """The negative loss at every step so far, `[step]`."""

    def due(self) -> int:
        """How many steps to take before the next report; 0 to end."""

    def remember(self) -> None:
        """Keep the variables as they are, to go back to should the next steps fail."""

    def took(self, losses: Array, seconds: float) -> None:
        """Report steps: their losses, and the time they took."""

    def failed(self, steps: int, why: str) -> None:
        """Report that one of the next `steps` failed."""


class Optimizer(ABC):
    """Changes the trainable variables of a model step by step.

    An optimiser says what one step does (`step`, inside a compiled graph); one that does not work
    step by step, such as `LBFGS`, has its own `run`.

    >>> from mogp.optimizers import Adam, Optimizer
    >>> isinstance(Adam(0.01), Optimizer)
    True
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

    def scale_by(self, scale: tf.Variable) -> None:
        """Multiply step sizes by a variable from now on: see `Falling`."""
        raise UnsupportedError(
            f"the step sizes of {type(self).__name__} cannot fall: use Adam or Natural."
        )

    def run(self, problem: Problem, watch: Watch, jit_compile: bool = False) -> Ending:
        """Take steps until the watch says that it is enough."""
        loop = _compiled(problem, self, jit_compile)
        while count := watch.due():
            watch.remember()
            began = time.perf_counter()
            try:
                first, number = (tf.constant(n, tf.int64) for n in (watch.step, count))
                losses = loop(first, number).numpy()
            except tf.errors.InvalidArgumentError as error:
                watch.failed(count, _first_sentence(error))
                continue
            if np.isfinite(losses).all():
                watch.took(losses + problem.shift, time.perf_counter() - began)
            else:
                watch.failed(count, "the objective became NaN or infinite")
        return Ending()


def _compiled(
    problem: Problem, optimizer: Optimizer, jit_compile: bool
) -> Callable[..., tf.Tensor]:
    """A function of the first step and the number of steps to their losses, one graph for all."""
    # Names of what a step reads: of the problem itself the graph need not know the rest.
    model, loss, batches, before = problem.model, problem.loss, problem.batches, problem.before
    dtype = gpflow.default_float()

    def one(step: tf.Tensor) -> tf.Tensor:
        batch = batches(step)
        if before is not None:
            before(batch)
        return tf.cast(optimizer.step(model, lambda: loss(batch)), dtype)

    def loop(start: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        losses = tf.TensorArray(dtype, size=tf.cast(count, tf.int32), element_shape=[])

        def body(i: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            return i + 1, losses.write(tf.cast(i, tf.int32), one(start + i))

        return tf.while_loop(lambda i, _: i < count, body, (tf.constant(0, tf.int64), losses))[
            1
        ].stack()

    number = tf.TensorSpec([], tf.int64)
    if not jit_compile:
        return compiled(loop, number, number)
    # XLA compiles a loop of unknown length badly: each step is one call.
    single = compiled(one, number, jit_compile=True)
    return lambda start, count: tf.stack([single(start + i) for i in range(int(count))])


def _first_sentence(error: Exception) -> str:
    """The line of a TensorFlow error that says which matrix failed, or its first."""
    lines = [
        line.strip()
        for line in str(error).splitlines()
        if "Kuu" in line or "positive definite" in line or "NaN" in line
    ]
    return (lines or [str(error).splitlines()[0]])[0]


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

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Adam, GradientOptimizer
    >>> w = tf.Variable(3.0, dtype=tf.float64)
    >>> adam = Adam(0.1)
    >>> isinstance(adam, GradientOptimizer)
    True
    >>> adam.start_on([w])
    >>> adam.apply(adam.evaluate(lambda: tf.square(w)))
    >>> round(float(w), 3)
    2.9
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
    """Several variables seen as one vector, in the widest of their precisions.

    >>> import tensorflow as tf
    >>> flat = Flat([tf.Variable([1.0, 2.0]), tf.Variable(3.0)])
    >>> flat.read().numpy().tolist()
    [1.0, 2.0, 3.0]
    """

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
