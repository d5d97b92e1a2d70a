"""A training step of MLGPF at the size of Delicious, against the same bound written out plainly.

500 inputs (18 of them in a row), 983 labels (19 a row), 12 920 rows, P=30 factors, M=100 inducing points on the unit
sphere, batches of 500, ARD kernel, full posterior, all labels at every step, one thread, random data. The peer is what
one writes first: un-whitened, float64, a Cholesky factor for each factor's own copy of Kuu, a softplus for each of ten
nodes, automatic gradients, Keras's Adam. Both draw their batches inside the graph, from sparse inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf
from common import Timing, interleaved, one_thread, ratio_line
from gpflow.keras import tf_keras
from scipy.sparse import csr_array

from mogp import LabelData
from mogp.data.batches import Batch
from mogp.inducing import InducingPoints
from mogp.models import mlgpf
from mogp.optimizers import Adam

N, D, K, P, M, BATCH, NODES = 12_920, 500, 983, 30, 100, 500, 10
WORDS, LABELS = 18, 19
STEPS = 10


def random_data() -> LabelData:
    rng = np.random.default_rng(0)

    def sparse(width: int, entries: int) -> csr_array:
        columns = np.argsort(rng.random((N, width)), axis=1)[:, :entries]
        return csr_array((np.ones(N * entries), columns.ravel(), np.arange(N + 1) * entries), shape=(N, width))

    return LabelData.of(sparse(D, WORDS), sparse(K, LABELS), normalise=True)


DATA = random_data()
Z = np.random.default_rng(1).random((M, D))


def ours(dtype: type = np.float64, **options: object) -> Timing:
    with gpflow.config.as_context(gpflow.config.Config(float=dtype, jitter=1e-6)):
        points = InducingPoints(Z, unit=True)
        model = mlgpf(DATA, latents=P, inducing=points, **options)  # type: ignore[arg-type]
        adam, source, count = Adam(0.01), DATA.batches(BATCH), tf.Variable(0, dtype=tf.int64)
        adam.start(model)

        def step() -> tf.Tensor:
            batch = source(count.assign_add(1))
            return adam.step(model, lambda: model.training_loss(batch))

        return Timing.of(tf.function(step, autograph=False), STEPS)


def plainly() -> Timing:
    rng, dtype = np.random.default_rng(2), tf.float64
    points = tf.Variable(Z, dtype=dtype)
    raw_weights = tf.Variable(np.ones(D), dtype=dtype)
    mean = tf.Variable(0.5 * rng.normal(size=(P, M)), dtype=dtype)
    root = tf.Variable(np.tile(0.2 * np.eye(M), (P, 1, 1)), dtype=dtype)
    loadings = tf.Variable(rng.normal(size=(K, P)) / np.sqrt(P), dtype=dtype)
    bias = tf.Variable(np.zeros(K), dtype=dtype)
    variables = [points, raw_weights, mean, root, loadings, bias]
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    adam, source, count = tf_keras.optimizers.Adam(0.01), DATA.batches(BATCH), tf.Variable(0, dtype=tf.int64)

    def distances(A: tf.Tensor, B: tf.Tensor) -> tf.Tensor:
        a, b = tf.reduce_sum(A**2, -1), tf.reduce_sum(B**2, -1)
        return a[:, None] + b - 2 * tf.matmul(A, B, transpose_b=True)

    def loss(batch: Batch) -> tf.Tensor:
        labels = batch.outputs[0].Y
        scale = tf.sqrt(tf.nn.softplus(raw_weights))
        A, X = tf.math.l2_normalize(points, axis=1) * scale, tf.sparse.to_dense(batch.X) * scale
        Kuu, Kuf = tf.exp(-0.5 * distances(A, A)), tf.exp(-0.5 * distances(A, X))
        L = tf.linalg.cholesky(tf.tile(Kuu[None], [P, 1, 1]) + 1e-6 * tf.eye(M, dtype=dtype))
        S = tf.linalg.band_part(root, -1, 0)
        first = tf.linalg.triangular_solve(L, tf.tile(Kuf[None], [P, 1, 1]))
        second = tf.linalg.triangular_solve(L, first, adjoint=True)
        m = tf.einsum("pmb,pm->bp", second, mean)
        s = 1 - tf.reduce_sum(first**2, 1) + tf.reduce_sum(tf.matmul(S, second, transpose_a=True) ** 2, 1)
        f, v = (
            tf.matmul(m, loadings, transpose_b=True) + bias,
            tf.matmul(s, loadings**2, transpose_a=True, transpose_b=True),
        )
        sign = tf.tensor_scatter_nd_update(
            tf.ones([BATCH, K], dtype), tf.stack([labels.row, labels.label], 1), -tf.ones_like(labels.row, dtype)
        )
        sd, data = tf.sqrt(v), tf.zeros([], dtype)
        for x, w in zip(nodes, weights, strict=True):
            data += w * tf.reduce_sum(tf.nn.softplus(sign * (f + x * sd)))
        alpha, T = tf.linalg.triangular_solve(L, mean[..., None]), tf.linalg.triangular_solve(L, S)
        logs = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L))) - tf.reduce_sum(
            tf.math.log(tf.linalg.diag_part(S) ** 2)
        )
        return N / BATCH * data + 0.5 * (tf.reduce_sum(alpha**2) + tf.reduce_sum(T**2) + logs - P * M)

    def step() -> tf.Tensor:
        batch = source(count.assign_add(1))
        with tf.GradientTape() as tape:
            value = loss(batch)
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    adam.build(variables)
    return Timing.of(tf.function(step, autograph=False), STEPS)


if __name__ == "__main__":
    one_thread()
    runs: dict[str, Callable[[], Timing]] = {
        "plain": plainly,
        "mogp": ours,
        "mogp float32": lambda: ours(np.float32),
        "mogp, 100 sampled": lambda: ours(negatives=100),
    }
    times = interleaved(runs)
    print(ratio_line("step of MLGPF at the size of Delicious, mogp / plain", times, "mogp", "plain", "step", "<= 0.4"))
    print(ratio_line("the same in float32", times, "mogp float32", "plain", "step", "<= 0.18"))
    print(ratio_line("the same with 100 sampled labels", times, "mogp, 100 sampled", "plain", "step", "none"))
    print(ratio_line("to the end of the first step", times, "mogp", "plain", "first", "none"))
