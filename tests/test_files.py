"""A written file is whole or absent."""

from __future__ import annotations

import os

import pytest

from mogp.files import read_json, write_atomically, write_json


def test_a_failed_write_leaves_the_old_content_and_no_other_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert read_json(path) == {"x": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_missing_folders_are_made_and_missing_files_read_as_none(tmp_path):
    write_json(tmp_path / "a" / "b" / "c.json", ["é"])
    assert read_json(tmp_path / "a" / "b" / "c.json") == ["é"]
    assert read_json(tmp_path / "none.json") is None
