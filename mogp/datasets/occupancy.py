"""Sensors of an office room and whether anybody was in it (Giraldo, §9.3); also the nearest real
data to HUMAN.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mogp.datasets.annotate import annotate_classes
from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.delimited import read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    import pandas as pd

FILES = ("occupancy/datatraining.txt", "occupancy/datatest.txt", "occupancy/datatest2.txt")
HEADER = ("date", "Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy")
Layout = Literal["classification", "human"]
Annotators = Literal["simulated"] | None


def occupancy(*, layout: Layout = "classification", annotators: Annotators = None) -> Dataset:
    """Temperature, humidity, light and CO2 of an office by the minute, and its occupancy, 20560
    rows (UCI 357).

    `layout` "classification": five standardised sensors tell occupancy (the document counts 7
    columns). "human": the time, standardised, is the input of three outputs of the types of HUMAN:
    occupancy, CO2 (its logarithm, standardised) and humidity, brought to [0, 1] and clipped to
    [1e-3, 0.99]. `annotators` = "simulated" adds five annotators of occupancy (`annotate_classes`).
    """
    return _dataset("real", read_occupancy(*(path_of(file) for file in FILES)), layout, annotators)


def occupancy_standin(
    *, layout: Layout = "classification", annotators: Annotators = None
) -> Dataset:
    """A synthetic office: people at work on weekdays turn on the light and breathe out CO2."""
    return _dataset("stand-in", _office(), layout, annotators)


def read_occupancy(*paths: Path) -> pd.DataFrame:
    """The rows of the files, one after the other, with the columns `HEADER`; `date` as a time."""
    import pandas as pd

    parts = []
    for path in paths:
        part = read_table(path, header=HEADER, index=True)
        part[list(HEADER[1:])] = numbers(part[list(HEADER[1:])], path)
        try:
            part["date"] = pd.to_datetime(part["date"], format="%Y-%m-%d %H:%M:%S")
        except (ValueError, TypeError) as error:
            raise DataFormatError(path, f"a date is not YYYY-MM-DD hh:mm:ss ({error})") from error
        if not part["Occupancy"].isin([0, 1]).all():
            raise DataFormatError(path, "Occupancy holds more than 0 and 1")
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _dataset(source: Source, table: pd.DataFrame, layout: str, annotators: str | None) -> Dataset:
    if layout not in ("classification", "human") or annotators not in (None, "simulated"):
        raise ValueError(
            f'layout={layout!r}, annotators={annotators!r}; expected layout "classification" or'
            ' "human", and annotators None or "simulated".'
        )
    occupied = table["Occupancy"].to_numpy(np.float64)
    classes = {"occupancy": ("empty", "occupied")}
    if layout == "human":
        if annotators is not None:
            raise ValueError('annotators="simulated" needs layout="classification".')
        carbon_dioxide = standardised(np.round(np.log(table["CO2"].to_numpy(np.float64)), 6))[0]
        humidity = unit_interval(table["Humidity"].to_numpy(np.float64), 1e-3, 0.99)[0]
        seconds = (table["date"] - table["date"].min()).dt.total_seconds().to_numpy()
        order = np.argsort(seconds, kind="stable")
        return made(
            "occupancy",
            source,
            f"an office through time: occupancy, CO2 and humidity, {len(table)} minutes",
            X=standardised(seconds)[0][order, None],
            Y=np.column_stack([occupied, carbon_dioxide, humidity])[order],
            inputs=("time",),
            outputs=("occupancy", "CO2", "humidity"),
            likelihoods=("Bernoulli", "HeteroscedasticGaussian", "Beta"),
            classes=classes,
        )
    dataset = made(
        "occupancy",
        source,
        f"occupancy of an office from five sensors, {len(table)} minutes",
        X=standardised(table[list(HEADER[1:6])].to_numpy(np.float64))[0],
        Y=occupied[:, None],
        inputs=HEADER[1:6],
        outputs=("occupancy",),
        likelihoods=("Bernoulli",),
        classes=classes,
    )
    return dataset if annotators is None else annotate_classes(dataset)


def _office() -> pd.DataFrame:
    import pandas as pd

    rng = np.random.default_rng(20560)
    minutes = np.sort(rng.permutation(15 * 1440 + 1140)[:20560]) + 859
    day, hour = minutes // 1440, minutes % 1440 / 60.0
    working = day % 7 < 5
    presence = (0.5 * np.sin(np.arange(17 * 48) * 1.7) + rng.standard_normal(17 * 48))[
        minutes // 30
    ]
    occupied = working & (hour > 8.0) & (hour < 18.0) & (presence > -0.8)
    trend = np.convolve(occupied, np.ones(60) / 60.0)[: len(minutes)]
    light = np.where(
        occupied, 480.0, np.where((hour > 9) & (hour < 16), 60.0, 0.0)
    ) + 40.0 * rng.uniform(size=20560)
    light = np.where(rng.uniform(size=20560) < 0.006, 440.0, light)
    temperature = (
        20.3
        + 1.6 * trend
        + 0.4 * np.sin(2 * np.pi * (hour - 9) / 24)
        + 0.15 * rng.standard_normal(20560)
    )
    humidity = 27.0 + 4.0 * np.sin(day * 0.9) + 2.0 * trend + 0.3 * rng.standard_normal(20560)
    carbon_dioxide = 440.0 + 560.0 * trend + 25.0 * rng.uniform(size=20560)
    return pd.DataFrame(
        {
            "date": pd.Timestamp("2015-02-02") + pd.to_timedelta(minutes, unit="min"),
            "Temperature": np.round(temperature, 3),
            "Humidity": np.round(humidity, 3),
            "Light": np.round(light, 2),
            "CO2": np.round(carbon_dioxide, 2),
            "HumidityRatio": np.round(humidity * 1.5e-4 * (1.0 + 0.06 * (temperature - 20.0)), 6),
            "Occupancy": occupied.astype(int),
        }
    )


ENTRIES = {"occupancy": Entry(occupancy, standin=occupancy_standin)}

SHAPES: dict[str, Callable[[Path], str]] = {
    "occupancy/*.txt": lambda path: size(read_occupancy(path).to_numpy())
}
