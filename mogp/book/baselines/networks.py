"""A neural network for each output: the baseline of HMOGP-LV that is no GP."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from mogp.data import MultiOutputData
from mogp.models.replicas import ReadsReplicas
from mogp.priors import Marginals


class Networks(ReadsReplicas):
    """For each output a network `x → y` with two hidden layers of 200 rectified units.

    It is trained when it is made: squared error, Adam, all rows of the output in every step,
    replicas pooled. It has no predictive variance: NaN.

    Args:
        data: the outputs.
        epochs: steps of Adam.
        rate: of Adam.
        seed: of the start values.
    """

    def __init__(
        self, data: MultiOutputData, epochs: int = 10_000, rate: float = 0.01, seed: int = 0
    ) -> None:
        if epochs < 1:
            raise ValueError(f"epochs={epochs}; at least one is needed.")
        self.names, self._input_dim = data.names, data.input_dim
        self.networks = []
        for d, own in enumerate(data.outputs):
            network = MLPRegressor(
                hidden_layer_sizes=(200, 200),
                batch_size=len(own),
                learning_rate_init=rate,
                alpha=0.0,
                max_iter=epochs,
                n_iter_no_change=epochs,
                tol=0.0,
                random_state=seed + d,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                self.networks.append(network.fit(data.inputs(d), own.Y[:, 0]))

    def moments(self, X: tf.Tensor, outputs: Sequence[int], noise: bool) -> Marginals:
        """Predictions `[N, len(outputs)]`; the variances are NaN."""
        x = np.asarray(X)[:, :-1]
        mean = np.stack([self.networks[d].predict(x) for d in outputs], -1)
        return Marginals(tf.constant(mean), tf.constant(np.full(mean.shape, np.nan)))
