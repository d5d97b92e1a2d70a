"""One training step of the LMC model against stock GPflow: `SVGP` with `LinearCoregionalization`.

Q=3 latent GPs, D=10 Gaussian outputs with one noise variance, batch 500, M=100, float64, one thread; Adam on all
parameters on both sides, the same mini-batch already in memory. Prints the ratios mogp / GPflow of the median step time
and of the time to the end of the first step (tracing), each over seven interleaved runs.

The first two lines compare each library as its documentation says to use it: a plain `tf.function` and Keras' Adam for
GPflow; no AutoGraph and our Adam (TensorFlow's fused update) for mogp, as in `mogp.fit`. Both choices help mogp, so the
other lines take them away: AutoGraph off on both sides, then also Keras' Adam on both sides, which leaves the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gpflow
import numpy as np
import tensorflow as tf
from common import Timing, interleaved, one_thread, ratio_line

Q, D, BATCH, M, P = 3, 10, 500, 100, 2
STEPS = 20


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (BATCH, P))
    return X, np.sin(X @ rng.normal(size=(P, D)) * 3) + 0.1 * rng.normal(size=(BATCH, D))


def ours(keras: bool = False) -> Timing:
    from mogp import MultiOutputData
    from mogp.inducing import subset_points
    from mogp.kernels import unit_kernels
    from mogp.likelihoods import Gaussian
    from mogp.models import SparseMOGP
    from mogp.optimizers import Adam
    from mogp.priors import LMC

    X, Y = data()
    table = MultiOutputData.from_arrays(X, Y)
    model = SparseMOGP(LMC(unit_kernels(Q, P), functions=D), subset_points(X, M, sets=Q), [Gaussian(0.1)] * D)
    batch = table.full()
    if keras:
        return keras_steps(model.trainable_variables, lambda: model.training_loss(batch), autograph=False)
    adam = Adam(0.001)
    adam.start(model)
    step = tf.function(lambda: adam.step(model, lambda: model.training_loss(batch)), autograph=False)
    return Timing.of(step, STEPS)


def stock(autograph: bool = True) -> Timing:
    X, Y = data()
    Z = X[:M]
    kernels = [gpflow.kernels.SquaredExponential(lengthscales=np.ones(P)) for _ in range(Q)]
    mixed = gpflow.kernels.LinearCoregionalization(kernels, W=np.random.default_rng(1).normal(size=(D, Q)))
    points = [gpflow.inducing_variables.InducingPoints(Z.copy()) for _ in range(Q)]
    model = gpflow.models.SVGP(
        mixed,
        gpflow.likelihoods.Gaussian(0.1),
        gpflow.inducing_variables.SeparateIndependentInducingVariables(points),
        q_mu=np.zeros((M, Q)),
        q_sqrt=np.tile(np.eye(M), (Q, 1, 1)),
        num_data=BATCH,
    )
    batch = (tf.constant(X), tf.constant(Y))
    return keras_steps(model.trainable_variables, lambda: model.training_loss(batch), autograph)


def keras_steps(variables: Sequence[tf.Variable], loss: Callable[[], tf.Tensor], autograph: bool) -> Timing:
    adam = gpflow.keras.tf_keras.optimizers.Adam(0.001)
    adam.build(variables)

    @tf.function(autograph=autograph)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss()
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    return Timing.of(step, STEPS)


if __name__ == "__main__":
    one_thread()
    plain, same = "GPflow without AutoGraph", "mogp with Keras' Adam"
    times = interleaved(
        {"mogp": ours, "GPflow": stock, plain: lambda: stock(autograph=False), same: lambda: ours(keras=True)}
    )
    print(ratio_line("LMC step time, mogp / GPflow", times, "mogp", "GPflow", "step", target="<= 0.75"))
    print(ratio_line("LMC tracing time, mogp / GPflow", times, "mogp", "GPflow", "first", target="<= 1/3"))
    print(ratio_line("LMC tracing time, AutoGraph off in both", times, "mogp", plain, "first", target="none"))
    print(ratio_line("LMC step time, Keras' Adam in both", times, same, "GPflow", "step", target="none"))
    print(
        ratio_line("LMC tracing time, Keras' Adam and no AutoGraph in both", times, same, plain, "first", target="none")
    )
