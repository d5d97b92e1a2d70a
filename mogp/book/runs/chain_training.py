"""One compiled training loop for all chains of one form, so that sweeps compile it once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.data import Array, MultiOutputData

if TYPE_CHECKING:
    from mogp.models import LatentChain

__all__ = ["train_chain"]

_WARM_UP = 20


class _Trainer:
    """A compiled training loop for all chains of one form.

    The values and data of each are put into a copy of the first.
    """

    def __init__(self, model: LatentChain, rate: float, gamma: float) -> None:
        import gpflow
        import tensorflow as tf

        from mogp.optimizers import Adam, Natural

        tf.get_logger().setLevel("ERROR")  # it warns of many small graphs, which are meant
        self.model: LatentChain = pickle.loads(pickle.dumps(model))
        self.model.location[:], self.model.scale[:] = 0.0, 1.0
        self.optimizer = Natural(Adam(rate), gamma, warm_up=_WARM_UP) if gamma else Adam(rate)
        self.optimizer.start(self.model)
        self._fresh = [v.numpy() for v in self.optimizer.variables]
        rows = [
            tf.TensorSpec([None, columns], gpflow.default_float())
            for columns in (model.input_dim, len(model.names), len(model.names))
        ]
        signature = [*rows, tf.TensorSpec([], tf.int32)]
        self._run = tf.function(self._steps, input_signature=signature, autograph=False)

    def _steps(self, X: Any, Y: Any, weight: Any, count: Any) -> Any:
        import tensorflow as tf

        from mogp.data.batches import Batch, OutputBatch

        ids = tf.range(tf.shape(X, tf.int64)[0])
        outputs = tuple(
            OutputBatch(None, ids, Y[:, d : d + 1], weight[:, d : d + 1] > 0, weight[:, d], None)
            for d in range(Y.shape[1])
        )

        def one(step: Any, _: Any) -> Any:
            loss = self.optimizer.step(
                self.model, lambda: self.model.training_loss(Batch(X, outputs))
            )
            return step + 1, loss

        return tf.while_loop(
            lambda step, _: step < count, one, (tf.constant(0), tf.constant(0.0, X.dtype))
        )[1]

    def train(self, model: LatentChain, data: MultiOutputData, steps: int) -> float:
        """Train the model in place; the bound before the last step, of standardised targets."""
        import tensorflow as tf

        Y, weight = np.zeros((2, len(data.X), data.num_outputs))
        for d, own in enumerate(data.outputs):
            Y[own.rows, d] = (own.Y[:, 0] - model.location[d]) / model.scale[d]
            weight[own.rows, d] = 1.0
        _assign(_state(self.model), [v.numpy() for v in _state(model)])
        _assign(self.optimizer.variables, self._fresh)
        arrays = (tf.constant(a) for a in (data.X, Y, weight))
        bound = -float(self._run(*arrays, tf.constant(steps)))
        _assign(_state(model), [v.numpy() for v in _state(self.model)])
        return bound


_TRAINERS: dict[Any, _Trainer] = {}


def train_chain(
    model: LatentChain, data: MultiOutputData, steps: int, rate: float, gamma: float
) -> float:
    """Train a chain of one-function likelihoods on all rows.

    Chains of the same form share a compiled loop. Natural gradients of size `gamma` move the
    posterior and Adam the rest; Adam moves everything if `gamma` is zero.
    """
    form = (
        tuple((tuple(v.shape), v.trainable) for v in model.variables),
        tuple(
            (type(k).__name__, reads) for k, reads in zip(model.kernels, model._reads, strict=True)
        ),
        tuple(map(str, model.functions)),
        tuple(type(one).__name__ for one in model.likelihood.likelihoods),
        (model.samples, model.importance, model.posterior.whiten, rate, gamma),
    )
    if form not in _TRAINERS:
        _TRAINERS[form] = _Trainer(model, rate, gamma)
    return _TRAINERS[form].train(model, data, steps)


def _state(model: LatentChain) -> list[Any]:
    """All that training changes: the variables, and where the stream of draws has got to."""
    return [*model.variables, model.generator.state]


def _assign(variables: Sequence[Any], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
