"""A neural network for each output: the baseline of HMOGP-LV that is no GP."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from mogp.data import Array, MultiOutputData
from mogp.priors import Marginals


class Networks:
    """For each output a network `x → y` with two hidden layers of 200 rectified units.

    Squared error, Adam, all rows of the output in every step, replicas pooled. It has no predictive
    variance: NaN.

    Args:
        epochs: steps of Adam.
        rate: of Adam.
        seed: of the start values.
    """

    def __init__(self, epochs: int = 10_000, rate: float = 0.01, seed: int = 0) -> None:
        if epochs < 1:
            raise ValueError(f"epochs={epochs}; at least one is needed.")
        self.epochs, self.rate, self.seed = epochs, rate, seed

    def fit(self, data: MultiOutputData) -> Networks:
        """Train a network for each output of the data."""
        self.names, self.networks = data.names, []
        for d, own in enumerate(data.outputs):
            network = MLPRegressor(
                hidden_layer_sizes=(200, 200),
                batch_size=len(own),
                learning_rate_init=self.rate,
                alpha=0.0,
                max_iter=self.epochs,
                n_iter_no_change=self.epochs,
                tol=0.0,
                random_state=self.seed + d,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                self.networks.append(network.fit(data.inputs(d), own.Y[:, 0]))
        return self

    def predict_y(
        self, Xnew: npt.ArrayLike, output: int | None = None, *, replica: Any = None
    ) -> Marginals:
        """Predictions `[N, D]`, or `[N, 1]` of one output; the variances are NaN."""
        X: Array = np.asarray(Xnew, float)
        X = X[:, None] if X.ndim == 1 else X
        wanted = self.networks if output is None else [self.networks[output]]
        mean = np.stack([network.predict(X) for network in wanted], -1)
        return Marginals(tf.constant(mean), tf.constant(np.full(mean.shape, np.nan)))

    def predictions(self, data: MultiOutputData, quantiles: Sequence[float] = ()) -> pd.DataFrame:
        """Observed targets beside their predictions, as `MOGP.predictions` has them."""
        parts = []
        for d, own in enumerate(data.outputs):
            mean = self.predict_y(data.inputs(d), self.names.index(own.name)).mean[:, 0]
            inputs = {name: data.inputs(d)[:, p] for p, name in enumerate(data.input_names)}
            table: dict[str, Any] = {"row": own.rows, "replica": own.replica, **inputs}
            table |= {
                "output": own.name,
                "target": 0,
                "observed": own.Y[:, 0],
                "mean": mean,
                "sd": np.nan,
            }
            parts.append(pd.DataFrame(table))
        return pd.concat(parts, ignore_index=True)
