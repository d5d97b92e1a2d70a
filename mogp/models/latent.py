"""`LatentMOGP`: outputs that differ by a latent variable each, with a bound that never forms the
full covariance.
"""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel, SquaredExponential
from gpflow.likelihoods import Likelihood
from gpflow.utilities import positive, triangular

from mogp.data import MultiOutputData, Names, Schema
from mogp.data.padded import BatchSize, PaddedBatch, PaddedSource
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack, parameters_read_once
from mogp.kernels.hierarchy import tree_size
from mogp.kernels.stack import read_once
from mogp.likelihoods import ReadsFunctions, check_targets
from mogp.linalg import cholesky
from mogp.models.latent_predictions import PredictsLatents
from mogp.models.latent_terms import (
    GridFactors,
    Projected,
    collapsed_term,
    common_term,
    few_inputs,
    log_det,
    moments,
    on_rows,
    table_term,
)
from mogp.models.replicas import LEAST_VARIANCE
from mogp.priors import Marginals


class LatentMOGP(PredictsLatents):
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
        names: of the outputs, or `data.schema`: see `SparseMOGP`.
        nodes: of the Gauss-Hermite rule over each latent dimension (from four dimensions on, 64
            quasi-random points).

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.models import hmogp_lv
    >>> model = hmogp_lv(data, latent_dim=1, inducing=2, latent_inducing=2, start="random")
    >>> type(model).__name__, model.latent_mean.shape.as_list()
    ('LatentMOGP', [2, 1])
    >>> model.predict_y([0.5], "output 1", replica=0).mean.shape.as_list()
    [1, 1]
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
        names: Names = None,
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
        self.schema = Schema.of(names, D)
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

    def choices(self) -> dict[str, str]:
        """Kernels, inducing variables, posterior and likelihood, in words."""
        kind = "Gaussian" if self.likelihood is None else type(self.likelihood).__name__
        return {
            "prior": f"{type(self.kernel).__name__} over inputs and replicas, times"
            f" {type(self.latent_kernel).__name__} over {self.latent_dim} latent dimensions",
            "inducing": f"a grid of {self.inducing.num_inducing} inputs and"
            f" {self.latent_inducing.shape[0]} latent points",
            "posterior": "Kronecker, whitened, and a Gaussian for each latent variable",
            "likelihood": kind,
            "units": "those of the data",
        }

    # --- the bound

    def batches(self, data: MultiOutputData, size: BatchSize = None, seed: int = 0) -> PaddedSource:
        """Mini-batches for `fit`: `size` outputs a step, or (outputs, rows of each)."""
        return PaddedSource(data, size, seed)

    def elbo(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch (exact on all the data)."""
        batch = self._batch(data)
        with parameters_read_once():
            if self.likelihood is not None or not few_inputs(batch):
                term = tf.reduce_sum(self._terms(batch))
            else:
                latent, noise = self._latent(batch.outputs), self._of(self.noise, batch.outputs)
                gaussian = common_term if batch.rows is None else table_term
                term = gaussian(batch, *self._at(batch.X), latent, noise)
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
            - M_x * log_det(T_h)
            - M_h * log_det(T_x)
        )

    def kl_latent(self, outputs: tf.Tensor | None = None) -> tf.Tensor:
        r"""$\mathrm{KL}[q(h_d)\|p(h_d)] = \tfrac12\sum_j (\mu_{dj}^2 + s_{dj} - 1 - \log s_{dj})$
        of some, or all.
        """
        mean, var = self._latent(outputs)
        return 0.5 * tf.reduce_sum(tf.square(mean) + var - 1 - tf.math.log(var), -1)

    def factors(self, Kuu: tf.Tensor | None = None) -> GridFactors:
        """The covariances of the inducing variables, factorised, and what else all rows share."""
        L_x = cholesky(self.inducing.Kuu(self.kernels)[0] if Kuu is None else Kuu, name="K_X")
        Z, kernel = tf.convert_to_tensor(self.latent_inducing), read_once(self.latent_kernel)
        L_h = cholesky(kernel(Z), name="K_H")
        inverse = tf.linalg.triangular_solve(L_h, tf.eye(Z.shape[0], dtype=L_h.dtype))
        T_h = tf.convert_to_tensor(self.q_sqrt_h)
        shaped = tf.linalg.matmul(T_h, inverse, transpose_a=True)
        return GridFactors(
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
        m, e = moments(factors, x, self._latent(batch.outputs))
        squares = tf.square(batch.Y) - 2 * batch.Y * m + e
        weight = tf.ones_like(batch.Y) if batch.weight is None else batch.weight
        best = tf.math.divide_no_nan(tf.reduce_sum(weight * squares, -1), tf.reduce_sum(weight, -1))
        return tf.where(best > 0, best, self._of(self.noise, batch.outputs))

    def _batch(self, data: PaddedBatch | MultiOutputData) -> PaddedBatch:
        if isinstance(data, MultiOutputData):
            self.check(data)
            return self.batches(data)(0)
        return data

    def _at(self, X: tf.Tensor) -> tuple[GridFactors, Projected]:
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

    def _latent(self, outputs: tf.Tensor | None) -> Marginals:
        r"""$\mu$ and $s$ of some outputs, or all."""
        both = (self.latent_mean, self.latent_var)
        if outputs is None:
            return Marginals(*(tf.convert_to_tensor(one) for one in both))
        return Marginals(*(self._of(one, outputs) for one in both))

    def _of(self, parameter: gpflow.Parameter, outputs: tf.Tensor) -> tf.Tensor:
        """The rows of some outputs of a parameter with a row for each.

        Where they are not all of them, only they are read and have a gradient, so that the cost of
        a step does not grow with the number of outputs (see `Adam(lazy=True)`).
        """
        if outputs.shape[0] is None or outputs.shape[0] >= self.num_outputs:
            return tf.gather(parameter, outputs)
        return parameter.transform.forward(tf.gather(parameter.unconstrained_variable, outputs))

    def _terms(self, batch: PaddedBatch) -> tf.Tensor:
        """The data term of each output, `[B]`."""
        factors, x = self._at_rows(batch)
        mean, var = self._latent(batch.outputs)
        if self.likelihood is None:
            noise = self._of(self.noise, batch.outputs)[:, None]
            m, e = moments(factors, x, Marginals(mean, var))
            terms = -0.5 * tf.math.log(2 * np.pi * noise) - (
                tf.square(batch.Y) - 2 * batch.Y * m + e
            ) / (2 * noise)
        else:
            f, weights = self._given_latent(x, mean, var, factors)
            Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
            terms = tf.tensordot(
                weights, on_rows(self.likelihood.variational_expectations, f, Y), [[0], [1]]
            )
        return tf.reduce_sum(terms * (batch.scale if batch.weight is None else batch.weight), -1)

    def _at_rows(self, batch: PaddedBatch) -> tuple[GridFactors, Projected]:
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
        A = tf.linalg.triangular_solve(factors.L_x, self.inducing.Kuf(self.kernels, batch.X)[0])
        diagonal, noise = self.kernels.K_diag(batch.X)[0], tf.convert_to_tensor(self.noise)
        latent = self._latent(batch.outputs)
        term = collapsed_term(batch.Y, factors, A, diagonal, latent, noise)
        return term - tf.reduce_sum(self.kl_latent())

    # --- the outputs

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, replicas, targets."""
        super().check(data)
        if self.likelihood is not None:
            for own in data.outputs:
                check_targets(self.likelihood, own.Y, own.name)

    def with_outputs(
        self,
        names: Names,
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


def _check_one_function(likelihood: Likelihood) -> None:
    """Raise unless the likelihood reads one function, by itself, and not the inputs."""
    if isinstance(likelihood, ReadsFunctions) or (likelihood.latent_dim or 1) != 1:
        raise TypeError(
            f"{type(likelihood).__name__} reads several functions; give a likelihood of one"
            " function."
        )
