"""Points with many labels each: the multi-label sets of Panos, chapter 4, from 14 labels to 325056.

X and Y are sparse (CSR), but for "mediamill" and "yeast", whose features are dense: there both are
dense arrays. Y holds 1 where a point has a label. The published test points are held out.
`extras["labels"]` [K] are the names that labels have where the format gives them names (Mulan's),
and their numbers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.corpora import CORPORA, Corpus
from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_mulan
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.extreme import iter_extreme, read_extreme
from mogp.datasets.label_draws import documents, shots
from mogp.datasets.making import made
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STAND_IN_OF_LARGE = (20_000, 5_000)
"""Rows to train on and to test on of the stand-in for a large set."""

Block = tuple["csr_matrix", "csr_matrix"]
"""Some rows: X `[n, P]` and Y `[n, K]`."""


class Part(NamedTuple):
    """The rows to train on, or those to test on, in blocks, and the K names of labels."""

    blocks: list[Block]
    names: tuple[str, ...]


def _entry(corpus: Corpus) -> Entry:
    def load(
        *, normalise: bool = True, drop_unlabelled: bool = False, rows: int | None = None
    ) -> Dataset:
        _check(rows)
        train, test = (_read(corpus, path, rows) for path in corpus.files[:2])
        return _dataset(corpus, "real", train, test, normalise, drop_unlabelled)

    def standin(
        *, normalise: bool = True, drop_unlabelled: bool = False, rows: int | None = None
    ) -> Dataset:
        _check(rows)
        return _dataset(corpus, "stand-in", *_drawn(corpus, rows), normalise, drop_unlabelled)

    about = f"{corpus.about[0].upper()}{corpus.about[1:]}"
    sizes = f"{corpus.size.K} labels, {corpus.size.train} + {corpus.size.test} rows"
    load.__doc__ = f"""{about}: {sizes}.

    Args:
        normalise: scale every row of X to unit length, as in Panos' experiments.
        drop_unlabelled: leave out rows without a label, as the author's later code does; the sizes
            that the document prints count them.
        rows: read only so many of the rows to train on, and of those to test on.
    """
    standin.__doc__ = f"""Synthetic {corpus.about}, with topics and power-law frequencies.

    The options are the same.
    """
    return Entry(load, standin=standin)


def _check(rows: int | None) -> None:
    if rows is not None and rows < 1:
        raise ValueError(f"rows={rows}; give at least 1, or None for all.")


def _dataset(
    corpus: Corpus, source: Source, train: Part, test: Part, normalise: bool, drop_unlabelled: bool
) -> Dataset:
    from scipy.sparse import vstack

    X, Y = (
        vstack([block[i] for block in train.blocks + test.blocks], format="csr") for i in (0, 1)
    )
    held_out = np.arange(X.shape[0]) >= sum(block.shape[0] for block, _ in train.blocks)
    if drop_unlabelled:
        labelled = np.diff(Y.indptr) > 0
        X, Y, held_out = X[labelled], Y[labelled], held_out[labelled]
    if normalise:
        X.data *= np.repeat(_inverse_lengths(X), np.diff(X.indptr))
    fewer = ""
    if corpus.large and source == "stand-in":
        fewer = f" of the real {corpus.size.train + corpus.size.test}"
    return made(
        corpus.name,
        source,
        f"{corpus.about}: {X.shape[0]} points{fewer}, {corpus.size.P} inputs, {corpus.size.K}"
        " labels",
        X=X.toarray() if corpus.dense else X,
        Y=Y.toarray().astype(float) if corpus.dense else Y,
        inputs=(corpus.feature,),
        outputs=_numbered(corpus),
        likelihoods=("Bernoulli",),
        held_out=held_out,
        extras={"labels": np.array(train.names)},
    )


def _inverse_lengths(X: csr_matrix) -> NDArray[Any]:
    """One over the Euclidean length of each row; 1 for empty ones."""
    from scipy.sparse import csr_matrix

    squares = csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)
    length = np.sqrt(squares @ np.ones(X.shape[1], X.dtype))
    return np.asarray(1.0 / np.where(length > 0, length, 1.0), X.dtype)


def _read(corpus: Corpus, path: str, rows: int | None) -> Part:
    """The first `rows` rows of one of a corpus' two files, of the width that is expected."""
    from scipy.sparse import csr_matrix

    copy = path_of(path)
    if len(corpus.files) == 3:
        table = read_mulan(copy, path_of(corpus.files[2]))
        part = Part([(csr_matrix(table.X)[:rows], table.Y[:rows])], table.labels)
    else:
        part = Part(_read_extreme(copy, rows, corpus.large), _numbered(corpus))
    P, K = (matrix.shape[1] for matrix in part.blocks[0])
    if (P, K) != (corpus.size.P, corpus.size.K):
        raise DataFormatError(
            copy, f"has {P} features and {K} labels, not {corpus.size.P} and {corpus.size.K}"
        )
    return part


def _read_extreme(path: Path, rows: int | None, single: bool) -> list[Block]:
    """Blocks of a file, in single precision before the next one is read if it is a large one."""
    blocks = iter_extreme(path) if rows is None else [read_extreme(path, rows)]
    return [(X.astype(np.float32 if single else np.float64), Y) for X, Y in blocks]


def _numbered(corpus: Corpus) -> tuple[str, ...]:
    return tuple(f"label {k}" for k in range(corpus.size.K))


def _drawn(corpus: Corpus, rows: int | None) -> tuple[Part, Part]:
    """Rows to train on and to test on, as `_read` gives them."""
    rng = np.random.default_rng(2019)
    train, test = STAND_IN_OF_LARGE if corpus.large else (corpus.size.train, corpus.size.test)
    X, Y = (shots if corpus.dense else documents)(corpus, train + test, rng)
    if corpus.large:
        X = X.astype(np.float32)
    parts = ((X[:train][:rows], Y[:train][:rows]), (X[train:][:rows], Y[train:][:rows]))
    return Part([parts[0]], _numbered(corpus)), Part([parts[1]], _numbered(corpus))


ENTRIES = {corpus.name: _entry(corpus) for corpus in CORPORA}


def _shape_of_extreme(path: Path) -> str:
    sizes = [(X.shape, Y.shape, X.nnz, Y.nnz) for X, Y in iter_extreme(path)]
    (_, P), (_, K), _, _ = sizes[0]
    N = sum(X[0] for X, _, _, _ in sizes)
    words, labels = sum(x for _, _, x, _ in sizes), sum(y for _, _, _, y in sizes)
    return f"{N} x {P} features, {K} labels, {words} non-zeros, {labels / N:.2f} labels a row"


def _shape_of_mulan(corpus: Corpus) -> Callable[[Path], str]:
    def shape(path: Path) -> str:
        table = read_mulan(path, path_of(corpus.files[2]))
        (N, P), K = table.X.shape, table.Y.shape[1]
        stored = np.count_nonzero(table.X) if isinstance(table.X, np.ndarray) else table.X.nnz
        return f"{N} rows x {P} features + {K} labels, {stored + table.Y.nnz} non-zeros"

    return shape


def _shape_of_names(corpus: Corpus) -> Callable[[Path], str]:
    return lambda path: f"{len(read_mulan(path_of(corpus.files[0]), path).labels)} labels"


def _readers(corpus: Corpus) -> tuple[Callable[[Path], str], ...]:
    if len(corpus.files) == 2:
        return _shape_of_extreme, _shape_of_extreme
    return _shape_of_mulan(corpus), _shape_of_mulan(corpus), _shape_of_names(corpus)


SHAPES: dict[str, Callable[[Path], str]] = {
    path: shape
    for corpus in CORPORA
    for path, shape in zip(corpus.files, _readers(corpus), strict=True)
}
