"""Seconds and peak memory to load the real data sets, and how both grow with the size of a file; `make bench` runs it.

Each load has a process of its own and an empty cache. "again" is a second load, from the cache where there is one. The
growth is measured on generated files in the format of the Extreme Classification Repository, whose largest sets
have millions of rows: ten times the rows should take ten times the time; read whole, ten times the memory; read in
chunks, the same memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MEASURE = """
import json, resource, sys, time
import numpy, pandas, scipy.io, scipy.sparse, sklearn.datasets
from pathlib import Path
from mogp import datasets
from mogp.datasets.formats.extreme import iter_extreme, read_extreme

def size(*arrays):
    return sum(a.data.nbytes + a.indices.nbytes + a.indptr.nbytes if hasattr(a, "indptr") else a.nbytes for a in arrays)

def load(name):
    dataset = datasets.load(name)
    return size(dataset.X, dataset.Y)

def whole(path):
    return size(*read_extreme(Path(path)))

def chunks(path):
    return sum(size(X, Y) for X, Y in iter_extreme(Path(path)))

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds = []
for _ in range(2):
    start = time.perf_counter()
    arrays = {"load": load, "whole": whole, "chunks": chunks}[sys.argv[1]](sys.argv[2])
    seconds.append(time.perf_counter() - start)
    if len(seconds) == 1:
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(json.dumps([*seconds, peak / 1e6, arrays / 1e6]))
"""
COLUMNS = ("files MB", "first s", "again s", "peak MB", "arrays MB")


def measured(how: str, what: str) -> list[float] | str:
    """First and second seconds, peak and size of the arrays in MB; or the last line of what went wrong."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "MOGP_DATA_CACHE": cache, "MOGP_OFFLINE": "1"}
        command = [sys.executable, "-c", MEASURE, how, what]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return run.stderr.strip().splitlines()[-1] if run.returncode else json.loads(run.stdout)


def row(name: str, megabytes: float, found: list[float] | str) -> None:
    values = found if isinstance(found, str) else "".join(f"{value:11.2f}" for value in found)
    print(f"{name:28}{megabytes:11.2f}{values}", flush=True)


def large_file(path: Path, rows: int) -> None:
    """`rows` points with about 40 of 10 000 features and 5 of 1000 labels."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="ascii") as file:
        file.write(f"{rows} 10000 1000\n")
        for _ in range(rows):
            labels = ",".join(map(str, np.unique(rng.integers(1000, size=5))))
            features = " ".join(f"{f}:{f % 97 / 97:.6f}" for f in np.unique(rng.integers(10000, size=40)))
            file.write(f"{labels} {features}\n")


def main() -> None:
    from mogp.datasets import names, store
    from mogp.datasets.registry import files

    print(f"{'':28}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name in names():
        here = [found.path for file in files(name) if (found := store.find(file))]
        if here:
            row(name, sum(path.stat().st_size for path in here) / 1e6, measured("load", name))
    with tempfile.TemporaryDirectory() as folder:
        for how in ("whole", "chunks"):
            both = []
            for rows in (20_000, 200_000):
                path = Path(folder) / f"{rows}.txt"
                if not path.is_file():
                    large_file(path, rows)
                both.append(measured(how, str(path)))
                row(f"extreme, {how}, {rows} rows", path.stat().st_size / 1e6, both[-1])
            small, large = both
            times, peaks = large[0] / small[0], large[2] / small[2]
            print(f"ten times the rows, {how}: {times:.1f} of the time, {peaks:.1f} of the peak")


if __name__ == "__main__":
    main()
