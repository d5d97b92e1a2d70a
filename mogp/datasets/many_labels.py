"""Points with many labels each: the multi-label sets of Panos, chapter 4, from 14 labels to 325056.

X and Y are sparse (CSR), but for "mediamill" and "yeast", whose features are dense: there both are
dense arrays. Y holds 1 where a point has a label. The published test points are held out.
`extras["labels"]` [K] are the names that labels have where the format gives them names (Mulan's),
and their numbers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_mulan
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.extreme import iter_extreme, read_extreme
from mogp.datasets.making import made
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGE = 100_000
"""Sets of more rows than this are kept in single precision; their stand-ins have 20000 + 5000 rows.
"""


class Size(NamedTuple):
    """Numbers of inputs, of labels, of rows to train on (N) and to test on (N*), and, on average of
    a row, of its labels (K̄) and of its non-zero inputs.
    """

    P: int
    K: int
    train: int
    test: int
    labels: float
    words: float


@dataclass(frozen=True)
class Corpus:
    """A set of points with many labels.

    Attributes:
        name: it is loaded by.
        about: what a point and its labels are.
        size: as table 4.4 prints it.
        files: registered paths: rows to train on, rows to test on and, of Mulan's format, the
            labels.
        signal: share of a stand-in's inputs that come from the row's labels.
        feature: what an input is.
        binary: whether inputs are 0 or 1.
    """

    name: str
    about: str
    size: Size
    files: tuple[str, ...]
    signal: float
    feature: str = "word"
    binary: bool = False

    @property
    def dense(self) -> bool:
        """Whether every row has all inputs."""
        return self.size.words == self.size.P

    @property
    def large(self) -> bool:
        """Whether double precision would be a waste."""
        return self.size.train + self.size.test > LARGE


def _extreme(name: str) -> tuple[str, str]:
    return f"xc/{name}_train.txt", f"xc/{name}_test.txt"


def _mulan(path: str, suffix: str = ".arff") -> tuple[str, str, str]:
    return f"{path}-train{suffix}", f"{path}-test{suffix}", f"{path}.xml"


CORPORA = (
    Corpus(
        "bibtex",
        "tags of bibliographic entries from the words in them",
        Size(1836, 159, 4880, 2515, 2.40, 68.7),
        _mulan("bibtex/bibtex"),
        signal=0.18,
        binary=True,
    ),
    Corpus(
        "delicious",
        "bookmarks of web pages from the words on them",
        Size(500, 983, 12920, 3185, 19.03, 18.2),
        ("delicious/train.txt", "delicious/test.txt"),
        signal=0.9,
        binary=True,
    ),
    Corpus(
        "mediamill",
        "concepts in video shots from visual features",
        Size(120, 101, 30993, 12914, 4.38, 120),
        _extreme("mediamill"),
        signal=0.8,
        feature="feature",
    ),
    Corpus(
        "eurlex",
        "subjects of documents of EU law from the words in them",
        Size(5000, 3993, 15539, 3809, 5.31, 236.7),
        ("eurlex/train.txt", "eurlex/test.txt"),
        signal=0.25,
    ),
    Corpus(
        "rcv1",
        "topics of Reuters news from the words in them",
        Size(47236, 2456, 623847, 155962, 4.79, 76.7),
        _extreme("rcv1"),
        signal=0.5,
    ),
    Corpus(
        "wiki10",
        "tags of Wikipedia articles from the words in them",
        Size(101938, 30938, 14146, 6616, 18.64, 673.4),
        _extreme("wiki10"),
        signal=0.4,
    ),
    Corpus(
        "amazoncat",
        "categories of products from reviews of them",
        Size(203882, 13330, 1186239, 306782, 5.04, 71.1),
        _extreme("amazoncat"),
        signal=0.6,
    ),
    Corpus(
        "delicious-large",
        "bookmarks of web pages from the words on them",
        Size(782585, 205443, 196606, 100095, 75.54, 301.2),
        _extreme("delicious-large"),
        signal=0.2,
    ),
    Corpus(
        "wikilshtc",
        "categories of Wikipedia articles from the words in them",
        Size(1617899, 325056, 1778351, 587084, 3.19, 42.1),
        _extreme("wikilshtc"),
        signal=0.6,
    ),
    Corpus(
        "corel5k",
        "words for pictures from clusters of their regions",
        Size(499, 374, 4500, 500, 3.52, 8.3),
        _mulan("mulan_extra/Corel5k", "-sparse.arff"),
        signal=0.6,
        feature="cluster",
        binary=True,
    ),
    Corpus(
        "yeast",
        "functions of genes from expression levels",
        Size(103, 14, 1500, 917, 4.24, 103),
        _mulan("mulan_extra/yeast"),
        signal=0.5,
        feature="level",
    ),
)


Block = tuple["csr_matrix", "csr_matrix"]
"""Some rows: X `[n, P]` and Y `[n, K]`."""


class Part(NamedTuple):
    """The rows to train on, or those to test on, in blocks one after the other, and the K names of
    labels.
    """

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
    load.__doc__ = f"""{about}: {corpus.size.K} labels, {corpus.size.train} + {corpus.size.test} rows.

    Args:
        normalise: scale every row of X to unit length, as in Panos' experiments.
        drop_unlabelled: leave out rows without a label, as the author's later code does; the sizes that the document
            prints count them.
        rows: read only so many of the rows to train on, and of those to test on.
    """
    standin.__doc__ = f"""Synthetic {corpus.about}, with topics and power-law frequencies; options are the same."""
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
    fewer = (
        f" of the real {corpus.size.train + corpus.size.test}"
        if corpus.large and source == "stand-in"
        else ""
    )
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
    train, test = (20_000, 5_000) if corpus.large else (corpus.size.train, corpus.size.test)
    X, Y = (_shots if corpus.dense else _documents)(corpus, train + test, rng)
    if corpus.large:
        X = X.astype(np.float32)
    parts = ((X[:train][:rows], Y[:train][:rows]), (X[train:][:rows], Y[train:][:rows]))
    return Part([parts[0]], _numbered(corpus)), Part([parts[1]], _numbered(corpus))


def _documents(corpus: Corpus, n: int, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Bags of words about topics: the words of a row come from its labels, from its topic and from
    all words.

    There are about √K / 2 topics, label k belongs to topic k modulo their number, and a row to that
    of a label of its.
    """
    from scipy.sparse import vstack

    def words(rows: csr_matrix, mean: float) -> csr_matrix:
        return vstack(
            [_bags(corpus, rows[i : i + 4000], mean, rng) for i in range(0, rows.shape[0], 4000)],
            format="csr",
        )

    def counted(rows: int, mean: float) -> csr_matrix:
        return _label_sets(corpus.size.K, rows, mean, rng)

    Y = counted(n, _made_up(corpus.size.labels, counted(1000, corpus.size.labels)))
    X = words(Y, _made_up(corpus.size.words, words(Y[:1000], corpus.size.words)))
    shuffled = Y[:, rng.permutation(corpus.size.K)]
    shuffled.sort_indices()
    return X, shuffled


def _made_up(target: float, tried: csr_matrix) -> float:
    """The mean to draw with where `target` gave `tried`: what is drawn twice in a row counts
    once.
    """
    return float(target * target * tried.shape[0] / tried.nnz)


def _topics(K: int) -> int:
    return max(2, round(float(np.sqrt(K)) / 2))


def _label_sets(K: int, n: int, mean: float, rng: np.random.Generator) -> csr_matrix:
    """Y [n, K]: a first label of any topic, by a power law; then two of three labels from its
    topic.
    """
    sizes = 1 + rng.poisson(max(mean - 1.0, 0.0), n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    label, topics = _power_law(K, starts[-1], rng), _topics(K)
    first = label[starts[:-1]]
    near = np.repeat(first % topics, sizes) + topics * _power_law(K // topics, starts[-1], rng)
    label = np.where(rng.uniform(size=starts[-1]) < 2 / 3, near, label)
    label[starts[:-1]] = first
    return _counts(label, starts, K, np.dtype(np.uint8), binary=True)


def _power_law(size: int, n: int, rng: np.random.Generator) -> Ints:
    """n numbers k below `size`, of density proportional to 1 / (k + 2)."""
    k: Floats = 2.0 * ((size + 2.0) / 2.0) ** rng.uniform(size=n) - 2.0
    return np.minimum(k, size - 1).astype(np.int64)


def _bags(corpus: Corpus, Y: csr_matrix, mean: float, rng: np.random.Generator) -> csr_matrix:
    """X [n, P] with words of row n's labels (15 each), of a label's topic (60 each), and of all."""
    sizes = 1 + rng.poisson(max(mean - 1.0, 0.0), Y.shape[0])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pick, which, source = rng.uniform(size=(3, starts[-1]))
    first, owned = np.repeat(Y.indptr[:-1], sizes), np.repeat(np.diff(Y.indptr), sizes)
    label = Y.indices[first + (pick * owned).astype(np.int64)].astype(np.int64)
    of_label = label * 7919 + (15 * which).astype(np.int64) * 104729
    of_topic = label % _topics(corpus.size.K) * 15485863 + (60 * which).astype(np.int64) * 32452843
    word = np.where(source < corpus.signal / 2, of_label, of_topic) % corpus.size.P
    word = np.where(
        source < corpus.signal,
        word,
        (corpus.size.P * rng.uniform(size=starts[-1]) ** 2).astype(np.int64),
    )
    return _counts(word, starts, corpus.size.P, np.dtype(np.float64), corpus.binary)


def _counts(
    columns: Ints, starts: Ints, width: int, dtype: np.dtype[np.generic], binary: bool
) -> csr_matrix:
    """How often each column occurs in each row, or whether."""
    from scipy.sparse import csr_matrix

    counts = csr_matrix(
        (np.ones(len(columns), dtype), columns, starts), shape=(len(starts) - 1, width)
    )
    counts.sum_duplicates()
    if binary:
        counts.data[:] = 1
    return counts


def _shots(corpus: Corpus, n: int, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Dense features and labels that are noisy linear functions of ten latents, labels above a
    threshold each.
    """
    from scipy.sparse import csr_matrix

    latents = rng.standard_normal((n, 10))
    X = latents @ rng.standard_normal((10, corpus.size.P)) + 3.0 * rng.standard_normal(
        (n, corpus.size.P)
    )
    scores = corpus.signal * latents @ rng.standard_normal((10, corpus.size.K)) / np.sqrt(10.0)
    scores += np.sqrt(1.0 - corpus.signal**2) * rng.standard_normal((n, corpus.size.K))
    share = 1.0 / (np.arange(corpus.size.K) + 1.0)
    share = np.minimum(share * corpus.size.labels / share.sum(), 0.65)
    share *= corpus.size.labels / share.sum()
    bars = [
        np.partition(column, -round(s * n))[-round(s * n)]
        for column, s in zip(scores.T, share, strict=True)
    ]
    Y = (scores >= np.array(bars))[:, rng.permutation(corpus.size.K)]
    return csr_matrix(np.round(0.03 * X, 6)), csr_matrix(Y.astype(np.uint8))


ENTRIES = {corpus.name: _entry(corpus) for corpus in CORPORA}


def _shape_of_extreme(path: Path) -> str:
    sizes = [(X.shape, Y.shape, X.nnz, Y.nnz) for X, Y in iter_extreme(path)]
    (_, P), (_, K), _, _ = sizes[0]
    N, words, labels = (
        sum(X[0] for X, _, _, _ in sizes),
        sum(x for _, _, x, _ in sizes),
        sum(y for _, _, _, y in sizes),
    )
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
