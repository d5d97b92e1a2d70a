"""One run of one method that learns from several annotators: what Giraldo's paper L sweeps over
(specification, §9).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from mogp import metrics
from mogp.data import Array, MultiOutputData

if TYPE_CHECKING:
    from mogp.datasets.dataset import Dataset

CLASS_METHODS = (
    *(
        "GPC-GOLD",
        "GPC-MV",
        "GPC-DS",
        "GPC-EACH",
        "MA-LFC-C",
        "MA-DGRL",
        "CGPMA-C",
        "CGPMA-C + amplitudes",
    ),
    *("CCGPMA-C",),
)
"""Methods for classes. "GPC-DS" trains on the labels of Dawid and Skene, "GPC-EACH" averages a GP
an annotator.
"""
VALUE_METHODS = (
    "GPR-GOLD",
    "GPR-Av",
    "MA-LFCR",
    "MA-GPR",
    "CGPMA-R",
    "CGPMA-R + amplitudes",
    "CCGPMA-R",
)
"""Methods for values. "+ amplitudes": independent functions whose variances are learned, between
CGPMA and CCGPMA.
"""

VALUE_SETS = ("autompg", "bike", "concrete", "boston", "yacht", "ctslice")
"""Tables with real targets, which `annotate_values` annotates; other tables have classes."""
FULL_BATCH = 500
"""Up to so many rows a step sees all of them (§9.1)."""
EM_TOLERANCE = 1e-5
"""EM of the baselines for classes stops when an iteration gains less than this share of its
objective.
"""

Predict = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Fitted:
    """A fitted method: what it says of the truth and of the annotators.

    Attributes:
        method: its name.
        model: the model or baseline itself.
        gold: at `X [N, P]`, class probabilities `[N, K]` (or values `[N, 1]`) and their standard
            deviations, NaN where the method has none.
        reliability: at `X [N, P]`, the mean and the standard deviation `[N, R]` of what
            `Dataset.per_row` calls "reliability" (classes) or "variance" (values); None where the
            method says nothing of annotators.
        elbo: the objective at every step; empty for methods without steps.
    """

    method: str
    model: Any
    gold: Predict
    reliability: Predict | None = None
    elbo: Array = field(default_factory=lambda: np.empty(0))

    @property
    def still_gained(self) -> float:
        """What the last tenth of the steps gained over the tenth before, as a share of all that was
        gained.
        """
        tenth = len(self.elbo) // 10
        if tenth == 0:
            return float("nan")
        last, before = self.elbo[-tenth:].mean(), self.elbo[-2 * tenth : -tenth].mean()
        return float((last - before) / (last - self.elbo[:tenth].mean()))


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
    """A data set of paper L with its annotations, of real or simulated annotators; the last few are
    remembered.

    Args:
        data: name of the data set: a toy, "music", or a table that gets the simulated annotators of
            §9.2.
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
            found = found.take(
                np.sort(np.random.default_rng(0).choice(len(found), most_rows, replace=False))
            )
        annotate = annotate_values if data in VALUE_SETS else annotate_classes
        found = annotate(found, embedding=embedding)
    return found if told is None else _thinned(found, told)


def fitted(
    method: str,
    train: Dataset,
    *,
    inducing: int = 40,
    steps: int = 300,
    batch_size: int | None = 100,
    gamma: float = 0.1,
    rate: float = 0.02,
    seed: int = 0,
) -> Fitted:
    """One of `CLASS_METHODS` or `VALUE_METHODS` trained on annotated data; only "GOLD" sees the
    true targets.

    GPs are sparse, with `inducing` points, and trained by natural gradients (step `gamma`) and Adam
    (`rate`) in `steps` steps; with more than `FULL_BATCH` rows on batches of `batch_size`. Values
    are centred and scaled by the mean and the standard deviation of the rows' average annotations
    first, and predictions scaled back. Baselines that have not converged, or that use a part of the
    rows, are taken as they are.
    """
    how = {"inducing": inducing, "seed": seed}
    train_with = functools.partial(
        _trained, steps=steps, batch_size=batch_size, gamma=gamma, rate=rate, seed=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if method in CLASS_METHODS:
            return _of_classes(method, train, train_with, how)
        if method in VALUE_METHODS:
            return _of_values(method, train, train_with, how)
    raise ValueError(
        f"no method {method!r}; there are {', '.join((*CLASS_METHODS, *VALUE_METHODS))}."
    )


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
    parts = (
        (whole.train, whole.test)
        if whole.held_out is not None
        else whole.split(test=test, seed=repetition)
    )
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
    """See `annotator_run`."""
    mean = found.gold(test.X)[0]
    truth = test.Y[:, 0]
    result: dict[str, Any] = {}
    if found.method in CLASS_METHODS:
        labels = truth.astype(int)
        result["auc"] = metrics.auc(labels, mean)
        result["accuracy"] = float(np.mean(mean.argmax(1) == labels))
        result["nlpd"] = metrics.nlpd(
            np.log(np.maximum(mean[np.arange(len(labels)), labels], 1e-12))
        )
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
    """The data with `told` annotations of each row, drawn at random, or fewer where there were
    fewer.
    """
    given = np.array(dataset.per_row["annotations"])
    order = np.random.default_rng(0).uniform(size=given.shape)
    order[np.isnan(given)] = 2.0
    given[np.argsort(np.argsort(order, axis=1), axis=1) >= told] = np.nan
    return replace(dataset, per_row={**dataset.per_row, "annotations": given})


def _trained(
    model: Any,
    data: MultiOutputData,
    *,
    steps: int,
    batch_size: int | None,
    gamma: float,
    rate: float,
    seed: int,
) -> Array:
    from mogp.optimizers import NaturalAdam
    from mogp.training import fit

    rows = batch_size if len(data.X) > FULL_BATCH else None
    history = fit(
        model,
        data,
        steps=steps,
        optimizer=NaturalAdam(gamma, rate),
        batch_size=rows,
        seed=seed,
        progress=False,
    )
    return history.elbo


def _of_classes(
    method: str, train: Dataset, train_with: Callable[..., Array], how: dict[str, Any]
) -> Fitted:
    from mogp.book.baselines.annotators import DGRL, LFC, DawidSkene, majority_vote
    from mogp.models import ccgpma, cgpma, g_m

    told, classes = train.annotated, len(train.classes[train.outputs[0]])
    if method in ("MA-LFC-C", "MA-DGRL"):
        baseline = (LFC if method == "MA-LFC-C" else DGRL)(classes, tolerance=EM_TOLERANCE).fit(
            told
        )
        return Fitted(
            method,
            baseline,
            _without_deviation(baseline.predict_y),
            _deviations(baseline.reliability),
        )
    if method == "GPC-EACH":
        each = _classifier_each(told, classes, **how)
        elbo = train_with(each.model, each.data)
        return Fitted(method, each, _without_deviation(each.predict_y), None, elbo)
    if method.startswith("GPC"):
        aims = {
            "GPC-GOLD": lambda: train.data,
            "GPC-MV": lambda: majority_vote(told, classes),
            "GPC-DS": lambda: DawidSkene(classes).fit(told).labels(told),
        }
        labels = aims[method]()
        model: Any = g_m(labels, [classes], **how)
        elbo = train_with(model, labels)
        return Fitted(
            method, model, functools.partial(_softmax_moments, model, classes), None, elbo
        )
    model = ccgpma(told, classes, **how) if method == "CCGPMA-C" else cgpma(told, classes, **how)
    _free_amplitudes(method, model)
    elbo = train_with(model, told)
    return Fitted(
        method, model, _deviations(model.predict_gold), _deviations(model.reliability), elbo
    )


def _of_values(
    method: str, train: Dataset, train_with: Callable[..., Array], how: dict[str, Any]
) -> Fitted:
    from mogp.book.baselines.annotators import LFCR, AnnotatorGPR, average
    from mogp.models import ccgpma, cgpma

    told = train.annotated
    means = average(told)[0].Y
    centre, scale = float(means.mean()), float(means.std()) or 1.0

    def scaled(data: MultiOutputData) -> MultiOutputData:
        return replace(data, outputs=(replace(data[0], Y=(data[0].Y - centre) / scale),))

    model: Any
    elbo = np.empty(0)
    if method in ("MA-LFCR", "MA-GPR"):
        model = (LFCR() if method == "MA-LFCR" else AnnotatorGPR(seed=how["seed"])).fit(
            scaled(told)
        )
        gold, reliability = _deviations(model.predict_y), _deviations(model.reliability)
    elif method in ("GPR-GOLD", "GPR-Av"):
        aim = scaled(train.data if method == "GPR-GOLD" else average(told))
        model = _regression(aim, **how)
        elbo = train_with(model, aim)
        gold, reliability = _deviations(lambda X: model.predict_f(X, 0)), None
    else:
        model = (ccgpma if method == "CCGPMA-R" else cgpma)(scaled(told), **how)
        _free_amplitudes(method, model)
        elbo = train_with(model, scaled(told))
        gold, reliability = _deviations(model.predict_gold), _deviations(model.reliability)

    def back(X: Array) -> tuple[Array, Array]:
        mean, deviation = gold(X)
        return centre + scale * mean, scale * deviation

    def variances(X: Array) -> tuple[Array, Array]:
        assert reliability is not None
        mean, deviation = reliability(X)
        return scale**2 * mean, scale**2 * deviation

    return Fitted(method, model, back, None if reliability is None else variances, elbo)


def _free_amplitudes(method: str, model: Any) -> None:
    """Learn the variance of every function."""
    from gpflow.utilities import set_trainable

    if method.endswith("+ amplitudes"):
        for kernel in model.prior.kernels.kernels:
            set_trainable(kernel.variance, True)


def _regression(data: MultiOutputData, *, inducing: int, seed: int) -> Any:
    """Sparse GP regression with an isotropic kernel."""
    import gpflow

    from mogp.inducing import kmeans_points
    from mogp.likelihoods import Gaussian
    from mogp.models import SparseMOGP
    from mogp.priors import Independent

    width = float(np.sqrt(data.input_dim)) if data.input_dim > 1 else 0.2 * float(np.ptp(data.X))
    return SparseMOGP(
        prior=Independent(gpflow.kernels.SquaredExponential(lengthscales=width), functions=1),
        inducing=kmeans_points(data, inducing, seed=seed),
        likelihood=Gaussian(0.1),
        names=data.names,
    )


@dataclass(frozen=True)
class _Each:
    """A GP classifier for every annotator, trained together with one kernel; predictions are
    averaged.
    """

    model: Any
    data: MultiOutputData

    def predict_y(self, X: Array) -> tuple[Array, Array]:
        p = np.mean(
            [np.asarray(self.model.predict_y(X, name)[0]) for name in self.data.names], axis=0
        )
        return p, p * (1 - p)


def _classifier_each(told: MultiOutputData, classes: int, *, inducing: int, seed: int) -> _Each:
    import gpflow

    from mogp.inducing import kmeans_points
    from mogp.likelihoods import Softmax
    from mogp.models import SparseMOGP
    from mogp.priors import Independent

    own = told[0]
    X, R = told.inputs(0), own.Y.shape[1]
    pairs = [(X[own.observed[:, r]], own.Y[own.observed[:, r], r : r + 1]) for r in range(R)]
    data = MultiOutputData.from_list(pairs, names=[f"annotator {r}" for r in range(R)])
    width = float(np.sqrt(told.input_dim)) if told.input_dim > 1 else 0.2 * float(np.ptp(X))
    model = SparseMOGP(
        prior=Independent(
            gpflow.kernels.SquaredExponential(lengthscales=width), functions=R * classes
        ),
        inducing=kmeans_points(X, inducing, seed=seed),
        likelihood={name: Softmax(classes, seed=seed + r) for r, name in enumerate(data.names)},
    )
    return _Each(model, data)


def _softmax_moments(model: Any, classes: int, X: Array) -> tuple[Array, Array]:
    """Means and deviations of the softmax of functions with the marginals of the model."""
    from mogp.likelihoods import AnnotatedClasses

    mean, variance = AnnotatedClasses(classes, 1).gold(*model.predict_f(X))
    return np.asarray(mean), np.sqrt(np.asarray(variance))


def _deviations(predict: Callable[[Array], Any]) -> Predict:
    def of(X: npt.ArrayLike) -> tuple[Array, Array]:
        mean, variance = predict(np.asarray(X))
        return np.asarray(mean), np.sqrt(np.maximum(np.asarray(variance), 0.0))

    return of


def _without_deviation(predict: Callable[[Array], Any]) -> Predict:
    def of(X: npt.ArrayLike) -> tuple[Array, Array]:
        mean = np.asarray(predict(np.asarray(X))[0])
        return mean, np.full(mean.shape, np.nan)

    return of
