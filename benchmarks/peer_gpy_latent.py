"""GPy's LVMOGP: time of one objective and gradient, in the peers' environment; prints one JSON line.

Usage: python peer_gpy_latent.py SHARE, of the targets that are missing: with none `GPMultioutRegression`, with some
`GPMultioutRegressionMD`. D=50 outputs, N=100 common inputs, M_X=30, M_H=10, Q_H=2, one thread. The JSON also holds the
objective, which peers.py compares with that of `mogp.models.LatentMOGP` at the same values.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

import numpy as np

D, N, M_X, M_H, Q_H, STEPS = 50, 100, 30, 10, 2, 20
LENGTHSCALE, NOISE, DIAGONAL, JITTER = 0.2, 0.05, 1e-4, 1e-6


class Problem(NamedTuple):
    """Inputs `X [N, 1]`, targets `Y [N, D]` (NaN where missing), and values of all parameters."""

    X: np.ndarray
    Y: np.ndarray
    Z_x: np.ndarray
    Z_h: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    M: np.ndarray
    root_x: np.ndarray
    root_h: np.ndarray


def problem(share: float = 0.0) -> Problem:
    """Sines with a phase and a trend of their own; `q(U)` has the covariance `(R_h R_hᵀ + εI) ⊗ (R_x R_xᵀ + εI)`."""
    rng = np.random.default_rng(0)
    X, H = np.linspace(0, 1, N)[:, None], rng.normal(size=(D, Q_H))
    Y = np.sin(6 * X + H[:, 0]) + H[:, 1] * X + 0.1 * rng.normal(size=(N, D))
    Y[rng.uniform(size=Y.shape) < share] = np.nan
    Z_x, Z_h = np.linspace(0, 1, M_X)[:, None], rng.normal(size=(M_H, Q_H))
    L_x, L_h = root(Z_x, LENGTHSCALE), root(Z_h, 1.0)
    M = L_x @ rng.normal(size=(M_X, M_H)) @ L_h.T
    return Problem(X, Y, Z_x, Z_h, H, np.full(H.shape, 0.1), M, 0.5 * L_x, 0.5 * L_h)


def root(Z: np.ndarray, lengthscale: float) -> np.ndarray:
    """The Cholesky factor of a squared exponential kernel's matrix, with the jitter that both libraries add."""
    squares = np.sum((Z[:, None] - Z) ** 2, -1) / lengthscale**2
    return np.linalg.cholesky(np.exp(-0.5 * squares) + JITTER * np.eye(len(Z)))


def gpy_model(share: float) -> Any:
    import GPy

    p = problem(share)
    shared = {
        "Xr_dim": Q_H, "kernel": GPy.kern.RBF(1, lengthscale=LENGTHSCALE), "Z": p.Z_x, "Z_row": p.Z_h,
        "kernel_row": GPy.kern.RBF(Q_H, ARD=True, name="kern_row"), "X_row": p.mean, "Xvariance_row": p.var,
        "num_inducing": (M_X, M_H), "init": "rand",
    }  # fmt: skip
    if share:
        n, d = np.nonzero(np.isfinite(p.Y))
        model = GPy.models.GPMultioutRegressionMD(p.X[n], p.Y[n, d][:, None], d, heter_noise=True, **shared)
    else:
        model = GPy.models.GPMultioutRegression(p.X, p.Y, **shared)
    model.likelihood.variance[:] = NOISE
    model.qU_mean[:], model.qU_var_c_W[:], model.qU_var_r_W[:] = p.M, p.root_x, p.root_h
    model.qU_var_c_diag[:] = model.qU_var_r_diag[:] = DIAGONAL
    return model


def main(share: float) -> None:
    model = gpy_model(share)
    start = model.optimizer_array.copy()

    def step(k: int) -> float:
        began = time.perf_counter()
        model.optimizer_array = start + 1e-9 * k
        model.objective_function()
        model.objective_function_gradients()
        return time.perf_counter() - began

    first, objective = step(0), float(model.objective_function())
    laps = [step(k) for k in range(1, STEPS + 1)]
    print(json.dumps({"first": first, "step": float(np.median(laps)), "objective": objective}))


if __name__ == "__main__":
    main(float(sys.argv[1]))
