"""Twenty restarts of one small model: what the second and later ones cost, and what memory they add.

Models of one form share compiled steps (`mogp/compiling.py`). Restarts differ in their start values and in the seed of
their mini-batches: 100 steps of Adam on batches of 50 of 200 rows, three Gaussian outputs, two latent GPs, 20 inducing
inputs each. Each round is a process of its own, so that the first fit really is the first; the costs are CPU seconds.
The control is a second series of twenty restarts in which everything is compiled anew each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import psutil
from common import REPEATS, one_thread

import mogp
from mogp import MultiOutputData
from mogp.compiling import forget_compiled
from mogp.likelihoods import Gaussian
from mogp.models import hetmogp_lmc

RESTARTS, STEPS, WARM = 20, 100, 40


def one(seed: int) -> None:
    """Build a model, train it, and predict."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    data = MultiOutputData.from_arrays(X, np.sin(4 * X @ rng.normal(size=(2, 3))))
    model = hetmogp_lmc(data, [Gaussian()] * 3, latents=2, inducing=20, seed=seed)
    mogp.fit(model, data, steps=STEPS, batch_size=50, seed=seed, progress=False)
    model.predict_y(X)


def costs(anew: bool) -> dict[str, float]:
    """CPU seconds of the first fit and of twenty, and bytes that each later one adds."""
    one_thread()
    memory = psutil.Process().memory_info
    laps = []
    for seed in range(RESTARTS):
        if anew:
            forget_compiled()
        began = time.process_time()
        one(seed)
        laps.append(time.process_time() - began)
    if anew:
        return {"first": laps[0], "all": sum(laps), "added": 0.0}
    for seed in range(WARM):  # until the allocator has settled
        one(seed)
    before = memory().rss
    for seed in range(WARM):
        one(seed)
    return {"first": laps[0], "all": sum(laps), "added": (memory().rss - before) / WARM}


def main() -> None:
    runs: dict[str, list[dict[str, float]]] = {"shared": [], "anew": []}
    for _ in range(max(1, REPEATS // 2)):
        for kind, found in runs.items():
            command = [sys.executable, __file__, kind]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.append(json.loads(said.splitlines()[-1]))

    ratio = np.median([run["all"] / run["first"] for run in runs["shared"]])
    print(f"20 restarts of a small model / the first: {ratio:.1f} (target <= 8)")
    anew = np.median([run["all"] / run["first"] for run in runs["anew"]])
    print(f"the same, compiled anew each time: {anew:.1f} (target none)")
    saved = np.median([run["all"] for run in runs["shared"]]) / np.median([run["all"] for run in runs["anew"]])
    print(f"20 restarts, shared / compiled anew each time: {saved:.2f} (target none)")
    added = np.median([run["added"] for run in runs["shared"]])
    print(f"memory that a fit of a known form adds: {added / 2**20:.2f} MiB (target <= 1)")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(costs(anew=sys.argv[1] == "anew")))
    else:
        main()
