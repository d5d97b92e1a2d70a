"""Runs every benchmark of this folder that needs no other environment; `make bench` calls it.

python run.py                          all of them
python run.py lmc_step batch_growth    some of them
python run.py --page FILE              and writes what they measured into FILE, a page of the guide
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import distributions
from pathlib import Path

from common import REPEATS, Result

BENCHMARKS = (
    "lmc_step",
    "restarts",
    "optimizer_step",
    "batch_growth",
    "class_growth",
    "label_step",
    "label_growth",
    "one_vs_each_step",
    "count_growth",
    "patch_step",
    "latent_step",
    "gplar_step",
    "data_loading",
    "floors",
    "many_outputs",
)
PACKAGES = ("gpflow", "mogp-companion", "numpy", "tensorflow", "tensorflow-cpu")
BEGIN, END = "<!-- written by benchmarks/run.py: begin -->", "<!-- written by benchmarks/run.py: end -->"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure speed, as ratios in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; all if left out")
    parser.add_argument("--page", type=Path, help="a page of the guide whose table is to be written")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(BENCHMARKS)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
    names = asked.names or BENCHMARKS
    if asked.page:
        with_results(asked.page.read_text(encoding="utf-8"), "")  # a page without a place for them: say so now
    load = os.getloadavg()[0]  # before we add to it
    results, failed = measure(names)
    if asked.page:
        text = with_results(asked.page.read_text(encoding="utf-8"), section(results, names, failed, load))
        asked.page.write_text(text, encoding="utf-8")
        print(f"wrote {len(results)} results to {asked.page}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def measure(names: Sequence[str]) -> tuple[list[Result], list[str]]:
    """The results that some benchmarks print, and the names of those that failed."""
    results: list[Result] = []
    failed = []
    for name in names:
        command = [sys.executable, f"{name}.py"]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                if result := Result.read(line):
                    results.append(result)
        if process.returncode:
            failed.append(name)
    return results, failed


def section(
    results: Sequence[Result], names: Sequence[str], failed: Sequence[str] = (), load: float | None = None
) -> str:
    """What a page says of one run: machine, date, versions, which benchmarks, and a table of their results.

    `load` is the work of others: how many processes were running when the run began.
    """
    return "\n".join([*_about(names, failed, load), "", *_table(results)])


def _about(names: Sequence[str], failed: Sequence[str], load: float | None) -> Iterator[str]:
    found = {d.name.replace("_", "-"): d.version for d in distributions()}
    packages = ", ".join(f"{name} {found[name]}" for name in PACKAGES if name in found)
    yield f"Measured on {date.today()}: {_processor()}, {os.cpu_count()} cores of which one is used,"
    yield f"Python {platform.python_version()}, {packages}; medians of {REPEATS} rounds."
    if load is not None:
        busy = " The machine was busy with other work: measure again when it is not." if load > 0.5 else ""
        yield f"Load when the run began: {load:.1f}.{busy}"
    if left_out := [name for name in BENCHMARKS if name not in names]:
        yield f"Not run: {', '.join(f'`{name}`' for name in left_out)}."
    if failed:
        yield f"Failed: {', '.join(f'`{name}`' for name in failed)}."


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield "| comparison | ours | peer | ratio | target |"
    yield "|---|---|---|---|---|"
    for r in results:
        cells = (r.comparison, r.ours, r.peer, r.value, "" if r.target == "none" else r.target)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _processor() -> str:
    """The name of the processor, as far as the system tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def with_results(page: str, written: str) -> str:
    """The page with what stands between its two marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no place for results: it needs the lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{written}\n\n{END}{after}"


if __name__ == "__main__":
    main()
