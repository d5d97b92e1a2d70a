r"""Training without $q(u)$: the bound under the best joint Gaussian, for Gaussian targets.

`closed_form` has the same optimum for a model that is trained; here the bound is a function of the
hyper-parameters and inducing inputs alone, for L-BFGS.
"""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Any

import gpflow
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.batches import Batch
from mogp.kernels import parameters_read_once
from mogp.linalg import cholesky
from mogp.models.answers import is_gaussian
from mogp.posteriors import Full
from mogp.posteriors.joint import MOST_JOINT
from mogp.priors import MixingPrior, SharedAndOwn

if TYPE_CHECKING:
    from mogp.models.sparse import SparseMOGP

TOLERANCE = 1e-4
"""Nats for each target that 50 iterations have to gain."""
MOST_PRODUCTS = 5e8
"""Multiplications of an evaluation of the bound, up to which training without q(u) pays."""


class Collapsed(gpflow.Module):
    r"""A model without its posterior: what is left to train once the best $q(u)$ is put in.

    With whitened inducing variables of all latent GPs, $\phi_{dn} = w_d \otimes a_n$ and
    $a_{ln} = L_l^{-1} k_l(Z_l, x_n)$, noise variances $\sigma_d^2$ and offsets $b_d$,

    $$P = I + \sum_{dn} \sigma_d^{-2}\phi_{dn}\phi_{dn}^\top,\qquad
      h = \sum_{dn} \sigma_d^{-2}(y_{dn} - b_d)\,\phi_{dn},$$
    $$\mathcal L = \sum_{dn} \log N(y_{dn} \mid b_d, \sigma_d^2) + \tfrac12 h^\top P^{-1} h
      - \tfrac12\log|P| - \sum_{dn} \frac{\sum_l w_{dl}^2 k_l(x_n, x_n) - |\phi_{dn}|^2}
      {2\sigma_d^2},$$

    the bound of Titsias (2009) for a mixture of latent GPs.

    With $v = \phi_{dn}$ in two parts, those of latent GPs that outputs share and those of one
    output (`SharedAndOwn`), $P$ has blocks $P_{SS}$, $P_{Sd}$, $P_{dd}$ and none between two
    outputs. They are eliminated one by one: $|P| = |P_{SS} - \sum_d P_{Sd} P_{dd}^{-1} P_{dS}|
    \prod_d |P_{dd}|$, so that time grows as the number of outputs and not as its cube.

    Args:
        model: whose parts these are.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import Gaussian
    >>> from mogp.models import hetmogp_lmc
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
    >>> model = hetmogp_lmc(data, [Gaussian(0.1), Gaussian(0.1)], latents=2, inducing=4)
    >>> before = Collapsed(model).bound(model.batches(data)(0)) - model.jacobian(data)
    >>> rise = model.joint_posterior(data)
    >>> bool(np.isclose(before, model.elbo(data)))
    True
    """

    def __init__(self, model: SparseMOGP) -> None:
        super().__init__()
        self.prior, self.inducing, self.likelihood = model.prior, model.inducing, model.likelihood

    def loss(self, batch: Batch) -> tf.Tensor:
        """The negative bound, with the log density of priors that parameters have."""
        own = [p.log_prior_density() for p in self.trainable_parameters if p.prior is not None]
        return -tf.add_n([self.bound(batch), *own])

    def bound(self, batch: Batch) -> tf.Tensor:
        r"""$\mathcal L$ on all the data, as a batch."""
        with parameters_read_once():
            return self._bound(batch)

    def _bound(self, batch: Batch) -> tf.Tensor:
        counts, sums, squares = self._totals(batch)
        W, variances = tf.convert_to_tensor(self.prior.W), self._variances()
        bias = 0.0 if self.prior.bias is None else tf.convert_to_tensor(self.prior.bias)
        total = tf.reduce_sum(counts, 0)
        misfit = squares - 2 * bias * tf.reduce_sum(sums, 0) + bias**2 * total
        pull, counts = (sums - counts * bias) / variances, counts / variances
        A = self._whitened(batch.X)
        told, logs, explained = (self._apart if self._own else self._together)(A, counts, pull, W)
        prior = self._latents(self.prior.kernels.K_diag(batch.X))
        weights = tf.linalg.matmul(counts, W * W)
        left = tf.reduce_sum(weights * tf.transpose(prior)) - explained
        noise = tf.reduce_sum(total * tf.math.log(2 * pi * variances) + misfit / variances)
        return 0.5 * (told - logs - left - noise)

    @property
    def _own(self) -> bool:
        """Whether every output has a latent GP that no other reads."""
        return isinstance(self.prior, SharedAndOwn)

    def _together(
        self, A: tf.Tensor, counts: tf.Tensor, pull: tf.Tensor, W: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        r"""$h^\top P^{-1} h$, $\log|P|$ and $\sum_{dn} \sigma_d^{-2} |\phi_{dn}|^2$.

        Args:
            A: $a_{ln}$, `[L, M, N]`.
            counts: $\sigma_d^{-2}$ for each target at a row, `[N, D]`.
            pull: $\sigma_d^{-2}(y_{dn} - b_d)$, `[N, D]`.
            W: `[D, L]`.
        """
        P, explained = self._precision(A, counts, W)
        h = tf.linalg.matvec(A, tf.transpose(tf.linalg.matmul(pull, W)))
        return (*_solved(P, tf.reshape(h, [-1, 1])), explained)

    def _apart(
        self, A: tf.Tensor, counts: tf.Tensor, pull: tf.Tensor, W: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The same, output by output: their own latent GPs come last."""
        D = int(W.shape[0])
        Q, M = int(A.shape[0]) - D, int(A.shape[1])
        shared, own = A[:Q], A[Q:]
        weights, scales = W[:, :Q], tf.linalg.diag_part(W[:, Q:])
        counted = own * tf.transpose(counts * scales)[:, None]  # s_d / sigma_d^2 a_dn
        P_own = scales[:, None, None] * tf.linalg.matmul(counted, own, transpose_b=True)
        own_explained = tf.reduce_sum(tf.linalg.trace(P_own))
        L = cholesky(
            P_own + tf.eye(M, dtype=A.dtype), jitter=0.0, name="the precision of own parts"
        )
        z = scales[:, None] * tf.linalg.matvec(own, tf.transpose(pull))
        z = tf.linalg.triangular_solve(L, z[..., None])
        logs = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)))
        told = tf.reduce_sum(tf.square(z))
        if Q == 0:
            return told, logs, own_explained
        P, explained = self._precision(shared, counts, weights)
        h = tf.linalg.matvec(shared, tf.transpose(tf.linalg.matmul(pull, weights)))
        flat = tf.reshape(shared, [Q * M, -1])
        between = tf.linalg.matmul(counted, flat, transpose_b=True)  # [D, M, Q M]
        between *= tf.repeat(weights, M, axis=1)[:, None]
        V = tf.linalg.triangular_solve(L, between)
        P -= tf.einsum("dmi,dmj->ij", V, V)
        h = tf.reshape(h, [-1, 1]) - tf.einsum("dmi,dmo->io", V, z)
        shared_told, shared_logs = _solved(P, h)
        return told + shared_told, logs + shared_logs, explained + own_explained

    def _totals(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Targets at each row and their sum, `[N, D]`, and their sum of squares `[D]`."""
        N = tf.shape(batch.X, tf.int64)[0]
        counts, sums, squares = [], [], []
        for own in batch.outputs:
            y = own.Y[:, 0]
            both = own.weight, own.weight * y
            if own.rows is not None:
                both = tuple(tf.scatter_nd(own.rows[:, None], one, N[None]) for one in both)
            counts.append(both[0])
            sums.append(both[1])
            squares.append(tf.reduce_sum(own.weight * tf.square(y)))
        return tf.stack(counts, 1), tf.stack(sums, 1), tf.stack(squares)

    def _variances(self) -> tf.Tensor:
        nowhere = tf.zeros([1, 0], gpflow.default_float())
        return tf.stack([one.variance_at(nowhere)[0, 0] for one in self.likelihood.likelihoods])

    def _latents(self, values: tf.Tensor) -> tf.Tensor:
        """What copies of a kernel share `[G, …]`, for each latent GP `[L, …]`."""
        return tf.concat([values] * self.prior.copies, 0)

    def _whitened(self, X: Any) -> tf.Tensor:
        """$a_{ln}$, `[L, M, N]`."""
        kernels = self.prior.kernels
        root = cholesky(self.inducing.Kuu(kernels), name="Kuu")
        return self._latents(tf.linalg.triangular_solve(root, self.inducing.Kuf(kernels, X)))

    def _precision(
        self, A: tf.Tensor, counts: tf.Tensor, W: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        r"""$P$ `[L M, L M]`, and $\sum_{dn} \sigma_d^{-2} |\phi_{dn}|^2$."""
        L, M = int(A.shape[0]), int(A.shape[1])
        blocks: dict[tuple[int, int], tf.Tensor] = {}
        for l in range(L):
            for k in range(l + 1):
                together = tf.linalg.matvec(counts, W[:, l] * W[:, k])
                blocks[l, k] = tf.linalg.matmul(A[l] * together, A[k], transpose_b=True)
                blocks[k, l] = tf.transpose(blocks[l, k])
        rows = [tf.concat([blocks[l, k] for k in range(L)], 1) for l in range(L)]
        told = tf.concat(rows, 0)
        return told + tf.eye(L * M, dtype=told.dtype), tf.linalg.trace(told)


def _solved(P: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    r"""$h^\top P^{-1} h$ and $\log|P|$."""
    root = cholesky(P, jitter=0.0, name="the precision of q(u)")
    told = tf.reduce_sum(tf.square(tf.linalg.triangular_solve(root, h)))
    return told, 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)))


def collapses(model: SparseMOGP, data: MultiOutputData) -> bool:
    """Whether a model can and should be trained without its posterior: Gaussian targets of
    constant noise, a prior that mixes, and a bound that takes at most 500 million multiplications.

    Args:
        model: any.
        data: to train on.
    """
    prior = model.prior
    if not isinstance(prior, MixingPrior) or prior.W is None:
        return False
    own = prior.num_functions if isinstance(prior, SharedAndOwn) else 0
    M = model.inducing.num_inducing
    return (
        all(map(constant_noise, model.likelihood.likelihoods))
        and isinstance(model.posterior, Full)
        and model.kl_weight == 1
        and affordable(prior.num_latents - own, own, M, data.X.shape[0])
        and all(one.Y.shape[1] == 1 for one in data.outputs)
    )


def affordable(shared: int, own: int, inducing: int, rows: int) -> bool:
    """Whether the bound takes few enough multiplications, and its posterior few enough numbers.

    Args:
        shared: latent GPs that outputs share.
        own: latent GPs of one output each.
        inducing: inducing inputs of each.
        rows: of the data.

    >>> affordable(shared=3, own=7, inducing=50, rows=256)
    True
    >>> affordable(shared=3, own=1000, inducing=50, rows=256)
    False
    """
    blocks = shared * (shared + 1) / 2 + own * (shared + 1)
    solved = (shared * inducing) ** 3 / 3 + own * inducing**3 * (1 + shared + shared**2)
    return (
        blocks * inducing**2 * rows + solved <= MOST_PRODUCTS
        and (shared + own) * inducing <= MOST_JOINT
    )


def constant_noise(likelihood: Any) -> bool:
    """Whether it is Gaussian noise with a variance that is one number.

    >>> from mogp.likelihoods import Gaussian, HeteroscedasticGaussian
    >>> constant_noise(Gaussian()), constant_noise(HeteroscedasticGaussian())
    (True, False)
    """
    return is_gaussian(likelihood) and all(p.shape.rank == 0 for p in likelihood.parameters)
