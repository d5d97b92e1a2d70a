"""One run of one variant of MLGPF on points with many labels (Panos, chapter 4)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from mogp.book.methods import LabelMethod
from mogp.book.runs.label_training import label_optimizer, trained
from mogp.data import Array
from mogp.data.labels import LabelData

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from mogp.inducing import InducingPoints

DEPTHS = (1, 3, 5)
"""Of the precisions at k that are followed."""
REVEALED = (1, 2, 4)
"""How many labels of each test point are revealed (those with the lowest numbers)."""
EDGES = np.concatenate([[0, 1e-3, 1e-2, 0.05], np.linspace(0.1, 1.0, 10)])
"""Borders of the groups of predicted probabilities in `reliability`."""

Extra = Literal["weights", "reveal", "calibration"]


@functools.lru_cache(maxsize=3)
def labelled(
    data: str, source: str = "real", rows: int | None = None
) -> tuple[LabelData, LabelData]:
    """Training and test points of a data set with many labels, rows of unit length.

    The last few are remembered.

    Args:
        data: its name.
        source: "stand-in" forces the stand-in, anything else forbids it.
        rows: so many of the training and of the test points at most.
    """
    from mogp import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        stand_in: Any = "only" if source == "stand-in" else "forbid"
        found = datasets.load(data, stand_in=stand_in, rows=rows)
    train, test = (
        LabelData.of(part.X, part.Y, normalise=True) for part in (found.train, found.test)
    )
    return train, test


def label_run(
    data: str,
    source: str,
    method: str,
    *,
    factors: int = 30,
    inducing: int = 100,
    rank: int | None = None,
    steps: int = 500,
    batch: int = 500,
    rate: float = 0.01,
    falling: bool = False,
    rows: int | None = None,
    looks: int = 5,
    jitter: float = 1e-6,
    start: Literal["data", "thesis", "matched"] = "data",
    negatives: int | None = None,
    exact: bool = True,
    extras: Sequence[Extra] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Train one variant of MLGPF on a data set, and rank the labels of its test points.

    Args:
        data, source, rows: see `labelled`.
        method: name of the variant (`mogp.book.methods.LabelMethod`). Those with AG are trained by
            RMSProp.
        factors, inducing, negatives: sizes of the model, see `mlgpf`; factors are its `latents`.
        rank: of the subspace that inducing inputs lie in, `subspace_dim` of `mlgpf`, for methods
            with S.
        steps, batch, rate: of training; `falling` lets the step size fall to nothing over the last
            half.
        looks: how often along the way, after the start, the test points are ranked.
        jitter: added to the diagonal of `Kuu`.
        start: start values, see `mlgpf`; those of the "thesis" are random. "matched" gives a full
            posterior the moments with which the parsimonious one starts.
        exact: compute the bound on all training points, before and after.
        extras: what else to return: the kernel's "weights" of the inputs; rankings with some labels
            of each point given ("reveal"); and how far probabilities can be trusted
            ("calibration").
        seed: of start values and batches.

    Returns:
        `look` steps `[L]` and `precision` `[L, 3]` there (P@1, P@3, P@5 in per cent); `trace_step`
        and `trace`, the objective on the batches; `first_bound` and `bound`; `step_seconds`,
        processor seconds a step once compiled; `parameters`; `status` of the training. With
        "weights", `weights` `[P]`; with "reveal", `unaware` and `aware` `[3, 3]`, the precisions
        (columns) among the labels that are left where so many as `REVEALED` (rows) are told,
        without a look at those and given them; with "calibration", what `reliability` returns of
        all labels (`all_…`) and of the best label of each point (`top_…`).
    """
    import gpflow

    from mogp.models import mlgpf

    train, test = labelled(data, source, rows)
    chosen = LabelMethod.parse(method)
    with gpflow.config.as_context(gpflow.config.Config(jitter=jitter)):
        model = mlgpf(
            train,
            **chosen.options,
            latents=factors,
            inducing=_points(chosen, data, source, rows, inducing, rank, seed),
            negatives=negatives,
            seed=seed,
            start="random" if start == "thesis" else "data",
        )
        if start == "matched" and not chosen.parsimonious:
            _start_as_parsimonious(model, chosen, train, seed)

        def score() -> dict[str, Any]:
            top = model.top_labels(test.X, min(DEPTHS[-1], test.num_labels))
            return {"precision": _precisions(test.Y, top.labels)}

        first = float(model.elbo(train)) if exact else float("nan")
        moves = label_optimizer(chosen.autograd, rate, steps if falling else None)
        found = trained(model, train, score, steps, batch, moves, looks, seed)
        found["first_bound"] = first
        found["bound"] = float(model.elbo(train)) if exact else float("nan")
        found["precision"] = np.array(found["precision"])
        found["parameters"] = int(sum(np.prod(v.shape) for v in model.trainable_variables))
        if "weights" in extras:
            found["weights"] = _weights(model, chosen.kernel)
        if "reveal" in extras:
            found |= _revealed(model, test)
        if "calibration" in extras:
            found |= _calibration(model, test)
    return found


def sparse_steps(
    method: str,
    *,
    inputs: int = 50_000,
    labels: int = 100,
    rows: int = 1000,
    words: int = 70,
    factors: int = 10,
    inducing: int = 100,
    rank: int = 100,
    batch: int = 200,
    steps: int = 6,
    seed: int = 0,
) -> dict[str, Any]:
    """Processor seconds a step of a variant of MLGPF on random sparse points.

    Each point has `words` non-zero inputs of `inputs`. Inducing inputs are rows of the data or, for
    methods with S, random coordinates on `rank` of them.
    """
    from scipy.sparse import csr_array

    from mogp.inducing import SubspacePoints, given_points
    from mogp.models import mlgpf

    rng = np.random.default_rng(seed)
    starts = np.arange(rows + 1) * words
    columns = np.concatenate(
        [np.sort(rng.choice(inputs, words, replace=False)) for _ in range(rows)]
    )
    X = csr_array((rng.uniform(0.5, 1.5, rows * words), columns, starts), shape=(rows, inputs))
    train = LabelData.of(
        X, [rng.choice(labels, 3, replace=False) for _ in range(rows)], labels, normalise=True
    )
    chosen = LabelMethod.parse(method)
    points = (
        SubspacePoints(
            rng.normal(size=(inducing, rank)), X[:rank].toarray(), chosen.train_basis, chosen.unit
        )
        if chosen.subspace
        else given_points(X[:inducing].toarray(), unit=chosen.unit)
    )
    model = mlgpf(train, **chosen.options, latents=factors, inducing=points, seed=seed)
    moves = label_optimizer(chosen.autograd, 0.01, None)
    return trained(model, train, dict, steps, batch, moves, steps, seed)


def reliability(p: npt.ArrayLike, true: npt.ArrayLike) -> dict[str, Array]:
    r"""How often events came true that were predicted with probability `p`.

    The events are grouped by `p`, between `EDGES`.

    Returns:
        `count`, mean predicted probability `predicted` and share that came `true` of each group
        that is not empty; `error`, $\sum_g \frac{n_g}{n}|\bar p_g - \bar y_g|$.
    """
    p, true = np.asarray(p, dtype=float).reshape(-1), np.asarray(true, dtype=float).reshape(-1)
    group = np.clip(np.searchsorted(EDGES, p, side="right") - 1, 0, len(EDGES) - 2)
    count, sums, hits = (np.bincount(group, w, len(EDGES) - 1) for w in (np.ones_like(p), p, true))
    some = count > 0
    predicted, came = sums[some] / count[some], hits[some] / count[some]
    error = np.array(np.sum(count[some] * np.abs(predicted - came)) / len(p))
    return {"count": count[some], "predicted": predicted, "true": came, "error": error}


def _points(
    method: LabelMethod,
    data: str,
    source: str,
    rows: int | None,
    inducing: int,
    rank: int | None,
    seed: int,
) -> InducingPoints:
    """The inducing inputs that `mlgpf` would start with.

    Variants that start alike share the search for them.
    """
    from mogp.inducing import SubspacePoints, given_points

    if not method.subspace:
        return given_points(_centres(data, source, rows, inducing, seed), unit=method.unit)
    if rank is None:
        raise ValueError(
            f"{method} has inducing inputs in a subspace; say of how many dimensions, as rank=250."
        )
    return SubspacePoints(
        *_coordinates(data, source, rows, inducing, rank, seed), method.train_basis, method.unit
    )


@functools.lru_cache(maxsize=8)
def _centres(data: str, source: str, rows: int | None, count: int, seed: int) -> Array:
    from mogp.inducing import kmeans_points

    return np.asarray(kmeans_points(labelled(data, source, rows)[0], count, seed=seed).Z)


@functools.lru_cache(maxsize=4)
def _coordinates(
    data: str, source: str, rows: int | None, count: int, rank: int, seed: int
) -> tuple[Array, Array]:
    from mogp.inducing import subspace_points

    points = subspace_points(labelled(data, source, rows)[0], count, rank, seed=seed)
    return np.asarray(points.A), np.asarray(points.basis)


def _start_as_parsimonious(model: Any, method: LabelMethod, train: LabelData, seed: int) -> None:
    """Give a full posterior the moments of the parsimonious one that `mlgpf` starts with."""
    from mogp.models import mlgpf

    other = mlgpf(
        train,
        **replace(method, parsimonious=True).options,
        latents=model.prior.num_latents,
        inducing=model.inducing,
        seed=seed,
    )
    mean, covariance = (np.asarray(a) for a in other.posterior.moments(other.factors()))
    model.posterior.q_mu.assign(mean.T)
    model.posterior.q_sqrt.assign(np.linalg.cholesky(covariance + 1e-10 * np.eye(len(mean.T))))


def _precisions(Y: csr_array, ranking: npt.NDArray[np.int64]) -> list[float]:
    from mogp import metrics

    return [100 * metrics.precision_at(Y, ranking, k) for k in DEPTHS]


def _weights(model: Any, kernel: str) -> Array:
    r"""The weights of the inputs: $1/\ell_d^2$ of ARD kernels, variances of linear ones."""
    (one,) = model.prior.kernels.kernels
    weights = one.variance if kernel == "LINEAR-l" else 1 / np.square(one.lengthscales)
    found: Array = np.asarray(weights)
    return found


def _revealed(model: Any, test: LabelData) -> dict[str, Array]:
    """Precisions among labels that were not revealed, unaware and aware of those that were."""
    from scipy.sparse import csr_array

    from mogp.metrics import top_labels

    place = np.arange(test.Y.nnz) - np.repeat(test.Y.indptr[:-1], np.diff(test.Y.indptr))
    points = np.repeat(np.arange(test.num_points), np.diff(test.Y.indptr))
    plain = model.scores(test.X)
    found: dict[str, list[list[float]]] = {"unaware": [], "aware": []}
    for count in REVEALED:
        told = place < count
        where = points[told], test.Y.indices[told]
        known = csr_array((np.ones(len(where[0]), np.int8), where), shape=test.Y.shape)
        others = csr_array((test.Y - known).astype(np.int8))
        others.eliminate_zeros()
        aware = model.given_labels(test.X, known)
        for name, scores in (("unaware", plain.copy()), ("aware", aware)):
            scores[where] = -np.inf
            found[name].append(_precisions(others, top_labels(scores, DEPTHS[-1])))
    return {name: np.array(values) for name, values in found.items()}


def _calibration(model: Any, test: LabelData) -> dict[str, Array]:
    """`reliability` of all labels and of the best label of each point.

    Also `certain`, P@1 of the most certain tenth, two tenths, … of the points.
    """
    p = model.predict_proba(test.X)
    Y = test.Y.toarray().astype(bool)
    best = p.argmax(1)
    of_best, right = p[np.arange(len(p)), best], Y[np.arange(len(p)), best]
    every = {f"all_{name}": value for name, value in reliability(p, Y).items()}
    top = {f"top_{name}": value for name, value in reliability(of_best, right).items()}
    order = np.argsort(-of_best, kind="stable")
    kept = np.maximum(1, np.round(np.arange(1, 11) / 10 * len(p)).astype(int))
    return every | top | {"certain": np.array([100 * right[order[:n]].mean() for n in kept])}
