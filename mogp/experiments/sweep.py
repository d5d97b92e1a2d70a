"""`sweep`: run a function at every point of a grid, keep every result, and go on where one left
off.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from mogp.experiments.fingerprint import function_key, run_key
from mogp.experiments.records import Record, RecordFolder, decode
from mogp.experiments.workers import run_here, run_on_cluster
from mogp.project import build_folder

Grid = Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]] | pd.DataFrame


@dataclass(frozen=True)
class Failure:
    """A run that did not finish: its point, and the traceback or the reason.

    >>> from mogp.experiments import Failure
    >>> Failure({"fold": 3}, "ValueError: no data").point
    {'fold': 3}
    """

    point: dict[str, Any]
    error: str


class SweepError(RuntimeError):
    """Some runs failed. `failures` lists them; `table` holds the runs that finished, which stay in
    the cache.

    >>> from mogp.experiments import SweepError
    >>> issubclass(SweepError, RuntimeError)
    True
    """

    def __init__(self, failures: list[Failure], table: pd.DataFrame) -> None:
        self.failures, self.table = failures, table
        shown = "\n".join(
            f"--- {failure.point}\n{failure.error.rstrip()}" for failure in failures[:5]
        )
        more = f"\n… and {len(failures) - 5} more, see .failures" if len(failures) > 5 else ""
        super().__init__(
            f"{len(failures)} of {len(failures) + len(table)} runs failed; the others are kept and"
            f" will not be run again.\n{shown}{more}"
        )


def sweep(
    function: Callable[..., Mapping[str, Any]],
    grid: Grid,
    *,
    cache: str | os.PathLike[str] | None = None,
    cluster: Any = None,
    workers: int | None = None,
    threads: int = 1,
    retries: int = 2,
    progress: bool = True,
    name: str | None = None,
) -> pd.DataFrame:
    """Call `function(**point)` at every point of the grid and gather what it returns in a table.

    Runs are independent processes. Each result is kept in a file of its own as soon as it arrives,
    under a key made of the code and the point (`mogp.experiments.fingerprint`): call `sweep` again
    after a crash, an interruption or with a larger grid, and only what is missing is run; change
    the function, and everything is.

    Args:
        function: returns a dict of numbers, strings, lists or small numeric arrays. It may be
            defined in a notebook.
        grid: name -> values (all combinations, the last name varying fastest), a list of points, or
            a data frame with a row a point. A point that occurs twice is run once.
        cache: folder of the results; `sweeps/<name>` in the build folder by default.
        cluster: address of a Dask scheduler, or a Dask cluster; `MOGP_CLUSTER` if not given.
            Without either, processes on this machine.
        workers: number of local processes, by default as many as fit the cores; 0 runs everything
            in this process.
        threads: threads of TensorFlow and BLAS in each worker.
        retries: how often a run is tried again when its worker dies. A run that raises is not tried
            again.
        progress: show a bar, in a terminal or a notebook.
        name: of the sweep; the function's name by default.

    Returns:
        A row for each point in the grid's order: the point, the results, and the `seconds` the run
        took.

    Raises:
        SweepError: after all runs ended, if some of them failed.

    Example::

        def run(model, fold, seed):
            ...
            return {"nlpd": nlpd, "lengthscales": lengthscales}

        table = sweep(run, {"model": ["CGP", "CCGP"], "fold": range(10), "seed": [0]}, name="motor")
        table.groupby("model").nlpd.describe()

    >>> import tempfile
    >>> from mogp.experiments import sweep
    >>> def run(x, power):
    ...     return {"value": float(x**power)}
    >>> table = sweep(
    ...     run, {"x": [2, 3], "power": [2]}, cache=tempfile.mkdtemp(), workers=0, progress=False
    ... )
    >>> table["value"].tolist()
    [4.0, 9.0]
    """
    _check_numbers(workers, threads, retries)
    points = _points(grid)
    title = name or str(getattr(function, "__name__", type(function).__name__))
    records = RecordFolder(Path(cache) if cache is not None else _default_folder(title))
    code = function_key(function)
    keys = [run_key(code, point) for point in points]
    wanted = dict(zip(keys, points, strict=True))
    done = {key: record for key in wanted if (record := records.get(key)) is not None}
    jobs = {key: point for key, point in wanted.items() if key not in done}
    failed: dict[str, str] = {}
    if jobs:
        if workers == 0:
            outcomes = run_here(function, _still_missing(records, jobs, done))
        else:
            where = cluster or os.environ.get("MOGP_CLUSTER") or None
            outcomes = run_on_cluster(
                function, jobs, cluster=where, workers=workers, threads=threads, retries=retries
            )
        with _progress(title, len(wanted), len(done), progress) as advance:
            for key, outcome in outcomes:
                if outcome.record is None:
                    failed[key] = outcome.error
                else:
                    records.put(key, outcome.record, wanted[key])
                    done[key] = outcome.record
                advance()
    table = _table(
        grid, [(point, done[key]) for key, point in zip(keys, points, strict=True) if key in done]
    )
    if failed:
        raise SweepError(
            [Failure(dict(wanted[key]), failed[key]) for key in wanted if key in failed], table
        )
    return table


def _still_missing(
    records: RecordFolder, jobs: Mapping[str, dict[str, Any]], done: dict[str, Record]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The jobs that no other process has finished in the meantime; what was found is put into
    `done`.
    """
    for key, point in jobs.items():
        record = records.get(key)
        if record is None:
            yield key, point
        else:
            done[key] = record


def _points(grid: Grid) -> list[dict[str, Any]]:
    if isinstance(grid, pd.DataFrame):
        return [
            {str(name): value for name, value in row.items()} for row in grid.to_dict("records")
        ]
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(
                    f"grid[{name!r}] is {values!r}; give a list of values, [{values!r}] for a"
                    " single one."
                )
        return [
            dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
        ]
    for number, point in enumerate(grid):
        if not isinstance(point, Mapping):
            raise TypeError(
                f"point {number} of the grid is {point!r}; each point must map argument names to"
                " values."
            )
    return [dict(point) for point in grid]


def _table(grid: Grid, rows: list[tuple[dict[str, Any], Record]]) -> pd.DataFrame:
    """Columns: the point's, the results', `seconds`; each set in order of first appearance."""
    results = [decode(record.result) for _, record in rows]
    arguments = (
        list(grid)
        if isinstance(grid, Mapping | pd.DataFrame)
        else _union(point for point, _ in rows)
    )
    full = [
        {**point, **result, "seconds": record.seconds}
        for (point, record), result in zip(rows, results, strict=True)
    ]
    return pd.DataFrame(full, columns=[*map(str, arguments), *_union(results), "seconds"])


def _union(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _check_numbers(workers: int | None, threads: int, retries: int) -> None:
    for name, value, least in (
        ("workers", workers, 0),
        ("threads", threads, 1),
        ("retries", retries, 0),
    ):
        if value is not None and value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}.")


def _default_folder(name: str) -> Path:
    """`sweeps/<name>` in the build folder, or under `_build` in the working directory where there
    is no book.
    """
    try:
        build = build_folder()
    except FileNotFoundError:
        build = Path.cwd() / "_build"
    return build / "sweeps" / re.sub(r"[^\w.-]+", "_", name)


@contextmanager
def _progress(name: str, total: int, done: int, wanted: bool) -> Iterator[Callable[[], None]]:
    """A bar where somebody looks at it: in a terminal, or in a notebook that is not run by the
    chapter runner.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console()
    notebook = (
        console.is_jupyter
        and find_spec("ipywidgets") is not None
        and "MOGP_CHAPTER_OUT" not in os.environ
    )
    visible = wanted and (notebook or (console.is_terminal and not console.is_jupyter))
    columns = (
        TextColumn("{task.description}"),
        *(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        ),
    )
    with Progress(
        *columns, console=console, disable=not visible, transient=console.is_jupyter
    ) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)
