"""All variables of a run: kept in memory to go back to, and in a file to resume from."""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from mogp.data import Array
from mogp.training.history import History, StageRecord

SECONDS_BETWEEN_REPORTS = 1.0
_LARGEST_KEPT = 1 << 28
_ADVICE = "Give this run a checkpoint file of its own, or delete that one."


class State:
    """All variables of a run: kept in memory to go back to, unless too large, and in one file to
    resume from.
    """

    def __init__(
        self,
        model: tf.Module,
        optimizer_variables: Sequence[tf.Variable],
        path: Path | None,
        run: str,
    ) -> None:
        self._generators = _generator_states(model)
        self._variables = [*model.variables, *self._generators, *optimizer_variables]
        self._path = path
        self._written = time.perf_counter()
        self._kept: list[_Kept] = []
        self._marked: _Kept | None = None
        self._best: _Kept | None = None
        self.keeps = (
            sum(v.shape.num_elements() * v.dtype.size for v in self._variables) <= _LARGEST_KEPT
        )
        self._identity = {
            "shapes": [[int(n) for n in v.shape] for v in self._variables],
            "parts": [type(part).__name__ for part in (model, *model.submodules)],
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
            _Kept(step, [v.numpy() for v in self._variables] if self.keeps else []),
        ]

    @property
    def remembers(self) -> bool:
        """Whether there is a state to go back to."""
        return bool(self._kept)

    def mark(self) -> None:
        """The state remembered last begins a block of steps, the first of which will tell what it
        is worth.
        """
        self._marked = self._kept[-1]

    def praise(self) -> None:
        """The state marked last is the best so far."""
        self._best = self._marked

    def go_back(self, works: Callable[[int], bool]) -> int:
        """To the last state remembered that `works`, or else the best; returns its step."""
        if not self.keeps:
            return self._kept[-1].step
        for kept in reversed(self._kept):
            self._assign(kept.values)
            if self.peek(partial(works, kept.step)):
                return kept.step
        return self.go_to_best()

    def go_to_best(self) -> int:
        """To the best state, or while there is none to the oldest; returns its step."""
        best = self._best or self._marked or self._kept[0]
        if self.keeps:
            self._assign(best.values)
        return best.step

    def peek(self, look: Callable[[], bool]) -> bool:
        """What `look` says of the present state, with random generators put back; False where
        matrices cannot be factorised.
        """
        values = [v.numpy() for v in self._generators]
        try:
            return look()
        except tf.errors.InvalidArgumentError:
            return False
        finally:
            for generator, value in zip(self._generators, values, strict=True):
                generator.assign(value)

    def _assign(self, values: list[Array]) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    def save(self, history: History, force: bool = False) -> None:
        """Write the checkpoint, if there is to be one and the last is a second old."""
        if self._path is None or not (
            force or time.perf_counter() - self._written > SECONDS_BETWEEN_REPORTS
        ):
            return
        meta = json.dumps(
            {
                "seconds": history.seconds,
                "monitored": history.monitored,
                "stages": [asdict(stage) for stage in history.stages],
                **self._identity,
            }
        )
        arrays = {f"v{i}": v.numpy() for i, v in enumerate(self._variables)}
        # One fixed name: what a killed run left half-written is overwritten by the next.
        unfinished = self._path.with_name(f".{self._path.name}.part")
        with unfinished.open("wb") as stream:
            np.savez(stream, meta=np.array(meta), elbo=history.elbo, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(self._path)
        self._written = time.perf_counter()

    def restore(self, kept: Checkpoint | None) -> History:
        """The history of a checkpoint, with the variables set to it; a new one if there is none."""
        if kept is None:
            return History()
        for name, value in self._identity.items():
            if kept.meta.get(name) != value:
                detail = (
                    f"{kept.meta.get(name)}, not {value}"
                    if name == "run"
                    else f"other {name} of the model"
                )
                raise ValueError(
                    f"the checkpoint {kept.path} belongs to another run: {detail}. {_ADVICE}"
                )
        self._assign([kept.arrays[f"v{i}"] for i in range(len(self._variables))])
        return History(
            elbo=kept.arrays["elbo"],
            seconds=kept.meta["seconds"],
            monitored=kept.meta["monitored"],
            stages=kept.stages,
        )


class _Kept(NamedTuple):
    """The variables before a step."""

    step: int
    values: list[Array]


class Checkpoint(NamedTuple):
    """What a file holds of a run.

    Attributes:
        path: of the file.
        arrays: the variables and the objective along the way.
        meta: everything else.
    """

    path: Path
    arrays: dict[str, Array]
    meta: dict[str, Any]

    @property
    def stages(self) -> list[StageRecord]:
        """The stages that were finished."""
        return [StageRecord(**stage) for stage in self.meta["stages"]]


def read_checkpoint(path: Path | None) -> Checkpoint | None:
    """What the file holds; None if there is no file."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            arrays = dict(kept)
            return Checkpoint(path, arrays, json.loads(str(arrays["meta"])))
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a checkpoint written by mogp.fit ({error}). {_ADVICE}"
        ) from error


def _generator_states(model: tf.Module) -> list[tf.Variable]:
    """States of the random generators that parts of the model own (Monte-Carlo likelihoods)."""
    parts = [model, *model.submodules]
    return [
        v.state for part in parts for v in vars(part).values() if isinstance(v, tf.random.Generator)
    ]
