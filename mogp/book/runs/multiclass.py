"""One run of one multi-class model on images, and the cost of its step (Panos, chapter 3)."""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.book.methods import CLASS_METHODS
from mogp.data import Array, MultiOutputData

if TYPE_CHECKING:
    from mogp.models import SparseMOGP
    from mogp.optimizers import Optimizer

METHODS = tuple(CLASS_METHODS)
OPTIMISERS = ("AdaDelta", "AdaGrad", "RMSProp", "Adam")
_ROWS_AT_ONCE = 1000
_ROWS_FOR_CENTRES = 10_000


def multiclass_model(
    method: str,
    train: MultiOutputData,
    *,
    inducing: int,
    lengthscale: float | None,
    rivals: int = 1,
    pace: float = 1.0,
    mean_pace: float = 1.0,
    seed: int = 0,
) -> Any:
    """One of `METHODS`, or "OvsE-LIN"; k-means centres are those of at most 10 000 rows.

    Inducing inputs are kept in units of `pace`, parsimonious means in units of `mean_pace`: an
    optimiser like Adam, whose steps do not depend on the scale of the gradient, moves them by these
    shares of its rate.
    """
    from mogp.inducing import kmeans_points
    from mogp.models import ovse, ovse_linear, robust_max
    from mogp.models.multiclass import class_points

    if method == "OvsE-LIN":
        return ovse_linear(train, rivals=rivals, scaling=None)
    if method not in METHODS:
        raise ValueError(f"no method {method!r}; there are {', '.join(METHODS)} and OvsE-LIN.")
    few = _some(train, _ROWS_FOR_CENTRES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if method in ("OvsE-P", "OvsE-F"):
            points = class_points(few, few.outputs[0].Y[:, 0].astype(int), inducing, seed)
        else:
            points = kmeans_points(few, inducing, seed=seed)
    points.Z = _in_units(points.Z, pace)
    options: dict[str, Any] = {"inducing": points, "lengthscale": lengthscale, "seed": seed}
    options["scaling"] = None
    make: Any = robust_max if method.startswith("RM") else partial(ovse, rivals=rivals)
    model = make(train, **CLASS_METHODS[method], **options)
    if "-P" in method:
        model.posterior.mu = _in_units(model.posterior.mu, mean_pace)
    return model


def _in_units(parameter: Any, unit: float) -> Any:
    """The parameter, kept in a variable that holds its value divided by `unit`."""
    import gpflow
    from tensorflow_probability import bijectors

    scale = bijectors.Scale(np.asarray(unit, gpflow.default_float()))
    return gpflow.Parameter(
        parameter.numpy(), transform=bijectors.Chain([scale, parameter.transform])
    )


def stepper(name: str, rate: float, steps: int, decay: bool, lazy: bool) -> Optimizer:
    """One of `OPTIMISERS`; with `decay` the rate falls to zero along half a cosine."""
    from gpflow.keras import tf_keras

    from mogp.optimizers import Adam, Keras

    falling: Any = tf_keras.optimizers.schedules.CosineDecay(rate, steps) if decay else rate
    if name == "Adam":
        return Adam(falling, lazy=lazy)
    kinds = {"AdaDelta": "Adadelta", "AdaGrad": "Adagrad", "RMSProp": "RMSprop"}
    if name not in kinds:
        raise ValueError(f"no optimiser {name!r}; there are {', '.join(OPTIMISERS)}.")
    return Keras(getattr(tf_keras.optimizers, kinds[name])(falling))


def multiclass_run(
    method: str,
    source: str,
    *,
    data: str = "mnist",
    rows: int | None = None,
    test_rows: int | None = None,
    inducing: int = 100,
    lengthscale: float | None = 10.0,
    batch_size: int = 200,
    steps: int = 1000,
    every: int = 100,
    rate: float = 0.03,
    decay: bool = True,
    optimizer: str = "Adam",
    rivals: int = 1,
    pace: float = 1.0,
    mean_pace: float = 1.0,
    bound_rows: int = 2000,
    samples: int = 200,
    shown: Sequence[int] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Train one model and follow bound and test error along the way.

    Args:
        method: one of `METHODS`, or "OvsE-LIN".
        source: where the data come from: "stand-in" forces the stand-in, anything else forbids it.
        data: name of a data set with a published split, or one of which a quarter is held out.
        rows, test_rows: how many to train and to test on, at most; all if None.
        inducing: inducing inputs of a set.
        lengthscale: start value; the median distance if None.
        batch_size: rows a step.
        steps: of the optimiser.
        every: steps between two evaluations.
        rate, decay, optimizer: see `stepper`.
        rivals: classes with which a one-vs-each step compares.
        pace, mean_pace: of inducing inputs and of parsimonious means, see `multiclass_model`.
        bound_rows: rows of the training data on which the last bound is estimated, all classes, the
            same for all.
        samples: draws for the predictive probabilities of one-vs-each.
        shown: numbers of inducing inputs to return, counted through all sets.
        seed: of start values and batches.

    Returns:
        `step` and `test_error` along the way; `elbo_step` and `elbo`, means of 200 parts of the
        training; at the end `error`, `nlpd`, for one-vs-each also `nlpd_bound` and
        `nlpd_normalised`, `bound`, `last_lengthscale`, `last_variance` (means over classes where
        each has its own); `first_images`, `last_images` of the inducing inputs shown;
        `first_entropy`, `last_entropy`, the mean predictive entropy at all inducing inputs before
        and after training; `seconds_per_step`, `status`.
    """
    from mogp.training import fit

    gc.collect()
    train, test = _parts(data, source, rows, test_rows)
    X, labels = test.inputs(0), test.outputs[0].Y[:, 0]
    model = multiclass_model(
        method,
        train,
        inducing=inducing,
        lengthscale=lengthscale,
        rivals=rivals,
        pace=pace,
        mean_pace=mean_pace,
        seed=seed,
    )
    start = None if method == "OvsE-LIN" else model.inducing.Z.numpy()

    def monitor() -> dict[str, Any]:
        guess = _by_blocks(lambda x: model.predict_f(x).mean, X).argmax(1)
        return {"error": float(np.mean(guess != labels))}

    moves = stepper(optimizer, rate, steps, decay, lazy=not method.startswith("RM"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        history = fit(
            model,
            train,
            steps=steps,
            optimizer=moves,
            batch_size=batch_size,
            seed=seed,
            progress=False,
            monitor=monitor,
            every=every,
        )
    parts = np.array_split(np.arange(history.steps), min(200, max(history.steps, 1)))
    found = {
        "step": [look["step"] for look in history.monitored],
        "test_error": [look["error"] for look in history.monitored],
        "elbo_step": [float(part.mean()) for part in parts if len(part)],
        "elbo": [float(history.elbo[part].mean()) for part in parts if len(part)],
        "seconds_per_step": history.seconds / max(history.steps, 1),
        "status": history.status,
        **_scores(model, test, samples),
    }
    if start is None:
        return found
    last = model.inducing.Z.numpy()
    kernels = model.prior.kernels.kernels
    flat = [Z.reshape(-1, Z.shape[-1]) for Z in (start, last)]
    return {
        **found,
        "bound": float(model.elbo(train.batches(min(bound_rows, len(train.X)), seed=1)(0))),
        "last_lengthscale": float(np.mean([kernel.lengthscales.numpy() for kernel in kernels])),
        "last_variance": float(np.mean([kernel.variance.numpy() for kernel in kernels])),
        "first_images": flat[0][list(shown)].tolist(),
        "last_images": flat[1][list(shown)].tolist(),
        "first_entropy": _entropy(model, flat[0]),
        "last_entropy": _entropy(model, flat[1]),
    }


@lru_cache(maxsize=1)
def _parts(
    data: str, source: str, rows: int | None, test_rows: int | None
) -> tuple[MultiOutputData, MultiOutputData]:
    """The published split, or a quarter held out.

    Of each part at most so many rows are taken, the same ones every time.
    """
    from mogp import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        whole = datasets.load(data, stand_in="only" if source == "stand-in" else "forbid")
    train, test = (
        (whole.train, whole.test) if whole.held_out is not None else whole.split(test=0.25, seed=0)
    )
    return _some(train.data, rows), _some(test.data, test_rows)


def step_cost(
    method: str,
    *,
    classes: int,
    inducing: int,
    inputs: int,
    rows: int,
    batch_size: int,
    steps: int = 10,
) -> dict[str, Any]:
    """Median seconds of a step on random data, and how many numbers the optimiser holds.

    Args:
        method: one of `METHODS`.
        classes, inducing, inputs, rows, batch_size: sizes.
        steps: timed, after two that are not.

    Returns:
        `step_seconds`; `parameters`, all trainable numbers; `variational`, those of q(u) and the
        inducing inputs.
    """
    import tensorflow as tf

    from mogp.inducing import InducingPoints
    from mogp.models import ovse, robust_max

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, inputs))
    data = MultiOutputData.from_arrays(X, np.arange(rows) % classes)
    separate = method in ("OvsE-P", "OvsE-F")
    points = InducingPoints(
        rng.normal(size=((classes, inducing, inputs) if separate else (inducing, inputs)))
    )
    make: Any = robust_max if method.startswith("RM") else ovse
    model: SparseMOGP = make(
        data,
        classes,
        **CLASS_METHODS[method],
        inducing=points,
        lengthscale=float(np.sqrt(inputs)),
        scaling=None,
    )
    source = model.batches(data, batch_size)
    moves = stepper("Adam", 0.001, steps, decay=False, lazy=not method.startswith("RM"))
    moves.start(model)

    @tf.function(autograph=False)
    def one(step: tf.Tensor) -> tf.Tensor:
        batch = source(step)
        return moves.step(model, lambda: model.training_loss(batch))

    laps = []
    for step in range(steps + 2):
        began = time.perf_counter()
        one(tf.constant(step, tf.int64)).numpy()
        laps.append(time.perf_counter() - began)
    size = {id(v): int(v.shape.num_elements()) for v in model.trainable_variables}
    variational = [*model.posterior.trainable_variables, *model.inducing.trainable_variables]
    return {
        "step_seconds": float(np.median(laps[2:])),
        "parameters": sum(size.values()),
        "variational": sum(size[id(v)] for v in variational),
    }


def step_memory(method: str, **sizes: int) -> dict[str, Any]:
    """As `step_cost`, in a process of its own, with its peak memory in GB, `peak_gb`."""
    code = (
        "import json, sys; from mogp.book.runs.multiclass import peak_of; "
        "print(json.dumps(peak_of(**json.loads(sys.argv[1]))))"
    )
    request = json.dumps({"method": method, **sizes})
    done = subprocess.run(
        [sys.executable, "-c", code, request], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures {method} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_of(**request: Any) -> dict[str, Any]:
    """`step_cost` and the peak memory of this process."""
    return {**step_cost(**request), "peak_gb": _peak_bytes() / 1e9}


def _peak_bytes() -> int:
    """The most memory this process has held.

    On Linux `ru_maxrss` starts at that of the process that started it, so it is not asked there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(
            line.split(":", 1)
            for line in status.read_text(encoding="utf-8").splitlines()
            if ":" in line
        )
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _scores(model: Any, test: MultiOutputData, samples: int) -> dict[str, float]:
    """Error and negative log predictive densities of the test data."""
    from mogp.models import OneVsEachMOGP

    X, labels = test.inputs(0), test.outputs[0].Y[:, 0].astype(int)
    if isinstance(model, OneVsEachMOGP):
        model.likelihood.likelihoods[0].prediction_samples = samples
    p = _by_blocks(lambda x: model.predict_y(x)[0], X)
    own = np.arange(len(labels)), labels
    found = {
        "error": float(np.mean(p.argmax(1) != labels)),
        "nlpd": float(-np.mean(np.log(p[own]))),
    }
    if isinstance(model, OneVsEachMOGP):
        bound = _by_blocks(model.predict_log_bound, X)
        found["nlpd_bound"] = float(-np.mean(bound[own]))
        found["nlpd_normalised"] = float(-np.mean(bound[own] - np.logaddexp.reduce(bound, axis=1)))
    return found


def _entropy(model: Any, X: Array) -> float:
    p = np.clip(_by_blocks(lambda x: model.predict_y(x)[0], X), 1e-300, 1.0)
    return float(-np.mean(np.sum(p * np.log(p), axis=1)))


def _by_blocks(predict: Any, X: Array) -> Array:
    starts = range(0, len(X), _ROWS_AT_ONCE)
    found: Array = np.concatenate(
        [np.asarray(predict(X[start : start + _ROWS_AT_ONCE])) for start in starts]
    )
    return found


def _some(data: MultiOutputData, most: int | None) -> MultiOutputData:
    if most is None or most >= len(data.X):
        return data
    kept = np.sort(np.random.default_rng(0).permutation(len(data.X))[:most])
    return data.take({data.names[0]: kept})
