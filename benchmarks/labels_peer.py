"""Omikuji on Bibtex and Delicious, recorded for the book in `data/peers/omikuji.csv`.

Usage: python labels_peer.py PYTHON_OF_THE_PEERS (`make bench-peers` sets that environment up). Ranks the labels of the
published test points with Omikuji's default settings, and with its logistic loss; scores them with mogp's metrics.
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

from mogp import metrics
from mogp.book.runs.labels import DEPTHS, labelled, reliability
from mogp.data.labels import LabelData
from mogp.project import data_folder


def written(data: LabelData, path: Path) -> Path:
    """The points in the format of the Extreme Classification Repository."""
    lines = [f"{data.num_points} {data.input_dim} {data.num_labels}"]
    for n in range(data.num_points):
        x, y = (slice(*matrix.indptr[n : n + 2]) for matrix in (data.X, data.Y))
        inputs = " ".join(f"{i}:{v:.6g}" for i, v in zip(data.X.indices[x], data.X.data[x], strict=True))
        lines.append(f"{','.join(map(str, data.Y.indices[y]))} {inputs}")
    path.write_text("\n".join(lines) + "\n")
    return path


def recorded(name: str, loss: str, folder: Path) -> dict[str, Any]:
    """One run on one data set: seconds, precisions, and how often the first label is right by its score."""
    train, test = labelled(name)
    paths = [written(part, folder / f"{name}-{which}.txt") for which, part in (("train", train), ("test", test))]
    command = [sys.argv[1], "peer_omikuji.py", *map(str, paths), loss]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    ranking = np.array([one + [-1] * (max(DEPTHS) - len(one)) for one in (r[: max(DEPTHS)] for r in found["labels"])])
    first = np.array([scores[0] if scores else 0.0 for scores in found["scores"]])
    right = test.Y.toarray()[np.arange(len(ranking)), ranking[:, 0]]
    trust = reliability(np.clip(first, 0, 1), right)
    order = np.argsort(-first, kind="stable")
    kept = np.round(np.arange(1, 11) / 10 * len(first)).astype(int)
    return {
        "data": name,
        "loss": loss,
        "version": found["version"],
        **{f"P@{k}": 100 * metrics.precision_at(test.Y, ranking, k) for k in DEPTHS},
        "train seconds": found["train_seconds"],
        "rank seconds": found["rank_seconds"],
        "calibration error": float(trust["error"]),
        **{key: " ".join(f"{v:.4f}" for v in trust[key]) for key in ("predicted", "true")},
        "count": " ".join(f"{v:.0f}" for v in trust["count"]),
        "certain": " ".join(f"{100 * right[order[:n]].mean():.2f}" for n in kept),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python labels_peer.py PYTHON_OF_THE_PEERS (make bench-peers sets it up)")
    with tempfile.TemporaryDirectory() as folder:
        rows = [recorded(name, loss, Path(folder)) for name in ("bibtex", "delicious") for loss in ("hinge", "log")]
    table = pd.DataFrame(rows)
    path = data_folder() / "peers" / "omikuji.csv"
    path.parent.mkdir(exist_ok=True)
    table.round(4).to_csv(path, index=False, lineterminator="\n")
    print(table.drop(columns=["predicted", "true", "count", "certain"]).to_string(index=False))
