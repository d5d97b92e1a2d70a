"""GeoJSON points: where they are and what is said about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.json_array import load_json
from mogp.datasets.formats.text import shown

if TYPE_CHECKING:
    import pandas as pd

POSITION = ("longitude", "latitude")


def read_points(path: Path | str) -> pd.DataFrame:
    """A row a point feature of a collection: its `longitude` and `latitude` in degrees, then its
    properties.

    All features must have the same properties; their values are numbers, text, booleans or null.
    """
    import pandas as pd

    document = load_json(path)
    features = document.get("features") if isinstance(document, dict) else None
    if (
        not isinstance(features, list)
        or not features
        or document.get("type") != "FeatureCollection"
    ):
        raise DataFormatError(path, "no feature collection with features")
    rows = [_row(feature, number, path) for number, feature in enumerate(features, 1)]
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            raise DataFormatError(path, f"feature {number} has other properties than feature 1")
    return pd.DataFrame({name: [row[name] for row in rows] for name in rows[0]})


def _row(feature: Any, number: int, path: Path | str) -> dict[str, Any]:
    match feature:
        case {
            "type": "Feature",
            "geometry": {
                "type": "Point",
                "coordinates": [int() | float() as longitude, int() | float() as latitude, *_],
            },
            "properties": dict() as properties,
        } if (
            bool not in (type(longitude), type(latitude))
            and abs(longitude) <= 180
            and abs(latitude) <= 90
            and properties.keys().isdisjoint(POSITION)
        ):
            for name, value in properties.items():
                if not isinstance(value, str | int | float | None):
                    raise DataFormatError(
                        path, f"feature {number}: property {shown(name)} is not a single value"
                    )
            if not _encodes(properties):
                raise DataFormatError(
                    path, f"feature {number}: half of a surrogate pair in its text"
                )
            return {POSITION[0]: float(longitude), POSITION[1]: float(latitude), **properties}
    raise DataFormatError(
        path,
        f"feature {number} is not a point with properties, a longitude in [-180, 180] and a"
        " latitude in [-90, 90]",
    )


def _encodes(properties: dict[str, Any]) -> bool:
    try:
        "".join(
            text for pair in properties.items() for text in pair if isinstance(text, str)
        ).encode()
    except UnicodeEncodeError:
        return False
    return True
