"""UJIIndoorLoc: where in three buildings a telephone is, by the WiFi stations that it hears."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.archives import read_members
from mogp.datasets.formats.delimited import parse_numbers
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made
from mogp.datasets.prepared import prepared
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of

UJI = "ujiindoorloc/UJIndoorLoc.zip"
BUILDINGS, FLOORS = ("Building I", "Building II", "Building III"), (4, 4, 5)
PLACES = [(b, f) for b in range(3) for f in range(FLOORS[b])]
NO_SIGNAL = 100


def ujiindoorloc(
    *,
    points_per_floor: int | None = 200,
    standardise: bool = True,
    no_signal: float = NO_SIGNAL,
    seed: int = 0,
) -> Dataset:
    """The floor by the strengths of 520 WiFi stations in three buildings, 13 floors, 21048
    fingerprints (UCI).

    An output is a building and a class a floor. Both published files are pooled; `points_per_floor`
    fingerprints are taken at random from each floor (None takes all), then each station has zero
    mean and unit variance in each building (a station that does not vary in a building is zero
    there). The files write 100 where a station was not heard, which the thesis does not mention:
    `no_signal` replaces it, for instance by -105 dBm.

    `per_row`: the `position` [N, 2], longitude and latitude in metres.
    """
    raw = prepared("ujiindoorloc-v1", (UJI,), lambda: _read_uji(path_of(UJI)))
    return _uji("real", raw, points_per_floor, standardise, no_signal, seed)


def ujiindoorloc_standin(
    *,
    points_per_floor: int | None = 200,
    standardise: bool = True,
    no_signal: float = NO_SIGNAL,
    seed: int = 0,
) -> Dataset:
    """Synthetic fingerprints: stations in three blocks, signals that fall with distance and through
    floors.
    """
    rng = np.random.default_rng(520)
    counts = (1137, 1564, 1608, 1476, 1398, 1627, 1483, 995, 1966, 2273, 1631, 2749, 1141)
    place = np.repeat(PLACES, counts, axis=0)
    building, floor = place.T
    corner, size = (
        np.array([(-7650.0, 4864950.0), (-7550.0, 4864870.0), (-7390.0, 4864800.0)]),
        np.array([90.0, 60.0]),
    )
    position = corner[building] + size * rng.uniform(size=(len(place), 2))
    home = np.repeat(np.arange(3), (180, 170, 170))
    station = np.column_stack(
        [
            corner[home] + size * rng.uniform(size=(520, 2)),
            rng.integers(0, 5, 520) % np.take(FLOORS, home),
        ]
    )
    signals = np.full((len(place), 520), NO_SIGNAL, np.int8)
    for b in range(3):
        rows, near = np.flatnonzero(building == b), np.flatnonzero(home == b)
        away = np.abs(
            position[rows, None].astype(np.float32) - station[near, :2].astype(np.float32)
        ).sum(axis=2)
        through = np.abs(floor[rows, None] - station[near, 2])
        strength = (
            -42.0
            - 0.55 * away
            - 10.0 * through
            + 10.5 * rng.standard_normal(away.shape, np.float32)
        )
        signals[np.ix_(rows, near)] = np.where(
            strength > -95.0, np.minimum(strength, 0.0), NO_SIGNAL
        )
    raw = {"signals": signals, "position": rounded(position), "building": building, "floor": floor}
    return _uji("stand-in", raw, points_per_floor, standardise, no_signal, seed)


UJI_COLUMNS = (
    *(f"WAP{station:03d}" for station in range(1, 521)),
    *(
        "LONGITUDE",
        "LATITUDE",
        "FLOOR",
        "BUILDINGID",
        "SPACEID",
        "RELATIVEPOSITION",
        "USERID",
        "PHONEID",
        "TIMESTAMP",
    ),
)
UJI_MEMBERS = ("UJIndoorLoc/trainingData.csv", "UJIndoorLoc/validationData.csv")


def _read_uji_tables(path: Path) -> list[Array]:
    members = read_members(path, UJI_MEMBERS.__contains__)
    for member in UJI_MEMBERS:
        if member not in members:
            raise DataFormatError(path, f"has no member {member!r}")
    return [
        parse_numbers(members[member], f"{path}, {member}", header=UJI_COLUMNS)
        for member in UJI_MEMBERS
    ]


def _read_uji(path: Path) -> dict[str, Array]:
    table = np.concatenate(_read_uji_tables(path))
    signals, building, floor = table[:, :520], table[:, 523], table[:, 522]
    if not (np.isin(signals, range(-128, 1)) | (signals == NO_SIGNAL)).all():
        raise DataFormatError(path, f"signals must be whole numbers from -128 to 0, or {NO_SIGNAL}")
    if set(zip(building, floor, strict=True)) != set(PLACES):
        raise DataFormatError(path, "expected buildings 0 to 2 with 4, 4 and 5 floors")
    return {
        "signals": signals.astype(np.int8),
        "position": table[:, 520:522],
        "building": building.astype(np.int8),
        "floor": floor.astype(np.int8),
    }


def _uji(
    source: Source,
    raw: dict[str, Array],
    points_per_floor: int | None,
    standardise: bool,
    no_signal: float,
    seed: int,
) -> Dataset:
    building, floor, rng = raw["building"], raw["floor"], np.random.default_rng(seed)
    taken = []
    for b, f in PLACES:
        rows = np.flatnonzero((building == b) & (floor == f))
        if points_per_floor is not None:
            if not 1 <= points_per_floor <= len(rows):
                raise ValueError(
                    f"points_per_floor={points_per_floor}, but floor {f} of {BUILDINGS[b]} has"
                    f" {len(rows)} points."
                )
            rows = np.sort(rng.choice(rows, points_per_floor, replace=False))
        taken.append(rows)
    rows = np.concatenate(taken)
    X = raw["signals"][rows].astype(float)
    X[X == NO_SIGNAL] = no_signal
    output = building[rows].astype(np.int64)
    if standardise:
        for b in range(3):
            X[output == b] = standardised(X[output == b])[0]
    return made(
        "ujiindoorloc",
        source,
        f"the floor by WiFi signal strengths in three buildings, {len(rows)} fingerprints",
        X=X,
        Y=floor[rows, None].astype(float),
        inputs=("WAP",),
        outputs=BUILDINGS,
        likelihoods=("Softmax",),
        output=output,
        classes={
            name: tuple(f"floor {f}" for f in range(n))
            for name, n in zip(BUILDINGS, FLOORS, strict=True)
        },
        per_row={"position": raw["position"][rows]},
    )


def _uji_shape(path: Path) -> str:
    train, validation = _read_uji_tables(path)
    places = np.unique(np.concatenate([train, validation])[:, 522:524], axis=0)
    floors = ", ".join(str(np.sum(places[:, 1] == b)) for b in range(3))
    shapes = " and ".join(f"{len(table)} x {table.shape[1]}" for table in (train, validation))
    return f"{shapes}, floors {floors}"


ENTRIES = {"ujiindoorloc": Entry(ujiindoorloc, standin=ujiindoorloc_standin)}
SHAPES: dict[str, Callable[[Path], str]] = {UJI: _uji_shape}
