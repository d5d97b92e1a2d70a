"""The command says what is wrong in one line, and its output can be read by people and by programs."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mogp.book import ledger
from mogp.cli import app

ROOT = Path(__file__).resolve().parents[2]


def _seconds_of_children() -> float:
    """Processor time, which a busy machine does not change much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def mogp(*words: str):
    return CliRunner().invoke(app, list(words))


def test_help_lists_the_commands_and_comes_at_once():
    seconds = []
    for _ in range(3):
        begun = _seconds_of_children()
        shown = subprocess.check_output([sys.executable, "-m", "mogp.cli", "--help"], text=True, cwd=ROOT)
        seconds.append(_seconds_of_children() - begun)
    for name in ("chapters", "run", "book", "report", "data", "teach", "notebooks"):
        assert name in shown
    assert min(seconds) < 0.5


def test_version():
    assert mogp("--version").output.startswith("mogp ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "ma/33"], "mogp: unknown chapter 'ma/33'; did you mean: ma/3."),
        (["run"], "mogp: name the chapters to run"),
        (["run", "ma/3", "--all"], "mogp: name the chapters to run"),
        (["run", "ma/3", "-p", "sead", "1"], "mogp: unknown parameter of chapter ma/3 'sead'; did you mean: seed."),
        (["run", "ma/3", "--profile", "fast"], "mogp: unknown profile 'fast'"),
        (["teach", "ma/4", "--out", "x"], "mogp: unknown chapter 'ma/4'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(write_chapter, words, message):
    write_chapter("ma/3")
    result = mogp(*words)
    assert result.exit_code == 2
    assert result.output.startswith(message)
    assert result.output.count("\n") == 1


def test_no_book_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MOGP_BOOK", str(tmp_path))
    result = mogp("chapters")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "no book found" in result.output


def test_a_build_folder_that_cannot_be_written_is_one_line(write_chapter, tmp_path, monkeypatch):
    write_chapter("ma/3")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MOGP_BUILD", str(tmp_path / "file"))
    result = mogp("run", "ma/3")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert str(tmp_path / "file") in result.output


def test_a_missing_package_of_the_book_is_one_line(write_chapter, monkeypatch):
    write_chapter("ma/3")
    monkeypatch.setitem(sys.modules, "jupytext", None)
    result = mogp("run", "ma/3")
    assert result.output == "mogp: this needs the package jupytext: pip install 'mogp-companion[book]'\n"


def test_a_finished_chapter_that_owes_artefacts_is_named(write_chapter, monkeypatch):
    from mogp.book.runner import Outcome

    write_chapter("panos/1")
    monkeypatch.setattr("mogp.book.runner.run", lambda keys, **options: [Outcome("panos/1", "ran", 1.0)])
    assert mogp("run", "panos/1").output == "panos/1 is finished, but does not make panos-fig-1-1, panos-fig-1-2\n"


def test_a_parameter_without_a_value_is_refused(write_chapter):
    write_chapter("ma/3")
    result = mogp("run", "ma/3", "-p", "seed")
    assert result.exit_code == 2
    assert "-p takes a name and a value" in result.output


def test_parameters_keep_their_types_on_the_way_to_the_runner(write_chapter, monkeypatch):
    write_chapter("ma/3")
    seen: dict = {}
    monkeypatch.setattr("mogp.book.runner.run", lambda keys, **options: seen.update(options, keys=keys) or [])
    given = {"a": "-1", "b": "1e-3", "c": "true", "d": "[1, 2]", "e": "x=y", "f": "none", "g": "-p"}
    result = mogp("run", "ma/3", *(word for name, text in given.items() for word in ("-p", name, text)), "--jobs", "2")
    assert result.exit_code == 0
    assert seen["parameters"] == {"a": -1, "b": 1e-3, "c": True, "d": [1, 2], "e": "x=y", "f": None, "g": "-p"}
    assert (seen["keys"], seen["jobs"], seen["profile"]) == (["ma/3"], 2, "quick")


def test_report_is_json_for_programs_and_counts_first_for_people(build):
    found = json.loads(mogp("report", "--json").output)
    assert set(found) == {"artefacts", "claims"}
    shown = mogp("report").output
    assert shown.startswith("Artefacts: 202: regenerated 0")
    own = [row for row in found["artefacts"] if ledger.artefact(row["id"]).kind == "finding"]
    assert f"and {len(own)} findings" in shown
    assert "ma-fig-2-1" in shown


def test_chapters_are_listed_with_their_state(write_chapter):
    write_chapter("ma/3", title="Many classes", finished=False)
    shown = mogp("chapters").output
    for part in ("ma/3", "Many", "in progress", "never"):
        assert part in shown


def test_notebooks_and_teach_say_what_they_wrote(write_chapter, tmp_path):
    write_chapter("ma/3", '# %% [markdown] tags=["exercise"]\n# Why?')
    assert mogp("notebooks", str(tmp_path / "n")).output.strip() == str(tmp_path / "n" / "ma" / "3-test.ipynb")
    assert len(mogp("teach", "ma/3", "--out", str(tmp_path / "t")).output.splitlines()) == 3


def test_data_commands_are_reached():
    assert "motor" in mogp("data", "list").output


def test_book_reports_changed_verdicts_and_where_the_site_is(build, write_chapter, monkeypatch):
    from mogp.book.report import ChangedVerdict

    write_chapter("ma/3")
    monkeypatch.setattr("mogp.book.site.build_site", lambda build: build / "site" / "index.html")
    monkeypatch.setattr("mogp.book.cards.refresh", lambda build: iter(["motor"]))
    change = ChangedVerdict("ma-3-c1", "ma/3", True, False)
    monkeypatch.setattr("mogp.book.report.changed_verdicts", lambda build, profile: [change])
    result = mogp("book", "--no-run")
    assert result.output.splitlines() == [
        "changed verdict: ma-3-c1 (ma/3): recorded holds, now does not hold",
        "data card: motor",
        f"The book is at {build / 'site' / 'index.html'}",
    ]
