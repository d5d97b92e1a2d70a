"""Step time of a mini-batch step as the data grow: it should not depend on the number of rows.

Prints the ratio of the step time at a million rows to that at a thousand (batch 500, M=50, two outputs with their own
inputs), and beside it the same for batches drawn by shuffling all rows in the graph, the obvious way.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from common import Timing, interleaved, one_thread, ratio_line

SMALL, LARGE, BATCH = 1_000, 1_000_000, 500


def step_time(rows: int, shuffle: bool) -> Timing:
    from mogp import MultiOutputData
    from mogp.data.batches import Batch
    from mogp.likelihoods import Gaussian
    from mogp.models import hetmogp_lmc
    from mogp.optimizers import Adam

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 2))
    data = MultiOutputData.from_list([(X, np.sin(5 * X[:, 0])), (1 - X, np.cos(5 * X[:, 1]))])
    few = data.take({name: np.arange(1000) for name in data.names})
    model = hetmogp_lmc(few, [Gaussian(0.1), Gaussian(0.1)], latents=2, inducing=50, scaling=None)
    source = data.batches(BATCH)
    inputs = tf.constant(data.X)
    step = tf.Variable(0, dtype=tf.int64)
    adam = Adam(0.001)
    adam.start(model)

    def shuffled_batch() -> Batch:
        whole = source(step)
        picked = [tf.random.shuffle(tf.range(rows))[:BATCH] + d * rows for d in range(2)]
        return Batch(tf.gather(inputs, tf.concat(picked, 0)), whole.outputs)

    @tf.function(autograph=False)
    def one() -> tf.Tensor:
        batch = shuffled_batch() if shuffle else source(step.assign_add(1))
        return adam.step(model, lambda: model.training_loss(batch))

    return Timing.of(one, 10)


if __name__ == "__main__":
    one_thread()
    runs = {
        "1e3 rows": lambda: step_time(SMALL, False),
        "1e6 rows": lambda: step_time(LARGE, False),
        "1e6 rows, shuffling": lambda: step_time(LARGE, True),
    }
    times = interleaved(runs)
    print(ratio_line("mini-batch step, a million rows / a thousand", times, "1e6 rows", "1e3 rows", "step", "about 1"))
    print(ratio_line("the same, shuffling all rows", times, "1e6 rows, shuffling", "1e3 rows", "step", "none"))
