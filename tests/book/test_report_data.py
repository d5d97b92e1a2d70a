"""The report joins ledger, build and records; a changed verdict is found; records are written by runs only."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mogp.book import CompanionError, chapters, ledger, recorded, results, runner
from mogp.book.report import STATUSES, VERDICTS, changed_verdicts, missing_artefacts, report, report_frame
from mogp.book.sources import slug

DATA = {"name": "motor", "source": "real", "sha256": "0"}
STANDIN = {**DATA, "source": "stand-in"}

CHAPTER = """\
import pandas as pd
from mogp.book import Chapter

chapter = Chapter("ma/3", profile=profile, seed=seed)
chapter.table("ma-table-3-1", pd.DataFrame({{"x": [0.1, 2.0]}}))
chapter.claim("ma-3-c1", holds={holds}, measured="gap 1e-9")
"""


def leave(
    build: Path, chapter: str, *, artefacts: dict[str, Any] | None = None, claims: dict[str, Any] | None = None
) -> None:
    """Write what a run of `chapter` in profile quick would leave."""
    folder = build / "chapters" / slug(chapter)
    common = {"chapter": chapter, "profile": "quick", "data": [], "standin": False, "partial": "", "note": ""}
    for kind, notes in (("artefacts", artefacts or {}), ("claims", claims or {})):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for identifier, note in notes.items():
            (folder / kind / f"{identifier}.json").write_text(json.dumps({**common, "id": identifier, **note}))
    (folder / "run.json").write_text(json.dumps({"chapter": chapter, "profile": "quick"}))


def record(book: Path, chapter: str, profile: str, claims: dict[str, bool]) -> None:
    """Write what `--record` would keep."""
    (book / "data" / "results").mkdir(parents=True, exist_ok=True)
    kept = {i: {"holds": holds, "measured": "then", "note": "", "data": []} for i, holds in claims.items()}
    run = {"parameters": {}, "seconds": 9.0, "date": "2026-01-02T03:04:05", "machine": "m", "versions": {}, "data": []}
    content = {"chapter": chapter, "profile": profile, **run, "claims": kept, "tables": {}}
    (book / "data" / "results" / f"{slug(chapter)}.{profile}.json").write_text(json.dumps(content))


def status(build: Path, identifier: str) -> tuple[str, str]:
    (row,) = [row for row in report(build).artefacts if row.id == identifier]
    return row.status, row.why


def verdict(build: Path, identifier: str) -> Any:
    (row,) = [row for row in report(build).claims if row.id == identifier]
    return row


def test_report_of_an_empty_build_lists_everything_in_the_shape_that_was_promised(build):
    found = report(build).as_dict()
    assert list(found) == ["artefacts", "claims"]
    assert {tuple(row) for row in found["artefacts"]} == {("id", "status", "chapter", "profile", "data", "why")}
    assert {tuple(row) for row in found["claims"]} == {
        ("id", "verdict", "published", "measured", "profile", "data", "note")
    }
    own = {row.id for row in [*ledger.artefacts().values(), *ledger.claims().values()] if row.kind == "finding"}
    assert len([row for row in found["artefacts"] if row["id"] not in own]) == 202
    assert len([row for row in found["claims"] if row["id"] not in own]) == 236
    assert {row["status"] for row in found["artefacts"]} <= {"not yet", "impossible"}
    assert {row["verdict"] for row in found["claims"]} == {"not checked", "needs download"}


def test_counts_add_up(build):
    leave(build, "ma/2", artefacts={"ma-fig-2-1": {}}, claims={"ma-2-c1": {"holds": True, "measured": "1"}})
    found = report(build)
    statuses, verdicts = found.counts()
    assert (tuple(statuses), tuple(verdicts)) == (STATUSES, VERDICTS)
    assert (sum(statuses.values()), sum(verdicts.values())) == (len(found.artefacts), len(found.claims))
    assert (statuses["regenerated"], verdicts["holds"]) == (1, 1)


def test_status_of_an_artefact(build, write_chapter):
    for key in ("giraldo/3", "ma/2"):
        write_chapter(key)
    made = {
        "giraldo-fig-3-1": {"data": [DATA]},
        "giraldo-fig-3-2": {"data": [STANDIN], "standin": True, "partial": "one of two panels"},
        "giraldo-table-3-1": {"partial": "two rows of five"},
    }
    leave(build, "giraldo/3", artefacts=made)
    assert status(build, "giraldo-fig-3-1") == ("regenerated", "")
    assert status(build, "giraldo-fig-3-2") == (
        "stand-in",
        "made from a synthetic stand-in for motor; one of two panels",
    )
    assert status(build, "giraldo-table-3-1") == ("partly regenerated", "two rows of five")
    assert status(build, "giraldo-table-3-2") == ("not yet", "chapter giraldo/3 does not make it yet")
    assert status(build, "ma-fig-2-1") == ("not yet", "chapter ma/2 has not been run")
    assert status(build, "panos-fig-1-1") == ("not yet", "chapter panos/1 is not written yet")


def test_an_artefact_shown_by_its_twin_has_the_status_of_the_twin(build):
    leave(build, "hmogplv/paper", artefacts={"hmogplv-fig-1": {"partial": "no colours"}})
    assert status(build, "ma-fig-5-3") == (
        "partly regenerated",
        "shown as hmogplv-fig-1 in chapter hmogplv/paper; no colours",
    )


def test_impossible_needs_a_reason_in_the_ledger(build, book):
    rows = [
        {**vars(row), "impossible": "private" if row.id == "ma-fig-1-1" else ""} for row in ledger.artefacts().values()
    ]
    claims = [vars(row) for row in ledger.claims().values()]
    (book / "data").mkdir()
    for name, table in (("artefacts.csv", rows), ("claims.csv", claims)):
        with (book / "data" / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)
    assert status(build, "ma-fig-1-1") == ("impossible", "private")


def test_verdict_of_a_claim_with_published_and_measured(build):
    holds = {"holds": True, "measured": "0.02", "data": [DATA], "note": "on a grid"}
    leave(build, "ma/2", claims={"ma-2-c2": holds, "ma-2-c1": {"holds": False, "measured": "0.9"}})
    row = verdict(build, "ma-2-c2")
    assert (row.verdict, row.measured, row.profile, row.data, row.note) == (
        "holds",
        "0.02",
        "quick",
        "motor",
        "on a grid",
    )
    assert row.published == ledger.claim("ma-2-c2").published
    assert verdict(build, "ma-2-c1").verdict == "does not hold"


def test_a_claim_that_waits_for_data_needs_a_download(build):
    waiting = next(
        claim for claim in ledger.claims().values()
        if any(ledger.artefact(about).data_status == "download-only" for about in claim.about)
    )  # fmt: skip
    assert verdict(build, waiting.id).verdict == "needs download"
    about = "ma-fig-3-6"
    blocked = next(c for c in ledger.claims().values() if about in c.about)
    assert verdict(build, blocked.id).verdict == "not checked"
    leave(build, "ma/3", artefacts={about: {"data": [STANDIN], "standin": True}})
    assert verdict(build, blocked.id).verdict == "needs download"


def test_a_recorded_verdict_speaks_where_the_build_is_silent_and_is_noted_where_it_is_not(build, book, write_chapter):
    write_chapter("ma/2")
    record(book, "ma/2", "long", {"ma-2-c1": False})
    silent = verdict(build, "ma-2-c1")
    assert (silent.verdict, silent.profile, silent.measured) == ("does not hold", "long", "then")
    assert silent.note.startswith("recorded: long profile, 2026-01-02, 9 s on m; not checked in this build")
    leave(build, "ma/2", claims={"ma-2-c1": {"holds": True, "measured": "now"}})
    spoken = verdict(build, "ma-2-c1")
    assert (spoken.verdict, spoken.profile, spoken.measured) == ("holds", "quick", "now")
    assert "recorded: long profile, 2026-01-02, 9 s on m: does not hold, then" in spoken.note


def test_frames_carry_the_rows_of_the_ledger(build):
    artefacts, claims = report_frame(build)
    assert list(artefacts["id"]) == list(ledger.artefacts())
    assert artefacts.set_index("id").loc["ma-fig-2-1", "title"] == ledger.artefact("ma-fig-2-1").title
    assert claims.set_index("id").loc["ma-2-c1", "check"] == ledger.claim("ma-2-c1").check


def test_a_finished_chapter_owes_all_its_artefacts_and_an_unfinished_one_none(build, write_chapter):
    write_chapter("panos/1")
    write_chapter("ma/3", finished=False)
    assert missing_artefacts(build) == {"panos/1": ["panos-fig-1-1", "panos-fig-1-2"]}
    leave(build, "panos/1", artefacts={"panos-fig-1-1": {}})
    assert missing_artefacts(build) == {"panos/1": ["panos-fig-1-2"]}
    leave(build, "panos/1", artefacts={"panos-fig-1-2": {}})
    assert missing_artefacts(build) == {}
    assert "ma-fig-3-1" in missing_artefacts(build, ["ma/3"])["ma/3"]


def test_changed_new_and_vanished_verdicts_are_found(build, book, write_chapter):
    write_chapter("ma/2")
    write_chapter("ma/3")
    decided = {"ma-3-c1": True, "ma-3-c2": False, "ma-3-c4": True}
    leave(build, "ma/3", claims={i: {"holds": holds, "measured": ""} for i, holds in decided.items()})
    record(book, "ma/3", "quick", {"ma-3-c1": True, "ma-3-c2": True, "ma-3-c3": True})
    found = changed_verdicts(build, "quick")
    assert [(c.id, c.recorded, c.now) for c in found] == [
        ("ma-3-c2", True, False),
        ("ma-3-c3", True, None),
        ("ma-3-c4", None, True),
    ]
    assert str(found[0]) == "ma-3-c2 (ma/3): recorded holds, now does not hold"
    assert changed_verdicts(build, "smoke") == []


def test_a_verdict_on_a_stand_in_is_not_compared_with_one_on_real_data(build, book, write_chapter):
    write_chapter("ma/3")
    record(book, "ma/3", "quick", {"ma-3-c1": True})
    leave(build, "ma/3", claims={"ma-3-c1": {"holds": False, "measured": "", "data": [STANDIN]}})
    assert changed_verdicts(build, "quick") == []
    leave(build, "ma/3", claims={"ma-3-c1": {"holds": False, "measured": "", "data": []}})
    assert [c.id for c in changed_verdicts(build, "quick")] == ["ma-3-c1"]


def test_a_stand_in_decides_nothing_about_data_that_can_be_had(build, book, write_chapter):
    write_chapter("panos/2")
    on_standin = {"holds": False, "measured": "31 %", "data": [{**STANDIN, "name": "bibtex"}], "standin": True}
    leave(build, "panos/2", claims={"panos-2-c3": on_standin})
    row = verdict(build, "panos-2-c3")
    assert (row.verdict, row.measured) == ("needs download", "")
    assert "bibtex: mogp data fetch" in row.note
    record(book, "panos/2", "quick", {"panos-2-c3": True})
    row = verdict(build, "panos-2-c3")
    assert (row.verdict, row.measured) == ("holds", "then")
    private = next(c for c in ledger.claims().values() if c.about and c.about[0] == "giraldo-fig-6-1")
    assert ledger.artefact("giraldo-fig-6-1").data_status == "stand-in"
    leave(build, "giraldo/6", claims={private.id: {**on_standin, "holds": True}})
    assert verdict(build, private.id).verdict == "holds"


def test_at_any_scale_only_claims_that_can_be_decided_there_count(build, book, write_chapter):
    write_chapter("ma/3")
    scaled = next(c.id for c in ledger.claims().values() if c.id.startswith("ma-3-") and not c.any_scale)
    leave(build, "ma/3", claims={i: {"holds": True, "measured": ""} for i in (scaled, "ma-3-c1")})
    assert [c.id for c in changed_verdicts(build, "quick", any_scale=True)] == ["ma-3-c1"]
    assert {c.id for c in changed_verdicts(build, "quick")} == {scaled, "ma-3-c1"}


def test_a_record_is_written_by_a_run_and_a_flipped_verdict_then_fails_the_check(build, book, write_chapter):
    write_chapter("ma/3", CHAPTER.format(holds=True))
    assert recorded("ma/3") == {}
    runner.run(["ma/3"], profile="smoke", record=True)
    kept = recorded("ma/3")["smoke"]
    assert kept.claims["ma-3-c1"]["holds"] is True
    assert kept.claims["ma-3-c1"]["measured"] == "gap 1e-9"
    assert {"python", "gpflow"} <= kept.versions.keys()
    pd.testing.assert_frame_equal(kept.table("ma-table-3-1"), pd.DataFrame({"x": [0.1, 2.0]}))
    with pytest.raises(CompanionError, match=r"has tables \['ma-table-3-1'\], not 'ma-table-3-2'"):
        kept.table("ma-table-3-2")
    assert changed_verdicts(build, "smoke", any_scale=True) == []

    write_chapter("ma/3", CHAPTER.format(holds=False))
    runner.run(["ma/3"], profile="smoke")
    (change,) = changed_verdicts(build, "smoke", any_scale=True)
    assert (change.id, change.recorded, change.now) == ("ma-3-c1", True, False)


def test_a_claim_shows_what_a_larger_run_recorded_and_a_new_record_outdates_the_chapter(book, monkeypatch):
    from mogp.book import Chapter, runkey

    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    notebook = type("Notebook", (), {"cells": []})
    before = runkey.before_run("ma/2", notebook, {"profile": "quick"})
    record(book, "ma/2", "smoke", {"ma-2-c1": True})
    assert runkey.before_run("ma/2", notebook, {"profile": "quick"}) == before
    record(book, "ma/2", "long", {"ma-2-c1": False})
    assert runkey.why_run(before, runkey.before_run("ma/2", notebook, {"profile": "quick"})) == "records"
    chapter = Chapter("ma/2")
    chapter.claim("ma-2-c1", holds=True, measured="0.1")
    assert "Recorded: long profile, 2026-01-02, 9 s on m: does not hold; then" in repr(shown[0])
    assert "smoke profile" not in repr(shown[0])
    assert chapter.recorded("long").claims["ma-2-c1"]["holds"] is False
    assert chapter.recorded("paper") is None


def test_results_of_one_chapter_are_read_from_whole_runs_only(build):
    leave(build, "ma/2", artefacts={"ma-fig-2-1": {}})
    (build / "chapters" / "ma-2").rename(build / "chapters" / ".ma-2.stage-x")
    assert list(results.produced(build)) == []
    assert chapters() == []
