"""Steps of the heterogeneous model: against the Gaussian one, and of one optimiser against another.

Q=3 latent GPs, batch 500, M=100, ten inputs, float64, one thread, the same mini-batch already in memory.

- HetMOGP (heteroscedastic Gaussian, Bernoulli, Poisson) / LMC with three Gaussian outputs, Adam on both.
- On that HetMOGP: FNG / Adam and HYB / Adam, the natural gradients un-whitened as in the thesis; and `NaturalAdam`,
  which evaluates the loss twice, against the same pair of steps with GPflow's `NaturalGradient`.
- The convolution process (inducing points on the functions, on the latents) / LMC, Adam on all.
"""

from __future__ import annotations

from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf
from common import Timing, interleaved, one_thread, ratio_line

from mogp import MultiOutputData
from mogp.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson
from mogp.models import SparseMOGP, hetmogp_cpm, hetmogp_lmc
from mogp.optimizers import FNG, Adam, NaturalAdam, Optimizer, hyb

Q, BATCH, M, P = 3, 500, 100, 10
STEPS = 20


def inputs() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (BATCH, P))


def mixed() -> MultiOutputData:
    rng = np.random.default_rng(1)
    f = np.sin(inputs() @ rng.normal(size=(P, 3)))
    Y = np.column_stack([f[:, 0] + 0.1 * rng.normal(size=BATCH), f[:, 1] > 0, rng.poisson(np.exp(f[:, 2]))])
    return MultiOutputData.from_arrays(inputs(), Y)


def heterogeneous(whiten: bool = True, make: Callable[..., SparseMOGP] = hetmogp_lmc, **options: str) -> SparseMOGP:
    kinds = [HeteroscedasticGaussian(), Bernoulli(), Poisson()]
    return make(mixed(), kinds, latents=Q, inducing=M, whiten=whiten, **options)


def gaussian() -> SparseMOGP:
    return hetmogp_lmc(mixed(), [Gaussian(0.1) for _ in range(3)], latents=Q, inducing=M, scaling=None)


def timed(model: SparseMOGP, optimizer: Optimizer) -> Timing:
    batch = mixed().full()
    optimizer.start(model)
    return Timing.of(
        tf.function(lambda: optimizer.step(model, lambda: model.training_loss(batch)), autograph=False), STEPS
    )


def with_gpflows_natural_gradient() -> Timing:
    model, batch = heterogeneous(whiten=False), mixed().full()
    q = [(model.posterior.q_mu, model.posterior.q_sqrt)]
    natural, adam = gpflow.optimizers.NaturalGradient(0.005), Adam(0.005)
    own = [p.unconstrained_variable for p in q[0]]
    adam.start_on([v for v in model.trainable_variables if not any(v is one for one in own)])

    def step() -> tf.Tensor:
        natural.minimize(lambda: model.training_loss(batch), q)
        return adam.step(model, lambda: model.training_loss(batch))

    return Timing.of(tf.function(step, autograph=False), STEPS)


if __name__ == "__main__":
    one_thread()
    times = interleaved(
        {
            "HetMOGP": lambda: timed(heterogeneous(), Adam(0.005)),
            "Gaussian LMC": lambda: timed(gaussian(), Adam(0.005)),
            "Adam": lambda: timed(heterogeneous(whiten=False), Adam(0.005)),
            "FNG": lambda: timed(heterogeneous(whiten=False), FNG()),
            "HYB": lambda: timed(heterogeneous(whiten=False), hyb()),
            "NaturalAdam": lambda: timed(heterogeneous(whiten=False), NaturalAdam(0.005, 0.005)),
            "GPflow's natural gradient": with_gpflows_natural_gradient,
            "CPM on functions": lambda: timed(heterogeneous(make=hetmogp_cpm), Adam(0.005)),
            "CPM on latents": lambda: timed(heterogeneous(make=hetmogp_cpm, on="latents"), Adam(0.005)),
        }
    )
    step = {"what": "step"}
    print(ratio_line("heterogeneous / Gaussian step", times, "HetMOGP", "Gaussian LMC", **step, target="<= 1.5"))
    print(ratio_line("FNG / Adam step", times, "FNG", "Adam", **step, target="<= 2.5"))
    print(ratio_line("HYB / Adam step", times, "HYB", "Adam", **step, target="none"))
    gpflows = "GPflow's natural gradient"
    print(ratio_line("NaturalAdam / with GPflow's", times, "NaturalAdam", gpflows, **step, target="<= 1"))
    print(ratio_line("CPM on functions / LMC step", times, "CPM on functions", "HetMOGP", **step, target="none"))
    print(ratio_line("CPM on latents / LMC step", times, "CPM on latents", "HetMOGP", **step, target="none"))
