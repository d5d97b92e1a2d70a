"""Which targets a likelihood can take, checked before training, in words that name the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from gpflow import likelihoods as stock
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

__all__ = ["TargetRule", "check_targets", "target_rules"]


@dataclass(frozen=True)
class TargetRule:
    """One way for targets to be wrong, with the words of the error.

    Attributes:
        fault: what broken targets are called, such as "negative".
        broken: marks broken targets: y [N, T] to booleans [N, T].
        requirement: what is asked of targets.
        advice: what to do.

    >>> import numpy as np
    >>> from mogp.likelihoods import TargetRule
    >>> even = TargetRule("odd", lambda y: y % 2 == 1, "targets must be even", "Double them")
    >>> even.broken(np.array([[2.0], [3.0]])).tolist()
    [[False], [True]]
    """

    fault: str
    broken: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
    requirement: str
    advice: str


FINITE = TargetRule(
    "non-finite",
    lambda y: ~np.isfinite(y),
    "targets must be finite numbers",
    "Drop those rows: outputs need not have the same rows",
)
COUNTS = (
    TargetRule(
        "negative",
        lambda y: y < 0,
        "counts must be >= 0",
        "Drop or correct those rows, or use likelihoods.Gaussian() for signed targets",
    ),
    TargetRule(
        "fractional",
        lambda y: y != np.floor(y),
        "counts must be whole numbers",
        "Undo any scaling of the counts, or use likelihoods.Gamma() for positive real targets",
    ),
)
POSITIVE = (
    TargetRule(
        "zero or negative",
        lambda y: y <= 0,
        "targets must be > 0",
        "Drop or correct those rows, replace zeros by the smallest value that can be measured, "
        "or use likelihoods.Gaussian() for signed targets",
    ),
)
UNIT_INTERVAL = (
    TargetRule(
        "out-of-range",
        lambda y: (y <= 0) | (y >= 1),
        "targets must lie strictly between 0 and 1",
        "Bring shares that touch the ends inside with numpy.clip(y, 1e-5, 1 - 1e-5), and divide"
        " percentages by 100",
    ),
)
BINARY = (
    TargetRule(
        "non-binary",
        lambda y: (y != 0) & (y != 1),
        "targets must be 0 or 1",
        "Recode the two classes as 0 and 1, or use likelihoods.Softmax(classes) for more than two",
    ),
)


def labels(classes: int) -> tuple[TargetRule, ...]:
    """The rule of class labels 0, 1, ..., classes - 1."""
    return (
        TargetRule(
            "unknown-class",
            lambda y: (y < 0) | (y >= classes) | (y != np.floor(y)),
            f"labels must be whole numbers from 0 to {classes - 1}",
            "Recode the labels with numpy.unique(y, return_inverse=True), or raise the number of"
            " classes",
        ),
    )


@singledispatch
def target_rules(likelihood: object) -> tuple[TargetRule, ...]:
    """The rules of a likelihood: its own `target_rules`, those of a GPflow class, or none.

    Args:
        likelihood: one of ours, or of GPflow's.

    >>> from mogp.likelihoods import Poisson, target_rules
    >>> [rule.requirement for rule in target_rules(Poisson())]
    ['counts must be >= 0', 'counts must be whole numbers']
    """
    rules: tuple[TargetRule, ...] = getattr(likelihood, "target_rules", ())
    return rules


@target_rules.register(stock.Poisson)
def _(likelihood: stock.Poisson) -> tuple[TargetRule, ...]:
    return COUNTS


@target_rules.register(stock.Exponential)
@target_rules.register(stock.Gamma)
def _(likelihood: stock.Exponential | stock.Gamma) -> tuple[TargetRule, ...]:
    return POSITIVE


@target_rules.register(stock.Beta)
def _(likelihood: stock.Beta) -> tuple[TargetRule, ...]:
    return UNIT_INTERVAL


@target_rules.register(stock.Bernoulli)
def _(likelihood: stock.Bernoulli) -> tuple[TargetRule, ...]:
    return BINARY


@target_rules.register(stock.Softmax)
@target_rules.register(stock.MultiClass)
def _(likelihood: stock.Softmax | stock.MultiClass) -> tuple[TargetRule, ...]:
    return labels(likelihood.num_classes)


@target_rules.register(stock.Ordinal)
def _(likelihood: stock.Ordinal) -> tuple[TargetRule, ...]:
    return labels(likelihood.num_bins)


def check_targets(likelihood: Any, Y: ArrayLike, name: str) -> None:
    """Raise a ValueError if targets are not what their likelihood takes.

    Likelihoods that declare no rules are held to finite targets only.

    Args:
        likelihood: one of ours, or of GPflow's.
        Y: [N, T] targets; most likelihoods take one column.
        name: what the output is called.

    >>> from mogp.likelihoods import Poisson, check_targets
    >>> check_targets(Poisson(), [[3.0], [0.0]], name="visits")
    >>> check_targets(Poisson(), [[3.0], [-2.0]], name="visits")
    Traceback (most recent call last):
    ...
    ValueError: output 'visits' (Poisson) has 1 negative target, first at row 1 (-2.0); ...
    """
    kind = type(likelihood).__name__
    if issparse(Y) or hasattr(likelihood, "num_labels"):
        _check_labels(likelihood, Y, f"output '{name}' ({kind})")
        return
    try:
        y = np.asarray(Y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"output '{name}' ({kind}) has targets that are not numbers: {error}. "
            "Recode labels as 0, 1, ... with numpy.unique(y, return_inverse=True)."
        ) from error
    rules = target_rules(likelihood)
    annotators = getattr(likelihood, "target_columns", None)
    alone = 1 if rules or isinstance(likelihood, stock.ScalarLikelihood) else None
    columns = annotators or likelihood.observation_dim or alone
    if columns and (y.ndim != 2 or y.shape[1] != columns):
        advice = (
            "Give it a column for each annotator, NaN where one said nothing."
            if annotators
            else (
                "Reshape one target with Y.reshape(-1, 1); give every further column an output of"
                " its own."
            )
        )
        raise ValueError(
            f"output '{name}' ({kind}) has targets of shape {y.shape}; expected (rows, {columns})."
            f" {advice}"
        )
    for rule in (FINITE, *rules):
        broken = np.argwhere(rule.broken(y))
        if len(broken):
            first = tuple(broken[0])
            raise ValueError(
                f"output '{name}' ({kind}) has {len(broken)} {rule.fault}"
                f" target{'s' if len(broken) > 1 else ''}, first at row"
                f" {first[0]}{f', column {first[1]}' if y.shape[1] > 1 else ''} ({y[first]});"
                f" {rule.requirement}. {rule.advice}."
            )


def _check_labels(likelihood: Any, Y: Any, output: str) -> None:
    wanted = getattr(likelihood, "num_labels", None)
    if wanted is None:
        raise ValueError(
            f"{output} has labels for targets; give it likelihoods.BernoulliLabels({Y.shape[1]})."
        )
    if not issparse(Y):
        raise ValueError(
            f"{output} needs labels for targets; build the data with mogp.LabelData.of(X, Y)."
        )
    if Y.shape[1] != wanted:
        raise ValueError(
            f"{output} has {Y.shape[1]} labels, the likelihood {wanted}; give LabelData.of"
            f" labels={wanted}."
        )
