"""Daily exchange rates of ten currencies and three metals against the US dollar, with gaps to be
filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.frames import read_pickled_frames
from mogp.datasets.gaps import Gaps, held_out, pattern_of
from mogp.datasets.making import made
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

CURRENCIES = (
    "CHF",
    "EUR",
    "GBP",
    "HKD",
    "KRW",
    "MXN",
    "NZD",
    "XAG",
    "XAU",
    "XPT",
    "CAD",
    "JPY",
    "AUD",
)
_FIRST = ("MXN", "NZD")
ORDERS = {
    name: (*_FIRST, *(c for c in CURRENCIES if c not in _FIRST))
    for name in ("bidirectional", "combined")
}

GAPS: dict[str, Gaps] = {
    "base": {"CAD": (49, 100), "JPY": (49, 150), "AUD": (49, 200)},
    "bidirectional": dict.fromkeys(_FIRST, (25, 50)),
    "combined": {**dict.fromkeys(_FIRST, (25, 50)), **dict.fromkeys(("JPY", "AUD"), (100, 150))},
}

FILES = {
    **dict.fromkeys(range(2003, 2007), "exchange/fxdata03-06.csv"),
    2007: "exchange/fxdata2007.csv",
    **dict.fromkeys(range(2008, 2011), "exchange/fxdata07-10.csv"),
    **dict.fromkeys(range(2011, 2014), "exchange/fxdata11-13.csv"),
}


def exchange(
    *,
    year: int = 2007,
    currencies: Sequence[str] | None = None,
    missing: str | Gaps | None = "base",
) -> Dataset:
    """US dollars for one unit of ten currencies and three metals, 251 days of 2007 (Pacific
    Exchange Rate Service).

    The input is the decimal year. The metals have no rate on some days.

    Args:
        year: 2003 to 2013.
        currencies: the outputs, in order; None for the order of the experiment that `missing`
            names: CHF, EUR, GBP, HKD, KRW, MXN, NZD, XAG, XAU, XPT, CAD, JPY, AUD, or MXN and NZD
                first where gaps run backwards.
        missing: the targets to hold out, named after the experiment of Xia's: "base" (table 4.3),
            "bidirectional" (figure 4.12), "combined" (figure 4.13; the document gives no ranges:
            rows 25 to 49 of MXN and NZD as in 4.12, and rows 100 to 149 of JPY and AUD are a
            choice); or gaps as {currency: (start, stop)}; or None.
    """
    _check(year)
    dates, rates = read_rates(path_of(FILES[year]))
    this_year = np.array([day.year == year for day in dates])
    chosen = [day for day in dates if day.year == year]
    return _dataset(
        "real", chosen, {c: r[this_year] for c, r in rates.items()}, year, currencies, missing
    )


def exchange_standin(
    *,
    year: int = 2007,
    currencies: Sequence[str] | None = None,
    missing: str | Gaps | None = "base",
) -> Dataset:
    """Synthetic random walks that share the dollar and two more factors; options are those of
    `exchange`.
    """
    _check(year)
    return _dataset("stand-in", *_walks(year), year, currencies, missing)


def _check(year: int) -> None:
    if year not in FILES:
        raise ValueError(f"year={year}; there are {min(FILES)} to {max(FILES)}.")


def _dataset(
    source: Source,
    dates: Sequence[date],
    rates: dict[str, Floats],
    year: int,
    currencies: Sequence[str] | None,
    missing: str | Gaps | None,
) -> Dataset:
    gaps = pattern_of(missing, GAPS)
    chosen = (
        ORDERS.get(missing if isinstance(missing, str) else "", CURRENCIES)
        if currencies is None
        else currencies
    )
    unknown = [name for name in chosen if name not in CURRENCIES]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"currencies={tuple(chosen)}; choose different ones of {', '.join(CURRENCIES)}."
        )
    Y = np.column_stack([1.0 / rates[name] for name in chosen])
    held = held_out(gaps, chosen, len(Y))
    return made(
        "exchange",
        source,
        f"US dollars for one unit of {len(chosen)} currencies and metals on {len(Y)} days of"
        f" {year}",
        X=np.array([decimal_year(day) for day in dates])[:, None],
        Y=Y,
        inputs=("year",),
        outputs=tuple(f"USD/{name}" for name in chosen),
        likelihoods=("Gaussian",),
        held_out=None if held is None else held & ~np.isnan(Y),
    )


def decimal_year(day: date) -> float:
    """The year, and the share of its days that have passed."""
    start = date(day.year, 1, 1)
    return day.year + (day - start).days / (date(day.year + 1, 1, 1) - start).days


def read_rates(path: Path) -> tuple[list[date], dict[str, Floats]]:
    """Dates and, by currency, units for a US dollar, NaN where there is no rate.

    The service's table, plain or as a browser saved it: in a page of three lines before the header
    and two after the last row.
    """
    saved = b"<html>" in path.open("rb").read(200)
    header = ["Jul.Day", "YYYY/MM/DD", "Wdy", *(f"{name}/USD" for name in PUBLISHED)]
    table = read_table(path, header=header, missing=("",), skip=3 * saved, footer=2 * saved)
    rates = _positive_columns(table, [f"{name}/USD" for name in PUBLISHED], path)
    return _dates(table["YYYY/MM/DD"], path), dict(zip(PUBLISHED, rates.T, strict=True))


PUBLISHED = (
    "XAU",
    "XAG",
    "XPT",
    "CAD",
    "EUR",
    "JPY",
    "GBP",
    "CHF",
    "AUD",
    "HKD",
    "NZD",
    "KRW",
    "MXN",
)
"""The order of the columns in the service's tables."""


def _positive_columns(table: pd.DataFrame, names: list[str], path: Path) -> Floats:
    if any(table[name].dtype.kind not in "if" for name in names):
        raise DataFormatError(path, "holds a rate that is not a number")
    rates = table[names].to_numpy(dtype=float)
    if not (np.isnan(rates) | (rates > 0)).all():
        raise DataFormatError(path, "holds a rate that is not positive")
    return rates


def _dates(texts: pd.Series, path: Path) -> list[date]:
    try:
        return [date.fromisoformat(str(text).replace("/", "-")) for text in texts]
    except ValueError as error:
        raise DataFormatError(path, f"holds a date that is not YYYY/MM/DD ({error})") from None


def _walks(year: int) -> tuple[list[date], dict[str, Floats]]:
    """Rates as the service publishes them: log-rates walk at 0.5 % a day, most of it in three
    shared factors.
    """
    rng = np.random.default_rng(year)
    weekdays = np.arange(f"{year}-01-02", f"{year + 1}-01-01", dtype="datetime64[D]")
    weekdays = weekdays[np.is_busday(weekdays)]
    closed = np.linspace(10, len(weekdays) - 10, len(weekdays) - 251).astype(int)
    days = np.delete(weekdays, closed)
    factors = rng.standard_normal((len(days), 3)) * (0.004, 0.003, 0.002)
    loads = np.column_stack([np.ones(13), rng.standard_normal((13, 2))]) * np.array(SWINGS)[:, None]
    steps = factors @ loads.T + 0.0015 * np.array(SWINGS) * rng.standard_normal((len(days), 13))
    rates = np.array(LEVELS) * np.exp(np.cumsum(steps, axis=0))
    for metal, count in (("XAG", 8), ("XAU", 9), ("XPT", 42)):
        rates[rng.permutation(len(days))[:count], CURRENCIES.index(metal)] = np.nan
    return days.tolist(), {
        name: rounded(rate) for name, rate in zip(CURRENCIES, rates.T, strict=True)
    }


LEVELS = (1.2, 0.75, 0.5, 7.8, 930.0, 11.0, 1.4, 0.075, 0.0015, 0.0008, 1.1, 118.0, 1.2)
"""Typical units for a US dollar, in the order of `CURRENCIES`."""
SWINGS = (1.0, 1.0, 1.0, 0.05, 0.6, 0.7, 1.3, 2.0, 1.5, 1.5, 1.0, 1.0, 1.2)

ENTRIES = {"exchange": Entry(exchange, standin=exchange_standin)}


def _shape_of_rates(path: Path) -> str:
    dates, rates = read_rates(path)
    gone = sum(int(np.isnan(rate).sum()) for rate in rates.values())
    return (
        f"{len(dates)} days x {len(rates)} rates, dates {dates[0]:%Y/%m/%d}..{dates[-1]:%Y/%m/%d},"
        f" missing {gone}"
    )


def _shape_of_processed(path: Path) -> str:
    rates = read_numbers(path, columns=13)
    return f"{rates.shape[0]} x {rates.shape[1]}"


def _shape_of_inverse(path: Path) -> str:
    table = read_table(path, delimiter=None, header=True, columns=16)
    return f"{len(table) + 1} lines"


def _shape_of_split(path: Path) -> str:
    table = read_table(path, missing=("",))
    return f"{len(table)} x {table.shape[1] - 1}, {int(table.isna().to_numpy().sum())} missing"


def _shape_of_frames(path: Path) -> str:
    frames = read_pickled_frames(path)
    return "; ".join(
        f"{name}_{part} {len(frame)} x {frame.shape[1]}, {int(frame.isna().to_numpy().sum())}"
        " missing"
        for name, parts in frames.items()
        for part, frame in parts.items()
    )


SHAPES: dict[str, Callable[[Path], str]] = {
    "exchange/fxdata*.csv": _shape_of_rates,
    "exchange/fx2007-processed.csv": _shape_of_processed,
    "exchange/fxdata*.txt": _shape_of_inverse,
    "gplar_splits/*.csv": _shape_of_split,
    "gplar_splits/eeg_exchange.npy": _shape_of_frames,
}
