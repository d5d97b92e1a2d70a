"""mogp against GPyTorch, GPy and gpar, which run in an environment of their own; `make bench-peers` calls it.

Usage: python peers.py PYTHON_OF_THE_PEERS. Prints ratios mogp / peer of the median time of a step, interleaved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf
from common import Timing, interleaved, one_thread, ratio_line
from gpar_fit import Contender
from latent_step import MISSING, lvmogp_gradient
from lmc_step import STEPS, ours


def peer(script: str, *arguments: object, objective: float | None = None) -> Timing:
    """Run a peer's script and read the timing it prints, and the objective, which must be ours where it is given."""
    one = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.argv[1], script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if objective is not None:
        np.testing.assert_allclose(found.pop("objective"), objective, rtol=1e-6)
    return Timing(**found)


def latent(share: float) -> dict[str, list[Timing]]:
    """Objective and gradient of the LVMOGP of peer_gpy_latent.py, `share` of its targets missing; the bounds agree."""
    objective, both = lvmogp_gradient(share)
    theirs = partial(peer, "peer_gpy_latent.py", share, objective=objective)
    return interleaved({"mogp": lambda: Timing.of(both, STEPS), "GPy": theirs})


def chain(what: str) -> dict[str, list[Timing]]:
    """`fit` or `samples` of GPAR on the EEG split; log evidences at the start values agree."""
    ours = Contender()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "eeg.npz"
        ours.write(file)
        theirs = partial(peer, "peer_gpar.py", what, file, objective=ours.objective)
        return interleaved({"mogp": getattr(ours, what), "gpar": theirs})


def exact() -> Timing:
    """One objective and gradient of the exact ICM of peer_gpy.py."""
    import gpflow

    from mogp import MultiOutputData
    from mogp.models import ExactLMC

    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (150, 1))
    data = MultiOutputData.from_arrays(
        X, np.hstack([np.sin(6 * X + d) + 0.1 * rng.normal(size=X.shape) for d in range(3)])
    )
    model = ExactLMC(data, kernel=gpflow.kernels.SquaredExponential(), scaling=None)

    @tf.function(autograph=False)
    def both() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return tf.add_n([tf.reduce_sum(g) for g in tape.gradient(loss, model.trainable_variables)])

    return Timing.of(both, STEPS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python peers.py PYTHON_OF_THE_PEERS (make bench-peers sets it up)")
    one_thread()
    times = interleaved({"mogp": ours, "GPyTorch": lambda: peer("peer_gpytorch.py")})
    print(ratio_line("LMC step time, mogp / GPyTorch", times, "mogp", "GPyTorch", "step", target="none"))
    times = interleaved({"mogp": exact, "GPy": lambda: peer("peer_gpy.py")})
    print(ratio_line("exact ICM objective and gradient, mogp / GPy", times, "mogp", "GPy", "step", target="none"))
    for share, target in ((0.0, ">= 3"), (MISSING, ">= 15")):
        title = f"LVMOGP objective and gradient, {share:.0%} of the targets missing, GPy / mogp"
        print(ratio_line(title, latent(share), "GPy", "mogp", "step", target))
    for what, title, target in (
        ("fit", "GPAR on EEG, 40 steps a layer", ">= 3"),
        ("samples", "GPAR on EEG, 50 joint draws at the held-out times", ">= 5"),
    ):
        print(ratio_line(f"{title}, gpar / mogp", chain(what), "gpar", "mogp", "step", target))
