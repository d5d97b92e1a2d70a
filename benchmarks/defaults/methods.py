"""Who predicts: fits of the library, and its peers."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from defaults import gpytorch_peer, ours, peers
from defaults.scores import Prediction, columns, score
from defaults.tasks import SPLITS, Data, Split, Task
from mogp import LabelData, MultiOutputData


@dataclass(frozen=True)
class Method:
    """What trains, what predicts, and where it can.

    Attributes:
        fit: of task, training data and the number of the split: anything that `predict` reads.
        predict: of what `fit` gave, task and split: a `Prediction` for each tested output.
        suits: whether it can do the task.
        of_arrays: it reads `columns(task, split)` in place of the training data.
        splits: on which it is run.
    """

    fit: Callable[[Task, Any, int], Any]
    predict: Callable[[Any, Task, Split], Mapping[str, Prediction]]
    suits: Callable[[Task, Data], bool] = lambda task, train: True
    of_arrays: bool = False
    splits: Sequence[int] = SPLITS


METHODS: dict[str, Method] = {
    "default": Method(ours.default, ours.predictions),
    "repeat": Method(ours.default, ours.predictions, splits=(0,)),  # the same again: is it the same?
    "old": Method(ours.old, ours.predictions),
    "tuned": Method(ours.tuned, ours.predictions, ours.suits_settings),
    "exact_icm": Method(ours.exact_icm, ours.predictions, ours.suits_exact),
    "gp_per_output": Method(peers.each(peers.gp_per_output), peers.predictions, of_arrays=True),
    "gpytorch": Method(gpytorch_peer.fit, gpytorch_peer.predictions, gpytorch_peer.suits),
    "forest": Method(peers.each(peers.forest), peers.predictions, of_arrays=True),
    "linear": Method(peers.each(peers.linear), peers.predictions, of_arrays=True),
}


def measure(task: Task, number: int, name: str) -> dict[str, Any]:
    """Fit, predict and score: a row of the results. "status" is "left out" where the method does not suit the task."""
    method, split = METHODS[name], task.split(number)
    if not method.suits(task, split.train):
        return {"status": "left out"}
    wanted = columns(task, split)
    read = wanted if method.of_arrays else split.train
    began = _cpu()
    fitted = method.fit(task, read, number)
    seconds = float(fitted["cpu_s"]) if isinstance(fitted, dict) else _cpu() - began
    row = {
        **score(wanted, method.predict(fitted, task, split)),
        **dict(zip(("rows", "inputs", "outputs"), sizes(split.train), strict=True)),
        "cpu_s": round(seconds, 2),
        "status": "finished",
    }
    history = fitted[1] if isinstance(fitted, tuple) else None
    if history is None:
        return row
    findings = history.diagnosis.findings if history.diagnosis is not None else ()
    return row | {
        "status": history.status,
        "converged": "" if history.converged is None else bool(history.converged),
        "reason": history.message,
        "steps": history.steps,
        "recipe": history.recipe,
        "findings": json.dumps(findings) if findings else "",
    }


def sizes(train: Data) -> tuple[int, int, int]:
    """Training rows, inputs and outputs (labels)."""
    outputs = train.num_labels if isinstance(train, LabelData) else train.num_outputs
    rows = max(train.sizes) if isinstance(train, MultiOutputData) else train.num_points
    return rows, train.input_dim, outputs


def _cpu() -> float:
    """Processor seconds of this process and of those it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
