r"""Scores of rankings of labels, without a dense table of rows and labels.

Every score is $\frac1N\sum_n\sum_{r=1}^k s_{nr}\,g_{n\pi_n(r)}$: the label $\pi_n(r)$ that row $n$
ranks at place $r$ gains $g_{nc} = y_{nc}/p_c$ (plainly $y_{nc}$), and place $r$ has the share
$s_{nr}$ in the score of the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK = 2**20  # entries of dense scores that are ranked at once


def precision_at(labels: ArrayLike | csr_matrix, ranking: ArrayLike | csr_matrix, k: int) -> float:
    r"""Precision at $k$, $P@k = \frac1N\sum_n\frac1k\sum_{r=1}^k y_{n\pi_n(r)}$, from 0 to 1.

    It is divided by $k$ whatever the row: a row with fewer than $k$ true or ranked labels cannot
    score 1, and one without true labels counts as 0.

    Args:
        labels: the truth $y_{nc}$, [N, K] of 0 and 1, as a SciPy sparse matrix or an array.
        ranking: what was predicted, in one of three forms. An array of whole numbers is the labels
            themselves, [N, M], best first, with -1 where a row has no more of them; $M$ is at least
            $k$ or $K$. An array of floats is scores, [N, K]. A sparse matrix is scores too, [N, K],
            where an entry that is not stored is a label that is not predicted (one stored as 0 is
            predicted). `top_labels` says how scores are ranked.
        k: how many labels of each row count, at least 1; it may exceed $K$.

    >>> from mogp.metrics import precision_at
    >>> labels = [[1, 0, 1], [0, 1, 0]]
    >>> precision_at(labels, [[0.9, 0.1, 0.8], [0.5, 0.4, 0.3]], k=2)
    0.75
    """
    return _score(labels, ranking, k)


def ndcg_at(labels: ArrayLike | csr_matrix, ranking: ArrayLike | csr_matrix, k: int) -> float:
    r"""Normalised discounted cumulative gain at $k$: late hits are worth less.

    $$\mathrm{nDCG}@k = \frac1N\sum_n\frac{\sum_{r=1}^k y_{n\pi_n(r)}/\log_2(r+1)}
      {\sum_{r=1}^{\min(k,\sum_c y_{nc})} 1/\log_2(r+1)}$$

    A row without true labels counts as 0.

    Args:
        labels, ranking, k: as for `precision_at`.

    >>> from mogp.metrics import ndcg_at
    >>> labels = [[1, 0, 1], [0, 1, 0]]
    >>> round(ndcg_at(labels, [[0.9, 0.1, 0.8], [0.5, 0.4, 0.3]], k=2), 3)
    0.815
    """
    return _score(labels, ranking, k, discount=True)


def psp_at(
    labels: ArrayLike | csr_matrix,
    ranking: ArrayLike | csr_matrix,
    k: int,
    propensity: ArrayLike,
    *,
    normalise: bool = True,
) -> float:
    r"""Propensity-scored precision at $k$: labels that are rarely recorded weigh more.

    $$\frac1N\sum_n\frac1k\sum_{r=1}^k y_{n\pi_n(r)}/p_{\pi_n(r)}.$$

    So it takes more than the frequent labels to do well. The sum may exceed 1. With `normalise`, as
    the literature reports it, it is divided by the same for the oracle, which ranks the true labels
    of each row by $1/p_c$: a ratio of two means over rows, from 0 to 1.

    Args:
        labels, ranking, k: as for `precision_at`.
        propensity: [K], the probabilities $p_c$ that a label which applies is recorded, such as
            `propensities` gives.
        normalise: divide by the score of the oracle.

    >>> from mogp.metrics import psp_at
    >>> labels, scores = [[1, 0, 1]], [[0.9, 0.8, 0.1]]
    >>> round(psp_at(labels, scores, k=1, propensity=[1.0, 0.5, 0.25]), 3)
    0.25
    """
    return _score(labels, ranking, k, propensity=propensity, normalise=normalise)


def psndcg_at(
    labels: ArrayLike | csr_matrix,
    ranking: ArrayLike | csr_matrix,
    k: int,
    propensity: ArrayLike,
    *,
    normalise: bool = True,
) -> float:
    r"""Propensity-scored nDCG at $k$: `ndcg_at` with gains $y_{nc}/p_c$, and the same denominator.

    $$\mathrm{PSnDCG}@k = \frac1N\sum_n\frac{\sum_{r=1}^k y_{n\pi_n(r)}/(p_{\pi_n(r)}\log_2(r+1))}
      {\sum_{r=1}^{\min(k,\sum_c y_{nc})} 1/\log_2(r+1)}$$

    Args:
        labels, ranking, k: as for `precision_at`.
        propensity: [K], as for `psp_at`.
        normalise: divide by the score of the oracle, as for `psp_at`.

    >>> from mogp.metrics import psndcg_at
    >>> labels, scores = [[1, 0, 1]], [[0.9, 0.8, 0.1]]
    >>> round(psndcg_at(labels, scores, k=3, propensity=[1.0, 0.5, 0.25]), 3)
    0.648
    """
    return _score(labels, ranking, k, discount=True, propensity=propensity, normalise=normalise)


def propensities(labels: ArrayLike | csr_matrix, a: float = 0.55, b: float = 1.5) -> Array:
    r"""How likely a label that applies is recorded, [K] (Jain et al., 2016).

    $$p_c = \frac1{1 + C(N_c + b)^{-a}}, \qquad C = (\log N - 1)(b + 1)^a,$$

    where $N_c$ of the $N$ rows have label $c$. The literature takes $(a, b) = (0.5, 0.4)$ for
    Wikipedia, $(0.6, 2.6)$ for Amazon, and the defaults for everything else.

    Args:
        labels: the training labels, [N, K] of 0 and 1.
        a, b: see above.

    >>> import numpy as np
    >>> from mogp.metrics import propensities
    >>> labels = np.tile([1, 0], (100, 1))
    >>> np.round(propensities(labels), 2).tolist()
    [0.68, 0.17]
    """
    Y = _label_matrix(labels)
    N, K = Y.shape
    if N < 3:
        raise ValueError(
            f"{N} row{'s' * (N > 1)} of labels; log N - 1 must be positive: give the training"
            " labels, 3 rows or more."
        )
    if not (0 <= a < np.inf and 0 < b < np.inf):
        raise ValueError(f"a is {a} and b is {b}; expected a >= 0 and b > 0, such as 0.55 and 1.5.")
    N_c = np.bincount(Y.indices, minlength=K)
    C = (np.log(N) - 1) * (b + 1) ** a
    return np.asarray(1 / (1 + C * (N_c + b) ** -a), dtype=np.float64)


def top_labels(scores: ArrayLike | csr_matrix, k: int) -> Ints:
    """The labels with the highest scores in each row, best first; the lower label wins a tie.

    Labels that are not stored in a sparse matrix, and labels with a score of -inf, are not
    predicted: where these leave a row fewer than `k`, -1 takes their places.

    Args:
        scores: [N, K], an array or a sparse matrix.
        k: how many.

    Returns:
        [N, min(k, K)].

    >>> from mogp.metrics import top_labels
    >>> top_labels([[0.1, 0.9, 0.5], [0.3, 0.3, 0.2]], k=2).tolist()
    [[1, 2], [0, 1]]
    """
    _check_depth(k)
    given = _matrix("scores", scores)
    N, K = given.shape
    depth = min(k, K)
    if not isinstance(given, np.ndarray):
        S = given.tocsr(copy=True)
        S.sum_duplicates()
        return _ranked(
            np.repeat(np.arange(N), np.diff(S.indptr)), S.indices, S.data, range(N), depth
        )
    step = max(1, _BLOCK // K)
    blocks = [range(start, min(start + step, N)) for start in range(0, N, step)]
    return np.concatenate(
        [_ranked(*_candidates(given[b.start : b.stop], depth), b, depth) for b in blocks]
    )


def _candidates(block: NDArray[Any], depth: int) -> tuple[Ints, Ints, NDArray[Any]]:
    """Rows, columns and values of the entries that no `depth` others of their row exceed."""
    # `>= least` keeps all ties of the last place, so that `_ranked` can settle them by label.
    least = np.partition(block, block.shape[1] - depth, axis=1)[:, [block.shape[1] - depth]]
    rows, columns = np.nonzero((block >= least) | np.isnan(block))
    return rows, columns, block[rows, columns]


def _ranked(rows: Ints, columns: Ints, values: NDArray[Any], block: range, depth: int) -> Ints:
    """The first `depth` columns of each row by falling value, then rising column; -1 for none."""
    values = np.asarray(values, dtype=np.float64)
    bad = np.flatnonzero(~(values < np.inf))
    if len(bad):
        raise ValueError(
            f"scores hold {values[bad[0]]} at row {block[rows[bad[0]]]}, label {columns[bad[0]]};"
            " expected numbers, or -inf for a label that is not predicted. Drop that row or find"
            " out why it was predicted."
        )
    kept = values > -np.inf
    rows, columns, values = rows[kept], columns[kept], values[kept]
    order = np.lexsort((columns, -values, rows))
    rows, columns = rows[order], columns[order]
    # The first place of each row is where its number first occurs among the sorted rows.
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    first = place < depth
    ranking = np.full((len(block), depth), -1, dtype=np.int64)
    ranking[rows[first], place[first]] = columns[first]
    return ranking


def _score(
    labels: ArrayLike | csr_matrix,
    ranking: ArrayLike | csr_matrix,
    k: int,
    *,
    discount: bool = False,
    propensity: ArrayLike | None = None,
    normalise: bool = False,
) -> float:
    _check_depth(k)
    Y = _label_matrix(labels)
    worth = np.ones(Y.shape[1]) if propensity is None else 1 / _propensity(propensity, Y.shape[1])
    share = _discounted_share(Y, k) if discount else np.full((1, k), 1 / k)
    score = _mean_gain(Y, _ranking(ranking, Y.shape, k), worth, share)
    if not normalise:
        return score
    if Y.nnz == 0:
        raise ValueError(
            f"none of the {Y.shape[0]} rows has a label, so that the oracle scores 0 too; use"
            " normalise=False."
        )
    oracle = type(Y)((worth[Y.indices], Y.indices, Y.indptr), shape=Y.shape)
    return score / _mean_gain(Y, top_labels(oracle, k), worth, share)


def _discounted_share(Y: csr_matrix, k: int) -> Array:
    """The share of every place in the nDCG of every row, [N, k]."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    best = np.cumsum(discount)[np.clip(np.diff(Y.indptr), 1, k) - 1]
    return np.asarray(discount / best[:, None], dtype=np.float64)


def _mean_gain(Y: csr_matrix, ranking: Ints, worth: Array, share: Array) -> float:
    N, K = Y.shape
    row = np.arange(N)
    # Pairs (row, label) as single numbers: one search, and no dense table of labels.
    true = np.repeat(row, np.diff(Y.indptr)) * K + Y.indices
    hit = (ranking >= 0) & np.isin(row[:, None] * K + ranking, true)
    gain = np.where(hit, worth[ranking], 0.0)
    return float(np.mean(np.sum(share[:, : ranking.shape[1]] * gain, axis=1)))


def _check_depth(k: int) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k is {k!r}; expected one whole number, at least 1.")


def _matrix(name: str, given: ArrayLike | csr_matrix) -> Any:
    """A sparse matrix as it is, or an array, of two dimensions and not empty."""
    from scipy.sparse import issparse

    matrix: Any = given if issparse(given) else np.asarray(given)
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} have shape {matrix.shape}; expected (rows, labels), at least one of each."
        )
    return matrix


def _label_matrix(labels: ArrayLike | csr_matrix) -> csr_matrix:
    """The labels as a CSR matrix of ones, without repeated entries and stored zeros."""
    from scipy.sparse import csr_matrix

    Y = csr_matrix(_matrix("labels", labels), copy=True)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    wrong = np.flatnonzero(Y.data != 1)
    if len(wrong):
        row = int(np.searchsorted(Y.indptr, wrong[0], "right")) - 1
        raise ValueError(
            f"labels have {len(wrong)} entr{'ies' if len(wrong) > 1 else 'y'} other than 0 and 1,"
            f" first {Y.data[wrong[0]]} at row {row}, label {Y.indices[wrong[0]]}; code absent"
            " labels as 0, present ones as 1."
        )
    return Y


def _ranking(ranking: ArrayLike | csr_matrix, shape: tuple[int, int], k: int) -> Ints:
    """The labels that count, [N, depth], from labels in order or from scores."""
    N, K = shape
    given = _matrix("rankings", ranking)
    if not isinstance(given, np.ndarray) or given.dtype.kind == "f":
        if given.shape != shape:
            raise ValueError(
                f"scores have shape {given.shape} where the labels have {shape}; give a score for"
                " each label, or the labels themselves, best first, as whole numbers."
            )
        return top_labels(given, k)
    if given.dtype.kind not in "iu":
        raise ValueError(
            f"the ranking has entries of type {given.dtype}; expected labels as whole numbers, or"
            " scores as floats."
        )
    if len(given) != N or given.shape[1] < min(k, K):
        raise ValueError(
            f"the ranking has shape {given.shape} for k = {k} and labels of shape {shape}; expected"
            f" at least ({N}, {min(k, K)}): rank more labels, and use -1 where a row has no more."
        )
    first = given[:, :k].astype(np.int64)
    outside = first[(first < -1) | (first >= K)]
    if len(outside):
        raise ValueError(
            f"the ranking has label {outside[0]}; expected 0 to {K - 1}, or -1 for none. Whole"
            " numbers are read as labels: if these are scores, give them as floats."
        )
    ordered = np.sort(first, axis=1)
    rows, places = np.nonzero((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0))
    if len(rows):
        raise ValueError(
            f"row {rows[0]} of the ranking has label {ordered[rows[0], places[0]]} more than once;"
            " rank each label once. Whole numbers are read as labels: if these are scores, give"
            " them as floats."
        )
    return first


def _propensity(propensity: ArrayLike, K: int) -> Array:
    p = np.asarray(propensity, dtype=np.float64)
    if p.shape != (K,):
        raise ValueError(
            f"the propensities have shape {p.shape}; expected ({K},), one for each label."
        )
    wrong = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(wrong):
        raise ValueError(
            f"the propensity of label {wrong[0]} is {p[wrong[0]]}; expected probabilities above 0"
            " and at most 1."
        )
    return p
