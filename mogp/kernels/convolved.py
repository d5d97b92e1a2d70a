"""Squared exponential kernels smoothed by Gaussians: the covariances of a convolution process."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.utilities import positive

from mogp.kernels.products import square_distance
from mogp.kernels.stack import KernelStack, rows
from mogp.kernels.unit import unit_kernels


class ConvolvedStack(KernelStack):
    r"""Latent GPs, and the functions of a convolution process that smooth and mix them.

    $$f_j(x) = \sum_{q,i} S^i_{jq}\int\mathcal E(x - r\mid\kappa_j)\,u_q^i(r)\,dr,$$

    where $\mathcal E(\cdot\mid\mathbf A)$ is the Gaussian density with diagonal covariance
    $\mathbf A$. With $L_q = \ell_q^2$

    $$\mathrm{cov}(u_q, u_q) = \bar{\mathcal E}_q(\tau\mid L_q),\quad
      \mathrm{cov}(f_j, u_q^i) = S^i_{jq}\,\bar{\mathcal E}_q(\tau\mid\kappa_j + L_q),$$
    $$\mathrm{cov}(f_j, f_{j'})
      = \sum_{q,i} S^i_{jq}S^i_{j'q}\,\bar{\mathcal E}_q(\tau\mid\kappa_j + \kappa_{j'} + L_q),$$
    $$\bar{\mathcal E}_q(\tau\mid\mathbf A)
      = (|L_q|/|\mathbf A|)^{1/2}\exp(-\tfrac12\tau^\top\mathbf A^{-1}\tau).$$

    So $u_q$ has unit variance, and the functions tend to those of the LMC with weights $S$ as
    $\kappa\to0$. As a stack of kernels, it is that of the $Q$ latent GPs.

    Args:
        functions: $J$.
        latents: $Q$.
        input_dim: $P$.
        lengthscales: start value(s) of $\ell_q$, one for all or one for each.
        smoothing: start value(s) of the widths $\sqrt{\kappa_j}$: one for all, one for each
            function, or `[J, P]`.
        S: `[J, R Q]` start values of the weights, copy by copy; if None, rows of length one in
            random directions.
        rank: independent copies $R$ of every latent GP, the columns of its weights.
        normalised: $\mathcal E$ in place of $\bar{\mathcal E}$, as in the thesis: variances then
            depend on the lengthscales to the power of the number of inputs.
        seed: seed of the draw of $S$.

    >>> import numpy as np
    >>> from mogp.kernels import ConvolvedStack
    >>> kernels = ConvolvedStack(2, 1, input_dim=1, smoothing=[0.01, 2.0], S=[[1.0], [1.0]])
    >>> np.round(kernels.variances(), 3).tolist()
    [1.0, 0.333]
    """

    def __init__(
        self,
        functions: int,
        latents: int,
        input_dim: int,
        lengthscales: npt.ArrayLike = 1.0,
        smoothing: npt.ArrayLike = 0.1,
        S: npt.ArrayLike | None = None,
        rank: int = 1,
        normalised: bool = False,
        seed: int = 0,
    ) -> None:
        if min(functions, latents, input_dim, rank) < 1:
            raise ValueError(
                f"functions={functions}, latents={latents}, input_dim={input_dim}, rank={rank}:"
                " each must be at least 1."
            )
        super().__init__(unit_kernels(latents, input_dim, lengthscales))
        if S is None:
            S = np.random.default_rng(seed).normal(size=(functions, rank * latents))
            S /= np.linalg.norm(S, axis=1, keepdims=True)
        weights = np.asarray(S, dtype=float)
        if weights.shape != (functions, rank * latents):
            raise ValueError(
                f"S has shape {weights.shape}; expected [functions, rank x latents] = "
                f"{(functions, rank * latents)}."
            )
        self.rank, self.normalised = rank, normalised
        self.S = gpflow.Parameter(weights)
        self.smoothing = gpflow.Parameter(
            widths(smoothing, functions, input_dim), transform=positive()
        )

    @property
    def num_functions(self) -> int:
        """The number of functions, `J`."""
        return int(self.S.shape[0])

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """Covariances of the latent GPs: see `KernelStack.K`."""
        K = super().K(X, X2)
        return self._amplitude(self._L())[:, None, None] * K if self.normalised else K

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Variances of the latent GPs: see `KernelStack.K_diag`."""
        variances = super().K_diag(X)
        return self._amplitude(self._L())[:, None] * variances if self.normalised else variances

    def of_functions(self, X: tf.Tensor, X2: tf.Tensor) -> tf.Tensor:
        """Covariance of every function with itself, `[J, N, N']`.

        Args:
            X: `[N, P]` or `[J, N, P]`, with separate inputs for each function.
            X2: `[N', P]` or `[J, N', P]`.
        """
        A = 2 * self._kappa()[:, None] + self._spread()
        by_latent = self._gaussian(A, _each(X, 2), _each(X2, 2))
        return tf.einsum("jq,jqnm->jnm", self._powers(), by_latent)

    def variances(self) -> tf.Tensor:
        """Variances `[J]` of the functions, which are the same at every input."""
        A = 2 * self._kappa()[:, None] + self._spread()
        return tf.reduce_sum(self._powers() * self._amplitude(A), 1)

    def at_one_input(self) -> tf.Tensor:
        """Covariances of all functions at one input, a matrix `[Q, J, J]` for each latent GP."""
        return tf.einsum(
            "jiq,kiq,jkq->qjk", self._by_copy(), self._by_copy(), self._amplitude(self._pairs())
        )

    def between_functions(self, X: tf.Tensor, X2: tf.Tensor) -> tf.Tensor:
        """Covariance of every function at `X` with every function at `X2`, `[J, N, J, N']`.

        Args:
            X: `[N, P]` or `[J, N, P]`, with separate inputs for each function.
            X2: `[N', P]` or `[J, N', P]`.
        """
        left = X[None, None, None] if X.shape.rank == 2 else X[:, None, None]
        right = X2[None, None, None] if X2.shape.rank == 2 else X2[None, :, None]
        by_latent = self._gaussian(self._pairs(), left, right)
        return tf.einsum("jiq,kiq,jkqnm->jnkm", self._by_copy(), self._by_copy(), by_latent)

    def with_latents(self, Z: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[Q, M, J, N]` of latent GPs with functions, before weighting by `S`.

        Args:
            Z: `[M, P]` or `[Q, M, P]` inputs of the latent GPs.
            X: `[N, P]` inputs of the functions.
        """
        return self._with_functions(self._spread(), Z, X)

    def smoothed(self, Z: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
        r"""Covariance `[Q, M, M]` of the latent GPs after smoothing, scaled to variance one.

        $$\exp(-\tfrac12\tau^\top(L_q + 2t_q)^{-1}\tau).$$

        Args:
            Z: `[Q, M, P]`.
            t: `[Q, P]` variances of the Gaussians that smooth.
        """
        A = self._spread() + 2 * t
        return self._gaussian(A, Z, Z) / self._amplitude(A)[:, None, None]

    def with_smoothed(self, Z: tf.Tensor, t: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
        """Covariances as in `with_latents`, for the latent GPs of `smoothed`."""
        scale = tf.math.rsqrt(self._amplitude(self._spread() + 2 * t))
        return scale[:, None, None, None] * self._with_functions(self._spread() + t, Z, X)

    def _with_functions(self, A: tf.Tensor, Z: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
        """`[Q, M, J, N]`, from variances `A [Q, P]` without the functions' smoothing."""
        by_function = self._gaussian(self._kappa()[:, None] + A, _each(Z, 1), _each(X, 2))
        return tf.transpose(by_function, [1, 2, 0, 3])

    def _gaussian(self, A: tf.Tensor, X: tf.Tensor, X2: tf.Tensor) -> tf.Tensor:
        """`[..., N, N']` values for variances `A [..., P]`."""
        scale = tf.math.rsqrt(A)[..., None, :]
        # Rounding may leave distances a little below zero, where the exponential exceeds one.
        distance = tf.maximum(square_distance(X * scale, X2 * scale), 0)
        return self._amplitude(A)[..., None, None] * tf.exp(-0.5 * distance)

    def _amplitude(self, A: tf.Tensor) -> tf.Tensor:
        """What stands before the exponential, `[..., Q]` for `A [..., Q, P]`."""
        logs = tf.math.log(A)
        if self.normalised:
            return tf.exp(-0.5 * tf.reduce_sum(logs + float(np.log(2 * np.pi)), -1))
        return tf.exp(0.5 * tf.reduce_sum(tf.math.log(self._L()) - logs, -1))

    def _pairs(self) -> tf.Tensor:
        """`kappa_j + kappa_k + L_q`, `[J, J, Q, P]`."""
        kappa = self._kappa()
        return kappa[:, None, None] + kappa[:, None] + self._spread()

    def _spread(self) -> tf.Tensor:
        """Squared lengthscales of what the functions smooth, `[Q, P]`."""
        return self._L()

    def _L(self) -> tf.Tensor:
        return tf.square(rows([k.lengthscales for k in self.kernels])[:, 0])

    def _kappa(self) -> tf.Tensor:
        return tf.square(tf.convert_to_tensor(self.smoothing))

    def _by_copy(self) -> tf.Tensor:
        return tf.reshape(self.S, [self.num_functions, self.rank, len(self)])

    def _powers(self) -> tf.Tensor:
        return tf.reduce_sum(tf.square(self._by_copy()), 1)


class SmoothedStack(ConvolvedStack):
    r"""A convolution process over latent GPs that are themselves smoothed ("inducing kernels").

    This is the model of Giraldo, §6.3. With
    $\iota_q^i = W_q\int\mathcal E(\cdot - r\mid t_q)\,u_q^i(r)\,dr$ the functions are
    $f_j = \sum_{q,i}S^i_{jq}\int\mathcal E(x - r\mid\kappa_j)\,\iota_q^i(r)\,dr$, and

    $$\mathrm{cov}(\iota_q, \iota_q) = W_q^2\,\bar{\mathcal E}_q(\tau\mid L_q + 2t_q),$$
    $$\mathrm{cov}(f_j, \iota_q^i)
      = S^i_{jq}W_q^2\,\bar{\mathcal E}_q(\tau\mid\kappa_j + L_q + 2t_q),$$
    $$\mathrm{cov}(f_j, f_{j'}) = \sum_{q,i} S^i_{jq}S^i_{j'q}W_q^2\,
      \bar{\mathcal E}_q(\tau\mid\kappa_j + \kappa_{j'} + L_q + 2t_q).$$

    So it is a convolution process with $L_q + 2t_q$ and $SW$ in place of $L_q$ and $S$: more
    parameters, no more functions. As a stack of kernels, it is that of the $Q$ processes $\iota_q$.

    Args:
        functions, latents, input_dim, options: as in `ConvolvedStack`.
        width: start value(s) of $\sqrt{t_q}$: one for all, one for each latent GP, or `[Q, P]`.
        W: start value(s) of $W_q$, one for all or one for each.

    >>> import numpy as np
    >>> from mogp.kernels import SmoothedStack
    >>> kernels = SmoothedStack(2, 1, input_dim=1, width=0.01, W=3.0, smoothing=0.01, S=[[1], [2]])
    >>> np.round(kernels.variances()).tolist()
    [9.0, 36.0]
    """

    def __init__(
        self,
        functions: int,
        latents: int,
        input_dim: int,
        width: npt.ArrayLike = 0.1,
        W: npt.ArrayLike = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(functions, latents, input_dim, **options)
        self.width = gpflow.Parameter(widths(width, latents, input_dim), transform=positive())
        self.W = gpflow.Parameter(np.broadcast_to(np.asarray(W, dtype=float), (latents,)))

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """Covariances of the smoothed latent GPs: see `KernelStack.K`."""
        return self._gaussian(self._spread(), X, X if X2 is None else X2)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Variances of the smoothed latent GPs: see `KernelStack.K_diag`."""
        return tf.broadcast_to(
            self._amplitude(self._spread())[:, None], [len(self), tf.shape(X)[-2]]
        )

    def _amplitude(self, A: tf.Tensor) -> tf.Tensor:
        return tf.square(self.W) * super()._amplitude(A)

    def _spread(self) -> tf.Tensor:
        return self._L() + 2 * tf.square(self.width)


def widths(given: npt.ArrayLike, count: int, input_dim: int) -> npt.NDArray[np.float64]:
    """Positive widths `[count, P]`, from one for all, `[count]` or `[count, P]`."""
    values = np.asarray(given, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim > 2 or not (values > 0).all() or values.shape[:1] not in ((), (1,), (count,)):
        raise ValueError(
            f"widths have shape {np.shape(given)}; expected positive widths, one or [{count}] or"
            f" [{count}, P]."
        )
    return np.array(np.broadcast_to(values, (count, input_dim)))


def _each(X: tf.Tensor, leading: int) -> tf.Tensor:
    """Inputs `[N, P]` as `[1, 1, N, P]`, to meet functions and latents.

    Sets of functions (`leading` 2) become `[J, 1, N, P]`, sets of latents (1) `[1, Q, N, P]`.
    """
    if X.shape.rank == 2:
        return X[None, None]
    return X[:, None] if leading == 2 else X[None]
