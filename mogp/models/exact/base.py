"""What exact models share: they hold their data, and their predictions are Gaussian."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mogp.data import Array, MultiOutputData
from mogp.likelihoods import Gaussian
from mogp.linalg import cholesky
from mogp.models.base import MOGP
from mogp.models.choices import ScalingChoice, in_units
from mogp.models.exact.given import ToldGaussian
from mogp.models.stages import Stage
from mogp.optimizers import LBFGS
from mogp.priors import Marginals


class ExactMOGP(MOGP):
    """A model with Gaussian noise that holds all its data, and is trained on nothing else.

    A family has the evidence of scaled data (`_evidence`), the marginals of its functions
    (`_marginals`), their joint distribution (`_joint`) and its noise (`_noise`).

    Args:
        data: one target column an output, in their own units.
        scaling: see `hetmogp_lmc`.
    """

    _untraced = ("_solved",)

    def __init__(self, data: MultiOutputData, scaling: ScalingChoice) -> None:
        super().__init__()
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(
                f"an exact GP takes one target column an output; {', '.join(wide[:5])} has more."
            )
        self.schema = data.schema
        self._input_dim = data.input_dim
        self._fingerprint = data.fingerprint
        self.scaling = in_units(scaling, data, [Gaussian()] * data.num_outputs).scaled_by
        self._log_scale = self.jacobian(data)
        self._solved: tuple[bytes, Any] | None = None

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, without a replica number."""
        return self._input_dim

    # --- training

    def elbo(self, data: Any = None) -> tf.Tensor:
        """The log evidence of the data that the model holds, `log p(y)`."""
        return self._evidence() - self._log_scale

    def maximum_log_likelihood_objective(self, data: Any = None) -> tf.Tensor:
        """The log evidence; without data, as `fit` asks for it, that of the scaled data."""
        return self._evidence() if data is None else self.elbo(data)

    @abstractmethod
    def _evidence(self) -> tf.Tensor:
        """The log evidence of scaled data."""

    def check(self, data: MultiOutputData) -> None:
        """Raise unless these are the data that the model holds."""
        self.schema.check(data.schema)
        if data.fingerprint != self._fingerprint:
            raise ValueError(
                f"{type(self).__name__} holds the data it was built on, and these are others; build"
                " a new model for them."
            )

    def batches(
        self, data: MultiOutputData, size: Any = None, seed: int = 0
    ) -> Callable[[Any], None]:
        """For `fit`: there are no batches, the model has its data."""
        if size is not None:
            raise self.unsupported(
                "trains on all its data", "Use batch_size=None, or a sparse model (hgp_ind)."
            )
        return lambda step: None

    def stages(self, data: Any, size: Any = None, seed: int = 0) -> list[Stage]:
        """One, by L-BFGS unless `fit` is told otherwise."""
        return [Stage("model", lambda: self.problem(data, size, seed), LBFGS())]

    def _once(self, solve: Callable[[], Any]) -> Any:
        """The result of `solve`, computed again only when a parameter has changed."""
        state = b"".join(np.asarray(v).tobytes() for v in self.variables)
        if self._solved is None or self._solved[0] != state:
            self._solved = (state, solve())
        return self._solved[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solved": None}

    # --- prediction

    @abstractmethod
    def _marginals(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Mean and variance `[N, len(outputs)]` of the functions."""

    @abstractmethod
    def _joint(self, X: tf.Tensor, outputs: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `[B, n]` and covariance `[B, n, n]` of the functions, output after output.

        Either all in one block (`B = 1`), or, where outputs are independent, a block each.
        """

    @abstractmethod
    def _noise(self, outputs: Sequence[int]) -> tf.Tensor:
        """Covariance `[k, k]` of the noise of some outputs at one row."""

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        if not full_cov:
            return self._marginals(X, outputs)
        mean, cov = self._joint(X, outputs)
        N = X.shape[0]
        if cov.shape[0] != len(outputs):
            starts = range(0, N * len(outputs), N) if N else [0] * len(outputs)
            cov = tf.stack([cov[0, s : s + N, s : s + N] for s in starts])
        return Marginals(tf.transpose(tf.reshape(mean, [len(outputs), N])), cov)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        f = self._marginals(X, outputs)
        return Marginals(f.mean, f.var + tf.linalg.diag_part(self._noise(outputs)))

    def _log_densities(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        X, rows = self.observed_at(data)
        found = {}
        for d, (own, where) in enumerate(zip(data.outputs, rows, strict=True)):
            mean, var = (a[:, 0] for a in self._predict_y(tf.gather(X, where), [d]))
            y = tf.constant(own.Y[:, 0], mean.dtype)
            found[own.name] = -0.5 * (tf.math.log(2 * np.pi * var) + tf.square(y - mean) / var)
        return found

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        mean, cov = self._joint(X, outputs)
        L = cholesky(cov, name="the covariance of the draws")
        shape = [samples, *mean.shape]
        normal = tf.random.stateless_normal(shape, [seed, 0], dtype=mean.dtype)
        drawn = mean + tf.einsum("bij,sbj->sbi", L, normal)
        return tf.transpose(tf.reshape(drawn, [samples, len(outputs), X.shape[0]]), [0, 2, 1])

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        F = self._draw_f(X, outputs, samples, seed)
        normal = tf.random.stateless_normal(tf.shape(F), [seed, 1], dtype=F.dtype)
        root = tf.linalg.cholesky(self._noise(outputs))
        return F + tf.linalg.matmul(normal, root, transpose_b=True)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        mean, var = self._predict_y(X, [output])
        shape = [samples, *mean.shape]
        return mean + tf.sqrt(var) * tf.random.stateless_normal(shape, [seed, 2], dtype=mean.dtype)

    def _conditioned(self, X: tf.Tensor, known: Mapping[int, Array]) -> ToldGaussian:
        D = len(self.names)
        mean, cov = self._joint(X, range(D))
        if cov.shape[0] == D > 1:
            cov = cov[:, :, None] * tf.eye(D, dtype=cov.dtype)[:, None, :, None]
        return ToldGaussian(
            tf.reshape(mean, [D, -1]),
            tf.reshape(cov, [mean.shape.num_elements()] * 2),
            self._noise(range(D)),
            known,
        )
