"""The results: a row for each run, appended as it ends."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

FOLDER = Path(__file__).parent
FIELDS = (
    *("task", "split", "method", "nlpd", "error", "coverage", "targets", "cpu_s", "rows", "inputs", "outputs"),
    *("status", "converged", "reason", "steps", "recipe", "findings", "message", "version", "code"),
)
TEXT = ("status", "converged", "reason", "recipe", "findings", "message", "version", "code")
KEY = ["task", "split", "method"]


def results_file(label: str | None = None) -> Path:
    """Where the rows are kept: of the study, or of a candidate recipe that has a label."""
    return FOLDER / (f"results-{label}.csv" if label else "results.csv")


def append(file: Path, row: Mapping[str, Any]) -> None:
    """Add a row, below a header if it is the first."""
    new = not file.exists()
    if not new and file.open(encoding="utf-8").readline().strip() != ",".join(FIELDS):
        raise SystemExit(f"{file} has other columns than {', '.join(FIELDS)}; move it away, or use another --label.")
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({name: _short(row.get(name, "")) for name in FIELDS})


def _short(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else " ".join(value.split()) if isinstance(value, str) else value


def read(file: Path) -> pd.DataFrame:
    """The rows, of a run that was repeated the last."""
    if not file.exists():
        return pd.DataFrame(columns=list(FIELDS))
    table = pd.read_csv(file, dtype=dict.fromkeys(TEXT, "string"))
    return table.drop_duplicates(KEY, keep="last").reset_index(drop=True).reindex(columns=list(FIELDS))


def missing(
    table: pd.DataFrame, tasks: Iterable[str], splits: Iterable[int], methods: Iterable[str], retry: bool = False
) -> list[tuple[str, int, str]]:
    """Runs without a row, split 0 of everything first; with `retry` those that failed, too."""
    there = table[table["status"] != "error"] if retry else table
    done = set(there[KEY].itertuples(index=False, name=None))
    wanted = [(t, s, m) for s in splits for m in methods for t in tasks]
    return [run for run in wanted if run not in done]
