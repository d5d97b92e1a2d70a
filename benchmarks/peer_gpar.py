"""PyPI's `gpar` in the peers' environment: time of a fit or of joint draws, or predictive means; prints one JSON line.

Usage: python peer_gpar.py fit|samples FILE, where FILE holds arrays X [N, 1], Y [N, D] (NaN where missing) and Xnew; or
python peer_gpar.py means FILE STEPS SETTINGS, with the arguments of `GPARRegressor` as JSON: means at X.
The model that is timed is that of gpar_fit.py: squared exponential kernels over time and over the outputs before,
`replace` and `impute`, one thread. The JSON also holds the log evidence at the start values, which peers.py compares
with ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from importlib.metadata import version

import numpy as np

STEPS, DRAWS, REPEATS = 40, 50, 1
LENGTHSCALE, NOISE = 0.02, 0.01


def main(what: str, file: str) -> None:
    import torch
    from gpar import GPARRegressor
    from gpar.regression import _construct_gpar

    torch.set_num_threads(1)
    with np.load(file) as arrays:
        X, Y, Xnew = arrays["X"], arrays["Y"], arrays["Xnew"]

    def model() -> GPARRegressor:
        return GPARRegressor(
            replace=True, scale=LENGTHSCALE, linear=False, nonlinear=True, nonlinear_scale=1.0, noise=NOISE
        )

    def fit() -> GPARRegressor:
        one = model()
        one.fit(X, Y, iters=STEPS)
        return one

    start = model()
    start.condition(X, Y)
    objective = float(_construct_gpar(start, start.vs, start.m, start.p).logpdf(start.x, start.y, start.w))
    trained = fit() if what == "samples" else None

    def call() -> float:
        began = time.perf_counter()
        if trained is None:
            fit()
        else:
            trained.sample(Xnew, num_samples=DRAWS, latent=True, posterior=True)
        return time.perf_counter() - began

    first = call()
    later = float(np.median([call() for _ in range(REPEATS)]))
    print(json.dumps({"first": first, "step": later, "objective": objective}), file=sys.__stdout__)


def means(file: str, steps: int, settings: str) -> None:
    import torch
    from gpar import GPARRegressor

    torch.set_num_threads(1)
    with np.load(file) as arrays:
        X, Y = arrays["X"], arrays["Y"]
    began = time.perf_counter()
    model = GPARRegressor(noise=NOISE, impute=True, normalise_y=True, **json.loads(settings))
    model.fit(X, Y, iters=steps)
    mean = model.predict(X, num_samples=100, latent=True)
    found = {"version": version("gpar"), "mean": np.asarray(mean).tolist(), "seconds": time.perf_counter() - began}
    print(json.dumps(found), file=sys.__stdout__)


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        if sys.argv[1] == "means":
            means(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        else:
            main(sys.argv[1], sys.argv[2])
