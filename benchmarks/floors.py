"""A training step of each family against its floor: the same work at the speeds of this machine's kernels.

The floor of a family is counted by hand below, and measured by `floor.py` in this process: products, triangular solves,
Cholesky factors with their gradients, and passes over large arrays. What small kernels cost to launch is not in it, so
that models of few inducing points are far above theirs. float64, one thread, Adam, random data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread
from floor import Cholesky, Count, Passes, Product, Solve, floor, launch, sparse

RNG = np.random.default_rng(0)
Family = tuple[Callable[[], tf.Tensor], list[Count]]


def step_of(model: Any, data: Any, size: int | None = None, lazy: bool = False) -> Callable[[], tf.Tensor]:
    """A compiled step that draws its batch."""
    from mogp.optimizers import Adam

    adam, count = Adam(0.001, lazy=lazy), tf.Variable(0, dtype=tf.int64)
    source = model.batches(data, size)
    adam.start(model)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        batch = source(count.assign_add(1))
        return adam.step(model, lambda: model.training_loss(batch))

    return step


def waves(rows: int, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    X = RNG.uniform(-1, 1, (rows, inputs))
    return X, np.sin(3 * X @ RNG.normal(size=(inputs, outputs))) + 0.1 * RNG.normal(size=(rows, outputs))


def mixing(latents: int, rows: int, functions: int) -> list[Count]:
    """Means and variances of functions from those of latent GPs, and back."""
    return [Product(6, 1, rows, latents, functions)]


def lmc() -> Family:
    from mogp import MultiOutputData
    from mogp.likelihoods import Gaussian
    from mogp.models import hetmogp_lmc

    data = MultiOutputData.from_arrays(*waves(5000, 2, 10))
    model = hetmogp_lmc(data, [Gaussian(0.1) for _ in range(10)], latents=3, inducing=100)
    counts = [*sparse(3, 100, 500, 2), *mixing(3, 500, 10), Passes(8, 5000)]
    return step_of(model, data, 500), counts


def toy() -> Family:
    from mogp import MultiOutputData
    from mogp.likelihoods import Bernoulli, Beta, HeteroscedasticGaussian
    from mogp.models import hetmogp_lmc

    X, Y = waves(2000, 1, 3)
    Y = np.column_stack([Y[:, 0], 1 / (1 + np.exp(-Y[:, 1])), Y[:, 2] > 0])
    data = MultiOutputData.from_arrays(X, Y)
    model = hetmogp_lmc(data, [HeteroscedasticGaussian(), Beta(), Bernoulli()], latents=3, inducing=80)
    # Beta has 20 x 20 nodes a row, with logarithms of gamma functions and their gradients there.
    counts = [*sparse(3, 80, 50, 1), *mixing(3, 50, 5), Passes(6, 400 * 50, 8), Passes(6, 20 * 50, 4)]
    return step_of(model, data, 50), counts


def many_classes() -> Family:
    from mogp import MultiOutputData
    from mogp.models import mogps_ar

    data = MultiOutputData.from_arrays(RNG.uniform(-1, 1, (2000, 5)), RNG.integers(0, 20, (2000, 3)).astype(float))
    model = mogps_ar(data, [20, 20, 20], latents=10, inducing=100, negatives=5)
    # Differences with five classes a row: weights [600, 5, 10] gathered, squared and summed twice, and back.
    counts = [*sparse(10, 100, 200, 5), Passes(8, 600 * 5 * 10), Passes(6, 600 * 5, 4)]
    return step_of(model, data, 200), counts


def one_vs_each() -> Family:
    from mogp import MultiOutputData
    from mogp.models import ovse

    X, classes = RNG.normal(size=(10_000, 10)), np.arange(10_000) % 50
    data = MultiOutputData.from_arrays(X, classes)
    model = ovse(data, inducing=100, lengthscale=3.0)
    return step_of(model, data, 200, lazy=True), [*sparse(2, 100, 200, 10), Passes(8, 200 * 2, 4)]


def labels() -> Family:
    from mogp import LabelData
    from mogp.models import mlgpf

    F, M, B, K, nodes = 30, 100, 500, 159, 10
    Y = (RNG.uniform(size=(4880, K)) < 0.015).astype(int)
    data = LabelData.of((RNG.uniform(size=(4880, 1836)) < 0.037).astype(float), Y, normalise=True)
    model = mlgpf(data, latents=F, inducing=M)
    counts = [
        Product(3, 1, M, 1836, B),
        *(Solve(4, 1, M, B), Cholesky(1, 1, M), Product(2, 1, M, B, M), Passes(10, M * B, 2)),
        # TᵀA of each factor and its gradients; the KL of un-whitened posteriors.
        *(Product(1, F, M, M, B), Product(1, F, M, M, B), Product(1, F, M, B, M), Passes(3, F * M * B)),
        *(Solve(2, F, M, M), Product(1, F, M, M, M), Passes(8, F * M * M)),
        *mixing(F, B, K),
        Passes(4, nodes * B * K, 2),
    ]
    return step_of(model, data, B), counts


def latent() -> Family:
    from mogp import MultiOutputData
    from mogp.models import hmogp_lv

    X, Y = waves(100, 1, 50)
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(100) % 4)
    model = hmogp_lv(data, inducing=3, latent_inducing=5, start="random")
    M_x, M_h = int(model.inducing.num_inducing), 5
    counts = [
        *(Product(3, 1, M_x, M_x, 100), Solve(2, 1, M_x, 100), Cholesky(1, 1, M_x), Passes(8, M_x * 100, 1)),
        *(Product(6, 1, 50, M_h, 100), Passes(8, 50 * 100), Passes(8, 50 * M_h * M_h, 1)),
    ]
    return step_of(model, data), counts


def chain() -> Family:
    from mogp import MultiOutputData
    from mogp.models import gplar

    X, Y = waves(128, 1, 7)
    data = MultiOutputData.from_arrays(X, Y)
    model = gplar(data, inducing=128, start="zero")
    return step_of(model, data), [*sparse(7, 128, 128, 4), *sparse(7, 128, 128, 4)[2:4], Passes(4, 7 * 128 * 256, 1)]


def annotators() -> Family:
    from mogp import MultiOutputData
    from mogp.models import ccgpma

    X = RNG.uniform(-1, 1, (1000, 2))
    data = MultiOutputData.from_list([(X, RNG.integers(0, 3, (1000, 5)).astype(float))])
    model = ccgpma(data, 3, inducing=40)
    Q, J = model.prior.num_latents, model.prior.num_functions
    return step_of(model, data, 100), [*sparse(Q, 40, 100, 2), *mixing(Q, 100, J), Passes(8, 100 * J * 20, 2)]


def exact(n: int, components: int) -> list[Count]:
    """Counts of an exact GP of `n` rows: its covariance from components, a factor, the inverse that is its gradient."""
    return [Cholesky(1, 1, n, gradient=False), Solve(2, 1, n, n), Passes(2 + 6 * components, n * n, components)]


def exact_lmc() -> Family:
    from mogp import MultiOutputData
    from mogp.models import ExactLMC

    data = MultiOutputData.from_arrays(*waves(100, 2, 5))
    return step_of(ExactLMC(data), data), exact(500, 2)


def hierarchy(name: str) -> Family:
    from mogp import MultiOutputData, models

    X, Y = waves(80, 1, 5)
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(80) % 4)
    model = getattr(models, name)(data)
    # HGP has a covariance for each output, DHGP one of all rows, a product of Kronecker form.
    counts = 5 * exact(80, 2) if name == "HGP" else exact(400, 2)
    return step_of(model, data), counts


def gpar() -> Family:
    """An evaluation of the evidence of the first layer and its gradient: L-BFGS has no other steps."""
    from mogp import MultiOutputData
    from mogp.models import GPAR

    data = MultiOutputData.from_arrays(*waves(400, 1, 3))
    search = GPAR(data).stages(data)[0].problem().search
    start = search.read()
    return lambda: tf.constant(search.at(start)[0]), exact(400, 2)


FAMILIES: dict[str, Callable[[], Family]] = {
    "hetmogp_lmc": lmc,
    "hetmogp_lmc, toy T1": toy,
    "mogps_ar": many_classes,
    "ovse, full": one_vs_each,
    "mlgpf": labels,
    "hmogp_lv": latent,
    "gplar": chain,
    "ccgpma": annotators,
    "GPAR, a layer": gpar,
    "ExactLMC": exact_lmc,
    "HGP": lambda: hierarchy("HGP"),
    "DHGP (floor of the dense way)": lambda: hierarchy("DHGP"),
}


def main(*names: str) -> None:
    print(f"a kernel that does next to nothing takes {1e6 * launch():.1f} us; steps launch 400 to 4500", flush=True)
    for name, make in FAMILIES.items():
        if names and name not in names:
            continue
        step, counts = make()
        # In turns, as other work on the machine comes and goes.
        pairs = [(Timing.of(step, 5).step, floor(counts)) for _ in range(REPEATS)]
        own, least = (1e3 * float(np.median(side)) for side in zip(*pairs, strict=True))
        times = f"[step {own:.2f} ms, floor {least:.2f} ms]"
        print(f"{name} step / floor: {own / least:.2f} (target <= 1.7)  {times}", flush=True)


if __name__ == "__main__":
    one_thread()
    main(*sys.argv[1:])
