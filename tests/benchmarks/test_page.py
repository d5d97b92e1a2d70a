"""The page of speed ratios says what the benchmarks printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`benchmarks/run.py`, imported as it is when it is run in its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import run

    yield run
    for name in ("run", "common"):
        sys.modules.pop(name, None)


def test_a_printed_ratio_is_read_back(bench: ModuleType) -> None:
    from common import Result, Timing, ratio_line

    times = {"mogp": [Timing(1.0, 0.001), Timing(2.0, 0.003)], "GPflow": [Timing(8.0, 0.004), Timing(4.0, 0.004)]}
    line = ratio_line("LMC step time, mogp / GPflow", times, "mogp", "GPflow", "step", target="<= 1/3")
    expected = Result("LMC step time, mogp / GPflow", "0.50", "<= 1/3", "mogp 2.0 ms", "GPflow 4.0 ms")
    assert Result.read(line + "\n") == expected


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("OvsE-F step, 1000 classes / 10: 1.02 (target < 1.5)", ("OvsE-F step, 1000 classes / 10", "1.02", "< 1.5")),
        ("peak memory: 1.10 GiB (target < 2)  [loss after 3 steps 5]", ("peak memory", "1.10 GiB", "< 2")),
        ("9 outputs: peak 3.8 GiB (target <= 8), bound 1 -> 2 (target: rises)", ("9 outputs", "3.8 GiB", "<= 8")),
        (
            "step, 2 counts / 1: 1.1 (target about 1)  [3 ms, 2 ms]",
            ("step, 2 counts / 1", "1.1", "about 1", "3 ms", "2 ms"),
        ),
        ("RM-F          10 classes:      3.1 ms a step", None),
        ("memory, over that of A (3.0 MB; target <= 1):", None),
    ],
)
def test_lines_with_a_target_are_results_and_others_are_not(line: str, read: tuple[str, ...] | None, bench) -> None:
    from common import Result

    assert Result.read(line) == (Result(*read) if read else None)


def test_a_page_is_written_between_its_marks_and_again(bench: ModuleType) -> None:
    from common import Result

    page = f"# Speed\n\n{bench.BEGIN}\nold\n{bench.END}\n\nThe rest.\n"
    first = bench.with_results(page, bench.section([Result("a / b", "0.50", "none", "a 1 ms", "b 2 ms")], ["lmc_step"]))
    assert "| a / b | a 1 ms | b 2 ms | 0.50 |  |" in first.splitlines()
    assert "old" not in first
    assert "`gplar_step`" in first  # was not run: said
    second = bench.with_results(
        first, bench.section([Result("c / d", "2 GiB", "<= 1")], bench.BENCHMARKS, ["lmc_step"])
    )
    assert "| c / d |  |  | 2 GiB | <= 1 |" in second.splitlines()
    assert "a / b" not in second
    assert "Failed: `lmc_step`." in second
    for text in (first, second):
        assert text.startswith("# Speed\n")
        assert text.endswith(f"{bench.END}\n\nThe rest.\n")


@pytest.mark.parametrize(("load", "busy"), [(0.1, False), (2.9, True)])
def test_a_page_says_when_the_machine_was_busy(load: float, busy: bool, bench: ModuleType) -> None:
    said = bench.section([], bench.BENCHMARKS, load=load)
    assert f"Load when the run began: {load}." in said
    assert ("busy with other work" in said) == busy


def test_a_page_without_marks_is_refused(bench: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no place for results"):
        bench.with_results("# Speed\n", "")


def test_the_speed_page_has_a_place_for_results_and_every_benchmark_a_file(bench: ModuleType) -> None:
    page = (ROOT / "chapters" / "guide" / "speed.md").read_text(encoding="utf-8")
    assert bench.with_results(page, "x") != page
    assert all((ROOT / "benchmarks" / f"{name}.py").is_file() for name in bench.BENCHMARKS)
