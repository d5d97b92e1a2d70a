"""Stand-ins for sets of points with many labels: texts about topics, and dense features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.corpora import Corpus

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["documents", "shots"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def documents(corpus: Corpus, n: int, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Bags of words about topics: X `[n, P]` and Y `[n, K]`.

    The words of a row come from its labels, from its topic and from all words. There are about √K /
    2 topics, label k belongs to topic k modulo their number, and a row to that of a label of its.
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
    """The mean to draw with where `target` gave `tried`.

    What is drawn twice in a row counts once, so more must be drawn.
    """
    return float(target * target * tried.shape[0] / tried.nnz)


def _topics(K: int) -> int:
    return max(2, round(float(np.sqrt(K)) / 2))


def _label_sets(K: int, n: int, mean: float, rng: np.random.Generator) -> csr_matrix:
    """Y [n, K]: a first label of any topic, by a power law; two of three others share its topic."""
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
    any_word = (corpus.size.P * rng.uniform(size=starts[-1]) ** 2).astype(np.int64)
    word = np.where(source < corpus.signal, word, any_word)
    return _counts(word, starts, corpus.size.P, np.dtype(np.float64), corpus.binary)


def _counts(
    columns: Ints, starts: Ints, width: int, dtype: np.dtype[np.generic], binary: bool
) -> csr_matrix:
    """How often each column occurs in each row, or whether."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(columns), dtype)
    counts = csr_matrix((ones, columns, starts), shape=(len(starts) - 1, width))
    counts.sum_duplicates()
    if binary:
        counts.data[:] = 1
    return counts


def shots(corpus: Corpus, n: int, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Dense features and labels that are noisy linear functions of ten latents.

    A label is there where its function is above a threshold.
    """
    from scipy.sparse import csr_matrix

    latents = rng.standard_normal((n, 10))
    X = latents @ rng.standard_normal((10, corpus.size.P))
    X = X + 3.0 * rng.standard_normal((n, corpus.size.P))
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
