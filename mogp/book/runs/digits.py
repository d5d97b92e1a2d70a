"""One run of one classifier of MNIST's digits, MLGPF or robust-max (Panos, chapter 4)."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from mogp.book.methods import LabelMethod
from mogp.book.runs.label_training import label_optimizer, trained
from mogp.data import Array, MultiOutputData
from mogp.data.labels import LabelData


def digit_run(
    model: str,
    *,
    source: str = "real",
    factors: int = 10,
    inducing: int = 100,
    steps: int = 600,
    batch: int = 1000,
    rate: float = 0.01,
    rows: int | None = None,
    looks: int = 5,
    images: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """Train MLGPF (one label a digit) or a robust-max classifier on MNIST, and classify.

    Args:
        model: "RM-F" (ten independent GPs, full posterior), or a variant of MLGPF such as
            "SE-UN-PP".
        source: of the digits, see `labelled`.
        factors, inducing, steps, batch, rate, looks, seed: as for `label_run`; RM-F has ten GPs
            whatever `factors`.
        rows: so many of the training and of the test images at most.
        images: so many inducing images are returned, before and after.

    Returns:
        `look` steps and the `error` there, in per cent; `trace_step`, `trace` and `step_seconds` as
        for `label_run`; with `images`, `first_images` and `last_images` `[images, 784]`.
    """
    images_of, digits, test_images, test_digits = _digits(source, rows)
    train, built = _digit_model(model, images_of, digits, factors, inducing, seed)
    begun = built.inducing.inputs.numpy()[:images]

    def score() -> dict[str, Any]:
        parts = [
            built.predict_f(test_images[i : i + 2000]).mean.numpy().argmax(1)
            for i in range(0, len(test_images), 2000)
        ]
        return {"error": 100 * float(np.mean(np.concatenate(parts) != test_digits))}

    found = trained(
        built, train, score, steps, batch, label_optimizer(False, rate, None), looks, seed
    )
    found["error"] = np.array(found["error"])
    if images:
        found |= {"first_images": begun, "last_images": built.inducing.inputs.numpy()[:images]}
    return found


def _digit_model(
    model: str, X: Array, digits: npt.NDArray[np.int64], factors: int, inducing: int, seed: int
) -> tuple[Any, Any]:
    from gpflow.kernels import SquaredExponential

    from mogp.inducing import kmeans_points
    from mogp.likelihoods import RobustMax
    from mogp.models import SparseMOGP, mlgpf
    from mogp.posteriors import Full
    from mogp.priors import Independent

    if model != "RM-F":
        train = LabelData.of(X, np.eye(10, dtype=int)[digits])
        return train, mlgpf(
            train,
            **LabelMethod.parse(model).options,
            latents=factors,
            inducing=inducing,
            lengthscale=0.01**-0.5,
            seed=seed,
        )
    outputs = MultiOutputData.from_arrays(X, digits)
    return outputs, SparseMOGP(
        prior=Independent(SquaredExponential(lengthscales=10.0), 10),
        inducing=kmeans_points(X, inducing, seed=seed),
        likelihood=RobustMax(10),
        posterior=Full(whiten=False),
        names=outputs.names,
    )


@functools.lru_cache(maxsize=1)
def _digits(
    source: str, rows: int | None
) -> tuple[Array, npt.NDArray[np.int64], Array, npt.NDArray[np.int64]]:
    from mogp import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        stand_in: Any = "only" if source == "stand-in" else "forbid"
        found = datasets.load("mnist", stand_in=stand_in)
    train, test = found.train, found.test
    return (
        train.X[:rows],
        train.Y[:rows, 0].astype(int),
        test.X[:rows],
        test.Y[:rows, 0].astype(int),
    )
