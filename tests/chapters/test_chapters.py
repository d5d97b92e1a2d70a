"""Every chapter runs at smoke scale, makes what it owes, and comes to the recorded verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

from mogp.book import ledger, records, results, runner
from mogp.book.report import changed_verdicts, missing_artefacts, report
from mogp.book.sources import chapters


def recorded_seconds(key: str) -> float:
    """What a chapter took when it was recorded; one without a record may take long."""
    record = records.recorded(key).get("smoke")
    return record.seconds if record else np.inf


KEYS = sorted((chapter.key for chapter in chapters()), key=recorded_seconds, reverse=True)
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of all workers: what one of them has run, the others find there."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "all-chapters"


def run(keys: list[str], folder: Path) -> None:
    """Run those chapters that no worker has run."""
    outcomes = [o for key in keys for o in runner.run([key], profile="smoke", jobs=WORKERS, build=folder)]
    failures = {o.chapter: o.failure for o in outcomes if o.state == "failed"}
    assert not failures, failures


@pytest.fixture(scope="module", params=KEYS)
def chapter(request: pytest.FixtureRequest, folder: Path) -> str:
    """A chapter, run in the smoke profile."""
    run([request.param], folder)
    return request.param


@pytest.fixture(scope="module")
def build(folder: Path) -> Path:
    """A build folder with every chapter run in the smoke profile."""
    run(KEYS, folder)
    return folder


def test_no_cell_of_a_chapter_shows_an_error_or_a_warning(chapter, folder):
    notebook = nbformat.read(results.result_folder(folder, chapter) / "notebook.ipynb", as_version=4)
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    loud = [o for o in outputs if o.output_type == "error" or (o.output_type == "stream" and o.name == "stderr")]
    assert not loud, f"{chapter}: {loud[0]}"


def test_finished_chapters_make_every_artefact_they_owe(build):
    assert missing_artefacts(build) == {}


def test_verdicts_of_any_scale_claims_are_the_recorded_ones(build):
    assert changed_verdicts(build, "smoke", any_scale=True) == []


def test_a_chapter_that_turned_a_verdict_would_be_noticed(build, monkeypatch):
    verdict = next(v for v in results.verdicts(build) if ledger.claim(v["id"]).any_scale)
    record = records.recorded(verdict["chapter"])["smoke"]
    turned = {**record.claims, verdict["id"]: {**record.claims[verdict["id"]], "holds": not verdict["holds"]}}
    changed = {"smoke": type(record)(**{**vars(record), "claims": turned})}
    monkeypatch.setattr(records, "recorded", lambda key: changed if key == verdict["chapter"] else {})
    assert verdict["id"] in {c.id for c in changed_verdicts(build, "smoke", any_scale=True)}


def test_the_report_lists_every_row_of_the_ledgers_once(build):
    found = report(build).as_dict()
    artefacts, claims = ({row["id"] for row in found[kind]} for kind in ("artefacts", "claims"))
    assert len(artefacts) == len(found["artefacts"])
    assert len(claims) == len(found["claims"])
    assert len([a for a in artefacts if ledger.artefact(a).kind != "finding"]) == 202
    assert len([c for c in claims if ledger.claim(c).kind != "finding"]) == 236
    assert all(a["status"] and (a["status"] in ("regenerated",) or a["why"]) for a in found["artefacts"])


def test_an_unchanged_chapter_is_not_run_again_and_costs_no_import(build):
    outcomes = runner.run(KEYS[:1], profile="smoke", build=build)
    assert [o.state for o in outcomes] == ["unchanged"]
    code = "import sys, mogp.cli, mogp.book.runner; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
