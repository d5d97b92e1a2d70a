"""Draws and judges the simulated data sets that have no row yet.

python -m calibration.run                                  all of them: about half an hour
python -m calibration.run --families lmc-joint,gpar        some families
python -m calibration.run --budget 10min                   stops by itself; call it again to go on
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
from check_shapes import disable_check_shapes

from calibration.drawn import Family
from calibration.results import SIMULATED, append, read

ROUND = 100
"""Data sets of a family before the next family has its turn."""
AT_ONCE = 20


def main() -> None:
    """Read the command line and run."""
    from defaults.run import seconds

    from calibration.families import FAMILIES

    parser = argparse.ArgumentParser(description="Simulation-based calibration of every family.")
    parser.add_argument("--families", help=f"some of {', '.join(FAMILIES)}")
    parser.add_argument("--budget", type=seconds, help="start no family's next data sets after this long: 90s, 20min")
    parser.add_argument("--most", type=int, default=400, help="data sets of a family, at most")
    asked = parser.parse_args()
    names = asked.families.split(",") if asked.families else list(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(FAMILIES)}.")
    run([FAMILIES[name] for name in names], SIMULATED, asked.budget, asked.most)


def run(families: Sequence[Family], file: Path, budget: float | None = None, most: int = 400) -> None:
    """Append the rows that are lacking, some at a time.

    Args:
        families: to judge.
        file: of the rows.
        budget: seconds after which nothing new is begun.
        most: data sets of a family, at most.
    """
    began = time.monotonic()
    done = read(file).groupby("family")["number"].count().to_dict()
    for start, family in product(range(0, most, ROUND), families):
        end = min(start + ROUND, family.data_sets, most)
        cpu = time.process_time()
        for first in range(max(start, done.get(family.name, 0)), end, AT_ONCE):
            if budget is not None and time.monotonic() - began > budget:
                print(f"out of time at data set {first} of {family.name}")
                return
            with disable_check_shapes():
                append(file, [row(family, number) for number in range(first, min(first + AT_ONCE, end))])
        if time.process_time() - cpu > 1:
            print(f"{family.name}: {end} ({time.process_time() - cpu:.0f} CPU s)", flush=True)


def row(family: Family, number: int) -> dict[str, object]:
    """One data set: what is drawn depends on the family and its number alone."""
    found = family.run(np.random.default_rng([crc32(family.name.encode()), number]))
    return {
        "family": family.name, "number": number, "near": found.near, "away": found.away, "rise": found.rise,
    }  # fmt: skip


if __name__ == "__main__":
    main()
