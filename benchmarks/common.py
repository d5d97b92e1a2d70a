"""Shared by the benchmarks: interleaved runs, medians, and results printed in one form, and read back from it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REPEATS = int(os.environ.get("MOGP_BENCH_REPEATS", "7"))


@dataclass(frozen=True)
class Timing:
    """Seconds to the end of the first call (tracing included), and seconds a later call."""

    first: float
    step: float

    @classmethod
    def of(cls, call: Callable[[], object], repeats: int) -> Timing:
        began = time.perf_counter()
        _wait(call())
        first = time.perf_counter() - began
        _wait(call())
        laps = []
        for _ in range(repeats):
            began = time.perf_counter()
            _wait(call())
            laps.append(time.perf_counter() - began)
        return cls(first, float(np.median(laps)))


def _wait(value: object) -> None:
    if hasattr(value, "numpy"):
        value.numpy()


def one_thread() -> None:
    """One TensorFlow thread, so that ratios do not depend on the number of cores."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def interleaved(runs: dict[str, Callable[[], Timing]]) -> dict[str, list[Timing]]:
    """Every contender once a round, so that other work on the machine hits all alike; the first round warms up."""
    times: dict[str, list[Timing]] = {name: [] for name in runs}
    for round_number in range(REPEATS + 1):
        for name, run in runs.items():
            timing = run()
            if round_number:
                times[name].append(timing)
    return times


def ratio_line(title: str, times: dict[str, list[Timing]], ours: str, peer: str, what: str, target: str) -> str:
    """`title: ratio (target …)  [ours … ms, peer … ms]`, medians over the rounds."""
    own, other = (np.median([getattr(t, what) for t in times[name]]) for name in (ours, peer))
    return f"{title}: {own / other:.2f} (target {target})  [{ours} {own * 1e3:.1f} ms, {peer} {other * 1e3:.1f} ms]"


@dataclass(frozen=True)
class Result:
    """A printed line: what was compared, the ratio (or a size, with its unit), its target, and both times if given."""

    comparison: str
    value: str
    target: str
    ours: str = ""
    peer: str = ""

    @classmethod
    def read(cls, line: str) -> Result | None:
        """The result that a line of the form of `ratio_line` states; None for any other line."""
        found = _LINE.match(line)
        if found is None:
            return None
        ours, _, peer = (found["times"] or "").rpartition(" ms, ")
        return cls(found["title"], found["value"], found["target"], ours and f"{ours} ms", peer)


_LINE = re.compile(
    r"(?P<title>\S.*): (?:peak )?(?P<value>[\d.]+(?: [KMG]i?B)?) \(target (?P<target>[^)]*)\)"
    r"(?:  \[(?P<times>[^]]* ms, [^]]* ms)\])?"
)
