"""Natural gradients on a chain with one path a row, from a hostile start: does a training diverge without saying so?

GPLAR on EEG (seven electrodes, every fourth row), kernels adopted from a GPAR, posterior not whitened, one path, gamma
0.1, Adam at 0.005 on the rest. A stray path makes a gradient that is wrong by orders of magnitude. A run is *silent* if
`fit` reports no failure and the bound is lower after training than before (median over the same 20 draws of the paths),
or not finite. `trust` is the longest natural step (see `mogp.optimizers.Natural`).

python hostile_starts.py               25 seeds of each kernel with the default trust, 5 with a smaller one and without
python hostile_starts.py --seeds 2     a short look

It needs the EEG data (`mogp data fetch eeg`).
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import one_thread
from gpflow import set_trainable

DRAWS, FEW = 20, 5


def main() -> None:
    parser = argparse.ArgumentParser(description="Count trainings that diverge, and those that do not say so.")
    parser.add_argument("--seeds", type=int, default=25, help="runs of each kernel with the default trust")
    parser.add_argument("--steps", type=int, default=300, help="of each run")
    asked = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")
    from mogp import datasets, fit
    from mogp.kernels import LayerKernels
    from mogp.models import GPAR
    from mogp.optimizers.natural import TRUST

    whole = datasets.load("eeg")
    data = whole.take(np.arange(0, len(whole), 4)).train.data
    rows = []
    for kind in ("linear+nonlinear", "nonlinear"):
        kernel = LayerKernels(data.input_dim, kind, input_lengthscale=0.02)
        first = GPAR(data, kernel, scaling=None)
        fit(first, data, steps=100, progress=False)
        few = min(FEW, asked.seeds)
        for trust, seeds in ((TRUST, asked.seeds), (1.0, few), (None, few)):
            for seed in range(seeds):
                rows.append({"kernel": kind, "trust": str(trust), **run(data, kernel, first, trust, seed, asked.steps)})
                print(" ".join(f"{k}={v}" for k, v in rows[-1].items()), flush=True)
    print(summary(pd.DataFrame(rows)).to_string())


def run(data: Any, kernel: Any, first: Any, trust: float | None, seed: int, steps: int) -> dict[str, Any]:
    """One training: how it ended, and the bound before and after."""
    from mogp import fit
    from mogp.models import gplar
    from mogp.optimizers import Adam, Natural

    how = {"kernel": kernel, "strategy": "B", "inducing": data.X, "whiten": False, "scaling": None}
    model = gplar(data, start=first, adopt=True, seed=seed, **how)
    set_trainable(model.inducing, False)
    before, began = bound(model, data), time.perf_counter()
    optimizer = Natural(Adam(0.005), gamma=0.1, warm_up=20, trust=trust)
    history = fit(model, data, steps=steps, optimizer=optimizer, progress=False)
    after = bound(model, data)
    return {
        "status": history.status,
        "steps": history.steps,
        "converged": history.diagnosis.converged,
        "before": round(before, 1),
        "after": round(after, 1),
        "worse": not after >= before,
        "seconds": round(time.perf_counter() - began, 1),
    }


def bound(model: Any, data: Any) -> float:
    """Median over fixed draws of the paths."""
    rng = np.random.default_rng(0)
    draws = [rng.standard_normal((model.num_gps, 1, len(data.X))) for _ in range(DRAWS)]
    return float(np.median([float(model.elbo(data, noise)) for noise in draws]))


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and trust."""
    failed = runs["status"] == "failed"
    marked = runs.assign(failed=failed, silent=runs["worse"] & ~failed, worse_after_failure=runs["worse"] & failed)
    parts = marked.groupby(["kernel", "trust"])
    return parts.agg(
        runs=("status", "size"),
        failed=("failed", "sum"),
        silent=("silent", "sum"),
        worse_after_failure=("worse_after_failure", "sum"),
        before=("before", "median"),
        after_worst=("after", "min"),
        after_median=("after", "median"),
        seconds=("seconds", "median"),
    )


if __name__ == "__main__":
    main()
