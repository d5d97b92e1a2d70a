"""Gene expression in fruit fly embryos: a few genes as outputs, eight embryo series as replicas."""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of

EXPRESSION = "kalinka/kalinka09_mel.csv"
SAMPLES = "kalinka/kalinka09_mel_pdata.csv"

GENES = ("CG12723", "CG13196", "CG13627", "Osi15")
Protocol = Literal["points", "replica"]


def kalinka(
    *,
    genes: Sequence[str] = GENES,
    standardise: bool = True,
    protocol: Protocol | None = None,
    repetition: int = 0,
) -> Dataset:
    """Expression of four *Drosophila melanogaster* genes in eight embryo series, 56 points (Kalinka
    et al., 2010).

    The input is the time of development (2 to 20 h), a replica is a series of 4 to 10 points. Each
    gene has zero mean and unit variance over its 56 values, unless `standardise=False`. `genes`
    chooses others of the 3590 in the file; their order is the order of the outputs.

    `protocol` says what is held out in the given `repetition`, as HMOGP-LV §9 X5 and X6: "points",
    half of each replica (the last ones of a permutation seeded by d + 1000 `repetition` for gene d;
    with 5 points two train, so 27 points train and 29 test); "replica", replica (d + `repetition`)
    mod 8 of gene d. Genes and replicas count from 0.
    """
    return _dataset(
        "real",
        _read(path_of(EXPRESSION), path_of(SAMPLES)),
        genes,
        standardise,
        protocol,
        repetition,
    )


def kalinka_standin(
    *,
    genes: Sequence[str] = GENES,
    standardise: bool = True,
    protocol: Protocol | None = None,
    repetition: int = 0,
) -> Dataset:
    """Synthetic series of the same times: a rise the genes share, a little of its own for each gene
    and each series.
    """
    replica = np.repeat(np.arange(8), [8, 8, 8, 8, 10, 5, 4, 5])
    first = np.array([2, 2, 2, 2, 2, 12, 12, 12])[replica]
    time = first + 2.0 * np.concatenate([np.arange(n) for n in np.bincount(replica)])
    rise = 1.0 / (1.0 + np.exp(-(time - 13.0) / 1.2)) - 0.35 * np.clip(time - 17.0, 0.0, None) / 3.0
    values = []
    for name in genes:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        own = draw(time[:, None] / 6.0, 1.0, rng)
        series = rng.standard_normal(8)[replica]
        values.append(
            8.0 + 3.0 * rise + 0.25 * own + 0.12 * series + 0.15 * rng.standard_normal(len(time))
        )
    raw = Expression(tuple(genes), rounded(np.array(values)), replica, time)
    return _dataset("stand-in", raw, genes, standardise, protocol, repetition)


@dataclass(frozen=True)
class Expression:
    """Log expression `values` [G, S] of the genes called `names` in S samples, each of a `replica`
    at a `time` (h).
    """

    names: tuple[str, ...]
    values: Array
    replica: Array
    time: Array


def _read(expression: Path, samples: Path) -> Expression:
    table = read_table(expression, header=False)
    described = read_numbers(samples, columns=2)
    if table.shape[1] != len(described) + 1:
        raise DataFormatError(
            expression,
            f"{table.shape[1] - 1} samples, but {samples.name} describes {len(described)}",
        )
    names = tuple(map(str, table[0]))
    if len(set(names)) != len(names):
        raise DataFormatError(expression, "a gene is there twice")
    replica = described[:, 0] - 1
    if not np.array_equal(np.unique(replica), np.arange(replica.max() + 1)):
        raise DataFormatError(samples, "replicates must be numbered 1, 2, …")
    try:
        values = table.iloc[:, 1:].to_numpy(float)
    except ValueError:
        raise DataFormatError(expression, "expression levels must be numbers") from None
    return Expression(names, values, replica.astype(np.int64), described[:, 1])


def _dataset(
    source: Source,
    raw: Expression,
    genes: Sequence[str],
    standardise: bool,
    protocol: Protocol | None,
    repetition: int,
) -> Dataset:
    if isinstance(genes, str) or not genes or len(set(genes)) != len(genes):
        raise ValueError(f"genes={genes!r}; give a sequence of different names such as {GENES!r}.")
    rows = {name: g for g, name in enumerate(raw.names)}
    for name in genes:
        if name not in rows:
            close = difflib.get_close_matches(name, rows, n=3) or list(GENES)
            raise ValueError(
                f"no gene {name!r} among {len(rows)}; there is, for example, {', '.join(close)}."
            )
    Y = raw.values[[rows[name] for name in genes]].T
    mean, sd = np.zeros(len(genes)), np.ones(len(genes))
    if standardise:
        Y, mean, sd = standardised(Y)
    return made(
        "kalinka",
        source,
        f"expression of {len(genes)} fruit fly genes over development, {len(Y)} points in 8 series",
        X=raw.time[:, None],
        Y=Y,
        inputs=("time (h)",),
        outputs=tuple(genes),
        likelihoods=("Gaussian",),
        replica=raw.replica,
        held_out=_held_out(protocol, repetition, raw.replica, len(genes)),
        extras={"mean": mean, "sd": sd},
    )


def _held_out(protocol: Protocol | None, repetition: int, replica: Array, D: int) -> Array | None:
    """[N, D] which targets are tested."""
    if repetition < 0:
        raise ValueError(f"repetition={repetition}; repetitions count from 0.")
    if protocol is None:
        return None
    series = [np.flatnonzero(replica == r) for r in range(replica.max() + 1)]
    held_out = np.zeros((len(replica), D), bool)
    for d in range(D):
        if protocol == "points":
            for rows in series:
                shuffled = np.random.RandomState(d + 1000 * repetition).permutation(rows.size)
                held_out[rows[shuffled[round(rows.size / 2) :]], d] = True
        elif protocol == "replica":
            held_out[series[(d + repetition) % len(series)], d] = True
        else:
            raise ValueError(f"protocol={protocol!r}; choose 'points', 'replica' or None.")
    return held_out


def _expression_shape(path: Path) -> str:
    table = read_table(path, header=False)
    return f"{len(table)} genes x {table.shape[1] - 1} samples"


def _samples_shape(path: Path) -> str:
    replica, time = read_numbers(path, columns=2).T
    sizes = ", ".join(str(int(size)) for size in np.unique(replica, return_counts=True)[1])
    return (
        f"{len(replica)} samples, {len(set(replica))} replicates of {sizes}, {len(set(time))} time"
        " points"
    )


ENTRIES = {"kalinka": Entry(kalinka, standin=kalinka_standin)}
SHAPES: dict[str, Callable[[Path], str]] = {EXPRESSION: _expression_shape, SAMPLES: _samples_shape}
