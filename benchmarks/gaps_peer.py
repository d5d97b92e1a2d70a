"""PyPI's `gpar` on the gaps of the electrodes and exchange rates, recorded for the book in `data/peers/gpar.csv`.

Usage: python gaps_peer.py PYTHON_OF_THE_PEERS (`make bench-peers` sets that environment up). The settings are those of
Xia's experiments (tables 4.2 and 4.3 of the thesis), with several numbers of steps, with and without posterior means
passed on; errors are SMSEs by mogp's metrics, of electrodes against the mean of the held-out targets, of exchange rates
against that of the training targets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mogp import datasets
from mogp.metrics import smse
from mogp.project import data_folder

SETTINGS: dict[str, dict[str, Any]] = {
    "eeg": {"scale": 0.02, "linear": False, "nonlinear": True, "nonlinear_scale": 1.0},
    "exchange": {
        "scale": 0.1, "linear": True, "linear_scale": 10.0, "nonlinear": True, "nonlinear_scale": 1.0, "rq": True,
    },
}  # fmt: skip


def recorded(name: str, steps: int, replace: bool, folder: Path) -> list[dict[str, Any]]:
    """The error of each output with a gap."""
    whole = datasets.load(name, stand_in="forbid")
    train, file = whole.train.data, folder / f"{name}.npz"
    np.savez(file, X=whole.X, Y=np.where(whole.held_out, np.nan, whole.Y))
    how = json.dumps({**SETTINGS[name], "replace": replace})
    command = [sys.argv[1], "peer_gpar.py", "means", str(file), str(steps), how]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    reference: Any = {"eeg": "test", "exchange": "train"}[name]
    rows = []
    for d, output in enumerate(whole.outputs):
        held = whole.held_out[:, d]
        if held.any():
            y_train = train.outputs[d].Y[:, 0] if reference == "train" else None
            error = smse(whole.Y[held, d], np.array(found["mean"])[held, d], reference=reference, y_train=y_train)
            rows.append({"data": name, "version": found["version"], "steps": steps, "replace": replace})
            rows[-1] |= {"output": output, "SMSE": round(error, 4), "seconds": round(found["seconds"])}
    return rows


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python gaps_peer.py PYTHON_OF_THE_PEERS (make bench-peers sets it up)")
    cases = [("eeg", 200, True), *(("exchange", steps, replace) for steps in (50, 1000) for replace in (True, False))]
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for case in cases for row in recorded(*case, Path(folder))]
    pd.DataFrame(rows).to_csv(data_folder() / "peers" / "gpar.csv", index=False, lineterminator="\n")
