from __future__ import annotations

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from mogp.datasets import london as module
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.london import london, london_3types, london_3types_standin, london_standin


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


@pytest.mark.parametrize(("binary", "column"), [("type", "Ytype"), ("contract", "Ycontract")])
def test_places_and_prices_are_scaled_as_the_specification_says(binary, column, mirror):
    raw = loadmat(mirror / "london" / "london.mat")
    data = london(binary=binary)
    longitude, latitude = raw["X"][:, 1], raw["X"][:, 0]
    np.testing.assert_allclose(data.X[:, 0], (longitude + 0.5105) / (0.3336 + 0.5105), rtol=1e-12)
    np.testing.assert_allclose(data.X[:, 1], (latitude - 51.2871) / (51.6925 - 51.2871), rtol=1e-9)
    price = np.log(raw["Yprice"][:, 0])
    np.testing.assert_allclose(data.Y[:, 0], (price - price.mean()) / price.std(), atol=1e-6)
    np.testing.assert_array_equal(data.Y[:, 1], raw[column][:, 0])
    assert data.outputs == ("log price", binary)


def test_type_one_is_the_flats(mirror):
    raw = loadmat(mirror / "london" / "london.mat")
    kind, contract = raw["Ytype"][:, 0], raw["Ycontract"][:, 0]
    assert (np.sum(kind == 0), np.sum(kind == 1)) == (11615, 7868)
    assert contract[kind == 1].mean() < 0.01  # flats are leasehold
    assert contract[kind == 0].mean() > 0.9
    assert london().classes == {"type": ("house", "flat")}
    assert london_standin().Y[:, 1].sum() == 7868


GROUPS = [
    ("200000", "N1 1AA", "F", "LONDON"),
    ("400000", "N1 1AA", "F", "LONDON"),
    ("900000", "N1 1AA", "T", "LONDON"),
    ("500000", "", "S", "LONDON"),
    ("600000", "M1 1AA", "S", "MANCHESTER"),
    ("700000", "N2 2BB", "S", "LONDON"),
    ("800000", "N2 2BB", "D", "LONDON"),
    ("100000", "N2 2BB", "O", "LONDON"),
    ("300000", "N9 9ZZ", "T", "LONDON"),
]
SALES = "".join(
    f'"{{{n}}}","{price}","2017-01-02 00:00","{code}","{kind}","N","L","1","","A ROAD","","{town}","X","Y","A","A"\n'
    for n, (price, code, kind, town) in enumerate(GROUPS)
)
POSTCODES = "id,postcode,latitude,longitude\n1,N1 1AA,51.5,-0.1\n2,N2 2BB,51.6,-0.2\n3,M1 1AA,53.4,-2.2\n"


@pytest.fixture
def sales(tmp_path):
    (tmp_path / "pp.csv").write_text(SALES)
    (tmp_path / "codes.csv").write_text(POSTCODES)
    return tmp_path / "pp.csv", tmp_path / "codes.csv"


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_sales_are_grouped_by_postcode_and_type_whatever_the_chunk(sales, chunk):
    expected = {(-0.1, 51.5, 0, 300000), (-0.1, 51.5, 1, 900000), (-0.2, 51.6, 2, 700000), (-0.2, 51.6, 3, 800000)}
    assert {tuple(row) for row in module.read_sales(*sales, chunk=chunk)} == expected


def test_three_types_drop_detached_houses_unless_told(sales, monkeypatch):
    paths = dict(zip((module.SALES, module.POSTCODES), sales, strict=True))
    monkeypatch.setattr(module, "path_of", lambda path: paths[path])
    data, four = london_3types(), london_3types(detached=True)
    assert (len(data), len(four)) == (3, 4)
    np.testing.assert_allclose(sorted(data.Y[:, 1]), np.log([300000, 700000, 900000]), atol=1e-6)
    assert data.classes["type"] == ("flat", "terraced", "semi-detached")
    assert four.classes["type"][-1] == "detached"


def test_three_types_are_split_as_published_and_by_seed():
    data, other = london_3types_standin(), london_3types_standin(seed=1)
    assert (len(data.train), len(data.test)) == (20000, 5286)
    assert (data.held_out != other.held_out).any()
    np.testing.assert_array_equal(data.X, other.X)
    assert len(london_3types_standin(detached=True)) == 33726


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "not the table"),
        (SALES.replace('"200000"', '"dear"'), "dear"),
        (SALES.replace("LONDON", "PARIS"), "no sale"),
        ("", "not the table"),
    ],
)
def test_other_tables_are_refused(sales, text, words):
    sales[0].write_text(text)
    with pytest.raises(DataFormatError, match=words):
        module.read_sales(*sales)


@pytest.mark.parametrize(
    "codes", [b"\xff\xfe\xfa" * 40, b"id,code\n1,N1 1AA\n", POSTCODES.replace("51.5", "north").encode()]
)
def test_other_tables_of_postcodes_are_refused(sales, codes):
    sales[1].write_bytes(codes)
    with pytest.raises(DataFormatError, match=r"codes\.csv"):
        module.read_sales(*sales)


def test_shapes_of_the_large_tables_are_counted_in_chunks(sales, tmp_path):
    (tmp_path / "pp-2017.csv").write_text(SALES)
    assert module.SHAPES[module.SALES](tmp_path / "pp-2017.csv") == "9 x 16"
    assert module.SHAPES[module.POSTCODES](sales[1]) == "3 x 4"


def test_unexpected_variables_are_refused(tmp_path):
    sound = {"X": np.ones((3, 2)), **{name: np.ones((3, 1)) for name in ("Yprice", "Ytype", "Ycontract", "Ynew")}}
    cases = {
        "shape": {"X": np.ones((3, 3))},
        "more than 0 and 1": {"Ytype": np.full((3, 1), 2.0)},
        "positive": {"Yprice": np.zeros((3, 1))},
    }
    for words, change in cases.items():
        savemat(tmp_path / "l.mat", {**sound, **change})
        with pytest.raises(DataFormatError, match=words):
            module.read_london(tmp_path / "l.mat")
    with pytest.raises(ValueError, match="type, contract"):
        london_standin(binary="new")
