"""Where runs happen: one after another in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from mogp.experiments.records import Record, encode

Point = Mapping[str, Any]

CONNECT_SECONDS = 20.0
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""For glibc: a step's tensors are freed and allocated again. Dask's workers hand them back to the
system in between (`MALLOC_TRIM_THRESHOLD_=65536`), and a training step on them spends half its time
on page faults.
"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: with a record, or with the text of an error."""

    record: Record | None = None
    error: str = ""


def run_here(
    function: Callable[..., Any], jobs: Iterable[tuple[str, Point]]
) -> Iterator[tuple[str, Outcome]]:
    """Run the jobs one after another in this process."""
    for key, point in jobs:
        yield key, _attempt(function, point)


def run_on_cluster(
    function: Callable[..., Any],
    jobs: Mapping[str, Point],
    *,
    cluster: Any,
    workers: int | None,
    threads: int,
    retries: int,
) -> Iterator[tuple[str, Outcome]]:
    """Run the jobs on a Dask cluster, in the order they finish.

    `cluster` is the address of a scheduler or a Dask cluster; with None a local one is started for
    the occasion. A run whose worker dies is run again, up to `retries` times (on a cluster of your
    own its setting `distributed.scheduler.allowed-failures` decides).
    """
    import cloudpickle  # type: ignore[import-untyped]
    from dask.distributed import Client, as_completed
    from distributed.scheduler import KilledWorker

    payload = cloudpickle.dumps(function)
    environment = worker_environment(threads)
    with ExitStack() as stack:
        if cluster is None:
            cluster = stack.enter_context(
                _local_cluster(len(jobs), workers, threads, retries, environment)
            )
        try:
            client = stack.enter_context(
                Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False)
            )
        except OSError as error:
            raise ConnectionError(f"no Dask scheduler answers at {cluster}: {error}") from error
        futures = {
            client.submit(
                _attempt_on_worker, payload, dict(point), environment, key=f"run-{key}", pure=False
            ): key
            for key, point in jobs.items()
        }
        for future in as_completed(futures, loop=client.loop):
            problem = future.exception()
            if problem is None:
                outcome = future.result()
            elif isinstance(problem, KilledWorker):
                outcome = Outcome(
                    error=(
                        "its worker died each time it was tried (killed by the system, out of"
                        " memory?)"
                    )
                )
            else:
                outcome = Outcome(error="".join(traceback.format_exception(problem)))
            yield futures[future], outcome


def worker_environment(threads: int) -> dict[str, str]:
    """Settings that make numeric libraries use `threads` threads, keep quiet and keep their memory.

    They are read when a process starts, or when the libraries are first imported.
    """
    counts = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    )
    noise = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")
    quiet = {"TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": noise}
    return {**dict.fromkeys(counts, str(threads)), **quiet, **KEEP_MEMORY}


def _attempt_on_worker(payload: bytes, point: Point, environment: dict[str, str]) -> Outcome:
    """Set the environment first, where the cluster has not: unpickling the function may import
    TensorFlow.
    """
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    try:
        function = pickle.loads(payload)
    except Exception:
        return Outcome(error=f"the worker cannot load the function:\n{traceback.format_exc()}")
    return _attempt(function, point)


def _attempt(function: Callable[..., Any], point: Point) -> Outcome:
    """One run, whatever becomes of it."""
    start = time.perf_counter()
    try:
        result = encode(function(**point), reserved={*point, "seconds"})
        return Outcome(Record(result, time.perf_counter() - start))
    except (Exception, SystemExit):
        return Outcome(error=traceback.format_exc())


@contextmanager
def _local_cluster(
    jobs: int, workers: int | None, threads: int, retries: int, environment: dict[str, str]
) -> Iterator[Any]:
    """Processes of this machine, each with one run at a time; no dashboard, nothing heard beyond
    the loopback.
    """
    import dask
    from dask.distributed import LocalCluster
    from dask.system import CPU_COUNT

    scratch = tempfile.TemporaryDirectory(prefix="mogp-sweep-", ignore_cleanup_errors=True)
    settings = {
        "temporary-directory": scratch.name,
        "distributed.scheduler.allowed-failures": retries,
        "distributed.scheduler.worker-saturation": (
            1.0
        ),  # a dying worker then takes no run with it but its own
        "distributed.comm.timeouts.connect": "60s",
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with (
        scratch,
        dask.config.set(settings),
        _environment(environment),
        _main_not_run_again(),
        LocalCluster(
            n_workers=min(jobs, workers or max(1, CPU_COUNT // threads)),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Settings that workers inherit, also those started later in place of dead ones; undone in the
    end.
    """
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _main_not_run_again() -> Iterator[None]:
    """Start workers without the main script.

    A new process begins by importing the script that was started, and a script that calls `sweep`
    outside of `if __name__ == "__main__"` would start another sweep there. Functions of the script
    travel by value, so nothing is lost when its whereabouts are hidden meanwhile.
    """
    main = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {
        name: main.pop(name) for name in ("__file__", "__spec__") if name in main
    }
    main["__spec__"] = None
    try:
        yield
    finally:
        del main["__spec__"]
        main.update(hidden)
