from __future__ import annotations

import json

import numpy as np
import pytest
from fuzz_targets_text import GEOJSON, JSON_ARRAY

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.geojson import read_points
from mogp.datasets.formats.json_array import load_json, read_json_array

KEYS = ("in", "out"), ("0", "1")


def test_objects_become_axes_in_the_order_asked_for(written):
    path = written(JSON_ARRAY)
    np.testing.assert_array_equal(
        read_json_array(path, *KEYS), [[[0, 1, 20], [3, 4, 5]], [[9, 10, 11], [6, 7, 8]]]
    )  # fmt: skip
    np.testing.assert_array_equal(read_json_array(path, ("out", "in"), ("1", "0"))[0], [[6, 7, 8], [9, 10, 11]])


def test_lists_of_lists_are_an_array(written, rng):
    values = rng.standard_normal((2, 3, 4))
    np.testing.assert_array_equal(read_json_array(written(json.dumps(values.tolist()).encode())), values)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "line 1: Expecting value"),
        (b'{"in":\n [1', "line 2: Expecting"),
        (b"[1, 2] x", "Extra data"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[1, -Infinity]", "-Infinity is not JSON"),
        (b"[1e999]", "'1e999' is too large"),
        (b"[" + b"9" * 400 + b"]", "is too large"),
        (b"[" + b"9" * 10_000 + b"]", "is too large"),
        (b'{"a": 1, "b": 2, "a": 3}', "key 'a' twice"),
        (b'\n{"a": ' + b"[" * 100_000, "line 2: more than 32 open brackets"),
        (b'{"a":' * 100_000, "more than 32 open brackets"),
        (b'["[[[[", "\\"' + b"[" * 99 + b'"' + b"[" * 99, "more than 32 open brackets"),
        (b"[[1, 2], [3]]", "lists of different lengths"),
        (b"[[1, 2], 3]", "expected a list of numbers"),
        (b"[1, true]", "expected a list of numbers"),
        (b"[1, null]", "expected a list of numbers"),
        (b'[1, "2"]', "expected a list of numbers"),
        (b"[]", "expected a list of numbers"),
        (b"[[], []]", "expected a list of numbers"),
        (b"5", "expected a list of numbers"),
        (b'{"a": 1}', "expected a list of numbers"),
        (b"[\xff]", "line 1: byte 0xff is not UTF-8"),
        (b"[\0]", "NUL"),
    ],
)
def test_bad_arrays_are_refused(written, content, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_json_array(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("change", [(b'"0"', b'"2"'), (b'"in"', b'"inn"'), (b'"0": [9, 10, 11]', b'"0": [9, 10]')])
def test_other_keys_or_shapes_are_refused(written, change):
    with pytest.raises(DataFormatError, match=r"expected an object with the 2 keys|different lengths"):
        read_json_array(written(JSON_ARRAY.replace(*change)), *KEYS)
    with pytest.raises(DataFormatError, match="no object; expected an object"):
        read_json_array(written(b"[1]"), *KEYS)


def test_brackets_in_strings_are_not_nesting_and_large_integers_are_read(written):
    content = json.dumps({"a": "[" * 100 + '"\\', "b": 10**200})
    assert load_json(written(content.encode())) == json.loads(content)


def test_points_are_positions_and_properties(written):
    frame = read_points(written(GEOJSON))
    assert list(frame.columns) == ["longitude", "latitude", "cp", "road", "x"]
    assert frame["longitude"].tolist() == [-0.25, 1.0]
    assert frame["latitude"].tolist() == [51.5, 52.0]
    assert frame["road"].tolist() == ["A\u00e9", "M1"]
    np.testing.assert_array_equal(frame["x"], [np.nan, 0.5])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"FeatureCollection", b"Topology", "no feature collection"),
        (GEOJSON, b"[]", "no feature collection"),
        (GEOJSON, b'{"type": "FeatureCollection", "features": []}', "no feature collection"),
        (b"-0.25", b"-180.25", "feature 1 is not a point"),
        (b"51.5", b"true", "feature 1 is not a point"),
        (b"51.5", b'"51.5"', "feature 1 is not a point"),
        (b"51.5", b"NaN", "NaN is not JSON"),
        (b", 51.5", b"", "feature 1 is not a point"),
        (b"Point", b"LineString", "feature 1 is not a point"),
        (b'"x": null', b'"latitude": 1', "feature 1 is not a point"),
        (b'"x": 0.5', b'"y": 0.5', "feature 2 has other properties"),
        (b'"x": 0.5', b'"x": [0.5]', "feature 2: property 'x' is not a single value"),
        (b"\\u00e9", b"\\ud800", "feature 1: half of a surrogate pair"),
        (b'"cp": 1', b'"cp": 1, "cp": 1', "key 'cp' twice"),
    ],
)
def test_bad_points_are_refused(written, old, new, problem):
    path = written(GEOJSON.replace(old, new, 1))
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_points(path)
    assert str(caught.value).startswith(str(path))


def test_real_traffic_points_equal_the_document(shared_data):
    path = shared_data / "traffic" / "london_dft_traffic_count_locations.json"
    frame = read_points(path)
    features = json.loads(path.read_text())["features"]
    assert len(frame) == len(features) == 2548
    assert frame[["longitude", "latitude"]].to_numpy().tolist() == [f["geometry"]["coordinates"] for f in features]
    assert frame["cp"].tolist() == [feature["properties"]["cp"] for feature in features]


def test_the_real_grid_of_flows_has_its_published_shape(shared_data):
    path = shared_data / "bike_nyc_grid" / "flow_bike_nyc_regular.json"
    flows = read_json_array(path, ("inflow", "outflow"), [str(cell) for cell in range(128)])
    assert flows.shape == (2, 128, 2208)
    assert np.mean(flows == 0).round(3) == 0.411
    assert flows.max() == 496
    np.testing.assert_array_equal(flows[1, 17], json.loads(path.read_text())["outflow"]["17"])
