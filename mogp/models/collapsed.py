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
from mogp.priors import MixingPrior

if TYPE_CHECKING:
    from mogp.models.sparse import SparseMOGP

MOST_COLLAPSED = 600
"""Inducing variables of all latent GPs up to which training without q(u) pays."""
_MOST_ROWS = 2000


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
        pull = tf.linalg.matmul((sums - counts * bias) / variances, W)
        A = self._whitened(batch.X)
        h = tf.linalg.matvec(A, tf.transpose(pull))
        P, explained = self._precision(A, counts / variances, W)
        root = cholesky(P, name="the precision of q(u)")
        h = tf.reshape(h, [-1, 1])
        told = tf.reduce_sum(tf.square(tf.linalg.triangular_solve(root, h)))
        logs = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)))
        prior = self._latents(self.prior.kernels.K_diag(batch.X))
        weights = tf.linalg.matmul(counts / variances, W * W)
        left = tf.reduce_sum(weights * tf.transpose(prior)) - explained
        noise = tf.reduce_sum(total * tf.math.log(2 * pi * variances) + misfit / variances)
        return 0.5 * (told - logs - left - noise)

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


def collapses(model: SparseMOGP, data: MultiOutputData) -> bool:
    """Whether a model can and should be trained without its posterior: Gaussian targets of
    constant noise, a prior that mixes, at most 2000 rows and 600 inducing variables.

    Args:
        model: any.
        data: to train on.
    """
    prior = model.prior
    return (
        all(map(_constant, model.likelihood.likelihoods))
        and isinstance(prior, MixingPrior)
        and prior.W is not None
        and isinstance(model.posterior, Full)
        and model.kl_weight == 1
        and prior.num_latents * model.inducing.num_inducing <= MOST_COLLAPSED
        and data.X.shape[0] <= _MOST_ROWS
        and all(own.Y.shape[1] == 1 for own in data.outputs)
    )


def _constant(likelihood: Any) -> bool:
    """Gaussian noise with a variance that is one number."""
    return is_gaussian(likelihood) and all(p.shape.rank == 0 for p in likelihood.parameters)
