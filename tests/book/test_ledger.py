"""The ledger of record is complete and consistent."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mogp.book import CompanionError, ledger

OWN = "finding"


def test_ledger_lists_the_202_artefacts_and_236_claims_of_the_documents():
    assert sum(row.kind != OWN for row in ledger.artefacts().values()) == 202
    assert sum(row.kind != OWN for row in ledger.claims().values()) == 236


def test_every_claim_speaks_of_artefacts_that_exist():
    known = ledger.artefacts().keys()
    assert [(row.id, about) for row in ledger.claims().values() for about in row.about if about not in known] == []


def test_same_as_is_mutual_between_documents():
    rows = ledger.artefacts()
    one_sided = [
        (row.id, twin) for row in rows.values() for twin in row.twins if twin in rows and row.id not in rows[twin].twins
    ]
    assert one_sided == []


def test_every_artefact_belongs_to_a_notebook_of_its_own_document():
    assert [row.id for row in ledger.artefacts().values() if row.notebook.split("/")[0] != row.document] == []


def test_unknown_id_raises_with_the_nearest_ids():
    with pytest.raises(CompanionError, match=r"unknown artefact 'ma-fig-2-11'.*ma-fig-2-1"):
        ledger.artefact("ma-fig-2-11")
    with pytest.raises(CompanionError, match=r"unknown claim 'ma-2-c9'.*ma-2-c"):
        ledger.claim("ma-2-c9")


def test_a_ledger_with_an_id_twice_is_refused(book: Path):
    names = list(ledger.Artefact.__dataclass_fields__)
    (book / "data").mkdir()
    with (book / "data" / "artefacts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, ["a"] * len(names), ["a"] * len(names)])
    with pytest.raises(CompanionError, match="an id twice: a"):
        ledger.artefacts()


def test_a_ledger_with_other_columns_is_refused(book: Path):
    (book / "data").mkdir()
    (book / "data" / "artefacts.csv").write_text("id,title\nx,y\n")
    with pytest.raises(CompanionError, match=r"artefacts.csv has columns \['id', 'title'\]"):
        ledger.artefacts()


@pytest.mark.parametrize("cells", [-1, 1])
def test_a_row_with_a_cell_too_many_or_too_few_is_named(book: Path, cells: int):
    names = list(ledger.Artefact.__dataclass_fields__)
    (book / "data").mkdir()
    with (book / "data" / "artefacts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, ["a"] * len(names), ["b"] * (len(names) + cells)])
    with pytest.raises(CompanionError, match=r"artefacts.csv, row 2 \(b\)"):
        ledger.artefacts()
