"""Peers that a user would try first, an output at a time: GPflow, a random forest, a linear model.

They read plain arrays (`Column`) and standardise inputs and real targets, as their users do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gpflow
import numpy as np
import tensorflow as tf
from scipy.special import gammaln
from scipy.stats import poisson
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegressionCV, PoissonRegressor, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from defaults.scores import Array, Column, Prediction
from defaults.tasks import Split, Task

Predictor = Callable[[Array], Prediction]
Fitted = list[tuple[Column, Predictor]]
_EXACT, _POINTS, _BATCH, _STEPS = 1000, 100, 256, 3000
_TREES = 300
_LOGISTIC = {"scoring": "neg_log_loss", "max_iter": 2000, "l1_ratios": (0,), "use_legacy_attributes": False}
_PENALTIES = np.logspace(-3, 5, 17)


def each(fit: Callable[[Column, int], Predictor]) -> Callable[[Task, Sequence[Column], int], Fitted]:
    """A fit for each tested output."""
    return lambda task, wanted, split: [(column, fit(column, split)) for column in wanted]


def predictions(fitted: Fitted, task: Task, split: Split) -> dict[str, Prediction]:
    """Of all tested outputs."""
    return {column.name: predict(column.X_test) for column, predict in fitted}


# --- GPflow


def gp_per_output(column: Column, split: int) -> Predictor:
    """GPR up to 1000 rows, SVGP with 100 points beyond (Adam, batches of 256, 3000 steps); ARD squared exponential.

    Replicas have a function for all of them and one each: a kernel for the inputs, plus one times that of the replica.
    Counts and classes have GPflow's likelihoods (Poisson, Bernoulli, robust-max) and SVGP, by L-BFGS up to 1000 rows.
    """
    X, X_test = _scaled(column)
    mean, sd = (column.y.mean(), column.y.std() or 1.0) if column.kind == "real" else (0.0, 1.0)
    data = (X, ((column.y - mean) / sd)[:, None])
    exact = column.kind == "real" and len(X) <= _EXACT
    model = gpflow.models.GPR(data, _kernel(column)) if exact else _svgp(column, X, split)
    if exact:
        gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1000})
    elif len(X) <= _EXACT:
        loss = model.training_loss_closure(data)
        gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options={"maxiter": 1000})
    else:
        _by_adam(model, data, split)

    def predict(_: Array) -> Prediction:
        y = column.y_test
        if column.kind == "real":
            m, v = (np.asarray(a)[:, 0] for a in model.predict_y(X_test))
            return Prediction.gaussian(y, mean + sd * m, sd * np.sqrt(v))
        if column.kind == "classes":
            p = np.asarray(model.predict_y(X_test)[0])
            return Prediction.of_classes(y, p if p.shape[1] > 1 else np.hstack([1 - p, p]))
        m, v = (np.asarray(a)[:, 0] for a in model.predict_f(X_test))
        density = np.asarray(model.predict_log_density((X_test, y[:, None])))
        return _of_rates(y, m, v, density, np.random.default_rng(split))

    return predict


def _scaled(column: Column) -> tuple[Array, Array]:
    """Inputs to train on and to test with; ones and zeros of replicas as they are."""
    P = column.X.shape[1] - column.replicas
    scaler = StandardScaler().fit(column.X[:, :P])
    return tuple(np.hstack([scaler.transform(X[:, :P]), X[:, P:]]) for X in (column.X, column.X_test))


def _kernel(column: Column) -> gpflow.kernels.Kernel:
    R = column.replicas
    P = column.X.shape[1] - R
    dims = list(range(P))
    one, two = (
        gpflow.kernels.SquaredExponential(lengthscales=np.full(P, np.sqrt(P)), active_dims=dims) for _ in range(2)
    )
    if R == 0:
        return one
    replica = gpflow.kernels.SquaredExponential(active_dims=list(range(P, P + R)))
    gpflow.set_trainable(replica.variance, False)
    return one + two * replica


def _svgp(column: Column, X: Array, seed: int) -> gpflow.models.SVGP:
    several = column.kind == "classes" and column.classes > 2
    likelihood = {
        "real": gpflow.likelihoods.Gaussian,
        "count": gpflow.likelihoods.Poisson,
        "classes": gpflow.likelihoods.Bernoulli,
    }[column.kind]()
    if several:
        likelihood = gpflow.likelihoods.MultiClass(column.classes)
    distinct = np.unique(X, axis=0)
    Z = distinct
    if len(distinct) > _POINTS:
        Z = KMeans(_POINTS, n_init=1, random_state=seed).fit(X).cluster_centers_
    return gpflow.models.SVGP(
        _kernel(column), likelihood, Z, num_latent_gps=column.classes if several else 1, num_data=len(X)
    )


def _by_adam(model: gpflow.models.SVGP, data: tuple[Array, Array], seed: int) -> None:
    batches = tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(len(data[0]), seed=seed).batch(_BATCH)
    loss = model.training_loss_closure(iter(batches), compile=True)
    adam = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss()
        adam.apply_gradients(
            zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True)
        )

    for _ in range(_STEPS):
        step()


def _of_rates(y: Array, m: Array, v: Array, density: Array, rng: np.random.Generator) -> Prediction:
    """Poisson counts whose log rates are normal."""
    rates = np.exp(m + np.sqrt(v) * rng.standard_normal((1000, len(m))))
    lower, upper = np.quantile(rng.poisson(np.minimum(rates, 1e15)), [0.025, 0.975], axis=0)
    return Prediction(density, np.exp(m + v / 2), lower, upper)


# --- a random forest


def forest(column: Column, split: int) -> Predictor:
    """Three hundred trees; out-of-bag residuals give the spread of a Gaussian, counts are Poisson.

    So that no class or rate is zero, a vote for each class, or that of a tree that says the mean, is added.
    """
    X, y, y_test = column.X, column.y, column.y_test
    if column.kind == "classes":
        trees = RandomForestClassifier(_TREES, random_state=split).fit(X, y)
        return lambda X_test: Prediction.of_classes(y_test, _smoothed(trees, X_test, column.classes))
    trees = RandomForestRegressor(_TREES, oob_score=column.kind == "real", random_state=split).fit(X, y)
    if column.kind == "real":
        sd = np.full(len(y_test), np.sqrt(np.mean((y - trees.oob_prediction_) ** 2)))
        return lambda X_test: Prediction.gaussian(y_test, trees.predict(X_test), sd)
    return lambda X_test: _poisson(y_test, (trees.predict(X_test) * _TREES + y.mean()) / (_TREES + 1))


def _smoothed(trees: RandomForestClassifier, X: Array, classes: int) -> Array:
    shares = np.zeros((len(X), classes))
    shares[:, trees.classes_.astype(int)] = trees.predict_proba(X)
    return (shares * _TREES + 1) / (_TREES + classes)


# --- a linear model


def linear(column: Column, split: int) -> Predictor:
    """Ridge, logistic or Poisson regression, its penalty by validation; ridge has the spread of left-out residuals."""
    X, y, y_test = column.X, column.y, column.y_test
    if column.kind == "classes":
        folds = max(2, min(5, int(np.unique(y, return_counts=True)[1].min())))
        steps = LogisticRegressionCV(**_LOGISTIC, cv=folds)
        model = make_pipeline(StandardScaler(), steps).fit(X, y)
        return lambda X_test: Prediction.of_classes(y_test, _probabilities(model, X_test, column.classes))
    if column.kind == "count":
        search = GridSearchCV(PoissonRegressor(max_iter=2000), {"alpha": np.logspace(-4, 2, 13)}, cv=5)
        model = make_pipeline(StandardScaler(), search).fit(X, y)
        return lambda X_test: _poisson(y_test, model.predict(X_test))
    ridge = RidgeCV(_PENALTIES, store_cv_results=True)
    model = make_pipeline(StandardScaler(), ridge).fit(X, y)
    sd = np.sqrt(np.min(ridge.cv_results_.reshape(-1, len(_PENALTIES)).mean(axis=0)))
    return lambda X_test: Prediction.gaussian(y_test, model.predict(X_test), np.full(len(y_test), sd))


def _probabilities(model: LogisticRegressionCV, X: Array, classes: int) -> Array:
    p = np.full((len(X), classes), 1e-6)
    p[:, model.classes_.astype(int)] += model.predict_proba(X)
    return p / p.sum(axis=1, keepdims=True)


def _poisson(y: Array, rate: Array) -> Prediction:
    density = y * np.log(rate) - rate - gammaln(y + 1)
    return Prediction(density, rate, poisson.ppf(0.025, rate), poisson.ppf(0.975, rate))
