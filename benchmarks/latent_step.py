"""A training step of HMOGP-LV (`LatentMOGP`) as outputs grow, against the formulas of the documents written out.

N=100 inputs in four replicas, M_X=30, M_H=10, Q_H=2, a hierarchy of two Matérn-3/2 kernels, noise of its own for each
output, Adam on all parameters, float64, one thread. All outputs are observed at all inputs ("complete"), or each target
is missing with probability 0.2 ("missing").

written out   the Kronecker form of the bound with M, Σ^X and Σ^H as they are, in TensorFlow, and our Adam
GPflow        the same, with the expectations of `gpflow.expectations`
long table    missing targets: the point-wise form, a row for each target
mask          missing targets: the point-wise form at all inputs of all outputs, with weight zero where there is none

All start at the same values, at which their bounds must agree. Step times are medians over turns that contenders take.

Memory is that of a process of its own that makes data of 100 000 outputs with 20 targets each, a model of them with
M_X=30 and M_H=10, and takes 20 steps of 500 outputs: at 20 inputs that all share, or at 20 of 100 that differ.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread
from peer_gpy_latent import DIAGONAL, LENGTHSCALE, NOISE, problem

N, M_X, M_H, Q_H, REPLICAS = 100, 30, 10, 2, 4
OUTPUTS, MISSING, LAPS = (50, 500, 5_000), 0.2, 10
MANY, MANY_ROWS, MANY_INPUTS, BATCH, MANY_STEPS = 100_000, 20, 100, 500, 20
MOST_SECONDS = 300
GIB = 2**30


def targets(outputs: int, share: float, rows: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs `[N]`, targets `[N, D]` (NaN where missing) and the latent variables `[D, Q_H]` behind them."""
    rng = np.random.default_rng(0)
    X, H = np.linspace(0, 1, rows), rng.normal(size=(outputs, Q_H))
    Y = np.sin(6 * X[:, None] + H[:, 0]) + H[:, 1] * X[:, None] + 0.1 * rng.normal(size=(rows, outputs))
    Y[rng.uniform(size=Y.shape) < share] = np.nan
    return X, Y, H


def ours(outputs: int, share: float = 0.0) -> tuple[Any, Any]:
    """A `LatentMOGP` and the data."""
    from mogp import MultiOutputData
    from mogp.inducing import ReplicaPoints
    from mogp.kernels import hierarchical
    from mogp.models import LatentMOGP

    X, Y, H = targets(outputs, share)
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(N) % REPLICAS)
    kernels = [gpflow.kernels.Matern32(variance=0.5, lengthscales=0.2) for _ in range(2)]
    points = ReplicaPoints(np.linspace(0, 1, M_X)[:, None], np.arange(M_X) % REPLICAS)
    Z_h = np.random.default_rng(1).normal(size=(M_H, Q_H))
    latent = gpflow.kernels.SquaredExponential(lengthscales=np.ones(Q_H))
    model = LatentMOGP(hierarchical(kernels, 1), latent, points, Z_h, H, names=data.names)
    model.posterior.q_mu.assign(np.random.default_rng(2).normal(size=(M_X, M_H)))
    return model, data


class WrittenOut(gpflow.Module):
    """The bound of the documents, term by term: `M [M_X, M_H]`, `Σ^X` and `Σ^H` are those of `U` itself."""

    def __init__(self, model: Any, X: np.ndarray, Y: np.ndarray, form: str) -> None:
        super().__init__()
        one, two = model.kernel.kernels
        self.k_g, self.k_f, self.k_H = one, two.kernels[0], model.latent_kernel
        self.mu, self.s, self.noise = model.latent_mean, model.latent_var, model.noise
        self.Z_x, self.Z_h = model.inducing.Z, model.latent_inducing
        factors = model.factors()
        L_x, L_h = (np.asarray(a) for a in (factors.L_x, np.linalg.inv(factors.root)))
        lower = gpflow.utilities.triangular
        self.M = gpflow.Parameter(L_x @ model.posterior.q_mu.numpy() @ L_h.T)
        self.root_x = gpflow.Parameter(L_x @ model.posterior.q_sqrt_x.numpy(), transform=lower())
        self.root_h = gpflow.Parameter(L_h @ model.posterior.q_sqrt_h.numpy(), transform=lower())
        self.form = form
        numbers, own = np.arange(N) % REPLICAS, model.inducing.replica
        self.same_uu = tf.constant(own[:, None] == own, tf.float64)
        self.same_uf = tf.constant(own[:, None] == numbers, tf.float64)
        here = np.isfinite(Y)
        self.n, self.d = (tf.constant(a) for a in np.nonzero(here))
        self.X, self.here, self.Y = tf.constant(X[:, None]), tf.constant(here, tf.float64), tf.constant(Y)
        self.y = tf.gather_nd(self.Y, tf.stack([self.n, self.d], -1))
        self.filled = tf.constant(np.where(here, Y, 0.0))

    def psi(self) -> tuple[tf.Tensor, tf.Tensor]:
        """`Ψ^H [D, M_H]` and `Φ^H_d [D, M_H, M_H]`."""
        if self.form == "GPflow":
            q = gpflow.probability_distributions.DiagonalGaussian(self.mu, self.s)
            Z = gpflow.inducing_variables.InducingPoints(self.Z_h)
            expect = gpflow.expectations.expectation
            return expect(q, (self.k_H, Z)), expect(q, (self.k_H, Z), (self.k_H, Z))
        mu, s, z = self.mu[:, None], self.s[:, None], tf.convert_to_tensor(self.Z_h)
        l2, variance = tf.square(self.k_H.lengthscales), self.k_H.variance
        damping = tf.reduce_prod(1 + s / l2, -1) ** -0.5
        Psi = variance * damping * tf.exp(-tf.reduce_sum(tf.square(mu - z) / (2 * (l2 + s)), -1))
        middle, apart = 0.5 * (z[:, None] + z), tf.reduce_sum(tf.square(z[:, None] - z) / (4 * l2), -1)
        damping = tf.reduce_prod(1 + 2 * s / l2, -1)[..., None] ** -0.5
        far = tf.reduce_sum(tf.square(mu[:, None] - middle) / (l2 + 2 * s[:, None]), -1)
        return Psi, variance**2 * damping * tf.exp(-apart - far)

    def training_loss(self) -> tf.Tensor:
        K_x = self.k_g(self.Z_x) + self.same_uu * self.k_f(self.Z_x)
        K_uf = self.k_g(self.Z_x, self.X) + self.same_uf * self.k_f(self.Z_x, self.X)
        jitter = gpflow.default_jitter()
        L_x = tf.linalg.cholesky(K_x + jitter * tf.eye(M_X, dtype=K_x.dtype))
        L_h = tf.linalg.cholesky(self.k_H(self.Z_h) + jitter * tf.eye(M_H, dtype=K_x.dtype))
        S_x = tf.linalg.matmul(self.root_x, self.root_x, transpose_b=True)
        S_h = tf.linalg.matmul(self.root_h, self.root_h, transpose_b=True)
        k_nn = self.k_g.variance + self.k_f.variance
        Psi, Phi = self.psi()
        form = {"long table": self.long_table, "mask": self.mask}.get(self.form, self.kronecker)
        kl = self.kl_inducing(L_x, L_h, S_x, S_h) + self.kl_latent()
        return kl - form(L_x, L_h, S_x, S_h, K_uf, k_nn * self.k_H.variance, Psi, Phi)

    def kronecker(self, L_x: Any, L_h: Any, S_x: Any, S_h: Any, K_uf: Any, k: Any, Psi: Any, Phi: Any) -> tf.Tensor:
        noise = tf.convert_to_tensor(self.noise)
        Phi_h = tf.reduce_sum(Phi / noise[:, None, None], 0)
        Phi_x = tf.linalg.matmul(K_uf, K_uf, transpose_b=True)
        solved_x, solved_h = tf.linalg.cholesky_solve(L_x, Phi_x), tf.linalg.cholesky_solve(L_h, Phi_h)
        both_x = tf.linalg.cholesky_solve(L_x, tf.transpose(solved_x))
        both_h = tf.linalg.cholesky_solve(L_h, tf.transpose(solved_h))
        inner = tf.linalg.matmul(tf.linalg.matmul(self.M, tf.linalg.matmul(both_x, self.M), transpose_a=True), both_h)
        solved_m = tf.transpose(tf.linalg.cholesky_solve(L_h, tf.transpose(tf.linalg.cholesky_solve(L_x, self.M))))
        mean = tf.linalg.matmul(tf.linalg.matmul(K_uf, solved_m, transpose_a=True), Psi, transpose_b=True)
        spread = (
            tf.linalg.trace(inner)
            + tf.linalg.trace(tf.linalg.matmul(both_h, S_h)) * tf.linalg.trace(tf.linalg.matmul(both_x, S_x))
            + N * k * tf.reduce_sum(1 / noise)
            - tf.linalg.trace(solved_h) * tf.linalg.trace(solved_x)
        )
        squares = tf.reduce_sum((tf.square(self.Y) - 2 * self.Y * mean) / noise)
        return -0.5 * (N * tf.reduce_sum(tf.math.log(2 * np.pi * noise)) + squares + spread)

    def long_table(self, L_x: Any, L_h: Any, S_x: Any, S_h: Any, K_uf: Any, k: Any, Psi: Any, Phi: Any) -> tf.Tensor:
        k_n = tf.gather(K_uf, self.n, axis=1)
        alpha = tf.linalg.cholesky_solve(L_x, k_n)
        solved = tf.linalg.cholesky_solve(L_h, tf.linalg.adjoint(Phi))
        W = tf.linalg.cholesky_solve(L_h, tf.linalg.adjoint(solved))
        E = tf.linalg.matmul(alpha, self.M, transpose_a=True)
        b = tf.transpose(tf.linalg.cholesky_solve(L_h, tf.transpose(Psi)))
        m = tf.reduce_sum(E * tf.gather(b, self.d), -1)
        prior, posterior = tf.linalg.trace(solved), tf.linalg.trace(tf.linalg.matmul(W, S_h))
        e = (
            k
            - tf.gather(prior, self.d) * tf.reduce_sum(k_n * alpha, 0)
            + tf.gather(posterior, self.d) * tf.reduce_sum(alpha * tf.linalg.matmul(S_x, alpha), 0)
            + tf.reduce_sum(tf.linalg.matvec(tf.gather(W, self.d), E) * E, -1)
        )
        noise = tf.gather(self.noise, self.d)
        y = self.y
        return -0.5 * tf.reduce_sum(tf.math.log(2 * np.pi * noise) + (tf.square(y) - 2 * y * m + e) / noise)

    def mask(self, L_x: Any, L_h: Any, S_x: Any, S_h: Any, K_uf: Any, k: Any, Psi: Any, Phi: Any) -> tf.Tensor:
        alpha = tf.linalg.cholesky_solve(L_x, K_uf)
        solved = tf.linalg.cholesky_solve(L_h, tf.linalg.adjoint(Phi))
        W = tf.linalg.cholesky_solve(L_h, tf.linalg.adjoint(solved))
        E = tf.linalg.matmul(alpha, self.M, transpose_a=True)
        m = tf.linalg.matmul(E, tf.linalg.cholesky_solve(L_h, tf.transpose(Psi)))
        prior, posterior = tf.linalg.trace(solved), tf.linalg.trace(tf.linalg.matmul(W, S_h))
        e = (
            k
            - tf.reduce_sum(K_uf * alpha, 0)[:, None] * prior
            + tf.reduce_sum(alpha * tf.linalg.matmul(S_x, alpha), 0)[:, None] * posterior
            + tf.transpose(tf.reduce_sum(tf.linalg.matmul(E, W) * E, -1))
        )
        noise, y = tf.convert_to_tensor(self.noise), self.filled
        terms = tf.math.log(2 * np.pi * noise) + (tf.square(y) - 2 * y * m + e) / noise
        return -0.5 * tf.reduce_sum(self.here * terms)

    def kl_inducing(self, L_x: Any, L_h: Any, S_x: Any, S_h: Any) -> tf.Tensor:
        def log_det(L: Any) -> tf.Tensor:
            return tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(L))))

        def trace(L: Any, S: Any) -> tf.Tensor:
            return tf.linalg.trace(tf.linalg.cholesky_solve(L, S))

        solved = tf.transpose(tf.linalg.cholesky_solve(L_h, tf.transpose(tf.linalg.cholesky_solve(L_x, self.M))))
        logs = M_X * (log_det(L_h) - log_det(self.root_h)) + M_H * (log_det(L_x) - log_det(self.root_x))
        return 0.5 * (logs + tf.reduce_sum(solved * self.M) + trace(L_h, S_h) * trace(L_x, S_x) - M_X * M_H)

    def kl_latent(self) -> tf.Tensor:
        mu, s = tf.convert_to_tensor(self.mu), tf.convert_to_tensor(self.s)
        return 0.5 * tf.reduce_sum(tf.square(mu) + s - 1 - tf.math.log(s))


class Run:
    """A compiled training step, and the objective at the start."""

    def __init__(self, form: str, outputs: int, share: float = 0.0) -> None:
        from mogp.optimizers import Adam

        model, data = ours(outputs, share)
        if form == "mogp":
            loss: Callable[[], tf.Tensor] = partial(model.training_loss, model.batches(data)(0))
        else:
            model = WrittenOut(model, *targets(outputs, share)[:2], form)
            loss = model.training_loss
        adam = Adam(1e-4)
        self.start = float(loss())
        adam.start(model)
        self.step = tf.function(lambda: adam.step(model, loss), autograph=False)


def step_times(runs: dict[str, Run]) -> dict[str, float]:
    """Median milliseconds a step, the contenders taking turns."""
    laps: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            laps[name].append(Timing.of(run.step, LAPS).step)
    return {name: 1e3 * float(np.median(times)) for name, times in laps.items()}


def growth() -> None:
    runs = {(D, share): Run("mogp", D, share) for D in OUTPUTS for share in (0.0, MISSING)}
    times = step_times({f"{D} {share}": run for (D, share), run in runs.items()})
    print(f"{'outputs':>9}{'complete ms':>14}{'missing ms':>14}")
    for D in OUTPUTS:
        print(f"{D:9}{times[f'{D} 0.0']:14.2f}{times[f'{D} {MISSING}']:14.2f}")
    few, many = OUTPUTS[0], OUTPUTS[-1]
    for share, what in ((0.0, "complete"), (MISSING, "missing")):
        ratio = times[f"{many} {share}"] / times[f"{few} {share}"]
        print(f"step, {what}, {many} outputs / {few}: {ratio:.1f} (target <= {many // few}, linear)")


def against(share: float, forms: tuple[str, ...], what: str) -> None:
    runs = {form: Run(form, OUTPUTS[0], share) for form in ("mogp", *forms)}
    for run in runs.values():
        np.testing.assert_allclose(run.start, runs["mogp"].start, rtol=1e-6)
    times = step_times(runs)
    for form in forms:
        target = "none" if form == "GPflow" else "<= 1"
        line = f"[mogp {times['mogp']:.2f} ms, {form} {times[form]:.2f} ms]"
        print(f"step, {what}, mogp / {form}: {times['mogp'] / times[form]:.2f} (target {target})  {line}")


# ---------------------------------------------------------------------------------------------- beside GPy, in peers.py


def lvmogp_gradient(share: float) -> tuple[float, Callable[[], tf.Tensor]]:
    """The objective of the model of peer_gpy_latent.py, and a compiled function of objective and gradient, one vector.

    GPy's model without missing targets has one noise variance; ours always has one for each output.
    """
    from mogp import MultiOutputData
    from mogp.inducing import ReplicaPoints
    from mogp.kernels import hierarchical
    from mogp.likelihoods import Gaussian
    from mogp.models import LatentMOGP

    p = problem(share)
    data = MultiOutputData.from_arrays(p.X, p.Y)
    kernels = [gpflow.kernels.SquaredExponential(lengthscales=s) for s in (LENGTHSCALE, np.ones(Q_H))]
    points = ReplicaPoints(p.Z_x, np.zeros(len(p.Z_x), int))
    noise = Gaussian(np.full(len(p.mean), NOISE))
    model = LatentMOGP(hierarchical(kernels[:1], 1), kernels[1], points, p.Z_h, p.mean, p.var, likelihood=noise)
    factors = model.factors()
    L_x, L_h = (np.asarray(a) for a in (factors.L_x, np.linalg.inv(factors.root)))
    model.posterior.q_mu.assign(np.linalg.solve(L_x, np.linalg.solve(L_h, p.M.T).T))
    for parameter, L, R in ((model.posterior.q_sqrt_x, L_x, p.root_x), (model.posterior.q_sqrt_h, L_h, p.root_h)):
        S = R @ R.T + DIAGONAL * np.eye(len(R))
        parameter.assign(np.tril(np.linalg.solve(L, np.linalg.cholesky(S))))
    batch = model.batches(data)(0)

    @tf.function(autograph=False)
    def both() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        return tf.concat([tf.reshape(a, [-1]) for a in (loss, *gradients)], 0)

    return float(model.training_loss(batch)), both


# --------------------------------------------------------------------------------------------------------- many outputs


def train_many(inputs: str, start: str) -> None:
    """Data, model and 20 steps for 100 000 outputs; prints seconds, bounds and peak memory as JSON."""
    from mogp import MultiOutputData, fit
    from mogp.inducing import ReplicaPoints
    from mogp.models import hmogp_lv
    from mogp.optimizers import Adam
    from mogp.training import start as find_start

    seconds, began = {}, time.perf_counter()

    def lap(what: str) -> None:
        nonlocal began
        seconds[what], began = time.perf_counter() - began, time.perf_counter()

    X, Y, _ = targets(MANY, 0.0, MANY_ROWS if inputs == "common" else MANY_INPUTS)
    if inputs != "common":
        order = np.random.default_rng(3).uniform(size=Y.shape).argsort(0)
        Y[order >= MANY_ROWS] = np.nan
    lap("targets")
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(len(X)) % 2)
    lap("data")
    points = ReplicaPoints(np.linspace(0, 1, M_X)[:, None], np.arange(M_X) % 2)
    model = hmogp_lv(data, latent_dim=Q_H, inducing=points, latent_inducing=M_H, start=start, scaling=None)
    find_start(model, data)
    lap("model")
    first = float(model.elbo(data))
    lap("bound")
    fit(model, data, steps=MANY_STEPS, batch_size=BATCH, optimizer=Adam(0.05, lazy=True), progress=False)
    lap("fit")
    last = float(model.elbo(data))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    source, count, adam = model.batches(data, BATCH), tf.Variable(0, dtype=tf.int64), Adam(0.05, lazy=True)
    adam.start(model)

    def one() -> tf.Tensor:
        return adam.step(model, partial(model.training_loss, source(count.assign_add(1))))

    step = tf.function(one, autograph=False)
    print(json.dumps([seconds, Timing.of(step, LAPS).step, first, last, peak / GIB]))


def many() -> None:
    """Before anything else: on Linux the peak of a new process starts at the memory of the one that started it."""
    for inputs in ("common", "own"):
        for start in ("random", "pca"):
            title = f"{MANY} outputs, {inputs} inputs, start={start}"
            command = [sys.executable, __file__, inputs, start]
            try:
                run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{title}: not done within {MOST_SECONDS} s", flush=True)
                continue
            seconds, step, first, last, peak = json.loads(run.stdout.strip().splitlines()[-1])
            print(f"{title}: peak {peak:.2f} GiB (target <= 8), bound {first:.5g} -> {last:.5g} (target: rises)")
            print("  seconds: " + ", ".join(f"{what} {value:.1f}" for what, value in seconds.items()), end="")
            print(f"; a step {step * 1e3:.0f} ms", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    if len(sys.argv) > 1:
        train_many(*sys.argv[1:])
    else:
        many()
        growth()
        against(0.0, ("written out", "GPflow"), "complete")
        against(MISSING, ("long table", "mask"), "missing")
