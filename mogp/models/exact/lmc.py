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
from gpflow.kernels import Coregion, SquaredExponential
from gpflow.utilities import positive

from mogp.data import MultiOutputData
from mogp.kernels import on_inputs
from mogp.linalg import cholesky, log_evidence
from mogp.models.choices import KernelChoice, ScalingChoice, chosen_kernels
from mogp.models.exact.base import ExactMOGP
from mogp.models.lengthscales import start_lengthscales
from mogp.models.row_effect import described_effect, start_effect
from mogp.priors import Marginals

_LEAST_NOISE = 1e-6


class ExactLMC(ExactMOGP):
    r"""Exact LMC regression: $\mathrm{cov}(f_d(x), f_{d'}(x')) = \sum_q (B_q)_{dd'} k_q(x, x')$,
    noise $\sigma_d^2$.

    $B_q = A_q A_q^\top$ with `A_q [D, rank]`; one latent GP gives the ICM. Rows are `[x, d]`: the
    inputs, and the number of the output as last column. Time grows as $(\sum_d N_d)^3$.

    With a row effect, $y_{dn} = f_d(x_n) + r_{dn} + \epsilon_{dn}$: what the outputs of row $n$ of
    the data share besides their functions, $r_n \sim N(0, W_r W_r^\top)$, independent between
    rows. Outputs known at a row then say more of the others there (`given=`).

    Args:
        data: one target column an output.
        latents: latent GPs, $Q$; as many as there are kernels if `kernel` is a sequence.
        rank: columns of each `A_q`.
        kernel: on the inputs; a copy for each latent GP, a function that makes one, or a sequence
            of them. Squared exponential if None.
        A: `[Q, D, rank]` start values of the weights; drawn from a standard normal if None.
        noise: start value of every noise variance, of scaled targets.
        row_effect: columns of $W_r$, `effect [D, row_effect]`; 0 for no effect.
        scaling: as in `hetmogp_lmc`.
        seed: of the draws of start values.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 5)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
    >>> model = ExactLMC(data, rank=2)
    >>> model.predict_y([0.5]).mean.shape.as_list()
    [1, 2]
    """

    def __init__(
        self,
        data: MultiOutputData,
        *,
        latents: int | None = None,
        rank: int = 1,
        kernel: KernelChoice = None,
        A: npt.ArrayLike | None = None,
        noise: float = 0.1,
        row_effect: int = 0,
        scaling: ScalingChoice = "standard",
        seed: int = 0,
    ) -> None:
        super().__init__(data, scaling)
        data = self.scaled(data)
        P, D = data.input_dim, data.num_outputs
        Q = latents or (len(kernel) if isinstance(kernel, Sequence) else 1)
        width = start_lengthscales(data.X, "range")
        own = chosen_kernels(
            kernel, Q, lambda: [SquaredExponential(lengthscales=width) for _ in range(Q)]
        )
        if A is None:
            A = np.random.default_rng(seed).normal(size=(Q, D, rank))
        weights = np.asarray(A, dtype=float)
        if weights.shape != (Q, D, rank):
            raise ValueError(
                f"A has shape {weights.shape}; expected (kernels, outputs, rank) = {(Q, D, rank)}."
            )
        parts = []
        for one, A_q in zip(own, weights, strict=True):
            mix = Coregion(output_dim=D, rank=rank, active_dims=[P])
            mix.W.assign(A_q)
            mix.kappa = gpflow.Parameter(np.zeros(D), trainable=False)
            parts.append(on_inputs(one, P) * mix)
        self.kernel = reduce(add, parts)
        self.noise = gpflow.Parameter(np.full(D, noise), transform=positive(lower=_LEAST_NOISE))
        self._X = np.concatenate(
            [
                np.column_stack([data.inputs(d), np.full(len(o), d)])
                for d, o in enumerate(data.outputs)
            ]
        )
        self._targets = np.concatenate([o.Y[:, 0] for o in data.outputs])
        self.effect = (
            gpflow.Parameter(start_effect(data, row_effect, np.full(D, noise), seed))
            if row_effect
            else None
        )
        self._row = np.concatenate([o.rows for o in data.outputs])

    def choices(self) -> dict[str, str]:
        """Kernel and sizes, in words."""
        summed = isinstance(self.kernel, gpflow.kernels.Sum)
        parts = self.kernel.kernels if summed else [self.kernel]
        return {
            "prior": f"LMC: {len(parts)} latent GPs, exact, {len(self._targets)} rows in all",
            "likelihood": "Gaussian, a variance for each output" + described_effect(self.effect),
        }

    def _evidence(self) -> tf.Tensor:
        """Of all outputs together."""
        return log_evidence(tf.constant(self._targets, gpflow.default_float()), self._covariance())

    def _covariance(self) -> tf.Tensor:
        K = self.kernel(tf.constant(self._X, gpflow.default_float()))
        output = self._X[:, -1].astype(np.int64)
        noise = tf.gather(tf.convert_to_tensor(self.noise), output)
        if self.effect is not None:
            W = tf.gather(tf.convert_to_tensor(self.effect), output)
            same = tf.constant(self._row[:, None] == self._row)
            shared = tf.linalg.matmul(W, W, transpose_b=True)
            K += tf.where(same, shared, tf.zeros_like(shared))
        return tf.linalg.set_diag(K, tf.linalg.diag_part(K) + noise)

    def _noise(self, outputs: Sequence[int]) -> tf.Tensor:
        own = tf.linalg.diag(tf.gather(tf.convert_to_tensor(self.noise), list(outputs)))
        if self.effect is None:
            return own
        W = tf.gather(tf.convert_to_tensor(self.effect), list(outputs))
        return own + tf.linalg.matmul(W, W, transpose_b=True)

    def _rows(self, X: tf.Tensor, outputs: Sequence[int]) -> tf.Tensor:
        """`[len(outputs) N, P + 1]`: the inputs for output after output."""
        number = tf.repeat(tf.constant(list(outputs), X.dtype), X.shape[0])
        return tf.concat([tf.tile(X, [len(outputs), 1]), number[:, None]], 1)

    def _projected(self, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean at rows, and what the data take off their covariance, as a factor."""

        def solve() -> tuple[tf.Tensor, tf.Tensor]:
            L = cholesky(self._covariance(), jitter=0.0, name="the covariance of the data")
            y = tf.constant(self._targets[:, None], L.dtype)
            return L, tf.linalg.triangular_solve(L, y)

        L, alpha = self._once(solve)
        A = tf.linalg.triangular_solve(L, self.kernel(tf.constant(self._X, at.dtype), at))
        return tf.linalg.matmul(A, alpha, transpose_a=True)[:, 0], A

    def _marginals(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        at = self._rows(X, outputs)
        mean, A = self._projected(at)
        var = self.kernel(at, full_cov=False) - tf.reduce_sum(tf.square(A), 0)
        shape = [len(outputs), X.shape[0]]
        return Marginals(*(tf.transpose(tf.reshape(a, shape)) for a in (mean, tf.nn.relu(var))))

    def _joint(self, X: tf.Tensor, outputs: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
        at = self._rows(X, outputs)
        mean, A = self._projected(at)
        return mean[None], (self.kernel(at) - tf.linalg.matmul(A, A, transpose_a=True))[None]
