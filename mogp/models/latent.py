"""`LatentMOGP`: outputs that differ by a latent variable each, with a bound that never forms the
full covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel, SquaredExponential
from gpflow.likelihoods import Likelihood
from gpflow.utilities import positive, triangular
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm, qmc

from mogp.data import MultiOutputData
from mogp.data.padded import BatchSize, PaddedBatch, PaddedSource
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack, expected_k, expected_kk, parameters_read_once
from mogp.kernels.expected import paired, symmetric
from mogp.kernels.hierarchy import tree_size
from mogp.kernels.stack import read_once
from mogp.likelihoods import ReadsFunctions, check_targets
from mogp.linalg import cholesky
from mogp.models.base import MOGP
from mogp.models.replicas import LEAST_VARIANCE, ReadsReplicas
from mogp.priors import Marginals

_MOST_TENSOR_NODES = 3
_QUASI_RANDOM_NODES = 64
_MOST_EMPTY = 10


class LatentMOGP(ReadsReplicas, MOGP):
    r"""A GP over inputs and outputs, where output $d$ is a point $h_d$ of a latent space.

    $$\mathrm{cov}[f_d(x), f_{d'}(x') \mid H] = k_H(h_d, h_{d'})\, k_X(x, x'),
      \qquad h_d \sim N(0, I),$$

    where $x$ includes the number of a replica, and $k_X$ may read it
    (`mogp.kernels.hierarchical`). The inducing variables $U$ `[M_X, M_H]` lie on a grid of inputs
    $Z^X$ and latent points $Z^H$: with $K_X = L_X L_X^\top$ and $K_H = L_H L_H^\top$ their
    covariance is $K_H \otimes K_X$. The posterior is $q(U)\,q(H)$, with

    $$U = L_X V L_H^\top, \quad
      \mathrm{vec}(V) \sim N(\mathrm{vec}(\tilde M),\, T_H T_H^\top \otimes T_X T_X^\top),
      \qquad h_d \sim N(\mu_d, \mathrm{diag}\,s_d).$$

    Under $q$ the function of output $d$ at row $n$, with $a_n = L_X^{-1} k_X(Z^X, x_n)$, has the
    moments

    $$m_{dn} = a_n^\top \tilde M L_H^{-1} \Psi_d,$$
    $$e_{dn} = k_{H}k_{nn} - \mathrm{Tr}(K_H^{-1}\Phi_d)\, |a_n|^2
      + \mathrm{Tr}(T_H^\top L_H^{-1} \Phi_d L_H^{-\top} T_H)\, |T_X^\top a_n|^2
      + a_n^\top \tilde M L_H^{-1} \Phi_d L_H^{-\top} \tilde M^\top a_n,$$

    $\Psi_d = \mathbb E\,k_H(Z^H, h_d)$ and $\Phi_d = \mathbb E\,k_H(Z^H, h_d) k_H(h_d, Z^H)$, so
    that for Gaussian targets

    $$\mathcal L = \sum_{dn} \Big[-\tfrac12 \log 2\pi\sigma_d^2
      - \frac{y_{dn}^2 - 2 y_{dn} m_{dn} + e_{dn}}{2\sigma_d^2}\Big]
      - \mathrm{KL}[q(U)\|p(U)] - \mathrm{KL}[q(H)\|p(H)].$$

    Where all outputs are observed at the same inputs, the sum over outputs is taken first and
    costs no more than one output does. Other likelihoods have the expectation over
    $q(f_{dn} \mid h)$ by their own rule inside a Gauss-Hermite rule over $q(h_d)$.

    Args:
        kernel: $k_X$, on `[x, replica]`.
        latent_kernel: $k_H$. Its variance multiplies that of `kernel`: fix one of them.
        inducing: $Z^X$ with replica numbers.
        latent_inducing: $Z^H$, `[M_H, Q_H]`.
        latent_mean: $\mu$, `[D, Q_H]`.
        latent_var: $s$, `[D, Q_H]` or one number.
        likelihood: None for Gaussian targets with a noise variance for each output, or a
            likelihood of one function that all outputs share.
        noise: start value of the noise variances, `[D]` or one number.
        names: of the outputs.
        nodes: of the Gauss-Hermite rule over each latent dimension (from four dimensions on, 64
            quasi-random points).
    """

    def __init__(
        self,
        kernel: Kernel,
        latent_kernel: SquaredExponential,
        inducing: ReplicaPoints,
        latent_inducing: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_var: npt.ArrayLike = 0.1,
        *,
        likelihood: Likelihood | None = None,
        noise: npt.ArrayLike = 0.1,
        names: Sequence[str] | None = None,
        nodes: int = 7,
    ) -> None:
        super().__init__()
        if not isinstance(latent_kernel, SquaredExponential):
            raise TypeError(
                f"the kernel on latent variables is a {type(latent_kernel).__name__}; expectations"
                " are known for gpflow.kernels.SquaredExponential (with ARD lengthscales)."
            )
        if likelihood is not None:
            _check_one_function(likelihood)
        mu = np.atleast_2d(np.asarray(latent_mean, dtype=float))
        Z = np.atleast_2d(np.asarray(latent_inducing, dtype=float))
        D, Q = mu.shape
        if Z.shape[1] != Q:
            raise ValueError(
                f"latent inducing points have {Z.shape[1]} columns, latent means {Q}; both need"
                " Q_H."
            )
        known = tree_size(KernelStack(kernel))
        if known is not None and inducing.replica.max() >= known:
            raise ValueError(
                f"an inducing point is in replica {inducing.replica.max()}, but the tree has"
                f" {known} replicas."
            )
        if nodes < 1:
            raise ValueError(f"nodes={nodes}; at least one is needed.")
        self.names = tuple(names) if names is not None else tuple(f"output {d}" for d in range(D))
        if len(self.names) != D:
            raise ValueError(f"{len(self.names)} names for {D} latent means.")
        self.kernels = KernelStack(kernel)
        self.latent_kernel = latent_kernel
        self.inducing = inducing
        self.latent_inducing = gpflow.Parameter(Z)
        self.latent_mean = gpflow.Parameter(mu)
        self.latent_var = gpflow.Parameter(
            np.broadcast_to(np.asarray(latent_var, dtype=float), mu.shape), transform=positive()
        )
        self.likelihood = likelihood
        self.noise = gpflow.Parameter(
            np.broadcast_to(np.asarray(noise, dtype=float), (D,)),
            transform=positive(lower=LEAST_VARIANCE),
            trainable=likelihood is None,
        )
        M_x, M_h = inducing.num_inducing, len(Z)
        self.q_mu = gpflow.Parameter(np.zeros((M_x, M_h)))
        self.q_sqrt_x = gpflow.Parameter(np.sqrt(0.1) * np.eye(M_x), transform=triangular())
        self.q_sqrt_h = gpflow.Parameter(np.sqrt(0.1) * np.eye(M_h), transform=triangular())
        self.nodes = nodes

    @property
    def kernel(self) -> Kernel:
        """$k_X$."""
        return self.kernels.kernels[0]

    @property
    def num_outputs(self) -> int:
        """$D$."""
        return len(self.names)

    @property
    def latent_dim(self) -> int:
        """$Q_H$."""
        return int(self.latent_mean.shape[1])

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, without the replica number."""
        return self.inducing.input_dim - 1

    @property
    def num_replicas(self) -> int | None:
        """Replicas in the tree of the kernel; None if it needs none."""
        return tree_size(self.kernels)

    # --- the bound

    def batches(self, data: MultiOutputData, size: BatchSize = None, seed: int = 0) -> PaddedSource:
        """Mini-batches for `fit`: `size` outputs a step, or (outputs, rows of each)."""
        return PaddedSource(data, size, seed)

    def elbo(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch (exact on all the data)."""
        batch = self._batch(data)
        with parameters_read_once():
            if self.likelihood is not None or not _few_inputs(batch):
                term = tf.reduce_sum(self._terms(batch))
            else:
                term = self._common_term(batch) if batch.rows is None else self._table_term(batch)
            return (
                term
                - self.kl_inducing()
                - batch.scale * tf.reduce_sum(self.kl_latent(batch.outputs))
            )

    def data_terms(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        """The expected log-likelihood of each output of a batch, scaled to all the data, `[B]`."""
        return self._terms(self._batch(data))

    def kl_inducing(self) -> tf.Tensor:
        r"""$\mathrm{KL}[q(U)\|p(U)] = \tfrac12\big(|T_H|^2 |T_X|^2 + |\tilde M|^2 - M_X M_H\big)
        - M_X \log|T_H| - M_H \log|T_X|$."""
        T_x, T_h, M = (tf.convert_to_tensor(p) for p in (self.q_sqrt_x, self.q_sqrt_h, self.q_mu))
        M_x, M_h = M.shape
        trace = tf.reduce_sum(tf.square(T_h)) * tf.reduce_sum(tf.square(T_x))
        return (
            0.5 * (trace + tf.reduce_sum(tf.square(M)) - M_x * M_h)
            - M_x * _log_det(T_h)
            - M_h * _log_det(T_x)
        )

    def kl_latent(self, outputs: tf.Tensor | None = None) -> tf.Tensor:
        r"""$\mathrm{KL}[q(h_d)\|p(h_d)] = \tfrac12\sum_j (\mu_{dj}^2 + s_{dj} - 1 - \log s_{dj})$
        of some, or all.
        """
        mean, var = self._latent(outputs)
        return 0.5 * tf.reduce_sum(tf.square(mean) + var - 1 - tf.math.log(var), -1)

    def factors(self, Kuu: tf.Tensor | None = None) -> Factors:
        """The covariances of the inducing variables, factorised, and what else all rows share."""
        L_x = cholesky(self.inducing.Kuu(self.kernels)[0] if Kuu is None else Kuu, name="K_X")
        Z, kernel = tf.convert_to_tensor(self.latent_inducing), read_once(self.latent_kernel)
        L_h = cholesky(kernel(Z), name="K_H")
        inverse = tf.linalg.triangular_solve(L_h, tf.eye(Z.shape[0], dtype=L_h.dtype))
        T_h = tf.convert_to_tensor(self.q_sqrt_h)
        shaped = tf.linalg.matmul(T_h, inverse, transpose_a=True)
        return Factors(
            L_x=L_x,
            Z_h=Z,
            kernel=kernel,
            prior=tf.linalg.matmul(inverse, inverse, transpose_a=True),
            posterior=tf.linalg.matmul(shaped, shaped, transpose_a=True),
            mean=tf.linalg.matmul(self.q_mu, inverse),
            root=inverse,
        )

    def best_noise(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        r"""The noise variances that maximise the bound with everything else as it is, `[B]`.

        $\sigma_d^2 = \frac1{N_d}\sum_n \mathbb E_q (y_{dn} - f_{dn})^2$, for Gaussian targets; what
        it was, for an output without rows.
        """
        if self.likelihood is not None:
            raise ValueError(
                f"the targets have the likelihood {type(self.likelihood).__name__}, which has no"
                " noise."
            )
        batch = self._batch(data)
        factors, x = self._at_rows(batch)
        m, e = self._moments(x, *self._latent(batch.outputs), factors)
        squares = tf.square(batch.Y) - 2 * batch.Y * m + e
        weight = tf.ones_like(batch.Y) if batch.weight is None else batch.weight
        best = tf.math.divide_no_nan(tf.reduce_sum(weight * squares, -1), tf.reduce_sum(weight, -1))
        return tf.where(best > 0, best, self._of(self.noise, batch.outputs))

    def _batch(self, data: PaddedBatch | MultiOutputData) -> PaddedBatch:
        if isinstance(data, MultiOutputData):
            self.check(data)
            return self.batches(data)(0)
        return data

    def _at(self, X: tf.Tensor) -> tuple[Factors, Projected]:
        """What is known of the rows of `X [N, P + 1]`."""
        Z = self.inducing.inputs
        Kuu, Kuf = tf.split(
            self.kernels.K(Z, tf.concat([Z, X], 0))[0], [Z.shape[0], tf.shape(X)[0]], 1
        )
        factors = self.factors(Kuu)
        A = tf.linalg.triangular_solve(factors.L_x, Kuf)
        return factors, Projected(
            E=tf.linalg.matmul(A, factors.mean, transpose_a=True),
            prior=tf.reduce_sum(tf.square(A), 0),
            posterior=tf.reduce_sum(
                tf.square(tf.linalg.matmul(self.q_sqrt_x, A, transpose_a=True)), 0
            ),
            diagonal=self.kernels.K_diag(X)[0],
        )

    def _latent(self, outputs: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        if outputs is None:
            return tf.convert_to_tensor(self.latent_mean), tf.convert_to_tensor(self.latent_var)
        return self._of(self.latent_mean, outputs), self._of(self.latent_var, outputs)

    def _of(self, parameter: gpflow.Parameter, outputs: tf.Tensor) -> tf.Tensor:
        """The rows of some outputs of a parameter with a row for each.

        Where they are not all of them, only they are read and have a gradient, so that the cost of
        a step does not grow with the number of outputs (see `Adam(lazy=True)`).
        """
        if outputs.shape[0] is None or outputs.shape[0] >= self.num_outputs:
            return tf.gather(parameter, outputs)
        return parameter.transform.forward(tf.gather(parameter.unconstrained_variable, outputs))

    def _common_term(self, batch: PaddedBatch) -> tf.Tensor:
        """The data term of Gaussian outputs that were all observed at all rows of `X`, without a
        number for each.
        """
        factors, x = self._at(batch.X)
        mean, var = self._latent(batch.outputs)
        noise = self._of(self.noise, batch.outputs)
        weight = batch.scale / noise
        Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
        pairs = tf.linalg.matvec(
            expected_kk(factors.kernel, factors.Z_h, mean, var), weight, transpose_a=True
        )
        Phi = symmetric(pairs, factors.Z_h.shape[0])
        spread = factors.kernel.variance * tf.reduce_sum(weight) * tf.reduce_sum(
            x.diagonal
        ) + tf.reduce_sum(
            Phi
            * (
                tf.linalg.matmul(x.E, x.E, transpose_a=True)
                - factors.prior * tf.reduce_sum(x.prior)
                + factors.posterior * tf.reduce_sum(x.posterior)
            )
        )
        fitted = tf.reduce_sum(tf.reduce_sum(tf.linalg.matmul(batch.Y, x.E) * Psi, -1) * weight)
        squares = tf.reduce_sum(tf.reduce_sum(tf.square(batch.Y), -1) * weight)
        rows = tf.cast(tf.shape(batch.X)[0], batch.Y.dtype)
        logs = batch.scale * rows * tf.reduce_sum(tf.math.log(2 * np.pi * noise))
        return -0.5 * (logs + squares - 2 * fitted + spread)

    def _table_term(self, batch: PaddedBatch) -> tf.Tensor:
        """The data term of Gaussian outputs that were observed at some rows of `X`: sums over rows
        are products with a

        table of weights `[B, U]`.
        """
        factors, x = self._at(batch.X)
        mean, var = self._latent(batch.outputs)
        noise = self._of(self.noise, batch.outputs)
        W, WY = _tables(batch, batch.weight, batch.weight * batch.Y)
        Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
        pairs = expected_kk(factors.kernel, factors.Z_h, mean, var)
        by_row = paired(x.E[:, :, None] * x.E[:, None, :])
        by_row += x.posterior[:, None] * paired(factors.posterior) - x.prior[:, None] * paired(
            factors.prior
        )
        spread = factors.kernel.variance * tf.linalg.matvec(W, x.diagonal)
        spread += tf.reduce_sum(tf.linalg.matmul(W, by_row) * pairs, -1)
        fitted = tf.reduce_sum(tf.linalg.matmul(WY, x.E) * Psi, -1)
        squares = tf.reduce_sum(batch.weight * tf.square(batch.Y), -1)
        logs = tf.reduce_sum(batch.weight, -1) * tf.math.log(2 * np.pi * noise)
        return -0.5 * tf.reduce_sum(logs + (squares - 2 * fitted + spread) / noise)

    def _terms(self, batch: PaddedBatch) -> tf.Tensor:
        """The data term of each output, `[B]`."""
        factors, x = self._at_rows(batch)
        mean, var = self._latent(batch.outputs)
        if self.likelihood is None:
            noise = self._of(self.noise, batch.outputs)[:, None]
            m, e = self._moments(x, mean, var, factors)
            terms = -0.5 * tf.math.log(2 * np.pi * noise) - (
                tf.square(batch.Y) - 2 * batch.Y * m + e
            ) / (2 * noise)
        else:
            f, weights = self._given_latent(x, mean, var, factors)
            Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
            terms = tf.tensordot(
                weights, self._on_rows(self.likelihood.variational_expectations, f, Y), [[0], [1]]
            )
        return tf.reduce_sum(terms * (batch.scale if batch.weight is None else batch.weight), -1)

    def _at_rows(self, batch: PaddedBatch) -> tuple[Factors, Projected]:
        """What is known of each row `[B, n]` of a batch (`[1, n]` where outputs share them)."""
        if batch.rows is None:
            factors, x = self._at(batch.X)
            return factors, Projected(*(a[None] for a in x))
        elements = batch.rows.shape.num_elements()
        if elements is not None and elements < batch.X.shape[0]:
            factors, x = self._at(tf.gather(batch.X, tf.reshape(batch.rows, [-1])))
            shape = tf.shape(batch.rows)
            return factors, Projected(
                *(tf.reshape(a, tf.concat([shape, tf.shape(a)[1:]], 0)) for a in x)
            )
        factors, x = self._at(batch.X)
        return factors, Projected(*(tf.gather(a, batch.rows) for a in x))

    def _moments(
        self, x: Projected, mean: tf.Tensor, var: tf.Tensor, factors: Factors
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """First and second moment of the functions, `[B, n]`."""
        Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
        pairs = expected_kk(factors.kernel, factors.Z_h, mean, var)
        Phi = symmetric(pairs, factors.Z_h.shape[0])
        prior = tf.linalg.matvec(pairs, paired(factors.prior))[:, None]
        posterior = tf.linalg.matvec(pairs, paired(factors.posterior))[:, None]
        m = tf.linalg.matmul(x.E, Psi[:, :, None])[..., 0]
        square = tf.reduce_sum(tf.linalg.matmul(x.E, Phi) * x.E, -1)
        return (
            m,
            factors.kernel.variance * x.diagonal
            - prior * x.prior
            + posterior * x.posterior
            + square,
        )

    def _given_latent(
        self, x: Projected, mean: tf.Tensor, var: tf.Tensor, factors: Factors
    ) -> tuple[Marginals, tf.Tensor]:
        """Mean and variance `[B, S, n]` of the functions given each of `S` values of `h`, and the
        weights `[S]`.
        """
        nodes, weights = latent_nodes(self.latent_dim, self.nodes)
        h = mean[:, None] + tf.sqrt(var)[:, None] * tf.constant(nodes, mean.dtype)
        return self._given(x, h, factors), tf.constant(weights, mean.dtype)

    def _given(self, x: Projected, h: tf.Tensor, factors: Factors) -> Marginals:
        """Mean and variance `[B, S, n]` of the functions for latent values `h [B, S, Q]`."""
        k = factors.kernel(tf.reshape(h, [-1, self.latent_dim]), factors.Z_h)
        k = tf.reshape(k, tf.concat([tf.shape(h)[:2], [factors.Z_h.shape[0]]], 0))
        prior, posterior = (
            tf.reduce_sum(tf.linalg.matmul(k, P) * k, -1)[..., None]
            for P in (factors.prior, factors.posterior)
        )
        f_mean = tf.linalg.matmul(k, x.E, transpose_b=True)
        f_var = factors.kernel.variance * x.diagonal[:, None] - prior * x.prior[:, None]
        return Marginals(
            f_mean, tf.maximum(f_var + posterior * x.posterior[:, None], LEAST_VARIANCE)
        )

    @staticmethod
    def _on_rows(rule: Any, f: Marginals, *Y: tf.Tensor) -> Any:
        """A rule of a likelihood, which takes columns, on tensors of any shape."""
        flat = [tf.reshape(a, [-1, 1]) for a in (*f, *Y)]
        result = rule(tf.zeros([tf.shape(flat[0])[0], 0], flat[0].dtype), *flat)
        shape = tf.shape(f.mean)
        return (
            tuple(tf.reshape(r, shape) for r in result)
            if isinstance(result, tuple)
            else tf.reshape(result, shape)
        )

    def collapsed_elbo(self, data: MultiOutputData) -> tf.Tensor:
        r"""The bound with the best $q(U)$ of any form, in closed form; for Gaussian outputs with
        common inputs.

        With $L_H^{-1} \sum_d \sigma_d^{-2}\Phi_d L_H^{-\top} = V_H \Lambda_H V_H^\top$,
        $A A^\top = V_X \Lambda_X V_X^\top$ (rows $a_n$ of $A$),
        $\lambda_{ij} = (\Lambda_X)_i (\Lambda_H)_j$ and
        $T = V_X^\top A\, Y \mathrm{diag}(\sigma_d^{-2}) \Psi L_H^{-\top} V_H$ it is

        $$-\tfrac12 \sum_{dn}\Big[\log 2\pi\sigma_d^2 + \frac{y_{dn}^2 + k_H
          k_{nn}}{\sigma_d^2}\Big] + \tfrac12\sum_{ij}\Big[\frac{T_{ij}^2}{1 + \lambda_{ij}} -
            \log(1 + \lambda_{ij}) + \lambda_{ij}\Big]
          - \mathrm{KL}[q(H)\|p(H)].$$

        It lies above `elbo`, whose $q(U)$ has a Kronecker covariance.
        """
        batch = self._batch(data)
        if self.likelihood is not None or batch.rows is not None:
            raise ValueError(
                "the collapsed bound is known for Gaussian targets of outputs that are all observed"
                " at the same inputs."
            )
        factors = self.factors()
        mean, var = self._latent(batch.outputs)
        A = tf.linalg.triangular_solve(factors.L_x, self.inducing.Kuf(self.kernels, batch.X)[0])
        pairs = tf.linalg.matvec(
            expected_kk(factors.kernel, factors.Z_h, mean, var), 1 / self.noise, transpose_a=True
        )
        Phi = symmetric(pairs, factors.Z_h.shape[0])
        values_h, V_h = tf.linalg.eigh(
            tf.linalg.matmul(tf.linalg.matmul(factors.root, Phi), factors.root, transpose_b=True)
        )
        values_x, V_x = tf.linalg.eigh(tf.linalg.matmul(A, A, transpose_b=True))
        Psi = expected_k(factors.kernel, factors.Z_h, mean, var) / self.noise[:, None]
        Psi = tf.linalg.matmul(Psi, factors.root, transpose_b=True)
        inner = tf.linalg.matmul(tf.linalg.matmul(A, batch.Y, transpose_b=True), Psi)
        T = tf.linalg.matmul(tf.linalg.matmul(V_x, inner, transpose_a=True), V_h)
        lam = tf.maximum(values_x, 0)[:, None] * tf.maximum(values_h, 0)
        noise = tf.convert_to_tensor(self.noise)[:, None]
        second = tf.square(batch.Y) + factors.kernel.variance * self.kernels.K_diag(batch.X)[0]
        term = -0.5 * tf.reduce_sum(tf.math.log(2 * np.pi * noise) + second / noise)
        best = 0.5 * tf.reduce_sum(tf.square(T) / (1 + lam) - tf.math.log1p(lam) + lam)
        return term + best - tf.reduce_sum(self.kl_latent())

    # --- prediction

    def moments(self, X: tf.Tensor, outputs: Sequence[int], noise: bool) -> Marginals:
        """Predictive mean and variance `[N, len(outputs)]`, with the latent variables integrated
        out.
        """
        factors, x = self._at(X)
        x = Projected(*(a[None] for a in x))
        mean, var = self._latent(tf.constant(list(outputs), tf.int64))
        if self.likelihood is None or not noise:
            m, e = self._moments(x, mean, var, factors)
            variance = tf.maximum(e - tf.square(m), LEAST_VARIANCE)
            if noise:
                variance += tf.gather(self.noise, list(outputs))[:, None]
            return Marginals(tf.transpose(m), tf.transpose(variance))
        f, weights = self._given_latent(x, mean, var, factors)
        y_mean, y_var = self._on_rows(self.likelihood.predict_mean_and_var, f)
        m = tf.tensordot(weights, y_mean, [[0], [1]])
        e = tf.tensordot(weights, y_var + tf.square(y_mean), [[0], [1]])
        return Marginals(tf.transpose(m), tf.transpose(e - tf.square(m)))

    def predict_log_density(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        """Log predictive density of every observed target, `[N_d]` for each output by name.

        The density is a mixture over `q(h)`, by the rule with `nodes` nodes. (The documents score
        Gaussian outputs by a normal density with the two moments of `predict_y`.)
        """
        self.check(data)
        source = self.batches(data)
        batch = source(0)
        factors, x = self._at_rows(batch)
        f, weights = self._given_latent(x, *self._latent(batch.outputs), factors)
        Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
        if self.likelihood is None:
            var = f.var + self._of(self.noise, batch.outputs)[:, None, None]
            density = -0.5 * (tf.math.log(2 * np.pi * var) + tf.square(Y - f.mean) / var)
        else:
            density = self._on_rows(self.likelihood.predict_log_density, f, Y)
        mixed = tf.reduce_logsumexp(density + tf.math.log(weights)[:, None], 1)
        return {
            name: mixed[d, :size]
            for d, (name, size) in enumerate(zip(self.names, source.sizes, strict=True))
        }

    def predict_f_samples(
        self,
        Xnew: npt.ArrayLike,
        output: int | str,
        replica: Any = 0,
        samples: int = 1,
        seed: int = 0,
    ) -> tf.Tensor:
        """Joint draws of the function of one output at `Xnew`, `[samples, N]`: a latent variable
        each, then a curve.
        """
        X, factors = self.at(Xnew, replica), self.factors()
        mean, var = self._latent(tf.constant([self.index(output)], tf.int64))
        noise = tf.random.stateless_normal([samples, self.latent_dim], [seed, 1], dtype=X.dtype)
        k = factors.kernel(mean + tf.sqrt(var) * noise, factors.Z_h)
        prior, posterior = (
            tf.reduce_sum(tf.linalg.matmul(k, P) * k, -1)[:, None, None]
            for P in (factors.prior, factors.posterior)
        )
        A = tf.linalg.triangular_solve(factors.L_x, self.inducing.Kuf(self.kernels, X)[0])
        TA = tf.linalg.matmul(self.q_sqrt_x, A, transpose_a=True)
        cov = (
            factors.kernel.variance * self.kernels.K(X)[0]
            - prior * tf.linalg.matmul(A, A, transpose_a=True)
            + posterior * tf.linalg.matmul(TA, TA, transpose_a=True)
        )
        m = tf.linalg.matmul(tf.linalg.matmul(k, factors.mean, transpose_b=True), A)
        draws = tf.random.stateless_normal(tf.shape(m), [seed, 2], dtype=X.dtype)
        return m + tf.linalg.matvec(cholesky(cov, name="the covariance of the draws"), draws)

    # --- the outputs

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, replicas, targets."""
        super().check(data)
        if self.likelihood is not None:
            for own in data.outputs:
                check_targets(self.likelihood, own.Y, own.name)

    def with_outputs(
        self,
        names: Sequence[str],
        mean: npt.NDArray[Any],
        var: npt.NDArray[Any],
        noise: npt.NDArray[Any],
    ) -> LatentMOGP:
        """A copy with other outputs: nothing else that was learned changes.
        `mogp.models.add_outputs` finds them.
        """
        copy = gpflow.utilities.deepcopy(self)
        made = LatentMOGP(
            copy.kernel,
            copy.latent_kernel,
            copy.inducing,
            copy.latent_inducing.numpy(),
            mean,
            var,
            likelihood=copy.likelihood,
            noise=np.maximum(noise, 1.001 * LEAST_VARIANCE),
            names=names,
            nodes=self.nodes,
        )
        made.q_mu, made.q_sqrt_x, made.q_sqrt_h = copy.q_mu, copy.q_sqrt_x, copy.q_sqrt_h
        return made


class Factors(NamedTuple):
    r"""What all rows of a batch share.

    Attributes:
        L_x: $L_X$.
        Z_h: $Z^H$.
        kernel: $k_H$, its parameters read.
        prior: $K_H^{-1}$.
        posterior: $L_H^{-\top} T_H T_H^\top L_H^{-1}$.
        mean: $\tilde M L_H^{-1}$.
        root: $L_H^{-1}$.
    """

    L_x: tf.Tensor
    Z_h: tf.Tensor
    kernel: SquaredExponential
    prior: tf.Tensor
    posterior: tf.Tensor
    mean: tf.Tensor
    root: tf.Tensor


class Projected(NamedTuple):
    r"""What is known of rows: `E` $= a_n^\top \tilde M L_H^{-1}$, $|a_n|^2$, $|T_X^\top a_n|^2$ and
    $k_{nn}$.
    """

    E: tf.Tensor
    prior: tf.Tensor
    posterior: tf.Tensor
    diagonal: tf.Tensor


def _check_one_function(likelihood: Likelihood) -> None:
    """Raise unless the likelihood reads one function, by itself, and not the inputs."""
    if isinstance(likelihood, ReadsFunctions) or (likelihood.latent_dim or 1) != 1:
        raise TypeError(
            f"{type(likelihood).__name__} reads several functions; give a likelihood of one"
            " function."
        )


def latent_nodes(dim: int, nodes: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Points `[S, dim]` and weights `[S]` that average over a standard normal of `dim`
    dimensions.
    """
    if dim > _MOST_TENSOR_NODES:
        points = np.asarray(
            norm.ppf(qmc.Sobol(dim, scramble=True, rng=0).random(_QUASI_RANDOM_NODES)), float
        )
        points = (points - points.mean(axis=0)) / points.std(axis=0)
        return points, np.full(_QUASI_RANDOM_NODES, 1 / _QUASI_RANDOM_NODES)
    x, w = hermegauss(nodes)  # type: ignore[no-untyped-call]
    grids = np.meshgrid(*[x] * dim, indexing="ij")
    weights = np.prod(np.meshgrid(*[w / w.sum()] * dim, indexing="ij"), axis=0)
    return np.stack([g.reshape(-1) for g in grids], -1), np.asarray(weights, float).reshape(-1)


def _few_inputs(batch: PaddedBatch) -> bool:
    """Whether outputs have their inputs in common to a degree that a table of weights `[B, U]`
    pays.
    """
    if batch.rows is None:
        return True
    longest = batch.rows.shape[1]
    return longest is not None and bool(batch.X.shape[0] <= _MOST_EMPTY * longest)


def _tables(batch: PaddedBatch, *values: tf.Tensor) -> list[tf.Tensor]:
    """Values `[B, n]` as tables `[B, U]` over the distinct inputs; those of repeated rows are
    added.
    """
    rows = tf.convert_to_tensor(batch.rows)
    B, U = rows.shape[0], batch.X.shape[0]
    cells = tf.reshape(rows + U * tf.range(B, dtype=tf.int64)[:, None], [-1])
    return [
        tf.reshape(tf.math.unsorted_segment_sum(tf.reshape(v, [-1]), cells, B * U), [B, U])
        for v in values
    ]


def _log_det(T: tf.Tensor) -> tf.Tensor:
    return 0.5 * tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(T))))
