"""Runs what has no row yet, each in a process of its own, and appends a row as it ends.

python -m defaults.run --role development --methods default,old --splits 0
python -m defaults.run --role development --label bigger-batches     into results-bigger-batches.csv
python -m defaults.run --budget 20min                                stops by itself; call it again to go on

Rows come breadth first: split 0 of every task before split 1 of any, and within a split method by method. Two of these
may run at once on different --tasks.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from defaults.methods import METHODS, measure
from defaults.results import append, missing, read, results_file
from defaults.tasks import SPLITS, TASKS

ROOT = Path(__file__).parent.parent.parent
UNITS = {"s": 1, "min": 60, "h": 3600}


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Measure how good default fits are.")
    parser.add_argument("--role", choices=("development", "deciding"), help="tasks of this role; all if left out")
    parser.add_argument("--tasks", help=f"some of {', '.join(TASKS)}")
    parser.add_argument("--methods", help=f"some of {', '.join(METHODS)}; all if left out")
    parser.add_argument("--splits", default=",".join(map(str, SPLITS)), help="0,1,2,3,4")
    parser.add_argument("--budget", type=seconds, help="start no run after this long: 90s, 20min, 3h")
    parser.add_argument("--limit", type=seconds, default=3600.0, help="of a single run, in the same words")
    parser.add_argument("--label", help="keep the rows in a file of their own, of this name")
    parser.add_argument("--retry", action="store_true", help="run again what failed")
    asked = parser.parse_args()
    tasks = _some(asked.tasks, list(TASKS), parser)
    tasks = [name for name in tasks if asked.role in (None, TASKS[name].role)]
    methods = _some(asked.methods, list(METHODS), parser)
    splits = [int(split) for split in asked.splits.split(",")]
    if not set(splits) <= set(SPLITS):
        parser.error(f"splits {asked.splits}; there are {', '.join(map(str, SPLITS))}.")
    file = results_file(asked.label)
    runs = [run for run in missing(read(file), tasks, splits, methods, asked.retry) if run[1] in METHODS[run[2]].splits]
    run_all(runs, file, asked.budget, asked.limit)


def _some(text: str | None, known: list[str], parser: argparse.ArgumentParser) -> list[str]:
    names = text.split(",") if text else known
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(known)}.")
    return names


def seconds(text: str) -> float:
    """Of "90s", "20min" or "3h".

    >>> seconds("20min")
    1200.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}; expected such as 90s, 20min, 3h.")
    return float(found[1]) * UNITS[found[2]]


def run_all(runs: list[tuple[str, int, str]], file: Path, budget: float | None, limit: float) -> None:
    """Run one after the other, and append their rows."""
    about = {"version": _version(), "code": _code()}
    began = time.monotonic()
    for count, (task, split, method) in enumerate(runs, 1):
        if budget is not None and time.monotonic() - began > budget:
            print(f"out of time: {len(runs) - count + 1} of {len(runs)} runs are left")
            return
        row = child(partial(measure, TASKS[task], split, method), limit)
        append(file, {"task": task, "split": split, "method": method, **about, **row})
        said = [f"{name} {row[name]:.4g}" for name in ("nlpd", "error", "coverage", "cpu_s") if name in row]
        ended = [row["status"], *(str(row[name])[:120] for name in ("steps", "reason", "message") if row.get(name))]
        print(f"[{count}/{len(runs)}] {task} {split} {method}: {', '.join(said + ended)}", flush=True)


def child(measured: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any]:
    """The row that a copy of this process makes; a failure is a row with its error.

    Copies have everything imported already, and nothing that an earlier run compiled.
    """
    context = get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(measured, send))
    process.start()
    send.close()
    try:
        if not receive.poll(limit):
            os.killpg(process.pid, signal.SIGKILL)  # its children, too
            return {"status": "error", "message": f"not finished after {limit:.0f} s"}
        row: dict[str, Any] = receive.recv()
        return row
    except EOFError:
        process.join()
        return {"status": "error", "message": f"ended with exit code {process.exitcode}"}
    finally:
        process.join()


def _tell(measured: Callable[[], dict[str, Any]], send: Connection) -> None:
    os.setsid()
    try:
        row = measured()
    except Exception as error:
        traceback.print_exc()
        row = {"status": "error", "message": f"{type(error).__name__}: {error}"[:300]}
    send.send(row)


def _version() -> str:
    """The commit; with a plus where files of the library differ from it."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()  # noqa: E731
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "mogp") else "")


def _code() -> str:
    """Eight hex digits that change with the library's code."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "mogp").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


if __name__ == "__main__":
    main()
