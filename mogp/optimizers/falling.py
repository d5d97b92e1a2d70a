"""`Falling`: step sizes that fall where the objective is flat, and an end where it stays flat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mogp.data import Array
from mogp.optimizers.base import EVERY, Ending, Loss, Optimizer, Problem, Watch

_LEAST_NOISY = 100
_QUARTER = 4


class Falling(Optimizer):
    r"""The steps of another optimiser, whose step sizes fall at each plateau; the last ends it.

    Every 50 steps the mean objective of a window is compared with that of the window before. It is
    on a plateau if the mean rose by less than `tolerance` nats for each observed target, or by less
    than the standard error of the difference. Then all step sizes are multiplied by `factor`. At
    the plateau after the last fall the training has **converged**, and ends.

    A window has 50 steps. Where steps differ by chance (mini-batches, Monte Carlo) by so much that
    50 of them cannot tell a rise of `tolerance`, it has a quarter of the steps since the last fall,
    at least 100: the longer it has gone on, the slower a rise it sees. The chance is estimated from
    differences of successive steps, $s^2 = \frac12\overline{(\mathcal L_{t+1} - \mathcal L_t)^2}$,
    and the standard error of the difference of two windows of $w$ steps is $s\sqrt{2/w}$.

    Args:
        inner: whose steps; `Adam`, or `Natural` and its relatives around it.
        factor: of a fall.
        falls: how many.
        tolerance: nats for each observed target. Where nobody knows their number (a model of
            GPflow), it is this share of the rise since the start.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Adam, Falling, Problem
    >>> from mogp.optimizers.quiet import Quiet
    >>> model = tf.Module()
    >>> model.w = tf.Variable(3.0, dtype=tf.float64)
    >>> problem = Problem(model, lambda batch: model.w**2, lambda step: 0.0, targets=1)
    >>> optimizer, watch = Falling(Adam(0.1)), Quiet(steps=2000)
    >>> optimizer.start(model)
    >>> ending = optimizer.run(problem, watch)
    >>> ending.converged, watch.step < 2000, abs(float(model.w)) < 1e-2
    (True, True, True)
    """

    def __init__(
        self, inner: Optimizer, factor: float = 0.3, falls: int = 2, tolerance: float = 1e-4
    ) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"factor={factor}; step sizes fall by a factor between 0 and 1.")
        if falls < 0:
            raise ValueError(f"falls={falls}; it must be 0 or more.")
        if not tolerance > 0:
            raise ValueError(f"tolerance={tolerance}; it must be positive.")
        self.inner, self.factor, self.falls, self.tolerance = inner, factor, falls, tolerance

    def __repr__(self) -> str:
        return f"Falling({self.inner!r})"

    def start(self, model: tf.Module) -> None:
        """Create the state: that of the other optimiser, the scale of its steps, the last fall."""
        self._scale = tf.Variable(1.0, dtype=tf.float64, trainable=False)
        self._fallen = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._since = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.inner.scale_by(self._scale)
        self.inner.start(model)

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """A step of the other optimiser."""
        return self.inner.step(model, loss)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """See `start`."""
        return [*self.inner.variables, self._scale, self._fallen, self._since]

    def run(self, problem: Problem, watch: Watch, jit_compile: bool = False) -> Ending:
        """Take steps until the watch says that it is enough, or the objective stays flat."""
        looking = _Looking(self, watch, problem.targets)
        said = self.inner.run(problem, looking, jit_compile)
        if looking.ending is not None:
            return looking.ending
        return said if watch.left > 0 else looking.unfinished()

    def fall(self, step: int) -> bool:
        """Let the step sizes fall; False if they have fallen as often as they may."""
        if int(self._fallen) == self.falls:
            return False
        self._scale.assign(self._scale * self.factor)
        self._fallen.assign_add(1)
        self._since.assign(step)
        return True

    @property
    def since(self) -> int:
        """The step of the last fall."""
        return int(self._since)

    @property
    def fallen(self) -> int:
        """How often step sizes have fallen."""
        return int(self._fallen)


class _Looking:
    """A watch that looks for plateaus, in front of another."""

    def __init__(self, optimizer: Falling, watch: Watch, targets: int | None) -> None:
        self._optimizer, self._watch, self._targets = optimizer, watch, targets
        self.ending: Ending | None = None

    @property
    def step(self) -> int:
        return self._watch.step

    @property
    def left(self) -> int:
        return self._watch.left

    @property
    def objective(self) -> Array:
        return self._watch.objective

    def due(self) -> int:
        """What the other says, up to the next look; 0 if the objective stays flat."""
        if self.step % EVERY == 0 and self._flat() and not self._optimizer.fall(self.step):
            self.ending = Ending(f"Flat after {self.step} steps: {self._found()}.", True)
            return 0
        return min(self._watch.due(), EVERY - self.step % EVERY)

    def remember(self) -> None:
        self._watch.remember()

    def took(self, losses: Array, seconds: float) -> None:
        self._watch.took(losses, seconds)

    def failed(self, steps: int, why: str) -> None:
        self._watch.failed(steps, why)

    def unfinished(self) -> Ending:
        """Said when no steps are left."""
        return Ending(
            f"Not flat yet after {self.step} steps, the most that were asked for"
            f" ({self._found()}): train on, or give steps=.",
            False,
        )

    def _flat(self) -> bool:
        seen = self._rise()
        return seen is not None and seen[0] < max(seen[1], self._least())

    def _rise(self) -> tuple[float, float, int] | None:
        """The rise from one window to the next, its standard error, and the steps of a window."""
        values = self.objective[self._optimizer.since :]
        window = EVERY
        if len(values) < 2 * window:
            return None
        noise = np.sqrt(np.mean(np.diff(values[-2 * window :]) ** 2))  # s times the root of 2
        if noise / np.sqrt(window) > self._least():
            window = max(_LEAST_NOISY, len(values) // _QUARTER // EVERY * EVERY)
        if len(values) < 2 * window:
            return None
        noise = np.sqrt(np.mean(np.diff(values[-2 * window :]) ** 2))
        rise = np.mean(values[-window:]) - np.mean(values[-2 * window : -window])
        return float(rise), float(noise / np.sqrt(window)), window

    def _least(self) -> float:
        """The least rise that counts, in nats."""
        if self._targets is not None:
            return self._optimizer.tolerance * self._targets
        whole = self.objective
        return self._optimizer.tolerance * abs(
            float(np.mean(whole[-EVERY:]) - np.mean(whole[:EVERY]))
        )

    def _found(self) -> str:
        seen, falls = self._rise(), self._optimizer.fallen
        times = {0: "the first rate", 1: "a rate that fell once"}.get(
            falls, f"a rate that fell {falls} times"
        )
        if seen is None:
            return f"too few steps at {times} to tell"
        rise, error, window = seen
        share, unit = (self._targets, " a target") if self._targets is not None else (1, "")
        return (
            f"the mean ELBO changed by {rise / share:.1g} ± {error / share:.1g} nats{unit} in"
            f" {window} steps, at {times}"
        )
