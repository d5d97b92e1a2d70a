"""Models evaluated class by class, as in the code behind Ma's thesis: slow, and here to compare
cost.
"""

from __future__ import annotations

from typing import Any

import gpflow
import tensorflow as tf

from mogp.inducing import InducingPoints
from mogp.likelihoods import AugmentReduce, Softmax
from mogp.models import SparseMOGP
from mogp.priors.base import Conditional, LatentPosterior, Marginals
from mogp.priors.mixing import LMC


def class_by_class(model: SparseMOGP) -> SparseMOGP:
    """The same model with an `ExpandedLMC` as its prior: the same numbers, at another cost.

    It is a copy: training one leaves the other alone.
    """
    for likelihood in model.likelihood.likelihoods:
        if (
            isinstance(likelihood, Softmax)
            and not isinstance(likelihood, AugmentReduce)
            and likelihood.joint
        ):
            raise ValueError(
                "class by class there are no joint draws; build the model with"
                " covariance='independent'."
            )
    copy: SparseMOGP = gpflow.utilities.deepcopy(model)
    mixed = copy.prior
    copy.prior = ExpandedLMC(mixed.kernels, functions=mixed.num_functions, W=mixed.W.numpy())
    return copy


class ExpandedLMC(LMC):
    r"""The `LMC` with a column of $K_{uf}$ for every function at every row.

    As $\mathrm{cov}(u_l(z), f_j(x)) = W_{jl} k_l(z, x)$, marginals are those of the `LMC`. A step
    costs $O(S N L M^2)$ time and $O(S N L M)$ memory for $S$ functions at $N$ rows, where mixing
    costs $O(N L M^2)$ and $O(N L M)$: the factor $S$ is what sub-sampling of classes saves in the
    thesis.
    """

    def condition(
        self,
        X: tf.Tensor,
        inducing: InducingPoints,
        posterior: LatentPosterior,
        factors: Any,
        full_cov: bool = False,
    ) -> Conditional:
        """The functions at `X [N, P]`."""
        if self.copies > 1:
            raise ValueError(
                f"the class-expanded prior has rank one only, got rank={self.copies}; use LMC."
            )
        if full_cov:
            raise ValueError(
                "the class-expanded prior has no covariances between rows; use LMC, which"
                " equals it."
            )
        mixed = super().condition(X, inducing, posterior, factors)
        Kuf, Kff = inducing.Kuf(self.kernels, X), self.kernels.K_diag(X)

        def project(weights: tf.Tensor, rows: tf.Tensor | None) -> Marginals:
            """Moments `[N, S]` of `sum_l w_l u_l` for `weights [N, S, L]`, or `[1, S, L]` for the
            same at all rows.
            """
            uf, ff = (
                (Kuf, Kff)
                if rows is None
                else (tf.gather(Kuf, rows, axis=2), tf.gather(Kff, rows, axis=1))
            )
            S = tf.shape(weights)[1]
            by_latent = tf.transpose(weights, [2, 0, 1])
            expanded = uf[..., None] * by_latent[:, None]
            columns = tf.reshape(expanded, [uf.shape[0], uf.shape[1], -1])
            variances = tf.reshape(ff[..., None] * by_latent**2, [uf.shape[0], -1])
            mean, var = posterior.project(factors, columns, variances)
            return Marginals(*(tf.reshape(tf.reduce_sum(a, 0), [-1, S]) for a in (mean, var)))

        return _Expanded(mixed, project, tf.convert_to_tensor(self.W), self.bias)


class _Expanded(Conditional):
    """Marginals and contrasts by projecting each function; draws as the mixed functions' (they have
    no other form).
    """

    def __init__(self, mixed: Conditional, project: Any, W: tf.Tensor, bias: Any) -> None:
        self._mixed, self._project, self._W = mixed, project, W
        self._bias = tf.zeros_like(W[:, 0]) if bias is None else tf.convert_to_tensor(bias)

    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        if full_output_cov:
            return self._mixed.marginals(functions, rows, full_output_cov)
        chosen = (
            tf.range(functions.start, functions.stop) if isinstance(functions, range) else functions
        )
        chosen = chosen[None] if chosen.shape.rank == 1 else chosen
        f = self._project(tf.gather(self._W, chosen), rows)
        return Marginals(f.mean + tf.gather(self._bias, chosen), f.var)

    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        both = tf.concat([reference[:, None], functions], 1)
        if independent:
            f = self.marginals(both, rows)
            return Marginals(f.mean[:, 1:] - f.mean[:, :1], f.var[:, 1:] + f.var[:, :1])
        W, bias = tf.gather(self._W, both), tf.gather(self._bias, both)
        f = self._project(W[:, 1:] - W[:, :1], rows)
        return Marginals(f.mean + bias[:, 1:] - bias[:, :1], f.var)

    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        return self._mixed.points(functions, noise, rows)

    @property
    def num_latents(self) -> int:
        return self._mixed.num_latents

    @property
    def num_rows(self) -> int | None:
        return self._mixed.num_rows

    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        return self._mixed.draws(functions, samples, seed)

    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return self._mixed.covariances(functions, rows)
