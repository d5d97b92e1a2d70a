"""Runs chapters in parallel, those whose run key changed, and keeps the last good result.

A run is staged beside the results and takes the place of the old one in a rename, after its last
cell succeeded. A lock for each chapter keeps two runs of it apart: the second waits, and then finds
nothing left to do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mogp import project
from mogp.book import ledger, provenance, records, results, runkey, sources, staging
from mogp.book.errors import CompanionError, unknown
from mogp.book.notebooks import compose, write_notebook
from mogp.book.sources import ChapterSource
from mogp.files import read_json, write_atomically, write_json

_MOST_JOBS = 4


@dataclass(frozen=True)
class ChapterFailure:
    """The cell that failed and its traceback; `cell` is None when the kernel itself died."""

    cell: int | None
    source: str
    traceback: str


@dataclass(frozen=True)
class Outcome:
    """What became of one chapter.

    `state` is "ran", "unchanged" or "failed"; `why` says which inputs had changed.
    """

    chapter: str
    state: str
    seconds: float
    why: str = ""
    failure: ChapterFailure | None = None


class Watcher:
    """Told of progress, from several threads; this one says nothing."""

    def waiting(self, chapter: str) -> None:
        """Another run of the chapter is under way."""

    def started(self, chapter: str, cells: int, why: str) -> None:
        """A chapter starts."""

    def reached(self, chapter: str, cell: int) -> None:
        """A cell of it starts."""

    def ended(self, outcome: Outcome) -> None:
        """It is over."""


def run(
    chapters: Sequence[str],
    *,
    profile: str = "quick",
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    force: bool = False,
    record: bool = False,
    cluster: str | None = None,
    build: Path | None = None,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Run chapters by key, and return what became of each, in the order given.

    `parameters` override those of the notebooks. `jobs` chapters run at a time, each with its share
    of the cores. `force` runs unchanged chapters too. `record` keeps the numbers in
    `data/results/`. `cluster` is the address of a Dask scheduler for the chapters' sweeps.
    """
    if record and parameters:
        raise CompanionError(
            "a record is of the chapter's own parameters: leave out --record, or the parameters."
        )
    plans = [_Plan.of(chapter, profile, parameters or {}) for chapter in sources.select(chapters)]
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    jobs = jobs or max(1, min(cores, _MOST_JOBS, len(plans)))
    session = _Session(
        build=build or project.build_folder(),
        environment=_environment(max(1, cores // jobs), cluster),
        watcher=watcher or Watcher(),
        force=force,
        record=record,
    )
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(session.run, plan) for plan in plans]
        try:
            pending = set(futures)
            while pending:
                pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED).not_done
        except BaseException:
            session.stop()
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


@dataclass(frozen=True)
class _Plan:
    """One chapter to run: its notebook as read now, and all its parameters.

    `given` are the parameters that differ from the notebook's.
    """

    source: ChapterSource
    notebook: Any
    parameters: Mapping[str, Any]
    given: Mapping[str, Any]

    @classmethod
    def of(cls, source: ChapterSource, profile: str, parameters: Mapping[str, Any]) -> _Plan:
        """Read a chapter, and check what it is asked to do."""
        notebook = source.notebook()
        own = sources.parameters(notebook)
        chosen = {"profile": profile, **parameters}
        for name in chosen:
            if name not in own:
                listed = ", ".join(f"{key}={value!r}" for key, value in own.items()) or "none"
                raise unknown(
                    f"parameter of chapter {source.key}",
                    name,
                    own,
                    f"Its parameters are: {listed}.",
                )
        if chosen["profile"] not in ledger.PROFILES:
            raise unknown("profile", str(chosen["profile"]), ledger.PROFILES)
        given = {name: value for name, value in chosen.items() if value != own[name]}
        return cls(source, notebook, {**own, **chosen}, given)

    @property
    def text(self) -> str:
        """The hash of everything in the notebook, prose included."""
        cells = [(cell.cell_type, cell.source, cell.metadata) for cell in self.notebook.cells]
        return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


@dataclass
class _Session:
    """What the chapters of one call to `run` share."""

    build: Path
    environment: Mapping[str, str]
    watcher: Watcher
    force: bool
    record: bool
    _stopping: threading.Event = field(default_factory=threading.Event)
    _workers: set[subprocess.Popen[str]] = field(default_factory=set)

    def stop(self) -> None:
        """End every worker at once."""
        self._stopping.set()
        for worker in list(self._workers):
            _hang_up(worker)

    def run(self, plan: _Plan) -> Outcome:
        """Run one chapter unless it is unchanged."""
        key = plan.source.key
        with self._locked(key):
            begun = time.perf_counter()
            staging.recover(self.build, key)
            now = runkey.before_run(key, plan.notebook, plan.parameters)
            why = self._why(key, now)
            if why:
                self.watcher.started(key, len(plan.notebook.cells), why)
                failure = self._execute(plan, now)
            else:
                failure = None
                self._refresh(plan)
            if self.record and failure is None:
                records.write_record(results.result_folder(self.build, key))
            state = "failed" if failure else "ran" if why else "unchanged"
            outcome = Outcome(key, state, time.perf_counter() - begun, why, failure)
        self.watcher.ended(outcome)
        return outcome

    def _why(self, key: str, now: Mapping[str, str]) -> str:
        """Why the chapter must run, in words; empty where its last good result stands."""
        note = results.run_note(self.build, key)
        if note is None:
            return "first run"
        current = {**now, **runkey.after_run(note["data"], note["artefacts"], note["claims"])}
        changed = runkey.why_run(note["key"], current)
        return f"changed: {changed}" if changed else "forced" if self.force else ""

    def _execute(self, plan: _Plan, now: Mapping[str, str]) -> ChapterFailure | None:
        """Run the notebook in a staging folder, and keep it when all went well."""
        import nbformat

        key, begun = plan.source.key, time.perf_counter()
        stage = staging.new_stage(self.build, key)
        try:
            nbformat.write(plan.notebook, stage / "source.ipynb")
            failure = self._work(plan, stage)
            chapter = read_json(stage / "chapter.json") or {"chapter": key, "data": []}
            if failure is None and chapter["chapter"] != key:
                failure = ChapterFailure(
                    None,
                    "",
                    f"the notebook of {key} calls itself {chapter['chapter']}: correct Chapter(…).",
                )
            if failure is not None:
                self._keep_failed(stage, key)
                return failure
            executed = nbformat.read(stage / "executed.ipynb", as_version=4)
            artefacts, claims = (
                [p.stem for p in (stage / kind).glob("*.json")] for kind in ("artefacts", "claims")
            )
            note = {
                "chapter": key,
                "title": plan.source.title,
                "profile": plan.parameters["profile"],
                "parameters": plan.parameters,
                "seconds": round(time.perf_counter() - begun, 1),
                "date": provenance.now(),
                "machine": provenance.machine(),
                "versions": provenance.versions(),
                "data": chapter["data"],
                "artefacts": sorted(artefacts),
                "claims": sorted(claims),
                "key": {**now, **runkey.after_run(chapter["data"], artefacts, claims)},
                "text": plan.text,
            }
            write_notebook(stage / "notebook.ipynb", compose(plan.notebook, executed))
            write_json(stage / "run.json", note)
            for scaffold in ("source.ipynb", "executed.ipynb", "chapter.json"):
                (stage / scaffold).unlink(missing_ok=True)
            shutil.rmtree(stage / "scratch", ignore_errors=True)
            stage.chmod(0o755)
            staging.swap_in(self.build, key, stage)
            return None
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _work(self, plan: _Plan, stage: Path) -> ChapterFailure | None:
        """Run the worker and follow its events."""
        key = plan.source.key
        job = {
            "folder": str(stage),
            "parameters": dict(plan.given),
            "cwd": str(project.book_root()),
        }
        environment = {
            **self.environment,
            "MOGP_CHAPTER_OUT": str(stage),
            "MOGP_BUILD": str(self.build),
            "IPYTHONDIR": str(stage / "scratch" / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(stage / "scratch" / "runtime"),
        }
        with tempfile.TemporaryFile("w+") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "mogp.book.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
            self._workers.add(worker)
            failure = None
            try:
                if self._stopping.is_set():
                    raise KeyboardInterrupt
                assert worker.stdin is not None
                assert worker.stdout is not None
                with contextlib.suppress(BrokenPipeError):
                    worker.stdin.write(json.dumps(job) + "\n")
                    worker.stdin.flush()
                for line in worker.stdout:
                    event = json.loads(line)
                    if "cell" in event:
                        self.watcher.reached(key, event["cell"])
                    else:
                        failure = ChapterFailure(**event["failed"])
                code = worker.wait()
            finally:
                _hang_up(worker)
                worker.wait()
                self._workers.discard(worker)
            if failure is None and code != 0:
                log.seek(0)
                ended = f"signal {-code}" if code < 0 else f"exit code {code}"
                said = f"{log.read()[-4000:]}\nThe run of {key} ended with {ended}.".strip()
                failure = ChapterFailure(None, "", said)
            return failure

    def _refresh(self, plan: _Plan) -> None:
        """Take over prose that changed since the run: the code and its outputs are the same."""
        import nbformat

        folder = results.result_folder(self.build, plan.source.key)
        note = read_json(folder / "run.json")
        if note["text"] != plan.text:
            executed = nbformat.read(folder / "notebook.ipynb", as_version=4)
            write_notebook(folder / "notebook.ipynb", compose(plan.notebook, executed))
            write_json(folder / "run.json", {**note, "title": plan.source.title, "text": plan.text})

    def _keep_failed(self, stage: Path, key: str) -> None:
        """Keep the notebook of a failed run for inspection, away from the results."""
        if (stage / "executed.ipynb").is_file():
            write_atomically(
                self.build / "failed" / f"{sources.slug(key)}.ipynb",
                (stage / "executed.ipynb").read_bytes(),
            )

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        from filelock import FileLock, Timeout

        (self.build / "chapters").mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.build / "chapters" / f".{sources.slug(key)}.lock")
        told = False
        while True:
            try:
                lock.acquire(timeout=0.5)
                break
            except Timeout:
                if self._stopping.is_set():
                    raise KeyboardInterrupt from None
                if not told:
                    self.watcher.waiting(key)
                told = True
        try:
            yield
        finally:
            lock.release()


def _environment(threads: int, cluster: str | None) -> dict[str, str]:
    """The environment of a worker: this one, quiet, repeatable, with its share of the cores."""
    package = str(Path(__file__).resolve().parents[2])
    path = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    share = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    )
    return {
        **{name: value for name, value in os.environ.items() if name != "MPLBACKEND"},
        **dict.fromkeys(share, str(threads)),
        **({"MOGP_CLUSTER": cluster} if cluster else {}),
        "MOGP_BOOK": str(project.book_root()),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(path),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }


def _hang_up(worker: subprocess.Popen[str]) -> None:
    """Close the worker's standard input, which tells it to end."""
    with contextlib.suppress(OSError, ValueError):
        if worker.stdin is not None:
            worker.stdin.close()
