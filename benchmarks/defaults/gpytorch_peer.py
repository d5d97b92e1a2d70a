"""GPyTorch's multitask GP on a task, in the environment of the peers (`make bench-defaults` sets it up)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from defaults.scores import Prediction, columns, inputs_of
from defaults.tasks import Data, Split, Task
from mogp import MultiOutputData

SCRIPT = Path(__file__).parent / "gpytorch_fit.py"
PYTHON = Path(os.environ.get("MOGP_PEERS_PYTHON", SCRIPT.parent.parent.parent / ".venv-peers" / "bin" / "python"))


def suits(task: Task, train: Data) -> bool:
    """Real targets alone."""
    return task.all_real and isinstance(train, MultiOutputData)


def fit(task: Task, train: MultiOutputData, number: int) -> dict[str, Any]:
    """Train on standardised inputs and targets, and predict; CPU seconds are those of the training alone."""
    if not PYTHON.exists():
        raise RuntimeError(f"no environment of the peers at {PYTHON}: make bench-defaults sets it up.")
    wanted = columns(task, task.split(number))
    names = [name for name, size in zip(train.names, train.sizes, strict=True) if size]
    X = np.vstack([inputs_of(train, train, name) for name in names])
    centre, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    moments = {name: (train[name].Y.mean(), train[name].Y.std() or 1.0) for name in names}
    given = {
        "X": (X - centre) / scale,
        "y": np.concatenate([(train[name].Y[:, 0] - moments[name][0]) / moments[name][1] for name in names]),
        "task": np.repeat(np.arange(len(names)), [len(train[name]) for name in names]),
        "X_test": (np.vstack([column.X_test for column in wanted]) - centre) / scale,
        "task_test": np.repeat([names.index(c.name) for c in wanted], [len(c.y_test) for c in wanted]),
        "tasks": len(names),
    }
    with tempfile.TemporaryDirectory() as folder:
        read, written = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(read, **given)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([PYTHON, SCRIPT, read, written], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"GPyTorch: {done.stderr.strip().splitlines()[-1][:300]}")
        found = dict(np.load(written))
    return {**found, "moments": moments, "columns": wanted}


def predictions(fitted: dict[str, Any], task: Task, split: Split) -> dict[str, Prediction]:
    """In the units of the data."""
    start, found = 0, {}
    for column in fitted["columns"]:
        own = slice(start, start := start + len(column.y_test))
        mean, sd = fitted["moments"][column.name]
        m, s = mean + sd * fitted["mean"][own], sd * np.sqrt(fitted["var"][own])
        found[column.name] = Prediction.gaussian(column.y_test, m, s)
    return found
