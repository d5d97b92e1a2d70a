"""Exact multi-output regression for small data: the reference that sparse models are held
against.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Coregion, Kernel
from gpflow.models import GPR
from gpflow.utilities import add_likelihood_noise_cov

from mogp.data import MultiOutputData
from mogp.kernels import on_inputs
from mogp.linalg import log_evidence


class NoiseByOutput(gpflow.functions.Function):
    """Noise variance of a row, read off the output number in its last input column."""

    def __init__(self, outputs: int, variance: float) -> None:
        super().__init__()
        self.variances = gpflow.Parameter(
            np.full(outputs, variance), transform=gpflow.utilities.positive(lower=1e-6)
        )

    def __call__(self, X: tf.Tensor) -> tf.Tensor:
        """`[..., N, 1]` for `X [..., N, P + 1]`."""
        return tf.gather(self.variances, tf.cast(X[..., -1:], tf.int32))


class ExactLMC(GPR):
    r"""Exact LMC regression: $\mathrm{cov}(f_d(x), f_{d'}(x')) = \sum_q (B_q)_{dd'} k_q(x, x')$,
    noise $\sigma_d^2$.

    $B_q = A_q A_q^\top$ with `A_q [D, rank]`; one kernel gives the ICM. A GPflow `GPR` on inputs
    with the output number as a last column, so everything GPflow does with a `GPR` works; time
    grows as $(\sum_d N_d)^3$.

    Args:
        data: one target column an output.
        kernels: one kernel on the inputs for each latent process.
        rank: columns of each `A_q`.
        A: `[Q, D, rank]` start values of the weights; drawn from a standard normal if None.
        noise: start value of every noise variance.
        seed: of that draw.
    """

    def __init__(
        self,
        data: MultiOutputData,
        kernels: Sequence[Kernel],
        rank: int = 1,
        A: npt.ArrayLike | None = None,
        noise: float = 0.1,
        seed: int = 0,
    ) -> None:
        P, D = data.input_dim, data.num_outputs
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(
                f"exact regression takes one target column an output; {', '.join(wide)} has more."
            )
        if A is None:
            A = np.random.default_rng(seed).normal(size=(len(kernels), D, rank))
        weights = np.asarray(A, dtype=float)
        if weights.shape != (len(kernels), D, rank):
            raise ValueError(
                f"A has shape {weights.shape}; expected (kernels, outputs, rank) ="
                f" {(len(kernels), D, rank)}."
            )
        parts = []
        for kernel, A_q in zip(kernels, weights, strict=True):
            mix = Coregion(output_dim=D, rank=rank, active_dims=[P])
            mix.W.assign(A_q)
            mix.kappa = gpflow.Parameter(np.zeros(D), trainable=False)
            parts.append(on_inputs(gpflow.utilities.deepcopy(kernel), P) * mix)
        X = np.concatenate(
            [
                np.column_stack([data.inputs(d), np.full(len(o), d)])
                for d, o in enumerate(data.outputs)
            ]
        )
        Y = np.concatenate([o.Y for o in data.outputs])
        likelihood = gpflow.likelihoods.Gaussian(variance=NoiseByOutput(D, noise))
        super().__init__((X, Y), reduce(add, parts), likelihood=likelihood)
        self.names = data.names

    def log_marginal_likelihood(self) -> tf.Tensor:
        """The log evidence of all outputs together, `log p(y)`."""
        X, Y = self.data
        K = add_likelihood_noise_cov(self.kernel(X), self.likelihood, X)
        return log_evidence((Y - self.mean_function(X))[:, 0], K)

    def at(self, Xnew: npt.ArrayLike, output: int) -> tf.Tensor:
        """Inputs for `predict_f` and `predict_y` of one output: `Xnew [N, P]` with the output's
        number appended.
        """
        X = np.asarray(Xnew, dtype=float)
        X = X[:, None] if X.ndim == 1 else X
        return tf.constant(np.column_stack([X, np.full(len(X), output)]))
