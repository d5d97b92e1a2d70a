"""Damaged files: every parser answers with a result or a `DataFormatError`, and touches nothing.

`make test` tries 200 mutants a parser, `make fuzz` and `make check` 10 000 (`MOGP_FUZZ`). A failure names the mutant's
number, from which `mutant(target, number)` makes it again, and leaves the file in the build folder.
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fuzz_targets import TARGETS, Target, mutant
from fuzz_targets_text import TARGETS as TEXT_TARGETS

from mogp import project
from mogp.datasets.formats.errors import DataFormatError

ALL = [*TARGETS, *TEXT_TARGETS]
COUNT = int(os.environ.get("MOGP_FUZZ", "200"))
SECONDS, BYTES = 5, 200 * 2**20

_deeds: list[str] | None = None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    """Notes what the interpreter does to the world beyond reading files, while `watched`."""
    if _deeds is None:
        return
    if event == "open":
        _, _, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            _deeds.append(f"{event} {arguments}")
    elif event in {"os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.system"} or (
        event.startswith(("subprocess.", "socket.", "os.exec", "os.spawn", "os.posix_spawn", "shutil.", "tempfile."))
    ):
        _deeds.append(f"{event} {arguments}")


sys.addaudithook(_audit)


@contextmanager
def watched() -> Iterator[list[str]]:
    global _deeds
    _deeds = noted = []
    try:
        yield noted
    finally:
        _deeds = None


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working folder, the folder of temporary files and the cache are all inside one that is watched."""
    for variable in ("TMPDIR", "MOGP_DATA_CACHE", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ALL, ids=lambda target: target.name)
def test_seeds_are_sound(target: Target, folder):
    for seed in target.seeds:
        path = folder / f"input{target.suffix}"
        path.write_bytes(seed)
        target.read(path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ALL, ids=lambda target: target.name)
def test_mutants_are_read_or_refused_without_side_effects(target: Target, folder):
    path = folder / f"input{target.suffix}"
    path.write_bytes(target.seeds[0])
    target.read(path)  # imports what it needs
    problems = {}
    tracemalloc.start()
    try:
        for number in range(COUNT):
            path.write_bytes(mutant(target, number))
            problem = _problem(target, path)
            if problem:
                problems[number] = problem
                _keep(path, f"{target.name}-{number}{target.suffix}")
    finally:
        tracemalloc.stop()
    shown = "\n".join(f"mutant {number}: {problem}" for number, problem in list(problems.items())[:10])
    assert not problems, f"{len(problems)} of {COUNT} mutants of {target.name}; kept in {_kept()}:\n{shown}"


def _allocates(path: Path) -> None:
    bytearray(BYTES + 1)


def _writes_beside(path: Path) -> None:
    (path.parent / "beside").write_bytes(b"")


def _writes_and_removes(path: Path) -> None:
    _writes_beside(path)
    (path.parent / "beside").unlink()


def _runs_a_command(path: Path) -> None:
    os.system("true")


def _blames_another_file(path: Path) -> None:
    raise DataFormatError("other", "is damaged")


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda path: {}["a"], "KeyError"),
        (lambda path: sys.exit(), "SystemExit"),
        (_allocates, "200 MB"),
        (_writes_beside, "side effect"),
        (_writes_and_removes, "side effect"),
        (_runs_a_command, "side effect"),
        (_blames_another_file, "does not begin with the file"),
        (lambda path: path.read_bytes(), None),
    ],
)
def test_misbehaviour_is_seen(read, problem, folder):
    (folder / "input").write_bytes(b"content")
    tracemalloc.start()
    try:
        found = _problem(Target("name", read, ()), folder / "input")
    finally:
        tracemalloc.stop()
    assert found is None if problem is None else problem in (found or "")


def _problem(target: Target, path: Path) -> str | None:
    """What is wrong with the way a file was taken, if anything."""
    tracemalloc.reset_peak()
    before, started = tracemalloc.get_traced_memory()[0], time.process_time()
    with watched() as deeds:
        try:
            target.read(path)
        except DataFormatError as error:
            if not str(error).startswith(str(path)):
                return f"an error that does not begin with the file: {error}"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return f"{type(error).__name__}: {error}"
    seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1] - before
    if deeds or os.listdir(path.parent) != [path.name]:
        return f"a side effect: {deeds} {os.listdir(path.parent)}"
    if seconds > SECONDS or peak > BYTES:
        return f"{seconds:.1f} s and {peak / 2**20:.0f} MB for a file of {path.stat().st_size} bytes"
    return None


def _kept() -> Path:
    return project.build_folder() / "fuzz"


def _keep(path: Path, name: str) -> None:
    _kept().mkdir(parents=True, exist_ok=True)
    (_kept() / name).write_bytes(path.read_bytes())
