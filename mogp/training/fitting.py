"""`fit`: train a model in one compiled loop, and say how it went."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gpflow
import numpy as np
import pandas as pd
import tensorflow as tf
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.optimize import OptimizeResult

from mogp.data import Array, MultiOutputData
from mogp.data.labels import LabelData
from mogp.optimizers import LBFGS, Adam, Optimizer
from mogp.optimizers.line_search import LineSearch
from mogp.training.diagnosis import Diagnosis, diagnose

Source = Callable[[Any], Any]
Status = Literal["finished", "stopped early", "interrupted", "failed"]
_SECONDS_BETWEEN_REPORTS = 1.0
_LARGEST_KEPT = 1 << 28


@dataclass
class History:
    """What a fit did.

    Attributes:
        elbo: the objective at every step, on that step's batch (before the step).
        seconds: time spent training, over all resumed parts.
        status: "finished", "stopped early", "interrupted" or "failed".
        message: the reason, in words.
        diagnosis: what to know about the fitted model; print it.
        monitored: what the `monitor` returned along the way, each with its `step`.
    """

    elbo: Array = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    status: Status = "finished"
    message: str = ""
    diagnosis: Diagnosis | None = None
    monitored: list[dict[str, Any]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.elbo)

    def frame(self) -> pd.DataFrame:
        """A row a step: `step`, `elbo`."""
        return pd.DataFrame({"step": np.arange(1, self.steps + 1), "elbo": self.elbo})

    def plot(self, ax: Any = None) -> Any:
        """The ELBO against the step, with a running median; returns the axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 3))[1] if ax is None else ax
        frame = self.frame()
        window = max(1, self.steps // 50)
        ax.plot(frame["step"], frame["elbo"], lw=0.6, alpha=0.4, label="each step")
        ax.plot(
            frame["step"],
            frame["elbo"].rolling(window, min_periods=1).median(),
            lw=1.6,
            label=f"median of {window}",
        )
        if self.steps > 10:
            low, high = np.quantile(self.elbo[self.steps // 20 :], [0.01, 1.0])
            ax.set_ylim(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9)
        ax.set(xlabel="step", ylabel="ELBO (nats)")
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        last = (
            f", ELBO {np.mean(self.elbo[-min(100, self.steps) :]):.4g} (mean of the last steps)"
            if self.steps
            else ""
        )
        said = f"{self.status} after {self.steps} steps in {self.seconds:.1f} s{last}."
        return "\n".join(filter(None, [said, self.message, str(self.diagnosis or "")]))


def fit(
    model: Any,
    data: MultiOutputData | LabelData | Source,
    *,
    steps: int = 1000,
    optimizer: Optimizer | LBFGS | None = None,
    batch_size: Any = None,
    seed: int = 0,
    patience: int | None = None,
    window: int = 100,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    jit_compile: bool = False,
    monitor: Callable[[], Mapping[str, Any]] | None = None,
    every: int = 100,
) -> History:
    """Train a model with `training_loss(batch)`.

    Args:
        model: a `SparseMOGP`, or any GPflow model with external data.
        data: a `MultiOutputData` or `LabelData`, or a function from the step number to that step's
            batch (in TensorFlow operations).
        steps: how many (L-BFGS: iterations at most).
        optimizer: `Adam(0.01)` if None; `NaturalAdam()`, `LBFGS()`.
        batch_size: rows a step, one number or one an output; None for all. (`LatentMOGP`: outputs a
            step, or a pair (outputs, rows of each).)
        seed: of the mini-batches.
        patience: stop when the mean ELBO of a window has not improved for this many steps.
        window: steps a window.
        checkpoint: a file kept up to date about every second; a run that finds it continues from
            it, with the very history an uninterrupted run would have had (L-BFGS restarts from its
            last iterate).
        progress: show a bar with the ELBO and the time left.
        jit_compile: compile with XLA (for GPUs; slower on CPUs).
        monitor: called before the first step and after every `every` steps, between steps; the
            numbers, strings or lists it returns are kept in `History.monitored` (and in a
            checkpoint). Its time is not counted.
        every: steps between two calls of `monitor`.

    Returns:
        The `History`. Ctrl-C ends the training after the current steps and keeps what was learned;
        a second one aborts.
    """
    if steps < 1:
        raise ValueError(f"steps={steps}; at least one is needed.")
    if window < 1 or (patience is not None and patience < 1):
        raise ValueError(f"window={window}, patience={patience}; both must be at least 1.")
    if every < 1:
        raise ValueError(f"every={every}; a monitor is called after at least one step.")
    if not callable(data) and hasattr(model, "check"):
        model.check(data)
    if isinstance(optimizer, LBFGS):
        if monitor is not None:
            raise ValueError(
                "L-BFGS has no steps of equal size to monitor; use another optimiser, or"
                " monitor=None."
            )
        return _fit_lbfgs(model, data, optimizer, steps, batch_size, checkpoint, progress)
    source = _source(model, data, batch_size, seed)
    optimizer = Adam() if optimizer is None else optimizer
    optimizer.start(model)
    run = f"{type(optimizer).__name__}, seed {seed}, batches of {batch_size}"
    state = _State(
        model, optimizer.variables, None if checkpoint is None else Path(checkpoint), run
    )
    history = state.restore()
    loop = _compiled(model, source, optimizer, jit_compile)
    call = 1

    def look() -> None:
        if monitor is not None and (history.steps % every == 0 or history.steps == steps):
            history.monitored.append({"step": history.steps, **monitor()})

    if not history.monitored:
        look()
    with _interrupts() as interrupted, _bar(progress, steps) as report:
        while history.steps < steps:
            if patience is not None and _no_better(history.elbo, window, patience):
                history.status = "stopped early"
                history.message = f"No better mean ELBO for {patience} steps."
                state.save(history, force=True)
                break
            count = min(call, window - history.steps % window, steps - history.steps)
            if monitor is not None:
                count = min(count, every - history.steps % every)
            state.remember(history.steps)
            began = time.perf_counter()
            try:
                losses = loop(
                    tf.constant(history.steps, tf.int64), tf.constant(count, tf.int64)
                ).numpy()
                problem = (
                    None if np.isfinite(losses).all() else "the objective became NaN or infinite"
                )
            except tf.errors.InvalidArgumentError as error:
                problem = _first_sentence(error)
            if problem is not None:
                good = state.go_back(
                    lambda step: bool(np.isfinite(model.training_loss(source(step))))
                )
                history.status = "failed"
                kept = (
                    f"is as it was at step {good}"
                    if state.keeps
                    else "is too large for a copy, and left as it became"
                )
                history.message = (
                    f"Stopped between steps {good} and {history.steps + count}: {problem}. The"
                    f" model {kept}. A smaller step size or standardised data usually helps."
                )
                history.elbo = history.elbo[:good]
                state.save(history, force=True)
                warnings.warn(history.message, stacklevel=2)
                break
            spent = time.perf_counter() - began
            history.seconds += spent
            history.elbo = np.concatenate([history.elbo, -losses])
            look()
            call = max(
                1,
                min(
                    window, int(count * min(4.0, _SECONDS_BETWEEN_REPORTS / max(spent, 1e-6))) or 1
                ),
            )
            state.save(history, force=history.steps == steps)
            report(history.steps, history.elbo[-1])
            if interrupted():
                history.status, history.message = (
                    "interrupted",
                    "Interrupted; the model keeps what it had learned.",
                )
                state.save(history, force=True)
                break
    history.diagnosis = diagnose(model, history.elbo)
    return history


def _source(
    model: Any, data: MultiOutputData | LabelData | Source, batch_size: Any, seed: int
) -> Source:
    """Batches as the model wants them: it may have a method `batches` of its own."""
    if callable(data):
        return data
    if hasattr(model, "batches"):
        source: Source = model.batches(data, batch_size, seed)
        return source
    return data.batches(batch_size, seed)


def _compiled(
    model: Any, source: Source, optimizer: Optimizer, jit_compile: bool
) -> Callable[..., tf.Tensor]:
    def one(step: tf.Tensor) -> tf.Tensor:
        batch = source(step)
        if hasattr(model, "update_local"):
            model.update_local(batch)
        return optimizer.step(model, lambda: model.training_loss(batch))

    dtype = gpflow.default_float()

    @tf.function(jit_compile=jit_compile, autograph=False)
    def loop(start: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        if jit_compile:
            return tf.reshape(one(start), [1])
        losses = tf.TensorArray(dtype, size=tf.cast(count, tf.int32), element_shape=[])

        def body(i: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            return i + 1, losses.write(tf.cast(i, tf.int32), tf.cast(one(start + i), dtype))

        return tf.while_loop(lambda i, _: i < count, body, (tf.constant(0, tf.int64), losses))[
            1
        ].stack()

    def one_by_one(start: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        return tf.concat([loop(start + i, count) for i in range(int(count))], 0)

    run: Callable[..., tf.Tensor] = one_by_one if jit_compile else loop
    return run


def _no_better(elbo: Array, window: int, patience: int) -> bool:
    whole = len(elbo) // window
    if len(elbo) % window or whole < 2:
        return False
    means = elbo[: whole * window].reshape(whole, window).mean(1)
    waited = (whole - 1 - int(np.argmax(means))) * window
    return waited >= patience


def _fit_lbfgs(
    model: Any,
    data: Any,
    optimizer: LBFGS,
    steps: int,
    batch_size: Any,
    checkpoint: Any,
    progress: bool,
) -> History:
    if batch_size is not None:
        raise ValueError(
            "L-BFGS needs the same objective at every step: use batch_size=None, or Adam() with"
            " mini-batches."
        )
    if getattr(model, "local", ()):
        raise ValueError(
            "a likelihood of this model stores theta for each row, updated step by step: use"
            " Adam()."
        )
    batch = _source(model, data, None, 0)(0)
    loss = tf.function(lambda: model.training_loss(batch), autograph=False)
    first, second = float(loss()), float(loss())
    if not np.isfinite(first):
        raise ValueError(
            f"the objective is {first} at the start: check the scale of the data and the start"
            " values."
        )
    if first != second:
        raise ValueError(
            "this objective is random (a Monte-Carlo likelihood): L-BFGS cannot follow it; use"
            " Adam()."
        )
    state = _State(model, [], None if checkpoint is None else Path(checkpoint), "LBFGS")
    history = state.restore()
    began = time.perf_counter()

    variables = list(model.trainable_variables)

    @tf.function(autograph=False)
    def put(values: tf.Tensor) -> None:
        """Set all variables to their parts of one long vector."""
        for variable, part in zip(
            variables, tf.split(values, [v.shape.num_elements() for v in variables]), strict=True
        ):
            variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))

    with _interrupts() as interrupted, _bar(progress, steps) as report:

        def after_iteration(intermediate_result: OptimizeResult) -> None:
            put(tf.constant(intermediate_result.x))
            history.elbo = np.append(history.elbo, -float(intermediate_result.fun))
            state.save(history)
            report(history.steps, history.elbo[-1])
            if interrupted():
                raise KeyboardInterrupt

        if history.steps < steps:
            search = LineSearch()
            try:
                result = search.minimize(
                    loss,
                    variables,
                    callback=after_iteration,
                    allow_unused_variables=True,
                    tf_fun_args={"autograph": False},
                    options={"maxiter": steps - history.steps, **optimizer.options},
                )
                history.message = f"L-BFGS: {result.message}"
                if search.refused:
                    history.message += (
                        f" (points tried that could not be evaluated: {search.refused})"
                    )
            except KeyboardInterrupt:
                history.status, history.message = (
                    "interrupted",
                    "Interrupted; the model keeps what it had learned.",
                )
    history.seconds += time.perf_counter() - began
    state.save(history, force=True)
    history.diagnosis = diagnose(model, history.elbo, deterministic=True)
    return history


class _State:
    """All variables of a run: kept in memory to go back to, unless too large, and in one file to
    resume from.
    """

    def __init__(self, model: Any, optimizer_variables: Any, path: Path | None, run: str) -> None:
        self._variables = [*model.variables, *_generator_states(model), *optimizer_variables]
        self._path = path
        self._written = time.perf_counter()
        self._kept: list[tuple[int, list[Array]]] = []
        self.keeps = (
            sum(v.shape.num_elements() * v.dtype.size for v in self._variables) <= _LARGEST_KEPT
        )
        self._identity = {
            "shapes": [[int(n) for n in v.shape] for v in self._variables],
            "parts": [type(part).__name__ for part in (model, *getattr(model, "submodules", ()))],
            "run": run,
        }
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def remember(self, step: int) -> None:
        """Keep this state and the one before: the objective has been seen at that one, at this one
        not yet.
        """
        self._kept = [
            *self._kept[-1:],
            (step, [v.numpy() for v in self._variables] if self.keeps else []),
        ]

    def go_back(self, works: Callable[[int], bool]) -> int:
        """To the last state kept that `works`, or else the oldest; returns its step."""
        if not self.keeps:
            return self._kept[-1][0]
        for step, values in reversed(self._kept):
            self._assign(values)
            try:
                found = works(step)
            except tf.errors.InvalidArgumentError:
                found = False
            self._assign(values)
            if found:
                break
        return step

    def _assign(self, values: list[Array]) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    def save(self, history: History, force: bool = False) -> None:
        if self._path is None or not (
            force or time.perf_counter() - self._written > _SECONDS_BETWEEN_REPORTS
        ):
            return
        meta = json.dumps(
            {"seconds": history.seconds, "monitored": history.monitored, **self._identity}
        )
        arrays = {f"v{i}": v.numpy() for i, v in enumerate(self._variables)}
        unfinished = self._path.with_name(f".{self._path.name}.part")
        with unfinished.open("wb") as stream:
            np.savez(stream, meta=np.array(meta), elbo=history.elbo, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(self._path)
        self._written = time.perf_counter()

    def restore(self) -> History:
        if self._path is None or not self._path.exists():
            return History()
        advice = "Give this run a checkpoint file of its own, or delete that one."
        try:
            with np.load(self._path, allow_pickle=False) as kept:
                arrays = dict(kept)
                meta = json.loads(str(arrays["meta"]))
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{self._path} is not a checkpoint written by mogp.fit ({error}). {advice}"
            ) from error
        for name, value in self._identity.items():
            if meta.get(name) != value:
                detail = (
                    f"{meta.get(name)}, not {value}"
                    if name == "run"
                    else f"other {name} of the model"
                )
                raise ValueError(
                    f"the checkpoint {self._path} belongs to another run: {detail}. {advice}"
                )
        self._assign([arrays[f"v{i}"] for i in range(len(self._variables))])
        return History(
            elbo=arrays["elbo"], seconds=meta["seconds"], monitored=meta.get("monitored", [])
        )


def _generator_states(model: Any) -> list[tf.Variable]:
    """States of the random generators that parts of the model own (Monte-Carlo likelihoods)."""
    parts = [model, *getattr(model, "submodules", ())]
    return [
        v.state for part in parts for v in vars(part).values() if isinstance(v, tf.random.Generator)
    ]


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C only sets a flag, so that no step is half done; the second one raises as
    usual.
    """
    seen = [False]
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*_: Any) -> None:
        seen[0] = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen[0]
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar(show: bool, steps: int) -> Iterator[Callable[[int, float], None]]:
    if not show:
        yield lambda step, elbo: None
        return
    columns = (
        TextColumn("{task.completed}/{task.total} steps"),
        BarColumn(),
        TextColumn("ELBO {task.fields[elbo]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("fit", total=steps, elbo="…")
        yield lambda step, elbo: bar.update(task, completed=step, elbo=f"{elbo:.5g}")


def _first_sentence(error: Exception) -> str:
    lines = [
        line.strip()
        for line in str(error).splitlines()
        if "Kuu" in line or "positive definite" in line or "NaN" in line
    ]
    return (lines or [str(error).splitlines()[0]])[0]
