"""CPU seconds until a model of 1000 outputs has taken its first step, and those of predictions of all of them.

HetMOGP-LMC, Q=3 latent GPs, M=20, 200 rows, batches of 50, a likelihood object for each output, one thread.
Likelihoods, data, model, optimiser, tracing and first run count. `mixed` outputs are Gaussian, binary and counts.
"""

from __future__ import annotations

import os
import time

import numpy as np
import tensorflow as tf
from common import one_thread

D, N, BATCH = 1000, 200, 50


def measure(mixed: bool) -> tuple[float, float]:
    """CPU seconds to the end of the first step, and of `predict_y` at all rows."""
    from mogp import MultiOutputData
    from mogp.compiling import compiled
    from mogp.likelihoods import Bernoulli, Gaussian, Poisson
    from mogp.models import hetmogp_lmc
    from mogp.optimizers import Adam

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 2))
    Y = np.sin(X @ rng.normal(size=(2, D)) * 3)
    if mixed:
        Y[:, 1::3] = Y[:, 1::3] > 0
        Y[:, 2::3] = rng.poisson(np.exp(Y[:, 2::3]))
    kinds = (lambda: Gaussian(0.1), Bernoulli, Poisson) if mixed else (lambda: Gaussian(0.1),)
    began = time.process_time()
    likelihoods = [kinds[d % len(kinds)]() for d in range(D)]
    data = MultiOutputData.from_arrays(X, Y)
    model = hetmogp_lmc(data, likelihoods, latents=3, inducing=20)
    source, adam = model.batches(data, BATCH), Adam(0.001)
    adam.start(model)
    step = compiled(lambda t: adam.step(model, lambda: model.training_loss(source(t))), tf.TensorSpec([], tf.int64))
    step(tf.constant(0, tf.int64)).numpy()
    trained = time.process_time()
    model.predict_y(X)
    return trained - began, time.process_time() - trained


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    measure(mixed=True)  # imports and first uses
    for name, mixed in (("Gaussian", False), ("mixed", True)):
        first, predicted = measure(mixed)
        print(f"CPU seconds to the first step of {D} {name} outputs: {first:.1f} (target <= 5)")
        print(f"CPU seconds of predict_y of {D} {name} outputs: {predicted:.1f} (target <= 1)", flush=True)
