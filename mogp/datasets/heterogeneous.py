"""Outputs of different types that share their inputs: HUMAN, NAVAL, SARCOS and TRAFFIC (Giraldo, §8.1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import draw
from mogp.datasets.entry import Entry, unavailable
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.geojson import read_points
from mogp.datasets.formats.matlab import read_mat
from mogp.datasets.formats.text import lines_of, read_text
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.store import DataUnavailableError, path_of

if TYPE_CHECKING:
    import pandas as pd

PRIVATE_HUMAN = (
    "the records of a psychiatric-monitoring app were never published; the nearest real data are 'occupancy'"
)


def human() -> Dataset:
    """A person's phone through time: at home or not, distance from home, share of active apps (private).

    5000 binary, 5000 real and 21000 values in (0, 1), each output at times of its own.
    """
    raise unavailable("human", PRIVATE_HUMAN)


def human_standin() -> Dataset:
    """A synthetic person with a day's rhythm: three outputs that share two processes, 5000, 5000 and 21000 values."""
    rng = np.random.default_rng(31)
    grid = np.linspace(0.0, 30.0, 6001)
    rhythm = np.sin(2.0 * np.pi * grid)
    u = [rhythm + 0.5 * draw(grid[:, None], scale, rng) for scale in (0.15, 1.5)]
    counts = (5000, 5000, 21000)
    times = [np.sort(rng.uniform(0.0, 30.0, n)) for n in counts]
    near, far, apps = ([np.interp(t, grid, each) for each in u] for t in times)
    at_home = (rng.uniform(size=counts[0]) < 1.0 / (1.0 + np.exp(-2.5 * near[0] - 0.8 * near[1]))).astype(float)
    distance = -far[0] + 0.6 * far[1] + np.exp(0.6 * far[1] - 1.0) * rng.standard_normal(counts[1])
    a, b = np.exp(0.8 + 0.5 * apps[0]), np.exp(1.6 - 0.5 * apps[1])
    active = np.clip(rng.beta(a, b), 1e-3, 0.99)
    targets = [at_home, standardised(np.round(distance, 6))[0], np.round(active, 6)]
    return made(
        "human",
        "stand-in",
        "a person's phone through time: at home, distance from home, share of active apps",
        X=standardised(np.concatenate(times))[0][:, None],
        Y=np.concatenate(targets)[:, None],
        output=np.repeat(np.arange(3), counts),
        inputs=("time",),
        outputs=("at home", "distance", "active apps"),
        likelihoods=("Bernoulli", "HeteroscedasticGaussian", "Beta"),
        classes={"at home": ("away", "at home")},
    )


NAVAL = "naval/naval.txt"
NAVAL_INPUTS = (
    *("lever position", "ship speed", "shaft torque", "turbine speed", "generator speed", "starboard torque"),
    *("port torque", "exit temperature 48", "inlet temperature 1", "outlet temperature 2", "exit pressure 48"),
    *("inlet pressure 1", "outlet pressure 2", "exhaust pressure", "injection control", "fuel flow"),
)
NINTH = 8


def naval(*, constant: Literal["ninth", "all"] = "ninth") -> Dataset:
    """Decay of a frigate's gas turbine from 15 sensors, 11934 simulated states (Coraddu et al., 2016; UCI).

    Beta: decay of the compressor, clipped to [1e-5, 0.999]; Gamma: decay of the turbine, clipped to [1e-5, 1]; both
    first brought to [0, 1]. Inputs have zero mean and unit deviation. The document drops one constant input, the ninth
    of 16. The file has two, the ninth and the twelfth: `constant` = "all" drops both; otherwise the twelfth is zero.
    """
    return _naval("real", read_naval(path_of(NAVAL)), constant)


def naval_standin(*, constant: Literal["ninth", "all"] = "ninth") -> Dataset:
    """A synthetic plant on the same design: 9 speeds, 51 states of the compressor, 26 of the turbine."""
    rng = np.random.default_rng(11934)
    speed, compressor, turbine = (
        axis.ravel() for axis in np.meshgrid(np.arange(1, 10), np.arange(51), np.arange(26), indexing="ij")
    )
    s, c, t = speed / 9.0, compressor / 50.0, turbine / 25.0
    wear = np.column_stack([c * s, c * s**3, t * s**1.5, t * s**3])
    level, power = rng.uniform(1.5, 2.5, 16), rng.uniform(0.8, 2.2, 16)
    sensors = level * s[:, None] ** power + wear @ rng.uniform(-0.4, 0.4, (4, 16))
    sensors = sensors + 0.02 * rng.standard_normal(sensors.shape)
    sensors = np.round(1000.0 * sensors) / 10.0
    sensors[:, 0], sensors[:, 1] = 0.1 + speed, 3.0 * speed
    sensors[:, NINTH], sensors[:, 11], sensors[:, 6] = 288.0, 0.998, sensors[:, 5]
    return _naval("stand-in", np.column_stack([sensors, 0.95 + 0.001 * compressor, 0.975 + 0.001 * turbine]), constant)


def read_naval(path: Path) -> Array:
    """`[11934, 18]`: sixteen sensors, decay of compressor and turbine."""
    return read_numbers(path, delimiter=None, columns=18)


def _naval(source: Source, raw: Array, constant: str) -> Dataset:
    if constant not in ("ninth", "all"):
        raise ValueError(f'constant={constant!r}; expected "ninth" or "all".')
    kept = np.arange(16) != NINTH if constant == "ninth" else np.ptp(raw[:, :16], axis=0) > 0.0
    compressor, _, _ = unit_interval(raw[:, 16:17], 1e-5, 0.999)
    turbine, _, _ = unit_interval(raw[:, 17:], 1e-5, 1.0)
    return made(
        "naval",
        source,
        f"decay of a frigate's gas turbine, {len(raw)} simulated states, {kept.sum()} sensors",
        X=standardised(raw[:, :16][:, kept])[0],
        Y=np.hstack([compressor, turbine]),
        inputs=tuple(np.array(NAVAL_INPUTS)[kept]),
        outputs=("compressor", "turbine"),
        likelihoods=("Beta", "Gamma"),
    )


SARCOS = {"train": "sarcos/sarcos_inv.mat", "test": "sarcos/sarcos_inv_test.mat"}
Part = Literal["train", "test", "all"]


def sarcos(*, part: Part = "train") -> Dataset:
    """Torques at the seven joints of a robot arm from their motion, 44484 x 21 (Vijayakumar and Schaal, 2000).

    `part`: the published training file, which is what the document splits again; the "test" file of 4449 rows alone,
    for when the larger one is out of reach; or "all", with the published split. Inputs and torques have zero mean and
    unit deviation over the rows of the part.
    """
    try:
        raw = {each: read_sarcos(path_of(SARCOS[each]), each) for each in _parts(part)}
    except DataUnavailableError as problem:
        if part == "test":
            raise
        raise DataUnavailableError(f'{problem}\nOr load the smaller file alone, with part="test".') from problem
    return _sarcos("real", raw)


def sarcos_standin(*, part: Part = "train") -> Dataset:
    """A synthetic arm: joints follow sums of sines, torques come from inertia, speed, gravity and noise."""
    rows = {"train": 44484, "test": 4449}
    return _sarcos("stand-in", {each: _arm(rows[each], seed) for seed, each in enumerate(_parts(part), 7)})


def read_sarcos(path: Path, part: str) -> Array:
    """`[N, 28]`: seven positions, velocities and accelerations, then seven torques."""
    name = "sarcos_inv" if part == "train" else "sarcos_inv_test"
    values = read_mat(path, [name])[name]
    if values.ndim != 2 or values.shape[1] != 28:
        raise DataFormatError(path, f"{name} has shape {values.shape}, expected 28 columns")
    return values.astype(np.float64)


def _parts(part: str) -> tuple[str, ...]:
    if part not in get_args(Part):
        raise ValueError(f"part={part!r}; expected one of {', '.join(get_args(Part))}.")
    return ("train", "test") if part == "all" else (part,)


def _sarcos(source: Source, raw: dict[str, Array]) -> Dataset:
    table, _, _ = standardised(np.vstack(list(raw.values())))
    split = len(raw) == 2
    return made(
        "sarcos",
        source,
        f"torques of a robot arm from its motion, {len(table)} points"
        + ("" if split else f": the published {next(iter(raw))} file, to be split again"),
        X=table[:, :21],
        Y=table[:, 21:],
        inputs=tuple(f"{kind} {joint}" for kind in ("position", "velocity", "acceleration") for joint in range(1, 8)),
        outputs=tuple(f"torque {joint}" for joint in range(1, 8)),
        likelihoods=("HeteroscedasticGaussian",),
        held_out=np.repeat([False, True], [len(part) for part in raw.values()]) if split else None,
    )


def _arm(rows: int, seed: int) -> Array:
    """Positions, velocities, accelerations and torques [rows, 28] of a synthetic arm."""
    body, path = np.random.default_rng(28), np.random.default_rng(seed)
    time = path.permutation(rows) / 100.0
    rates, phases = body.uniform(0.5, 6.0, (7, 4)), body.uniform(0.0, 2.0 * np.pi, (7, 4))
    sizes = 0.3 / rates
    angle = time[:, None, None] * rates + phases
    q, v, a = (
        (sizes * term).sum(axis=-1) for term in (np.sin(angle), rates * np.cos(angle), -(rates**2) * np.sin(angle))
    )
    inertia, drag, gravity = (body.standard_normal((7, 7)) * scale for scale in (0.6, 0.5, 1.0))
    bend = np.sin(3.0 * q) @ gravity + (v * np.roll(v, 1, axis=1)) @ drag * 0.5
    torque = a @ inertia + v @ drag + bend + 0.6 * path.standard_normal((rows, 7))
    return np.round(np.hstack([q, v, a, torque]), 6)


TRAFFIC = "traffic/london_20002016_all_raw_8am.csv"
LOCATIONS = "traffic/london_dft_traffic_count_locations.json"
VEHICLES = {"pc": "pedal cycles", "2wmv": "two-wheeled", "car": "cars", "bus": "buses"}


def traffic(*, before: int = 2003, roads: Literal["major", "all"] = "major") -> Dataset:
    """Vehicles of four kinds counted on London's roads, 1712 counts at places and days (Department for Transport).

    Inputs: longitude, latitude and day of the year, with zero mean and unit deviation. Outputs: counts y of both
    directions, rescaled to the integer nearest 500 y / sd(y). The document sums a day's hours; the public table at hand
    has the hour from eight. The document's 1712 points are the counts on major roads (motorways and A roads) in years
    `before` 2003: `roads` = "all" adds the minor ones.
    """
    return _traffic("real", read_traffic(path_of(TRAFFIC), path_of(LOCATIONS)), before, roads)


def traffic_standin(*, before: int = 2003, roads: Literal["major", "all"] = "major") -> Dataset:
    """Synthetic counts that fall off from a busy centre, at 2548 places in the years 2000 to 2016."""
    return _traffic("stand-in", _counts(), before, roads)


def read_traffic(counts: Path, locations: Path) -> pd.DataFrame:
    """Counts, with the day of the year, and the longitude, latitude and road category ("PU", "TM", …) of the place."""
    import pandas as pd

    header = ("cp", "year", "pc", "2wmv", "car", "bus", "lgv", "hgv_total", "min_month", "min_dayofmonth", "hour")
    table = read_table(counts, header=(*header, "min_idir", "max_idir"))
    numbers(table[list(header)], counts)
    try:
        date = pd.to_datetime(dict(year=table["year"], month=table["min_month"], day=table["min_dayofmonth"]))
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
            counts, f"{len(table) - len(joined)} counts at places that {locations.name} does not have"
        )
    return joined


def _traffic(source: Source, table: pd.DataFrame, before: int, roads: str) -> Dataset:
    if roads not in ("major", "all"):
        raise ValueError(f'roads={roads!r}; expected "major" or "all".')
    if before <= table["year"].min():
        raise ValueError(f"before={before}; the counts begin in {table['year'].min()}.")
    chosen = table[(table["year"] < before) & (table["rcat"].str[0].isin(["P", "T"]) | (roads == "all"))]
    counts = chosen[list(VEHICLES)].to_numpy(np.float64)
    return made(
        "traffic",
        source,
        f"vehicles counted from eight to nine on London's {'major ' if roads == 'major' else ''}roads before {before}, "
        f"{len(chosen)} counts",
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
    places = np.round(np.array([-0.1, 51.5]) + np.array([0.17, 0.09]) * rng.standard_normal((2548, 2)), 6)
    major = rng.uniform(size=2548) < 0.65
    busy = 0.5 * draw((places - [-0.1, 51.5]) / [0.17, 0.09], 0.5, rng) - 0.15 * ((places[:, 0] + 0.1) / 0.17) ** 2
    every, place = (axis.ravel() for axis in np.meshgrid(np.arange(2000, 2017), np.arange(2548), indexing="ij"))
    groups = 2 * (every < 2003) + major[place]
    chosen = [rng.permutation(np.flatnonzero(groups == g))[:n] for g, n in enumerate((3200, 7410, 441, 1712))]
    kept = np.sort(np.concatenate(chosen))
    year, place, N = every[kept], place[kept], len(kept)
    log_rate = np.array([2.4, 3.4, 6.8, 3.0]) + busy[place, None] * [2.6, 1.4, 0.5, 0.8] + 0.6 * major[place, None]
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


ENTRIES = {
    "human": Entry(human, standin=human_standin, private=PRIVATE_HUMAN),
    "naval": Entry(naval, standin=naval_standin),
    "sarcos": Entry(sarcos, standin=sarcos_standin),
    "traffic": Entry(traffic, standin=traffic_standin),
}

SHAPES: dict[str, Callable[[Path], str]] = {
    NAVAL: lambda path: size(read_naval(path)),
    SARCOS["train"]: lambda path: size(read_sarcos(path, "train")),
    SARCOS["test"]: lambda path: size(read_sarcos(path, "test")),
    TRAFFIC: lambda path: size(read_table(path, columns=13).to_numpy()),
    LOCATIONS: lambda path: f"{len(read_points(path))} points",
    "traffic/README.md": lambda path: f"{len(lines_of(read_text(path)))} lines",
}
