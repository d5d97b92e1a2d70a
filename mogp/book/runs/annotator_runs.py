"""One run of one method that learns from several annotators: what paper L sweeps over.

The paper is Giraldo's (specification, §9).
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mogp import metrics
from mogp.book.runs.annotator_methods import CLASS_METHODS, Fitted, fitted
from mogp.data import Array

if TYPE_CHECKING:
    from mogp.datasets.dataset import Dataset

VALUE_SETS = ("autompg", "bike", "concrete", "boston", "yacht", "ctslice")
"""Tables with real targets, which `annotate_values` annotates; other tables have classes."""


@functools.lru_cache(maxsize=4)
def annotated(
    data: str,
    source: str = "real",
    *,
    most_rows: int | None = None,
    told: int | None = None,
    embedding: Literal["tsne", "pca"] = "tsne",
    task: Literal["classification", "regression"] = "classification",
    **options: Any,
) -> Dataset:
    """A data set of paper L with its annotations, of real or simulated annotators.

    The last few are remembered.

    Args:
        data: name of the data set: a toy, "music", or a table that gets the simulated annotators
            of §9.2.
        source: "stand-in" forces the stand-in, anything else forbids it.
        most_rows: of a larger table a random sample of so many rows is taken, before it is
            annotated.
        told: annotations kept of each training row, drawn at random; all if None.
        embedding: how a row of a table gets the coordinate on which skill depends.
        task: of "music".
        options: of the loader.
    """
    from mogp import datasets
    from mogp.datasets.annotate import annotate_classes, annotate_values

    stand_in: Any = "only" if source == "stand-in" else "forbid"
    if data == "music":
        options = {"task": task, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        found: Dataset = datasets.load(data, stand_in=stand_in, **options)
    if "annotations" not in found.per_row:
        if most_rows is not None and len(found) > most_rows:
            rng = np.random.default_rng(0)
            found = found.take(np.sort(rng.choice(len(found), most_rows, replace=False)))
        annotate = annotate_values if data in VALUE_SETS else annotate_classes
        found = annotate(found, embedding=embedding)
    return found if told is None else _thinned(found, told)


def annotator_run(
    data: str,
    source: str,
    method: str,
    *,
    repetition: int = 0,
    test: float = 0.3,
    loading: dict[str, Any] | None = None,
    inducing: int = 40,
    steps: int = 300,
    batch_size: int | None = 100,
    gamma: float = 0.1,
    rate: float = 0.02,
) -> dict[str, Any]:
    """Train one method on one split of one data set, and score it.

    Args:
        data: name of the data set.
        source: "stand-in" forces the stand-in, anything else forbids it.
        method: one of `CLASS_METHODS` or `VALUE_METHODS`.
        repetition: number of the split; where there is a published one, it is used.
        test: share of the rows to test on.
        loading: further arguments of `annotated`.
        inducing: M.
        steps: of the optimiser.
        batch_size: rows a step, with more than `FULL_BATCH` rows.
        gamma: step size of the natural gradient.
        rate: step size of Adam.

    Returns:
        Of classes `auc` (one against the rest, weighted by prevalence), `accuracy` and `nlpd` of
        the true labels; of values `r2`, and `train_r2` of the true values of the training rows.
        Where the annotators are simulated `recovered` `[R]`, on the test inputs: the share where
        "reliability at least 1/2" agrees with the truth, or the R2 of the noise variances.
        `still_gained`: see `Fitted`.
    """
    whole = annotated(data, source, **(loading or {}))
    published = whole.held_out is not None
    parts = (whole.train, whole.test) if published else whole.split(test=test, seed=repetition)
    found = fitted(
        method,
        parts[0],
        inducing=inducing,
        steps=steps,
        batch_size=batch_size,
        gamma=gamma,
        rate=rate,
        seed=0,
    )
    return {**scores(found, *parts), "still_gained": found.still_gained}


def scores(found: Fitted, train: Dataset, test: Dataset) -> dict[str, Any]:
    """The scores of a fitted method; `annotator_run` says which."""
    mean = found.gold(test.X)[0]
    truth = test.Y[:, 0]
    result: dict[str, Any] = {}
    if found.method in CLASS_METHODS:
        labels = truth.astype(int)
        result["auc"] = metrics.auc(labels, mean)
        result["accuracy"] = float(np.mean(mean.argmax(1) == labels))
        of_true = mean[np.arange(len(labels)), labels]
        result["nlpd"] = metrics.nlpd(np.log(np.maximum(of_true, 1e-12)))
    else:
        result["r2"] = metrics.r2(truth, mean[:, 0])
        result["train_r2"] = metrics.r2(train.Y[:, 0], found.gold(train.X)[0][:, 0])
    if found.reliability is not None and {"reliability", "variance"} & test.per_row.keys():
        result["recovered"] = recovered(found.reliability(test.X)[0], test).tolist()
    return result


def recovered(estimate: Array, data: Dataset) -> Array:
    """How well estimated reliabilities `[N, R]` match the true ones of simulated annotators, `[R]`.

    Classes: share of the rows where both are, or neither is, at least 1/2. Values: R2 of the noise
    variances.
    """
    if "reliability" in data.per_row:
        right: Array = np.mean((estimate >= 0.5) == (data.per_row["reliability"] >= 0.5), axis=0)
        return right
    true = data.per_row["variance"]
    return np.array([metrics.r2(true[:, r], estimate[:, r]) for r in range(true.shape[1])])


def _thinned(dataset: Dataset, told: int) -> Dataset:
    """The data with at most `told` annotations of each row, drawn at random."""
    given = np.array(dataset.per_row["annotations"])
    order = np.random.default_rng(0).uniform(size=given.shape)
    order[np.isnan(given)] = 2.0
    given[np.argsort(np.argsort(order, axis=1), axis=1) >= told] = np.nan
    return replace(dataset, per_row={**dataset.per_row, "annotations": given})
