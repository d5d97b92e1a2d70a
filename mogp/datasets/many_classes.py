"""Multi-class sets of Ma's chapter 3 with one output: two synthetic ones and four tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.archives import open_member, read_members
from mogp.datasets.formats.delimited import parse_numbers, read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.extreme import parse_split
from mogp.datasets.making import made
from mogp.datasets.prepared import prepared
from mogp.datasets.store import path_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BALANCE = "balance/balance-scale.data"
CNAE9 = "cnae9/CNAE-9.data"
MEDIAMILL = "mediamill/Mediamill_data.txt"
BIBTEX = "bibtex/Bibtex.zip"


def _single(
    name: str, source: Source, description: str, X: Array | csr_matrix, y: Array, **fields: Any
) -> Dataset:
    """One output, called "class", whose targets `y` [N] are class numbers."""
    return made(
        name,
        source,
        description,
        X=X,
        Y=y[:, None],
        outputs=("class",),
        likelihoods=("Softmax",),
        **fields,
    )


# Two synthetic sets


def ma_two_class(
    *,
    n: int = 2000,
    lengthscale: float = 0.1,
    spacing: Literal["equal", "uniform"] = "equal",
    seed: int = 0,
) -> Dataset:
    """Two classes whose functions mirror each other, 2000 points on [-10, 10] (Ma, §3.3.1 and
    figure 3.1).

    f ~ N(0, B ⊗ K) with the thesis' matrix B of rank one and K an RBF of unit variance: f_c(x) =
    a_c u(x) with B = a aᵀ. The first class is seen where f_1 > f_2. The thesis does not say how the
    inputs are spread: equally spaced, or with `spacing="uniform"` at random.

    `extras`: `B` [2, 2], the loadings `a` [2], the latent process `u` [N] and the class functions
    `f` [N, 2].
    """
    if n < 1:
        raise ValueError(f"{n} points were asked for; there must be at least one.")
    if spacing not in ("equal", "uniform"):
        raise ValueError(f"spacing={spacing!r}; choose 'equal' or 'uniform'.")
    rng = np.random.default_rng(seed)
    x = np.linspace(-10.0, 10.0, n) if spacing == "equal" else np.sort(rng.uniform(-10.0, 10.0, n))
    u = draw(x[:, None], lengthscale, rng)
    B = np.array([[11.24525249, -11.57961005], [-11.57961005, 11.92390914]])
    a = np.sqrt(B.diagonal()) * (1.0, -1.0)
    f = u[:, None] * a
    return _single(
        "ma-two-class",
        "synthetic",
        f"two classes with mirrored class functions, {n} points",
        x[:, None],
        (f[:, 0] <= f[:, 1]).astype(float),
        citation="C. Ma (2023), §3.3.1",
        inputs=("x",),
        classes={"class": ("one", "two")},
        extras={"B": B, "a": a, "u": u, "f": f},
    )


def s20(*, seed: int = 1) -> Dataset:
    """Twenty Gaussian clusters in five dimensions, 2000 points (Ma, §3.3.2).

    scikit-learn's `make_classification` with five informative features and one cluster a class, as
    in the authors' public code, whose seed was 1.
    """
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=2000,
        n_classes=20,
        n_features=5,
        n_informative=5,
        n_redundant=0,
        n_clusters_per_class=1,
        random_state=seed,
    )
    return _single(
        "s20",
        "synthetic",
        "twenty clusters in five dimensions, 2000 points",
        X,
        y.astype(float),
        citation="C. Ma (2023), §3.3.2; scikit-learn's make_classification",
        inputs=("x",),
        classes={"class": _numbered(20)},
    )


# Balance


def balance() -> Dataset:
    """Which way a scale tips: 625 settings of two weights and two distances, 3 classes (Siegler;
    UCI balance-scale).

    Inputs are the integers 1 to 5, not scaled. Classes are L (288), R (288), B (49), numbered as in
    the authors' code.
    """
    return _balance("real", _read_balance(path_of(BALANCE)))


def balance_standin() -> Dataset:
    """All 625 settings and the side with the larger weight times distance, which is what the
    published table holds.
    """
    X = np.array(list(product(range(1, 6), repeat=4)), float)
    tip = np.sign(X[:, 2] * X[:, 3] - X[:, 0] * X[:, 1])
    return _balance("stand-in", (np.select([tip < 0, tip > 0], ["L", "R"], "B"), X))


def _read_balance(path: Path) -> tuple[Array, Array]:
    table = read_table(path, header=False, columns=5)
    X = table.iloc[:, 1:].to_numpy()
    if X.dtype.kind not in "if" or not np.isin(X, range(1, 6)).all():
        raise DataFormatError(path, "weights and distances must be integers from 1 to 5")
    labels = table[0].to_numpy(str)
    if not set(labels) <= set("LRB"):
        raise DataFormatError(
            path, f"classes {', '.join(sorted(set(labels)))}; expected B, L and R"
        )
    return labels, X.astype(float)


def _balance(source: Source, raw: tuple[Array, Array]) -> Dataset:
    labels, X = raw
    return _single(
        "balance",
        source,
        "which way a scale tips, 625 settings",
        X,
        np.select([labels == "L", labels == "R"], [0.0, 1.0], 2.0),
        inputs=("left weight", "left distance", "right weight", "right distance"),
        classes={"class": ("L", "R", "B")},
    )


# CNAE-9


def cnae9() -> Dataset:
    """Descriptions of Brazilian companies as counts of 856 words, 1080 texts in 9 categories (UCI
    CNAE-9).

    120 texts a category. The counts are not scaled, as in the authors' code.
    """
    return _cnae9("real", _read_cnae9(path_of(CNAE9)))


def cnae9_standin() -> Dataset:
    """Synthetic texts: each category has its favourites in a vocabulary of the same size."""
    rng = np.random.default_rng(9)
    y = np.tile(np.arange(1, 10), 120)
    common = 1.0 / (np.arange(856) + 2.0) ** 0.7
    favour = rng.permutation(np.exp(2.0 * rng.standard_normal((9, 856))), axis=1)
    words = common * favour
    words /= words.sum(axis=1, keepdims=True)
    lengths = 1 + rng.poisson(rng.gamma(2.8, 2.2, len(y)))
    return _cnae9("stand-in", np.column_stack([y, rng.multinomial(lengths, words[y - 1])]))


def _read_cnae9(path: Path) -> Array:
    table = read_numbers(path, columns=857)
    if set(table[:, 0]) != set(range(1, 10)):
        raise DataFormatError(path, "column 1 must hold the categories 1 to 9")
    return table


def _cnae9(source: Source, table: Array) -> Dataset:
    return _single(
        "cnae9",
        source,
        "company descriptions as word counts, 1080 texts in 9 categories",
        table[:, 1:].astype(float),
        table[:, 0] - 1.0,
        inputs=("word",),
        classes={"class": _numbered(9, start=1)},
    )


# Mediamill


def mediamill_single() -> Dataset:
    """Video shots by 120 features, 6689 of them with one of 35 concepts (the authors' single-label
    Mediamill).

    Each shot has the first of its labels, and rare and frequent classes were left out (sizes 31 to
    545). The file was prepared by the thesis' author: the features, then the label.
    """
    return _mediamill("real", _read_mediamill(path_of(MEDIAMILL)))


def mediamill_single_standin() -> Dataset:
    """Synthetic shots: 35 overlapping clusters of the same sizes, in features between 0 and 1."""
    rng = np.random.default_rng(35)
    y = np.repeat(np.arange(35), _sizes(6689, 35, 31, 545))
    basis = rng.standard_normal((12, 120))
    hidden = 0.5 * rng.standard_normal((35, 12))[y] + rng.standard_normal((len(y), 12))
    features = hidden @ basis / np.sqrt(12) + 0.5 * rng.standard_normal((len(y), 120))
    shots = rng.permutation(np.column_stack([rounded(1.0 / (1.0 + np.exp(-features))), y]))
    return _mediamill("stand-in", shots)


def _read_mediamill(path: Path) -> Array:
    table = read_numbers(path, delimiter=None, columns=121)
    if not np.array_equal(table[:, -1], table[:, -1].round()):
        raise DataFormatError(path, "the last column must hold whole numbers, the labels")
    return table


def _mediamill(source: Source, table: Array) -> Dataset:
    labels, y = np.unique(table[:, -1], return_inverse=True)
    return _single(
        "mediamill-single",
        source,
        f"video shots by 120 features, {len(y)} of them in {len(labels)} classes",
        table[:, :-1],
        y.astype(float),
        inputs=("feature",),
        classes={"class": tuple(str(int(label)) for label in labels)},
    )


# Bibtex


def bibtex_single(*, split: int = 0) -> Dataset:
    """Bibliography entries as 1836 words present or not, 7395 of them by first tag, 148 classes
    (Ma's Bibtex).

    X is sparse. `split` is a column, 0 to 9, of the published tables of 4880 training and 2515 test
    rows; the thesis uses the first three.
    """
    return _bibtex(
        "real",
        prepared("bibtex-single-v1", (BIBTEX,), lambda: _read_bibtex(path_of(BIBTEX))),
        split,
    )


def bibtex_single_standin(*, split: int = 0) -> Dataset:
    """Synthetic entries of the same sizes: words of a long-tailed vocabulary, some of which a class
    prefers.
    """
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(148)
    label = rng.permutation(np.repeat(np.arange(148), _sizes(7395, 148, 1, 518)))
    lengths = np.clip(rng.gamma(3.5, 22.0, len(label)).astype(int), 1, 300)
    common = np.cumsum(1.0 / (np.arange(1836) + 3.0) ** 0.8)
    entry = np.repeat(np.arange(len(label)), lengths)
    word = np.searchsorted(common / common[-1], rng.uniform(size=len(entry)))
    favourites = rng.integers(0, 1836, (148, 12))
    chosen = rng.uniform(size=len(entry)) < 0.04
    word[chosen] = favourites[label[entry[chosen]], rng.integers(0, 12, chosen.sum())]
    X = csr_matrix((np.ones(len(entry)), (entry, word)), (len(label), 1836))
    X.sum_duplicates()
    order = np.argsort(rng.uniform(size=(len(label), 10)), axis=0, kind="stable")
    raw = {
        "indices": X.indices,
        "indptr": X.indptr,
        "label": label,
        "train": order[:4880],
        "test": order[4880:],
    }
    return _bibtex("stand-in", raw, split)


def _read_bibtex(path: Path) -> dict[str, Array]:
    """The columns of the ones of X row by row, the labels [N], and the rows of each split [4880,
    10], [2515, 10].
    """
    name, indices, sizes, labels = "Bibtex/Bibtex_data.txt", [], [], []
    with open_member(path, name) as stream:
        line = 1
        while lines := list(islice(stream, 500)):
            table = parse_numbers(
                b"".join(lines), f"{path}, {name}", delimiter=None, columns=1837, line=line
            )
            if not np.isin(table[:, :-1], (0.0, 1.0)).all():
                raise DataFormatError(
                    f"{path}, {name}", f"words must be 0 or 1 in lines {line} to {line + 499}"
                )
            rows, columns = np.nonzero(table[:, :-1])
            indices.append(columns.astype(np.int32))
            sizes.append(np.bincount(rows, minlength=len(table)))
            labels.append(table[:, -1])
            line += len(lines)
    label = np.concatenate(labels)
    if not np.array_equal(np.unique(label), np.arange(label.max() + 1)):
        raise DataFormatError(f"{path}, {name}", "the last column must hold the labels 0, 1, …")
    indptr = np.concatenate([[0], *sizes]).cumsum().astype(np.int32)
    raw = {"indices": np.concatenate(indices), "indptr": indptr, "label": label.astype(np.int64)}
    parts = read_members(path, lambda member: member.endswith("Split.txt"))
    for part, member in (
        ("train", "Bibtex/bibtex_trSplit.txt"),
        ("test", "Bibtex/bibtex_tstSplit.txt"),
    ):
        if member not in parts:
            raise DataFormatError(path, f"has no member {member!r}")
        raw[part] = parse_split(parts[member], f"{path}, {member}", 10, len(label))
    together = np.sort(np.concatenate([raw["train"], raw["test"]]), axis=0)
    if not np.array_equal(together, np.tile(np.arange(len(label))[:, None], 10)):
        raise DataFormatError(path, "a column of the split tables does not name every row once")
    return raw


def _bibtex(source: Source, raw: dict[str, Array], split: int) -> Dataset:
    from scipy.sparse import csr_matrix

    if split not in range(10):
        raise ValueError(f"split={split}; there are 0 to 9.")
    held_out = np.zeros(len(raw["label"]), bool)
    held_out[raw["test"][:, split]] = True
    indices, indptr = raw["indices"], raw["indptr"]
    return _single(
        "bibtex-single",
        source,
        "bibliography entries as words present or not, 7395 of them by first tag",
        csr_matrix((np.ones(len(indices)), indices, indptr), (len(held_out), 1836)),
        raw["label"].astype(float),
        inputs=("word",),
        classes={"class": _numbered(148)},
        held_out=held_out,
    )


def _numbered(count: int, start: int = 0) -> tuple[str, ...]:
    return tuple(str(number) for number in range(start, start + count))


def _sizes(total: int, classes: int, smallest: int, largest: int) -> NDArray[np.int64]:
    """Class sizes that fall like a power of the rank from `largest` to about `smallest`, and add up
    to `total`.
    """
    rank = np.linspace(0.0, 1.0, classes)
    powers = np.linspace(0.05, 20.0, 4000)
    totals = [(smallest + (largest - smallest) * (1.0 - rank) ** power).sum() for power in powers]
    power = powers[np.argmin(np.abs(np.array(totals) - total))]
    sizes: NDArray[np.int64] = np.floor(
        smallest + (largest - smallest) * (1.0 - rank) ** power
    ).astype(np.int64)
    sizes[1 : 1 + total - sizes.sum()] += 1
    sizes[1] += total - sizes.sum()
    return sizes


@dataclass(frozen=True)
class _Table:
    """The shape of a table of numbers."""

    delimiter: str | None = ","

    def __call__(self, path: Path) -> str:
        rows, columns = read_numbers(path, delimiter=self.delimiter).shape
        return f"{rows} x {columns}"


def _balance_shape(path: Path) -> str:
    labels, X = _read_balance(path)
    counts = ", ".join(f"{name} {np.sum(labels == name)}" for name in ("R", "L", "B"))
    return f"{len(X)} x {X.shape[1] + 1}, classes {counts}"


def _bibtex_shape(path: Path) -> str:
    raw = _read_bibtex(path)
    classes, train, test = len(np.unique(raw["label"])), raw["train"].shape, raw["test"].shape
    splits = f"splits {train[0]} x {train[1]} and {test[0]} x {test[1]}"
    return f"{len(raw['label'])} x 1837, {classes} classes, {splits}"


ENTRIES = {
    "ma-two-class": Entry(ma_two_class),
    "s20": Entry(s20),
    "balance": Entry(balance, standin=balance_standin),
    "cnae9": Entry(cnae9, standin=cnae9_standin),
    "mediamill-single": Entry(mediamill_single, standin=mediamill_single_standin),
    "bibtex-single": Entry(bibtex_single, standin=bibtex_single_standin),
}
SHAPES: dict[str, Callable[[Path], str]] = {
    BALANCE: _balance_shape,
    CNAE9: _Table(),
    MEDIAMILL: _Table(delimiter=None),
    BIBTEX: _bibtex_shape,
}
