"""`LatentMOGP`: outputs that differ by a latent variable each, with a bound that never forms the
full covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel, SquaredExponential
from gpflow.likelihoods import Likelihood
from gpflow.utilities import positive

from mogp.data import MultiOutputData, Names, Scaling, Schema
from mogp.data.padded import BatchSize, PaddedBatch, PaddedSource
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack, parameters_read_once
from mogp.kernels.hierarchy import tree_size
from mogp.kernels.stack import read_once
from mogp.likelihoods import Gaussian, check_targets
from mogp.models import closed_form
from mogp.models.base import Data
from mogp.models.latent_likelihood import check_one_function, noise_of, of_outputs, rows_of
from mogp.models.latent_moments import Latents
from mogp.models.latent_predictions import PredictsLatents
from mogp.models.latent_terms import at_rows, collapsed_term, data_term, data_terms, squared_errors
from mogp.optimizers import Problem
from mogp.posteriors import GridFactors, JointGrid, Kronecker, Projected


class LatentMOGP(PredictsLatents):
    r"""A GP over inputs and outputs, where output $d$ is a point $h_d$ of a latent space.

    $$\mathrm{cov}[f_d(x), f_{d'}(x') \mid H] = k_H(h_d, h_{d'})\, k_X(x, x'),
      \qquad h_d \sim N(0, I),$$

    where $x$ includes the number of a replica, and $k_X$ may read it
    (`mogp.kernels.hierarchical`). The inducing variables $U$ `[M_X, M_H]` lie on a grid of inputs
    $Z^X$ and latent points $Z^H$: with $K_X = L_X L_X^\top$ and $K_H = L_H L_H^\top$ their
    covariance is $K_H \otimes K_X$. The posterior is $q(U)\,q(H)$, with a Gaussian $q(U)$ that has
    the same structure (`mogp.posteriors.Kronecker`),

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
        likelihood: of one function. Outputs share it, but for parameters with a value for each of
            them: `Gaussian(0.1)` has one noise variance, `Gaussian([0.1] * D)`, which is what None
            stands for, one for each output.
        names: of the outputs, or `data.schema`: see `SparseMOGP`.
        nodes: of the Gauss-Hermite rule over each latent dimension (from four dimensions on, 64
            quasi-random points).
        scaling: see `SparseMOGP`.

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
        names: Names = None,
        nodes: int = 7,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.scaling = scaling
        if not isinstance(latent_kernel, SquaredExponential):
            raise TypeError(
                f"the kernel on latent variables is a {type(latent_kernel).__name__}; expectations"
                " are known for gpflow.kernels.SquaredExponential (with ARD lengthscales)."
            )
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
        likelihood = Gaussian(np.full(D, 0.1)) if likelihood is None else likelihood
        check_one_function(likelihood, D)
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
        self.posterior: Kronecker | JointGrid = Kronecker()
        self.posterior.build(inputs=inducing.num_inducing, latents=len(Z))
        self.nodes = nodes

    @property
    def kernel(self) -> Kernel:
        """$k_X$."""
        return self.kernels.kernels[0]

    @property
    def noise(self) -> gpflow.Parameter:
        """The noise variances of Gaussian targets, `[D]` or one for all: `likelihood.variance`."""
        if not isinstance(self.likelihood, gpflow.likelihoods.Gaussian):
            raise self._no_noise()
        return self.likelihood.variance

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
        return {
            "prior": f"{type(self.kernel).__name__} over inputs and replicas, times"
            f" {type(self.latent_kernel).__name__} over {self.latent_dim} latent dimensions",
            "inducing": f"a grid of {self.inducing.num_inducing} inputs and"
            f" {self.latent_inducing.shape[0]} latent points",
            "posterior": f"{type(self.posterior).__name__}, whitened, and a Gaussian for each"
            " latent variable",
            "likelihood": type(self.likelihood).__name__,
        }

    # --- the bound

    def batches(self, data: MultiOutputData, size: BatchSize = None, seed: int = 0) -> PaddedSource:
        """Mini-batches for `fit`: `size` outputs a step, or (outputs, rows of each)."""
        return PaddedSource(self.scaled(data), size, seed)

    def elbo(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch (exact on all the data)."""
        batch = self._batch(data)
        with parameters_read_once():
            return (
                data_term(batch, self._at, *self._of(batch.outputs), self.nodes)
                - self.kl_inducing()
                - batch.scale * tf.reduce_sum(self.kl_latent(batch.outputs))
                - self.jacobian(data)
            )

    def data_terms(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        """The expected log-likelihood of each output of a batch, scaled to all the data, `[B]`."""
        batch = self._batch(data)
        return data_terms(batch, self._at, *self._of(batch.outputs), self.nodes)

    def start(self, data: Any) -> None:
        """See `MOGP.start`."""
        self._factorise()
        super().start(data)

    def problem(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> Problem:
        """See `MOGP.problem`. A Kronecker posterior is trained, also where `joint_posterior` had
        put another in its place.
        """
        self._factorise()
        return super().problem(data, size, seed)

    def _factorise(self) -> None:
        """In place of a joint posterior that was found in closed form take the Kronecker one that
        is best where it is the best of all.
        """
        if isinstance(self.posterior, JointGrid) and self.posterior.replaces:
            self.posterior = self.posterior.factorised()

    def joint_posterior(self, data: MultiOutputData) -> float:
        r"""Put in the best Gaussian $q(U)$ of all, in closed form, where targets are Gaussian.

        With all else as it is, also $q(H)$, the precision of the best $q(\mathrm{vec}\,V)$ is

        $$I + \sum_{dn} \sigma_d^{-2}\, L_H^{-1}\Phi_d L_H^{-\top} \otimes a_n a_n^\top,$$

        which is no Kronecker product unless all noise and all inputs are common: a `Kronecker`
        posterior then has variances that are far too small (on the motion data of the documents,
        intervals of 95 % that hold 40 %). `mogp.posteriors.JointGrid` holds it, of at most 3000
        variables $M_X M_H$. The bound becomes `collapsed_elbo`.

        `fit` does so after its recipe, and takes the Kronecker posterior that is closest before it
        trains again.

        Args:
            data: all that the model was trained on.

        Returns:
            By how many nats the bound has risen. If rounding would let it fall, the posterior
            stays as it is, and this is not above 0.

        >>> import numpy as np
        >>> from mogp import MultiOutputData
        >>> from mogp.models import hmogp_lv
        >>> x = np.linspace(0, 1, 8)
        >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
        >>> model = hmogp_lv(data, latent_dim=1, inducing=2, latent_inducing=2, start="random")
        >>> before = model.elbo(data)
        >>> rise = model.joint_posterior(data)
        >>> bool(rise > 0), bool(np.isclose(model.elbo(data), model.collapsed_elbo(data)))
        (True, True)
        """
        return closed_form.of_grid(self, data)

    def last_step(self, data: Data) -> str:
        """The best $q(U)$ in closed form, where there is one (`joint_posterior`)."""
        return closed_form.told(self, data)

    def kl_inducing(self) -> tf.Tensor:
        r"""$\mathrm{KL}[q(U)\|p(U)]$: see `Kronecker.kl`."""
        return self.posterior.kl()

    def kl_latent(self, outputs: tf.Tensor | None = None) -> tf.Tensor:
        r"""$\mathrm{KL}[q(h_d)\|p(h_d)] = \tfrac12\sum_j (\mu_{dj}^2 + s_{dj} - 1 - \log s_{dj})$
        of some, or all.
        """
        mean, var = self._latent(outputs)
        return 0.5 * tf.reduce_sum(tf.square(mean) + var - 1 - tf.math.log(var), -1)

    def factors(self, K_x: tf.Tensor | None = None) -> GridFactors:
        """The covariances of the inducing variables, factorised, and what else all rows share."""
        K_x = self.inducing.Kuu(self.kernels)[0] if K_x is None else K_x
        return self.posterior.factorise(K_x, self.latent_kernel(self.latent_inducing))

    def best_noise(self, data: PaddedBatch | MultiOutputData) -> tf.Tensor:
        r"""The noise variances (of scaled targets) that maximise the bound with everything else as
        it is, `[B]`.

        $\sigma_d^2 = \frac1{N_d}\sum_n \mathbb E_q (y_{dn} - f_{dn})^2$, for Gaussian targets; what
        it was, for an output without rows.
        """
        batch = self._batch(data)
        latents, likelihood = self._of(batch.outputs)
        noise = noise_of(likelihood, batch.outputs)
        if noise is None:
            raise self._no_noise()
        squares = squared_errors(batch, *at_rows(self._at, batch), latents)
        weight = tf.ones_like(batch.Y) if batch.weight is None else batch.weight
        best = tf.math.divide_no_nan(tf.reduce_sum(weight * squares, -1), tf.reduce_sum(weight, -1))
        return tf.where(best > 0, best, noise)

    def _no_noise(self) -> ValueError:
        return ValueError(
            f"the targets have the likelihood {type(self.likelihood).__name__}, which has no noise."
        )

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
        return factors, self.posterior.project(factors, Kuf, self.kernels.K_diag(X)[0])

    def _of(self, outputs: tf.Tensor) -> tuple[Latents, Any]:
        """The latent variables of some outputs `[B]`, and their likelihood."""
        Z, kernel = tf.convert_to_tensor(self.latent_inducing), read_once(self.latent_kernel)
        return Latents(kernel, Z, *self._latent(outputs)), of_outputs(self.likelihood, outputs)

    def _latent(self, outputs: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        r"""$\mu$ and $s$ of some outputs, or all."""
        if outputs is None:
            return tf.convert_to_tensor(self.latent_mean), tf.convert_to_tensor(self.latent_var)
        return rows_of(self.latent_mean, outputs), rows_of(self.latent_var, outputs)

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
        latents, likelihood = self._of(batch.outputs)
        noise = noise_of(likelihood, batch.outputs)
        if noise is None or batch.rows is not None:
            raise ValueError(
                "the collapsed bound is known for Gaussian targets of outputs that are all observed"
                " at the same inputs."
            )
        factors = self.factors()
        A = tf.linalg.triangular_solve(factors.L_x, self.inducing.Kuf(self.kernels, batch.X)[0])
        diagonal = self.kernels.K_diag(batch.X)[0]
        term = collapsed_term(batch.Y, factors, A, diagonal, latents, noise)
        return term - tf.reduce_sum(self.kl_latent()) - self.jacobian(data)

    # --- the outputs

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, replicas, targets."""
        super().check(data)
        for own in data.outputs:
            check_targets(self.likelihood, own.Y, own.name)

    def with_outputs(
        self,
        names: Names,
        mean: npt.NDArray[Any],
        var: npt.NDArray[Any],
        likelihood: Likelihood | None = None,
        scaling: Scaling | None = None,
    ) -> LatentMOGP:
        """A copy with other outputs: nothing else that was learned changes.
        `mogp.models.add_outputs` finds them.

        Args:
            names: of the outputs.
            mean: of their latent variables, `[D, Q_H]`.
            var: of their latent variables, `[D, Q_H]`.
            likelihood: of their targets; the present one if None.
            scaling: their units.
        """
        copy = gpflow.utilities.deepcopy(self)
        made = LatentMOGP(
            copy.kernel,
            copy.latent_kernel,
            copy.inducing,
            copy.latent_inducing.numpy(),
            mean,
            var,
            likelihood=copy.likelihood if likelihood is None else likelihood,
            names=names,
            nodes=self.nodes,
            scaling=scaling,
        )
        made.posterior = copy.posterior
        return made
