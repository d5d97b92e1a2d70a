"""A training step of GPLAR against seven separate `SVGP`s of stock GPflow, one an output.

Seven Gaussian outputs at N=256 inputs, M=256 inducing inputs a layer, linear and squared-exponential kernels over the
outputs before, one path, float64, one thread; Adam on all parameters. The SVGP of an output has the kernel of its layer
and reads the observed values of the outputs before it, so that the sum of their steps is the same work without a chain.
GPLAR steps are those of strategy B (inducing inputs fixed, as in the experiments of the thesis; fixed for the SVGPs
too) and of strategy C (tied, rebuilt and trained; trained for the SVGPs).

The SVGPs take their steps as GPflow's documentation says: a plain `tf.function` and Keras' Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread

OUTPUTS, N, LAPS = 7, 256, 5


def observed() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.arange(N)[:, None] / N
    waves = np.sin(2 * np.pi * X * np.arange(2, 9)) @ rng.normal(size=(7, OUTPUTS))
    Y = waves + 0.1 * rng.normal(size=waves.shape)
    return X, (Y - Y.mean(0)) / Y.std(0)


def recipe() -> Any:
    from mogp.kernels import LayerKernels

    return LayerKernels(1, "linear+nonlinear", input_lengthscale=0.02)


def chain(strategy: str) -> Callable[[], tf.Tensor]:
    from mogp import MultiOutputData
    from mogp.models import gplar
    from mogp.optimizers import Adam

    X, Y = observed()
    data = MultiOutputData.from_arrays(X, Y)
    model = gplar(data, kernel=recipe(), strategy=strategy, inducing=X, start=Y, scaling=None)
    batch, adam = data.full(), Adam(1e-4)
    adam.start(model)
    return tf.function(lambda: adam.step(model, lambda: model.training_loss(batch)), autograph=False)


def svgp(position: int, train_inputs: bool) -> Callable[[], tf.Tensor]:
    X, Y = observed()
    inputs, target = np.hstack([X, Y[:, :position]]), Y[:, position : position + 1]
    model = gpflow.models.SVGP(
        recipe().layer(position), gpflow.likelihoods.Gaussian(0.01), inputs.copy(), num_data=N, whiten=True
    )
    gpflow.set_trainable(model.inducing_variable, train_inputs)
    variables, adam = model.trainable_variables, gpflow.keras.tf_keras.optimizers.Adam(1e-4)
    adam.build(variables)
    batch = (tf.constant(inputs), tf.constant(target))

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def compare(strategy: str) -> None:
    ours = chain(strategy)
    peers = [svgp(position, strategy == "C") for position in range(OUTPUTS)]
    own, sums = [], []
    for _ in range(REPEATS):
        own.append(Timing.of(ours, LAPS).step)
        sums.append(sum(Timing.of(peer, LAPS).step for peer in peers))
    mine, theirs = float(np.median(own)), float(np.median(sums))
    line = f"[GPLAR {mine * 1e3:.0f} ms, sum of {OUTPUTS} SVGP {theirs * 1e3:.0f} ms]"
    print(f"GPLAR step, strategy {strategy}, mogp / GPflow: {mine / theirs:.2f} (target <= 1.3)  {line}", flush=True)


if __name__ == "__main__":
    one_thread()
    for strategy in ("B", "C"):
        compare(strategy)
