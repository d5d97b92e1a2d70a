"""What outputs known at the test rows are worth: predictions of the last output of an ICM, with `given=` and without.

Each draw is an ICM of two inputs and three outputs, all three observed at the training rows; at the test rows the
first two are known and the last is predicted. `--effect` adds an effect that the outputs of a row share. Every model is
fitted to every draw; the table has the mean absolute error and the mean log density of the held-out targets, with
standard errors over draws, and the same for the model of the simulation with its true parameters.

python given_icm.py                     20 draws of the ICM
python given_icm.py --effect            20 draws of the ICM with a row effect
python given_icm.py --draws 3 ExactLMC  fewer draws, some of the models
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from common import one_thread
from gpflow.kernels import SquaredExponential
from scipy.stats import norm

from mogp import MultiOutputData, fit
from mogp.likelihoods import Gaussian
from mogp.models import MOGP, ExactLMC, hetmogp_lmc
from mogp.optimizers import LBFGS

NAMES = ("first", "second", "last")
TRAIN, TEST, RANK, LENGTHSCALE, NOISE = 80, 60, 2, 0.15, 0.05
EFFECT = np.array([[0.5], [-0.4], [0.6]])

Given = dict[str, np.ndarray]
Answer = Callable[[Given | None], tuple[np.ndarray, np.ndarray]]
"""From what is given, or None, to mean and variance of the last output at the test rows."""


class Draw(NamedTuple):
    """A data set: what to train on, where to predict, the targets `[N, 3]` there, and what made it."""

    train: MultiOutputData
    X: np.ndarray
    Y: np.ndarray
    mixing: np.ndarray
    effect: np.ndarray

    @property
    def given(self) -> Given:
        return {name: self.Y[:, d] for d, name in enumerate(NAMES[:-1])}


def draw(seed: int, effect: bool) -> Draw:
    rng = np.random.default_rng(seed)
    rows = TRAIN + TEST
    X = rng.uniform(size=(rows, 2))
    root = np.linalg.cholesky(SquaredExponential(1.0, LENGTHSCALE)(X).numpy() + 1e-8 * np.eye(rows))
    A = rng.normal(size=(3, RANK))
    W = EFFECT if effect else 0 * EFFECT
    Y = (root @ rng.normal(size=(rows, RANK))) @ A.T
    Y += rng.normal(size=(rows, 1)) @ W.T + np.sqrt(NOISE) * rng.normal(size=(rows, 3))
    train = MultiOutputData.from_arrays(X[:TRAIN], Y[:TRAIN], names=NAMES)
    return Draw(train, X[TRAIN:], Y[TRAIN:], A, W)


def asked(model: MOGP, task: Draw) -> Answer:
    """The answers of any model of `mogp`."""

    def answer(given: Given | None) -> tuple[np.ndarray, np.ndarray]:
        y = model.predict_y(task.X, NAMES[-1], given=given)
        return np.asarray(y.mean)[:, 0], np.asarray(y.var)[:, 0]

    return answer


def exact(task: Draw, row_effect: int = 0) -> Answer:
    model = ExactLMC(task.train, rank=RANK, row_effect=row_effect)
    fit(model, task.train, progress=False)
    return asked(model, task)


def sparse(task: Draw, row_effect: int = 0) -> Answer:
    likelihoods = [Gaussian(0.1) for _ in NAMES]
    model = hetmogp_lmc(task.train, likelihoods, latents=1, rank=RANK, inducing=40, row_effect=row_effect)
    fit(model, task.train, optimizer=LBFGS(), progress=False)
    return asked(model, task)


def truth(task: Draw) -> Answer:
    """The model of the simulation, with its parameters."""
    kernel = SquaredExponential(1.0, LENGTHSCALE)
    known = {"kernel": kernel, "A": task.mixing[None], "rank": RANK, "noise": NOISE, "scaling": None}
    model = ExactLMC(task.train, **known, row_effect=1)
    model.effect.assign(task.effect)
    return asked(model, task)


MODELS: dict[str, Callable[[Draw], Answer]] = {
    "true parameters": truth,
    "ExactLMC": exact,
    "ExactLMC, row effect": lambda task: exact(task, row_effect=1),
    "hetmogp_lmc": sparse,
    "hetmogp_lmc, row effect": lambda task: sparse(task, row_effect=1),
}


def scores(draws: int, effect: bool, models: dict[str, Callable[[Draw], Answer]]) -> pd.DataFrame:
    """A row for each draw, model, and what was given."""
    found = []
    for seed in range(draws):
        task = draw(seed, effect)
        for name, build in models.items():
            answer = build(task)
            for given in (None, task.given):
                mean, var = answer(given)
                error = task.Y[:, -1] - mean
                found.append(
                    {
                        "draw": seed,
                        "model": name,
                        "given": "nothing" if given is None else "two outputs",
                        "MAE": np.abs(error).mean(),
                        "log density": norm(0, np.sqrt(var)).logpdf(error).mean(),
                    }
                )
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="What outputs known at the test rows are worth.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"some of {', '.join(MODELS)}; all if left out")
    parser.add_argument("--draws", type=int, default=20, help="data sets")
    parser.add_argument("--effect", action="store_true", help="outputs of a row share an effect")
    parsed = parser.parse_args()
    if unknown := sorted(set(parsed.models) - set(MODELS)):
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}.")
    one_thread()
    table = scores(parsed.draws, parsed.effect, {name: MODELS[name] for name in parsed.models or MODELS})
    print(f"{parsed.draws} draws, {'with' if parsed.effect else 'without'} a row effect; mean (standard error)")
    cells = table.groupby(["model", "given"], sort=False)[["MAE", "log density"]]
    shown = cells.mean().map("{:.3f}".format) + " (" + cells.sem().map("{:.3f}".format) + ")"
    print(shown.unstack().to_string())


if __name__ == "__main__":
    main()
