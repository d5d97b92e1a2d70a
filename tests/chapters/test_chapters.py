"""Every chapter runs at smoke scale, makes what it owes, and comes to the recorded verdicts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from mogp.book import ledger, records, results, runner
from mogp.book.report import changed_verdicts, missing_artefacts, report
from mogp.book.sources import chapters

KEYS = [chapter.key for chapter in chapters()]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with every chapter run in the smoke profile."""
    folder = tmp_path_factory.mktemp("chapters")
    outcomes = runner.run(KEYS, profile="smoke", jobs=1, build=folder)
    failures = {o.chapter: o.failure for o in outcomes if o.state == "failed"}
    assert not failures, failures
    return folder


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


def test_no_cell_shows_an_error_or_a_warning(build):
    for key in KEYS:
        notebook = nbformat.read(results.result_folder(build, key) / "notebook.ipynb", as_version=4)
        outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
        loud = [o for o in outputs if o.output_type == "error" or (o.output_type == "stream" and o.name == "stderr")]
        assert not loud, f"{key}: {loud[0]}"


def test_an_unchanged_chapter_is_not_run_again_and_costs_no_import(build):
    outcomes = runner.run(KEYS[:1], profile="smoke", build=build)
    assert [o.state for o in outcomes] == ["unchanged"]
    code = "import sys, mogp.cli, mogp.book.runner; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
