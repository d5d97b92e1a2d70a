"""Runs are incremental, parallel, and leave either the last good result or a newer one, whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from mogp.book import CompanionError, results, runkey, runner, staging

ROOT = Path(__file__).resolve().parents[2]
package_hash = runkey.package_hash
TABLES = """\
import time
import pandas as pd
from mogp.book import Chapter

chapter = Chapter("ma/3", profile=profile, seed=seed)
chapter.table("ma-table-3-1", pd.DataFrame({"x": [seed, seed + 1]}))
time.sleep(0.4)
"""
SECOND = 'chapter.table("ma-alg-1", pd.DataFrame({"step": ["a", "b"]}))\ntime.sleep(0.4)'


def states(outcomes: list[runner.Outcome]) -> list[tuple[str, str]]:
    return [(outcome.chapter, outcome.state) for outcome in outcomes]


def outputs(build: Path, chapter: str) -> str:
    notebook = nbformat.read(results.result_folder(build, chapter) / "notebook.ipynb", as_version=4)
    return "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()) if "text" in output
    )


@pytest.fixture(autouse=True)
def settled_package(monkeypatch):
    """Runs in this process see a package that nobody edits."""
    monkeypatch.setattr(runkey, "package_hash", lambda: "settled")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Starts the `mogp` command from a copy of the package that nobody edits."""
    copy = tmp_path_factory.mktemp("package")
    for part in ("mogp", "data"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "mogp.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(copy)},
            cwd=copy,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


def leftovers(build: Path) -> list[str]:
    return [path.name for path in (build / "chapters").iterdir() if "stage" in path.name or "previous" in path.name]


def test_a_chapter_runs_again_exactly_when_something_it_depends_on_changed(write_chapter, build, monkeypatch):
    write_chapter("ma/1", "print('seed is', seed)")
    assert states(runner.run(["ma/1"])) == [("ma/1", "ran")]
    assert "seed is 0" in outputs(build, "ma/1")

    unchanged = [runner.run(["ma/1"])[0] for _ in range(3)]
    assert {outcome.state for outcome in unchanged} == {"unchanged"}
    assert min(outcome.seconds for outcome in unchanged) < 0.5

    write_chapter("ma/1", "print('seed is', seed)", prose="Other words.")
    assert states(runner.run(["ma/1"])) == [("ma/1", "unchanged")]
    notebook = nbformat.read(results.result_folder(build, "ma/1") / "notebook.ipynb", as_version=4)
    assert "Other words." in notebook.cells[0].source
    assert "seed is 0" in outputs(build, "ma/1")

    (parameter,) = runner.run(["ma/1"], parameters={"seed": 7})
    assert parameter.why == "changed: parameters"
    assert "seed is 7" in outputs(build, "ma/1")

    monkeypatch.setattr(runkey, "package_hash", lambda: "another package")
    (package,) = runner.run(["ma/1"], parameters={"seed": 7})
    assert package.why == "changed: package"

    write_chapter("ma/1", "print('the seed is', seed)")
    (code,) = runner.run(["ma/1"], parameters={"seed": 7})
    assert code.why == "changed: code"


def test_source_hash_follows_names_and_contents_of_python_files_only(tmp_path):
    (tmp_path / "part").mkdir()
    file = tmp_path / "part" / "a.py"
    file.write_text("x = 1\n")
    first = runkey.source_hash(tmp_path)
    (tmp_path / "part" / "a.pyc").write_bytes(b"compiled")
    assert runkey.source_hash(tmp_path) == first
    file.write_text("x = 2\n")
    second = runkey.source_hash(tmp_path)
    file.rename(tmp_path / "part" / "b.py")
    assert len({first, second, runkey.source_hash(tmp_path)}) == 3


def test_the_package_hash_is_of_the_whole_package(monkeypatch):
    monkeypatch.setattr(runkey, "source_hash", str)
    assert package_hash() == str(ROOT / "mogp")


def test_a_stand_in_is_outdated_when_the_real_data_can_be_had(book, monkeypatch):
    from mogp.datasets import store

    use = {"name": "motor", "source": "stand-in", "sha256": "", "options": {}}
    monkeypatch.setattr(store, "find", lambda file: None)
    absent = runkey.after_run([use], [], [])
    assert runkey.after_run([use], [], []) == absent
    monkeypatch.setattr(store, "find", lambda file: Path("here"))
    assert runkey.why_run(absent, runkey.after_run([use], [], [])) == "data"


def test_real_data_are_outdated_when_the_registry_names_other_bytes(book):
    from mogp import project

    (book / "data").mkdir()
    for name in ("artefacts.csv", "claims.csv", "registry.csv"):
        (book / "data" / name).write_bytes((project.data_folder() / name).read_bytes())
    use = {"name": "motor", "source": "real", "sha256": "", "options": {}}
    before = runkey.after_run([use], ["ma-fig-2-1"], ["ma-2-c1"])
    registry = book / "data" / "registry.csv"
    registry.write_text(registry.read_text().replace("cdd2491b", "00000000"))
    assert runkey.why_run(before, runkey.after_run([use], ["ma-fig-2-1"], ["ma-2-c1"])) == "data"


def test_a_changed_row_of_the_ledger_outdates_the_chapters_that_show_it(book, monkeypatch):
    from dataclasses import replace

    from mogp.book import ledger

    before = runkey.after_run([], ["ma-fig-2-1"], ["ma-2-c1"])
    row = ledger.claim("ma-2-c1")
    monkeypatch.setattr(ledger, "claim", lambda identifier: replace(row, published="other"))
    assert runkey.why_run(before, runkey.after_run([], ["ma-fig-2-1"], ["ma-2-c1"])) == "ledger"


def test_a_failed_chapter_tells_its_cell_and_keeps_the_last_good_result(write_chapter, build, command):
    write_chapter("ma/1", "print('good')")
    write_chapter("ma/2", "print('other')")
    runner.run(["ma/1"])
    note = results.run_note(build, "ma/1")
    write_chapter("ma/1", "print('bad')", "value = 1 / 0")
    process = command("run", "ma/1", "ma/2")
    shown = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    for part in ("ma/1 failed, cell 4", "value = 1 / 0", "ZeroDivisionError", "1 of 2 failed: ma/1"):
        assert part in shown
    assert results.run_note(build, "ma/1") == note
    assert "good" in outputs(build, "ma/1")
    assert "other" in outputs(build, "ma/2")
    assert (build / "failed" / "ma-1.ipynb").is_file()
    assert leftovers(build) == []


def test_a_kernel_that_dies_is_a_failure_with_a_reason(write_chapter):
    write_chapter("ma/1", "import os\nos._exit(3)")
    (outcome,) = runner.run(["ma/1"])
    assert outcome.state == "failed"
    assert "Kernel died" in outcome.failure.traceback


@pytest.mark.parametrize(("depth", "transport"), [(0, "ipc"), (100, "tcp")])
def test_kernels_use_sockets_of_their_own_and_clear_them_away(write_chapter, build, monkeypatch, depth, transport):
    """A port of TCP may be taken between choosing and binding it; it is used only where a socket's path is too long."""
    told = "from ipykernel.kernelapp import IPKernelApp\nprint('by', IPKernelApp.instance().transport)"
    with tempfile.TemporaryDirectory() as short:
        folder = Path(short, "x" * depth) if depth else Path(short)
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("TMPDIR", str(folder))
        write_chapter("ma/1", told)
        write_chapter("ma/2", told, "1 / 0")
        assert [state for _, state in states(runner.run(["ma/1", "ma/2"]))] == ["ran", "failed"]
        assert f"by {transport}" in outputs(build, "ma/1")
        assert [path.name for path in folder.iterdir() if path.name.startswith("mogp-")] == []


def test_a_notebook_that_takes_another_chapters_name_is_a_failure(write_chapter, build):
    write_chapter("ma/1", 'from mogp.book import Chapter\nChapter("ma/2")')
    (outcome,) = runner.run(["ma/1"])
    assert "the notebook of ma/1 calls itself ma/2" in outcome.failure.traceback
    assert results.run_note(build, "ma/1") is None


def test_chapters_share_the_cores_and_run_this_interpreter_whatever_kernels_are_installed(
    write_chapter, build, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "jupyter" / "kernels" / "python3"
    elsewhere.mkdir(parents=True)
    elsewhere.joinpath("kernel.json").write_text(json.dumps({"argv": ["/nonexistent"], "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("MPLBACKEND", "svg")
    tell = """\
import json, os, sys
names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_CPP_MIN_LOG_LEVEL", "MOGP_CLUSTER")
print(json.dumps([sys.executable, *map(os.environ.get, names), "inline" in os.environ.get("MPLBACKEND", "")]))"""
    write_chapter("ma/1", tell)
    write_chapter("panos/1", tell)
    outcomes = runner.run(["panos/1", "ma/1"], jobs=2, cluster="tcp://127.0.0.1:1")
    assert states(outcomes) == [("panos/1", "ran"), ("ma/1", "ran")]
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    expected = [sys.executable, share, share, "2", "tcp://127.0.0.1:1", True]
    assert [json.loads(outputs(build, key)) for key in ("ma/1", "panos/1")] == [expected, expected]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"parameters": {"sed": 1}},
            r"parameter of chapter ma/1 'sed'; did you mean: seed\. .*profile='quick', seed=0",
        ),
        ({"profile": "quik"}, "unknown profile 'quik'; did you mean: quick"),
        ({"parameters": {"seed": 1}, "record": True}, "leave out --record"),
    ],
)
def test_wrong_requests_run_nothing(write_chapter, build, options, message):
    write_chapter("ma/1")
    with pytest.raises(CompanionError, match=message):
        runner.run(["ma/1"], **options)
    assert not build.exists()


def test_an_artefact_gets_an_anchor_before_its_cell(write_chapter, build):
    write_chapter("ma/3", TABLES, "# %% [markdown]\n# Words.", SECOND)
    runner.run(["ma/3"])
    notebook = nbformat.read(results.result_folder(build, "ma/3") / "notebook.ipynb", as_version=4)
    sources = [cell.source for cell in notebook.cells]
    assert '<span id="cell-ma-table-3-1"></span>' in sources[sources.index(TABLES.strip()) - 1]
    assert sources[sources.index(SECOND) - 1] == 'Words.\n\n<span id="cell-ma-alg-1"></span>'
    assert str(build) not in nbformat.writes(notebook)


def test_a_run_killed_at_any_point_leaves_no_half_result_and_the_next_gives_the_same_tables(
    write_chapter, build, command
):
    write_chapter("ma/3", TABLES, SECOND)
    rng = random.Random(0)
    folder = results.result_folder(build, "ma/3")
    for _ in range(3):
        process = command("run", "ma/3", "--force")
        time.sleep(rng.uniform(0.8, 4.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if folder.exists():
            assert sorted(p.name for p in folder.iterdir()) == ["artefacts", "claims", "notebook.ipynb", "run.json"]
            assert sorted(p.stem for p in folder.glob("artefacts/*.csv")) == ["ma-alg-1", "ma-table-3-1"]
    assert states(runner.run(["ma/3"], force=True)) == [("ma/3", "ran")]
    assert folder.joinpath("artefacts", "ma-table-3-1.csv").read_text() == "x\n0\n1\n"
    assert folder.joinpath("artefacts", "ma-alg-1.csv").read_text() == "step\na\nb\n"
    assert leftovers(build) == []
    assert _ends(lambda: _running_in(build) == [])


def test_an_interrupt_ends_the_run_at_once_and_keeps_the_last_good_result(write_chapter, build, command):
    write_chapter("ma/1", "print('good')")
    runner.run(["ma/1"])
    write_chapter("ma/1", "import time", "open('started', 'w').close(); time.sleep(60)")
    process = command("run", "ma/1")
    assert _ends((build.parent / "book" / "started").exists)
    process.send_signal(signal.SIGINT)
    shown = process.communicate(timeout=40)[0]
    assert process.returncode == 130
    assert "interrupted; the last good results are in place" in shown
    assert "good" in outputs(build, "ma/1")
    assert leftovers(build) == []
    assert _ends(lambda: _running_in(build) == [])


def test_two_runs_at_once_do_the_work_once(write_chapter, build, command):
    write_chapter("ma/1", "import time\nwith open('count', 'a') as file: file.write('x')\ntime.sleep(1.5)")
    both = [command("run", "ma/1"), command("run", "ma/1")]
    shown = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert (build.parent / "book" / "count").read_text() == "x"
    assert sorted("unchanged" in text for text in shown) == [False, True]


def test_a_result_caught_in_the_swap_comes_back(write_chapter, build):
    write_chapter("ma/1", "print('good')")
    runner.run(["ma/1"])
    results.result_folder(build, "ma/1").rename(staging.previous_folder(build, "ma/1"))
    (build / "chapters" / ".ma-1.stage-stale").mkdir()
    assert states(runner.run(["ma/1"])) == [("ma/1", "unchanged")]
    assert "good" in outputs(build, "ma/1")
    assert leftovers(build) == []


def _running_in(build: Path) -> list[int]:
    """Processes started for runs in this build."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MOGP_CHAPTER_OUT", "").startswith(str(build)):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def _ends(condition, seconds: float = 15.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False
