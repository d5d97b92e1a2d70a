"""Targets beside predictions of them: left out of the training data one by one, held out, or seen.

Which of these a model can answer for an output is found here, row by row; `calibration` sums it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from mogp.data import Array, LabelData, MultiOutputData
from mogp.data.batches import gather_rows
from mogp.errors import UnsupportedError
from mogp.likelihoods import AnnotatedClasses, target_rules
from mogp.likelihoods.targets import COUNTS, POSITIVE, UNIT_INTERVAL
from mogp.metrics import constant_log_density
from mogp.metrics.constants import Kind
from mogp.models.left_out import left_out, ranks

How = Literal["left out", "held out", "seen"]
FAULTS = (UnsupportedError, tf.errors.InvalidArgumentError)
"""What a model may answer in place of predictions."""
MOST_MISSING = 0.2
"""Of more rows that cannot be left out, nothing is said."""
_NUMBERS_AT_ONCE = 4_000_000
_LABEL_TABLE = 2_000_000
_NO_RULES: tuple[Any, ...] = ()
_KINDS: dict[Any, Kind] = {COUNTS: "count", POSITIVE: "positive", UNIT_INTERVAL: "share"}


class Evidence(NamedTuple):
    """Targets of one output beside predictions of them; rows that have none are left away.

    Attributes:
        name: of the output.
        kind: of the targets.
        how: whether predictions had seen the targets.
        log_density: `[n]`, of each target.
        constant: `[n]`, of each target under the best constant prediction.
        rank: `[n]`, uniform if predictions are calibrated; None for classes and labels.
        probability: of what was thought most probable, or of each label.
        happened: whether that was so.
        missing: share of rows that could not be left out.

    >>> import numpy as np
    >>> one = Evidence("a", "real", "seen", np.array([-1.0]), np.array([-2.0]))
    >>> float((one.log_density - one.constant)[0])
    1.0
    """

    name: str
    kind: str
    how: How
    log_density: Array
    constant: Array
    rank: Array | None = None
    probability: Array | None = None
    happened: Array | None = None
    missing: float = 0.0


def some_of(
    data: MultiOutputData | LabelData, rows: int, outputs: int, seed: int = 0
) -> tuple[Any, str]:
    """At most so many rows of each of at most so many outputs, and what was left away, in words.

    Outputs observed at the same inputs keep the same rows.

    Args:
        data: to choose from.
        rows: at most, of an output.
        outputs: at most.
        seed: of the choice.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> data = MultiOutputData.from_arrays(np.arange(9.0), np.ones((9, 2)))
    >>> some, words = some_of(data, rows=4, outputs=1)
    >>> some.sizes, words
    ((0, 4), 'a random sample: at most 4 rows of each of 1 of the 2 outputs')
    """
    rng = np.random.default_rng(seed)
    if isinstance(data, LabelData):
        most = max(1, min(rows, _LABEL_TABLE // max(data.num_labels, 1)))
        if data.num_points <= most:
            return data, ""
        some = np.sort(rng.permutation(data.num_points)[:most])
        return data.take(some), f"a random sample: {most} of {data.num_points} points"
    chosen = set(rng.permutation(data.num_outputs)[:outputs].tolist())
    if len(chosen) == data.num_outputs and max(data.sizes, default=0) <= rows:
        return data, ""
    place = rng.permutation(data.X.shape[0])
    kept = {
        own.name: np.sort(np.argsort(place[own.rows], kind="stable")[: rows * (d in chosen)])
        for d, own in enumerate(data.outputs)
    }
    each = f"at most {rows} rows of each of"
    said = f"{len(chosen)} of the {data.num_outputs} outputs"
    if len(chosen) == data.num_outputs:
        said = f"{data.num_outputs} outputs" if data.num_outputs > 1 else "the output"
        each = each if data.num_outputs > 1 else f"{rows} rows of"
    return data.take(kept), f"a random sample: {each} {said}"


def evidence(
    model: Any,
    data: MultiOutputData | LabelData,
    train: MultiOutputData | LabelData | None,
    samples: int,
    seed: int,
) -> list[Evidence]:
    """Of each output that has rows.

    Args:
        model: a model of `mogp`.
        data: with targets.
        train: what the model was trained on, if it was trained without the data.
        samples: draws behind ranks.
        seed: of the draws.
    """
    if isinstance(data, LabelData):
        return [_of_labels(model, data, train)]
    whole = model.aligned(data)
    before = None if train is None else model.aligned(train)
    found: list[Evidence] = []
    waiting: list[int] = []
    for d, own in enumerate(whole.outputs):
        if len(own) == 0:
            continue
        one = None if train is not None else _of_left_out(model, whole, d, samples, seed)
        if one is None:
            waiting.append(d)
        else:
            found.append(one)
    if waiting:
        found += _of_predictions(model, whole, waiting, before, samples, seed)
    places = {name: d for d, name in enumerate(model.names)}
    return sorted(found, key=lambda one: places[one.name])


def _of_left_out(model: Any, data: Any, d: int, samples: int, seed: int) -> Evidence | None:
    found = left_out(model, data, d, samples, seed)
    if found is None or found.share_missing > MOST_MISSING:
        return None
    own, known = data.outputs[d], np.isfinite(found.log_density)
    if not known.any():
        return None
    top = _top(found.probability, own.Y[:, 0])
    return Evidence(
        own.name,
        _kind(model, d, own, found.probability),
        "left out",
        found.log_density[known],
        _constant(model, d, own, found.probability, None)[known],
        None if found.rank is None else found.rank[known],
        None if top[0] is None else top[0][known],
        None if top[1] is None else top[1][known],
        missing=found.share_missing,
    )


def _of_predictions(
    model: Any, data: Any, outputs: Sequence[int], train: Any, samples: int, seed: int
) -> list[Evidence]:
    """From predictions at rows that the model has, or has not, seen."""
    densities = model.predict_log_density(data)
    shown, rows = model.observed_at(data)
    X = model.scaled_inputs(shown)
    found = []
    for d in outputs:
        own, density = data.outputs[d], np.asarray(densities[model.names[d]])
        known = np.isfinite(density)
        rank = probability = None
        if own.Y.shape[1] == 1:
            at = gather_rows(X, rows[d])
            rank, probability = _ranks_or_classes(model, at, own, d, samples, seed)
        top = _top(probability, own.Y[:, 0])
        found.append(
            Evidence(
                own.name,
                _kind(model, d, own, probability),
                "seen" if train is None else "held out",
                density[known],
                _constant(model, d, own, probability, train)[known],
                None if rank is None else rank[known],
                None if top[0] is None else top[0][known],
                None if top[1] is None else top[1][known],
                missing=float(1 - known.mean()),
            )
        )
    return found


def _ranks_or_classes(
    model: Any, at: Any, own: Any, d: int, samples: int, seed: int
) -> tuple[Array | None, Array | None]:
    if len(model.targets(d)) > 1:
        return None, np.asarray(model._predict_y(at, [d]).mean)
    y, parts = own.Y[:, 0], []
    binary = bool(np.isin(y, (0, 1)).all())
    step = max(1, _NUMBERS_AT_ONCE // samples)
    for start in range(0, len(own), step):
        some = np.arange(start, min(start + step, len(own)))
        draws = model._draw_y_apart(gather_rows(at, some), d, samples, seed + start)
        Y = np.asarray(model._y_draws(draws, [d]))[..., 0]
        binary = binary and bool(np.isin(Y, (0, 1)).all())
        parts.append(ranks(y[some], Y, seed + start))
    if binary:
        p = np.asarray(model._predict_y(at, [d]).mean)
        return None, np.concatenate([1 - p, p], 1)
    return np.concatenate(parts), None


def _top(probability: Array | None, y: Array) -> tuple[Array | None, Array | None]:
    """Probability of the most probable class, and whether it was this."""
    if probability is None:
        return None, None
    best = probability.argmax(1)
    return probability.max(1), best == y


def _kind(model: Any, d: int, own: Any, probability: Array | None) -> str:
    if own.Y.shape[1] > 1:
        return "annotations"
    return "class" if probability is not None else _likelihood_kind(_likelihood(model, d))


def _likelihood(model: Any, d: int) -> Any:
    likelihood = getattr(model, "likelihood", None)
    members = getattr(likelihood, "likelihoods", None)
    return likelihood if members is None else members[d]


def _likelihood_kind(likelihood: Any) -> Kind:
    return _KINDS.get(target_rules(likelihood) or _NO_RULES, "real")


def _constant(model: Any, d: int, own: Any, probability: Array | None, train: Any) -> Array:
    likelihood = _likelihood(model, d)
    kind: Kind = "class" if probability is not None else _likelihood_kind(likelihood)
    if isinstance(likelihood, AnnotatedClasses):
        kind = "class"
    # Targets of annotators say nothing of the truth, should this be what was held out.
    other = own if train is None else train.outputs[d]
    alike = train is not None and len(other) and other.Y.shape[1] == own.Y.shape[1]
    found = np.zeros(len(own))
    for t, (y, seen) in enumerate(zip(own.Y.T, own.observed.T, strict=True)):
        known = other.Y[other.observed[:, t], t] if alike else []
        if seen.any():
            found[seen] += constant_log_density(y[seen], kind, known if len(known) else None)
    return found


def _of_labels(model: Any, data: LabelData, train: Any) -> Evidence:
    (density,) = model.predict_log_density(data).values()
    Y = data.Y.toarray() > 0
    known_points = data if train is None else train
    share = (known_points.counts + 0.5) / (known_points.num_points + 1)
    constant = np.where(Y, np.log(share), np.log1p(-share)).sum(1)
    p = np.asarray(model.predict_proba(data.X))
    known = np.isfinite(np.asarray(density))
    return Evidence(
        data.name,
        "labels",
        "seen" if train is None else "held out",
        np.asarray(density)[known],
        constant[known],
        probability=p[known].reshape(-1),
        happened=Y[known].reshape(-1),
        missing=float(1 - known.mean()),
    )
