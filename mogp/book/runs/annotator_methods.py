"""The methods that Giraldo's paper L compares on data with several annotators."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mogp.data import Array, MultiOutputData

if TYPE_CHECKING:
    from mogp.datasets.dataset import Dataset

CLASS_METHODS = (
    "GPC-GOLD",
    "GPC-MV",
    "GPC-DS",
    "GPC-EACH",
    "MA-LFC-C",
    "MA-DGRL",
    "CGPMA-C",
    "CGPMA-C + amplitudes",
    "CCGPMA-C",
)
"""Methods for classes.

"GPC-DS" trains on the labels of Dawid and Skene, "GPC-EACH" averages one GP for each annotator.
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
"""Methods for values.

"+ amplitudes": independent functions whose variances are learned, between CGPMA and CCGPMA.
"""
FULL_BATCH = 500
"""Up to so many rows a step sees all of them (§9.1)."""
EM_TOLERANCE = 1e-5
"""EM of the baselines for classes stops when an iteration gains a smaller share than this."""

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
        """What the last tenth of the steps gained over the tenth before, as a share of all gain."""
        tenth = len(self.elbo) // 10
        if tenth == 0:
            return float("nan")
        last, before = self.elbo[-tenth:].mean(), self.elbo[-2 * tenth : -tenth].mean()
        return float((last - before) / (last - self.elbo[:tenth].mean()))


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
    """One of `CLASS_METHODS` or `VALUE_METHODS`, trained on annotated data.

    Only "GOLD" sees the true targets. GPs are sparse, with `inducing` points, and trained by
    natural gradients (step `gamma`) and Adam (`rate`) in `steps` steps; with more than `FULL_BATCH`
    rows on batches of `batch_size`. Values are centred and scaled by the mean and the standard
    deviation of the rows' average annotations first, and predictions scaled back. Baselines that
    have not converged, or that use a part of the rows, are taken as they are.
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
    from mogp.book.baselines import DGRL, LFC, DawidSkene, majority_vote
    from mogp.models import ccgpma, cgpma, g_m

    told, classes = train.annotated, len(train.classes[train.outputs[0]])
    if method in ("MA-LFC-C", "MA-DGRL"):
        kind = LFC if method == "MA-LFC-C" else DGRL
        baseline = kind(classes, tolerance=EM_TOLERANCE).fit(told)
        gold = _without_deviation(baseline.predict_y)
        return Fitted(method, baseline, gold, _deviations(baseline.reliability))
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
        model: Any = g_m(labels, [classes], **how, scaling=None, start="plain")
        elbo = train_with(model, labels)
        gold = functools.partial(_softmax_moments, model, classes)
        return Fitted(method, model, gold, None, elbo)
    model = (
        ccgpma(told, classes, **how, scaling=None, start="plain")
        if method == "CCGPMA-C"
        else cgpma(told, classes, **how, scaling=None, start="plain")
    )
    _free_amplitudes(method, model)
    elbo = train_with(model, told)
    gold, reliability = _deviations(model.predict_gold), _deviations(model.reliability)
    return Fitted(method, model, gold, reliability, elbo)


def _of_values(
    method: str, train: Dataset, train_with: Callable[..., Array], how: dict[str, Any]
) -> Fitted:
    from mogp.book.baselines import LFCR, AnnotatorGPR, average
    from mogp.models import ccgpma, cgpma

    told = train.annotated
    means = average(told)[0].Y
    centre, scale = float(means.mean()), float(means.std()) or 1.0

    def scaled(data: MultiOutputData) -> MultiOutputData:
        return replace(data, outputs=(replace(data[0], Y=(data[0].Y - centre) / scale),))

    model: Any
    elbo = np.empty(0)
    if method in ("MA-LFCR", "MA-GPR"):
        baseline = LFCR() if method == "MA-LFCR" else AnnotatorGPR(seed=how["seed"])
        model = baseline.fit(scaled(told))
        gold, reliability = _deviations(model.predict_y), _deviations(model.reliability)
    elif method in ("GPR-GOLD", "GPR-Av"):
        aim = scaled(train.data if method == "GPR-GOLD" else average(told))
        model = _regression(aim, **how)
        elbo = train_with(model, aim)
        gold, reliability = _deviations(lambda X: model.predict_f(X, 0)), None
    else:
        model = (ccgpma if method == "CCGPMA-R" else cgpma)(scaled(told), **how, scaling=None)
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
    """A GP classifier for every annotator, trained with one kernel; predictions are averaged."""

    model: Any
    data: MultiOutputData

    def predict_y(self, X: Array) -> tuple[Array, Array]:
        each = [np.asarray(self.model.predict_y(X, name)[0]) for name in self.data.names]
        p = np.mean(each, axis=0)
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
    kernel = gpflow.kernels.SquaredExponential(lengthscales=width)
    model = SparseMOGP(
        prior=Independent(kernel, functions=R * classes),
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
