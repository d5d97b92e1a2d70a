"""Named models with one likelihood for each output: CGP, CCGP and HetMOGP with the LMC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable

from mogp.data import MultiOutputData
from mogp.inducing import kmeans_points
from mogp.kernels import unit_kernels
from mogp.likelihoods import PerOutput
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent

Likelihoods: TypeAlias = Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood]


def hetmogp_lmc(
    data: MultiOutputData, likelihoods: Likelihoods, *, latents: int | None = None, inducing: int = 50, seed: int = 0
) -> SparseMOGP:
    """Heterogeneous outputs with shared latent GPs (Moreno-Muñoz et al. 2018; Giraldo, chapter 4).

    prior       LMC over all latent parameter functions; `latents` GPs, by default one a function (3 from 6 outputs on)
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  one for each output
    """
    outputs = _per_output(data, likelihoods)
    J = outputs.num_functions
    Q = latents if latents is not None else (J if data.num_outputs <= 5 else 3)
    if Q < 1:
        raise ValueError(f"latents={latents}; at least one latent GP is needed.")
    return SparseMOGP(
        prior=LMC(unit_kernels(Q, data.input_dim, _lengthscale(data)), functions=J, seed=seed),
        inducing=kmeans_points(data, inducing, sets=Q, seed=seed),
        posterior=Full(whiten=True),
        likelihood=outputs,
        names=data.names,
    )


def ccgp(
    data: MultiOutputData, likelihood: Likelihood, *, latents: int = 2, inducing: int = 20, seed: int = 0
) -> SparseMOGP:
    """Correlated chained GP: one output whose likelihood parameters share latent GPs (Giraldo, chapter 3).

    prior       LMC over the parameters of one likelihood
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  any with several latent functions
    """
    _one_output(data)
    return hetmogp_lmc(data, likelihood, latents=latents, inducing=inducing, seed=seed)


def cgp(data: MultiOutputData, likelihood: Likelihood, *, inducing: int = 20, seed: int = 0) -> SparseMOGP:
    """Chained GP: one output, an independent GP for each parameter of its likelihood (Saul et al. 2016).

    prior       independent, a kernel for each function
    inducing    points, a set for each function
    posterior   full, whitened
    likelihood  any with several latent functions
    """
    _one_output(data)
    outputs = _per_output(data, likelihood)
    kernels = unit_kernels(outputs.num_functions, data.input_dim, _lengthscale(data))
    for kernel in kernels:
        set_trainable(kernel.variance, True)
    return SparseMOGP(
        prior=Independent(kernels),
        inducing=kmeans_points(data, inducing, sets=len(kernels), seed=seed),
        posterior=Full(whiten=True),
        likelihood=outputs,
        names=data.names,
    )


def _per_output(data: MultiOutputData, likelihoods: Likelihoods) -> PerOutput:
    if isinstance(likelihoods, Likelihood):
        likelihoods = [likelihoods]
    if isinstance(likelihoods, Mapping):
        for name in likelihoods:
            data.index(name)
        likelihoods = {name: likelihoods[name] for name in data.names if name in likelihoods}
    outputs = PerOutput(likelihoods)
    outputs.check(data)
    return outputs


def _one_output(data: MultiOutputData) -> None:
    if data.num_outputs != 1:
        raise ValueError(f"a chained GP has one output, the data have {data.num_outputs}; use hetmogp_lmc for several.")


def _lengthscale(data: MultiOutputData) -> float:
    """A tenth of the diagonal of the box that holds the inputs, at the scale of standardised inputs."""
    span = np.ptp(data.X, axis=0)
    return max(float(np.linalg.norm(span)) / 10, 1e-3)
