"""The joint posterior: one Gaussian over the inducing variables of all latent GPs together."""

from __future__ import annotations

from typing import ClassVar

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.utilities import triangular

from mogp.errors import UnsupportedError
from mogp.linalg import cholesky
from mogp.posteriors.base import Factors, Posterior, by_latent, squares
from mogp.posteriors.full import Full
from mogp.posteriors.optimum import best_factorised

MOST_JOINT = 3000
"""Variables that a joint posterior is over at most: its covariance has the square of their number
of entries.
"""


class Joint(Posterior):
    r"""A Gaussian over the inducing variables of all latent GPs, with a covariance between them.

    $u_l = L_u v_l$ with $K_{uu} = L_u L_u^\top$, and the whitened variables of all latent GPs, one
    below the other, have $q(v) = N(m, T T^\top)$ with $T$ `[L M, L M]`. With
    $A_l = L_u^{-1} k(Z, X)$ the latent GPs $g_l$ depend on each other under $q$,

    $$\mathrm{cov}(g_l(x), g_{l'}(x)) = \mathbb 1[l = l'](k_{l}(x, x) - a_l^\top a_l)
      + a_l^\top (T T^\top)_{ll'} a_{l'}.$$

    Outputs with Gaussian noise that share latent GPs make these dependent: a `Full` posterior, a
    Gaussian for each latent GP, then has variances that are too small where an output was not
    observed, and too large where it was. `SparseMOGP.joint_posterior` finds the best `Joint` in
    closed form. The prior must mix latent GPs (`LMC`, `ICM`, `Independent`). Parameters are laid
    out as those of a `Full` posterior of one latent GP: `q_mu [L M, 1]`, `q_sqrt [1, L M, L M]`.

    Args:
        replaces: where it was found in closed form, whether the `Full` posterior that it replaced
            was whitened; then `fit` goes back to one before it trains. None where it is to be
            trained itself.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.posteriors import Joint
    >>> posterior = Joint()
    >>> posterior.build(kernels=1, copies=2, inducing=1)
    >>> _ = posterior.q_sqrt.assign([[[1.0, 0.0], [0.6, 0.8]]])
    >>> factors = posterior.factorise(tf.ones([1, 1, 1], tf.float64))
    >>> Kuf, Kff = tf.ones([1, 1, 1], tf.float64), tf.ones([1, 1], tf.float64)
    >>> _, cov = posterior.project(factors, Kuf, Kff)
    >>> np.round(cov[:, 0], 3).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """

    correlated: ClassVar[bool] = True
    whiten: ClassVar[bool] = True

    def __init__(self, replaces: bool | None = None) -> None:
        super().__init__()
        self.replaces = replaces

    def _create(self, latents: int, inducing: int) -> None:
        check_size(latents * inducing)
        dtype, size = gpflow.default_float(), latents * inducing
        self.inducing = inducing
        self.q_mu = gpflow.Parameter(np.zeros((size, 1), dtype))
        self.q_sqrt = gpflow.Parameter(np.eye(size, dtype=dtype)[None], transform=triangular())

    @inherit_check_shapes
    def factorise(self, Kuu: tf.Tensor) -> Factors:
        """One Cholesky factor for each distinct kernel; `scale` is `T [L, M, L M]`."""
        M, T = self.inducing, tf.convert_to_tensor(self.q_sqrt)
        location = tf.reshape(self.q_mu, [self.copies, -1, M])
        scale = tf.reshape(T, [-1, M, T.shape[-1]])
        return Factors(Kuu, cholesky(Kuu, name="Kuu"), location, scale)

    @inherit_check_shapes
    def project(self, factors: Factors, Kuf: tf.Tensor, Kff: tf.Tensor) -> tuple[tf.Tensor, ...]:
        r"""Moments of the latent GPs: see `Posterior.project`.

        Returns:
            With variances `Kff`: mean `[L, N]`, and covariance between latent GPs at each row,
            `[L, N, L]`. With covariances `Kff`: mean, what the inducing variables leave open,
            $k_l - A_l^\top A_l$, `[L, N, N]`, and $A_l^\top T_l$, `[L, N, L M]`, with $T_l$ the
            rows of $T$ that are those of $v_l$.
        """
        A = tf.linalg.triangular_solve(factors.cholesky, Kuf)
        mean = by_latent(tf.linalg.matvec(A, factors.location, transpose_a=True))
        apart, own = self._of_latents(Kff - squares(A, Kff)), self._of_latents(A)
        rows, L = A.shape[-1], own.shape[0]
        if Kff.shape.rank == 3:
            return mean, apart, tf.linalg.matmul(own, factors.scale, transpose_a=True)
        few = rows is not None and rows < factors.scale.shape[-1]
        C = (_from_root if few else _from_covariance)(own, factors.scale)
        return mean, C + tf.eye(L, dtype=C.dtype)[:, None] * apart[..., None]

    def _of_latents(self, values: tf.Tensor) -> tf.Tensor:
        """What copies of a kernel share `[G, …]`, for each latent GP `[L, …]`."""
        return tf.concat([values] * self.copies, 0)

    @inherit_check_shapes
    def kl(self, factors: Factors) -> tf.Tensor:
        r"""`KL[q(v) || p(v)]` in parts, one for each latent GP given those before it, `[L]`.

        $\mathbb E\,\mathrm{KL}[q(v_l \mid v_{<l}) \| p(v_l)] = \tfrac12 [|m_l|^2 + |T_l|^2 - M] -
        \log|T_{ll}|$ with $T_l$ the rows of $T$ that are those of $v_l$; their sum is the KL.
        """
        T = factors.scale
        L, M, everything = T.shape
        diagonal = tf.linalg.diag_part(tf.reshape(T, [everything, everything]))
        logs = tf.reduce_sum(tf.math.log(tf.square(tf.reshape(diagonal, [L, M]))), -1)
        m = tf.reshape(factors.location, [L, M])
        return 0.5 * (
            tf.reduce_sum(tf.square(m), -1) + tf.reduce_sum(tf.square(T), (1, 2)) - logs - float(M)
        )

    @inherit_check_shapes
    def weights(self, factors: Factors) -> tf.Tensor:
        r"""$L_u^{-\top} m_l$: see `Posterior.weights`."""
        alpha = tf.transpose(factors.location, [1, 2, 0])
        return tf.transpose(
            tf.linalg.triangular_solve(factors.cholesky, alpha, adjoint=True), [2, 0, 1]
        )

    @inherit_check_shapes
    def moments(self, factors: Factors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean of the inducing values, and the covariance of those of each latent GP."""
        m = tf.linalg.matvec(factors.cholesky, factors.location)
        T = tf.linalg.matmul(self._of_latents(factors.cholesky), factors.scale)
        return by_latent(m), tf.linalg.matmul(T, T, transpose_b=True)

    def factorised(self, Kuu: tf.Tensor) -> Full:
        r"""The factorised posterior that is best where this one is the best of all.

        With $P = (T T^\top)^{-1}$ it has the same mean, and covariances $(P_{ll})^{-1}$: of all
        $\prod_l q(v_l)$ it is closest to this posterior, in $\mathrm{KL}[\prod_l q(v_l) \| q(v)]$.

        Args:
            Kuu: `[G, M, M]`; only read where the posterior is not to be whitened.
        """
        M, made = self.inducing, Full(whiten=self.replaces is not False)
        m, roots = best_factorised(self.q_mu.numpy()[:, 0], self.q_sqrt.numpy()[0], M)
        if not made.whiten:
            factor = self._of_latents(cholesky(Kuu, name="Kuu")).numpy()
            m, roots = np.einsum("lmn,ln->lm", factor, m), factor @ roots
        made.build(len(m) // self.copies, self.copies, M)
        made.q_mu.assign(m.T)
        made.q_sqrt.assign(roots)
        return made


def _from_root(A: tf.Tensor, T: tf.Tensor) -> tf.Tensor:
    """`a_l' T_l T_k' a_k` at each row, `[L, N, L]`, for fewer rows than variables."""
    told = tf.linalg.matmul(A, T, transpose_a=True)
    return tf.einsum("lnv,knv->lnk", told, told)


def _from_covariance(A: tf.Tensor, T: tf.Tensor) -> tf.Tensor:
    """The same for many rows, without an array of rows by variables by latent GPs."""
    L, M, everything = T.shape
    flat = tf.reshape(T, [everything, everything])
    S = tf.reshape(tf.linalg.matmul(flat, flat, transpose_b=True), [L, M, L, M])
    parts = []
    for number in range(L):
        told = tf.linalg.matmul(A[number], tf.transpose(S[number], [1, 0, 2]), transpose_a=True)
        parts.append(tf.transpose(tf.reduce_sum(told * tf.linalg.matrix_transpose(A), -1)))
    return tf.stack(parts)


def check_size(variables: int) -> None:
    """Raise if a joint posterior would be over too many variables.

    Args:
        variables: inducing variables, of all latent GPs or of the whole grid.

    >>> check_size(300)
    """
    if variables > MOST_JOINT:
        raise UnsupportedError(
            f"a joint posterior of {variables} inducing variables has a covariance of {variables}"
            f" rows; at most {MOST_JOINT} are taken. Use fewer inducing points or latent GPs, or"
            " leave the posterior as it is."
        )
