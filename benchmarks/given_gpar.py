"""GPAR told two outputs at the test points, against the exact answer: errors and coverage of the third.

Usage: python given_gpar.py [icm | sarcos]. Data are draws of an intrinsic coregionalisation model with two inputs and
three outputs. The exact answer conditions the dense Gaussian, with its true parameters, on the training data and on the
first two outputs at the test points. For three torques of Sarcos, `ExactLMC` (an ICM of rank 3, fitted) stands in its
place, conditioned in the same way. Errors are also given as ratios to those of the exact answer.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from gpflow.kernels import SquaredExponential
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import norm

import mogp
from mogp import MultiOutputData, datasets
from mogp.models import GPAR, ExactLMC

TRAIN, TEST, DRAWS, NOISE = 100, 50, 20, 0.1
NAMES = ("first", "second", "third")
MODELS: dict[str, dict[str, Any]] = {
    "GPAR": {},
    "GPAR, functions": {"passes": "functions"},
    "GPAR, noisy": {"replace": False},
    "GPAR, one start": {"starts": 1},
    "GPAR, four starts": {"starts": 4},
}


def exact(C: np.ndarray, Y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the third target at the rows from `n` on, given all others; `C` is of `Y.T` in one line."""
    flat, missing = Y.T.reshape(-1), np.arange(Y.size) >= 2 * len(Y) + n
    factor = cho_factor(C[np.ix_(~missing, ~missing)])
    across = C[np.ix_(missing, ~missing)]
    solved = cho_solve(factor, across.T)
    return solved.T @ flat[~missing], np.diag(C)[missing] - np.sum(across.T * solved, 0)


def row_by_row(C: np.ndarray, Y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, with what is known at one row from `n` on at a time."""
    found = []
    for row in range(n, len(Y)):
        rows = [*range(n), row]
        kept = np.concatenate([d * len(Y) + np.array(rows) for d in range(3)])
        found.append(exact(C[np.ix_(kept, kept)], Y[rows], n))
    mean, var = (np.concatenate(same) for same in zip(*found, strict=True))
    return mean, var


def fitted_icm(X: np.ndarray, Y: np.ndarray, n: int) -> np.ndarray:
    """The covariance of all targets under an ICM of rank 3, fitted to the first `n` rows."""
    data = MultiOutputData.from_arrays(X[:n], Y[:n], names=NAMES)
    D = X.shape[1]
    wide = SquaredExponential(lengthscales=np.full(D, X.std() * np.sqrt(D)))
    model = ExactLMC(data, rank=3, kernel=wide, scaling=None)
    mogp.fit(model, data, progress=False)
    at = np.column_stack([np.tile(X, (3, 1)), np.repeat(np.arange(3), len(X))])
    return model.kernel(at).numpy() + np.diag(np.repeat(model.noise.numpy(), len(X)))


def scores(y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> dict[str, float]:
    """Root mean squared error, mean absolute error, coverage of 95 % intervals, mean log density."""
    sd = np.sqrt(var)
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "mae": float(np.mean(np.abs(y - mean))),
        "coverage": float(np.mean(np.abs(y - mean) < 1.96 * sd)),
        "log density": float(np.mean(norm(mean, sd).logpdf(y))),
    }


def told(how: dict[str, Any], X: np.ndarray, Y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """GPAR, trained on the first `n` rows, told two outputs at the others."""
    data = MultiOutputData.from_arrays(X[:n], Y[:n], names=NAMES)
    model = GPAR(data, **how)
    mogp.fit(model, data, progress=False)
    mean, var = model.predict_y(X[n:], "third", given={name: Y[n:, d] for d, name in enumerate(NAMES[:2])})
    return np.asarray(mean)[:, 0], np.asarray(var)[:, 0]


def in_data(X: np.ndarray, Y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """GPAR with all rows in its data, the third output missing at those from `n` on."""
    gaps = Y.copy()
    gaps[n:, 2] = np.nan
    data = MultiOutputData.from_arrays(X, gaps, names=NAMES)
    model = GPAR(data)
    mogp.fit(model, data, progress=False)
    mean, var = model.predict_y(X[n:], "third")
    return np.asarray(mean)[:, 0], np.asarray(var)[:, 0]


def gpars(X: np.ndarray, Y: np.ndarray, n: int) -> dict[str, dict[str, float]]:
    """Scores of all `MODELS`, and of GPAR with the test rows among its data."""
    found = {name: scores(Y[n:, 2], *told(how, X, Y, n)) for name, how in MODELS.items()}
    return found | {"GPAR, rows in the data": scores(Y[n:, 2], *in_data(X, Y, n))}


def icm(draw: int) -> dict[str, dict[str, float]]:
    """One draw of the model, of rank 2 with a part of its own for each output."""
    rng = np.random.default_rng(draw)
    X, W = rng.uniform(0, 1, (TRAIN + TEST, 2)), rng.normal(size=(3, 2))
    B = W @ W.T + 0.05 * np.eye(3)
    B /= np.sqrt(np.outer(np.diag(B), np.diag(B)))
    K = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1) / 0.3**2)
    root = np.linalg.cholesky(np.kron(B, K) + 1e-9 * np.eye(3 * len(X)))
    F = (root @ rng.standard_normal(3 * len(X))).reshape(3, -1).T
    Y = F + np.sqrt(NOISE) * rng.standard_normal(F.shape)
    C = np.kron(B, K) + NOISE * np.eye(Y.size)
    found = {"exact": exact(C, Y, TRAIN), "exact, row by row": row_by_row(C, Y, TRAIN)}
    found["ICM, fitted"] = exact(fitted_icm(X, Y, TRAIN), Y, TRAIN)
    return {name: scores(Y[TRAIN:, 2], *one) for name, one in found.items()} | gpars(X, Y, TRAIN)


def sarcos(draw: int, train: int = 200, test: int = 200) -> dict[str, dict[str, float]]:
    """Torques 2 to 4 of the robot arm at rows drawn at random, standardised."""
    whole = datasets.load("sarcos", part="test", stand_in="forbid")
    rows = np.random.default_rng(draw).permutation(len(whole.X))[: train + test]
    X, Y = whole.X[rows], whole.Y[rows][:, 1:4]
    Y = (Y - Y[:train].mean(0)) / Y[:train].std(0)
    return {"exact": scores(Y[train:, 2], *exact(fitted_icm(X, Y, train), Y, train)), **gpars(X, Y, train)}


if __name__ == "__main__":
    run, draws = {"icm": (icm, DRAWS), "sarcos": (sarcos, 5)}[sys.argv[1] if len(sys.argv) > 1 else "icm"]
    table = pd.concat({draw: pd.DataFrame(run(draw)).T for draw in range(draws)}, names=["draw", "model"])
    ratios = (table[["rmse", "mae"]] / table[["rmse", "mae"]].xs("exact", level="model")).groupby("model").mean()
    print(ratios.add_suffix(" / exact").join(table.groupby("model").mean()).round(3).to_string())
