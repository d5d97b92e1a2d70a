"""Vehicles counted on London's roads: TRAFFIC (Giraldo, §8.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.draws import draw
from mogp.datasets.entry import Entry
from mogp.datasets.formats.archives import open_member
from mogp.datasets.formats.delimited import read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.geojson import read_points
from mogp.datasets.formats.text import lines_of, read_text
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    import pandas as pd

TRAFFIC = "traffic/london_20002016_all_raw_8am.csv"
LOCATIONS = "traffic/london_dft_traffic_count_locations.json"
RAW_COUNTS = "traffic/dft_traffic_counts_raw_counts.zip"
VEHICLES = {"pc": "pedal cycles", "2wmv": "two-wheeled", "car": "cars", "bus": "buses"}


def traffic(
    *,
    before: int = 2003,
    roads: Literal["major", "all"] = "major",
    hours: Literal["eight", "day"] = "eight",
) -> Dataset:
    """Vehicles of four kinds counted on London's roads, 1712 counts at places and days (Department
    for Transport).

    Inputs: longitude, latitude and day of the year, with zero mean and unit deviation. Outputs:
    counts y of both directions, rescaled to the integer nearest 500 y / sd(y). The document's 1712
    points are the counts on major roads (motorways and A roads) in years `before` 2003: `roads` =
    "all" adds the minor ones. The document sums the hours of a day: `hours` = "day" does so from
    the Department's table of raw counts, which must be downloaded; the small public table has the
    hour from "eight".
    """
    _check_hours(hours)
    if hours == "day":
        return _traffic("real", read_raw_counts(path_of(RAW_COUNTS)), before, roads, hours)
    return _traffic(
        "real", read_traffic(path_of(TRAFFIC), path_of(LOCATIONS)), before, roads, hours
    )


def traffic_standin(
    *,
    before: int = 2003,
    roads: Literal["major", "all"] = "major",
    hours: Literal["eight", "day"] = "eight",
) -> Dataset:
    """Synthetic counts that fall off from a busy centre, at 2548 places in the years 2000 to
    2016.
    """
    _check_hours(hours)
    return _traffic("stand-in", _counts(), before, roads, hours)


def _check_hours(hours: str) -> None:
    if hours not in ("eight", "day"):
        raise ValueError(f'hours={hours!r}; expected "eight" or "day".')


def read_traffic(counts: Path, locations: Path) -> pd.DataFrame:
    """Counts, with the day of the year, and the longitude, latitude and road category ("PU", "TM",
    …) of the place.
    """
    import pandas as pd

    header = (
        "cp",
        "year",
        "pc",
        "2wmv",
        "car",
        "bus",
        "lgv",
        "hgv_total",
        "min_month",
        "min_dayofmonth",
        "hour",
    )
    table = read_table(counts, header=(*header, "min_idir", "max_idir"))
    numbers(table[list(header)], counts)
    try:
        date = pd.to_datetime(
            dict(year=table["year"], month=table["min_month"], day=table["min_dayofmonth"])
        )
    except ValueError as error:
        raise DataFormatError(counts, f"a day is not in the calendar ({error})") from error
    points = read_points(locations)
    if not {"cp", "rcat"} <= set(points):
        raise DataFormatError(locations, "points have no properties 'cp' and 'rcat'")
    joined = table.assign(day=date.dt.dayofyear).merge(
        points[["cp", "rcat", "longitude", "latitude"]], on="cp", validate="many_to_one"
    )
    if len(joined) < len(table):
        raise DataFormatError(
            counts,
            f"{len(table) - len(joined)} counts at places that {locations.name} does not have",
        )
    return joined


RAW_VEHICLES = ("pedal_cycles", "two_wheeled_motor_vehicles", "cars_and_taxis", "buses_and_coaches")
RAW_PLACE = ("count_point_id", "year", "count_date", "road_category", "longitude", "latitude")


def read_raw_counts(path: Path) -> pd.DataFrame:
    """The Department's raw counts for London, summed over the hours and directions of a day, as
    `read_traffic` gives.

    The table of all Britain has millions of rows; it is read in pieces, of which London's are kept.
    """
    import pandas as pd

    pieces = [piece[piece["region_name"] == "London"] for piece in _raw_pieces(path)]
    hourly = pd.concat(pieces, ignore_index=True)
    if hourly.empty:
        raise DataFormatError(path, "holds no counts for London")
    date = pd.to_datetime(hourly["count_date"], errors="coerce")
    if date.isna().any():
        raise DataFormatError(path, f"holds the date {hourly['count_date'][date.isna()].iloc[0]!r}")
    numbers(hourly[["count_point_id", "year", "longitude", "latitude", *RAW_VEHICLES]], path)
    daily = hourly.groupby(list(RAW_PLACE), as_index=False)[list(RAW_VEHICLES)].sum()
    daily["day"] = pd.to_datetime(daily["count_date"]).dt.dayofyear
    renamed = {
        "count_point_id": "cp",
        "road_category": "rcat",
        **dict(zip(RAW_VEHICLES, VEHICLES, strict=True)),
    }
    return daily.rename(columns=renamed).drop(columns="count_date")


def _raw_pieces(path: Path) -> Iterator[pd.DataFrame]:
    import pandas as pd

    member = "dft_traffic_counts_raw_counts.csv"
    columns = ["region_name", *RAW_PLACE, *RAW_VEHICLES]
    with open_member(path, member, limit=2**33) as stream:
        try:
            yield from pd.read_csv(
                stream, usecols=columns, chunksize=200_000, dtype={"count_date": str}
            )
        except (ValueError, pd.errors.ParserError) as error:
            if isinstance(error, DataFormatError):
                raise
            raise DataFormatError(
                f"{path}, {member}", f"is not the table of raw counts ({error})"
            ) from error


def _traffic(source: Source, table: pd.DataFrame, before: int, roads: str, hours: str) -> Dataset:
    if roads not in ("major", "all"):
        raise ValueError(f'roads={roads!r}; expected "major" or "all".')
    if before <= table["year"].min():
        raise ValueError(f"before={before}; the counts begin in {table['year'].min()}.")
    chosen = table[
        (table["year"] < before) & (table["rcat"].str[0].isin(["P", "T"]) | (roads == "all"))
    ]
    counts = chosen[list(VEHICLES)].to_numpy(np.float64)
    return made(
        "traffic",
        source,
        f"vehicles counted {'from eight to nine' if hours == 'eight' else 'in a day'} on London's "
        f"{'major ' if roads == 'major' else ''}roads before {before}, {len(chosen)} counts",
        X=standardised(chosen[["longitude", "latitude", "day"]].to_numpy(np.float64))[0],
        Y=np.rint(500.0 * counts / counts.std(axis=0)),
        inputs=("longitude", "latitude", "day of year"),
        outputs=tuple(VEHICLES.values()),
        likelihoods=("Poisson",),
    )


def _counts() -> pd.DataFrame:
    """A table as `read_traffic` gives it."""
    import pandas as pd

    rng = np.random.default_rng(2548)
    places = np.round(
        np.array([-0.1, 51.5]) + np.array([0.17, 0.09]) * rng.standard_normal((2548, 2)), 6
    )
    major = rng.uniform(size=2548) < 0.65
    busy = (
        0.5 * draw((places - [-0.1, 51.5]) / [0.17, 0.09], 0.5, rng)
        - 0.15 * ((places[:, 0] + 0.1) / 0.17) ** 2
    )
    every, place = (
        axis.ravel() for axis in np.meshgrid(np.arange(2000, 2017), np.arange(2548), indexing="ij")
    )
    groups = 2 * (every < 2003) + major[place]
    chosen = [
        rng.permutation(np.flatnonzero(groups == g))[:n]
        for g, n in enumerate((3200, 7410, 441, 1712))
    ]
    kept = np.sort(np.concatenate(chosen))
    year, place, N = every[kept], place[kept], len(kept)
    log_rate = (
        np.array([2.4, 3.4, 6.8, 3.0])
        + busy[place, None] * [2.6, 1.4, 0.5, 0.8]
        + 0.6 * major[place, None]
    )
    rate = np.exp(log_rate + np.array([0.6, 0.8, 0.6, 0.7]) * rng.standard_normal((N, 4)))
    counts = np.clip(rng.poisson(rate), [0, 0, 1, 0], [2200, 950, 15000, 550])
    return pd.DataFrame(
        {
            "cp": 6000 + place,
            "year": year,
            **dict(zip(VEHICLES, counts.T, strict=True)),
            "day": rng.integers(74, 306, N),
            "rcat": np.where(major[place], "PU", "UU"),
            "longitude": places[place, 0],
            "latitude": places[place, 1],
        }
    )


ENTRIES = {"traffic": Entry(traffic, standin=traffic_standin)}

SHAPES: dict[str, Callable[[Path], str]] = {
    TRAFFIC: lambda path: size(read_table(path, columns=13).to_numpy()),
    LOCATIONS: lambda path: f"{len(read_points(path))} points",
    RAW_COUNTS: lambda path: f"{len(read_raw_counts(path))} days at places in London",
    "traffic/README.md": lambda path: f"{len(lines_of(read_text(path)))} lines",
}
