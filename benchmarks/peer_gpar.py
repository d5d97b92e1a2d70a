"""PyPI's `gpar` on the EEG split: time of a fit, or of joint draws, in the peers' environment; prints one JSON line.

Usage: python peer_gpar.py fit|samples FILE, where FILE holds arrays X [N, 1], Y [N, D] (NaN where missing) and Xnew.
The model is that of gpar_fit.py: squared exponential kernels over time and over the outputs before, `replace` and
`impute`, one thread. The JSON also holds the log evidence at the start values, which peers.py compares with ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time

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


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        main(sys.argv[1], sys.argv[2])
