"""MLGPF: the multi-label factor model of Gaussian processes and its variants (Panos, chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import gpflow
import numpy as np
from gpflow.kernels import Kernel, Linear, SquaredExponential
from gpflow.utilities import set_trainable

from mogp.data import Array, LabelData
from mogp.inducing import InducingPoints, kmeans_points, subspace_points
from mogp.likelihoods import BernoulliLabels
from mogp.models.choices import (
    KernelChoice,
    PosteriorName,
    check_posterior,
    chosen_kernels,
    chosen_points,
)
from mogp.models.labels import LabelMOGP
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC

KernelName = Literal["ard", "se", "linear", "linear-ard", "ard+linear"]
Start = Literal["data", "random"]
_LENGTHSCALE = 2.0**-0.5


def mlgpf(
    data: LabelData,
    *,
    latents: int = 30,
    inducing: int | InducingPoints = 100,
    kernel: KernelChoice | KernelName = None,
    lengthscale: float | None = None,
    shared_kernel: bool = True,
    subspace_dim: int | None = None,
    train_basis: bool = False,
    train_inducing: bool = True,
    unit: bool = True,
    posterior: PosteriorName = "full",
    whiten: bool = False,
    negatives: int | None = None,
    shared_negatives: bool = True,
    start: Start = "data",
    nodes: int = 10,
    seed: int = 0,
) -> LabelMOGP:
    r"""The multi-label GP factor model: points with some of very many labels (Panos, chapter 4).

    prior       LMC with one kernel for all latent GPs, loadings and biases for each label
    inducing    points, free or in a subspace, on the unit sphere
    posterior   full or parsimonious
    likelihood  Bernoulli for each label

    The thesis's preparation of inputs is `LabelData.of(X, Y, normalise=True)`: rows of length one.

    Args:
        data: points `[N, P]` and their labels.
        latents: latent GPs $Q$, the factors of the thesis.
        inducing: inducing inputs that all latent GPs share (k-means centres), or the points.
        kernel: a GPflow kernel or a function that makes one. Or a name: "ard" (None), "se" (one
            lengthscale for all inputs), "linear", "linear-ard" (a variance for each input),
            "ard+linear"; those have unit variance.
        lengthscale: start value of the named kernels, that of inputs of length one if None.
        shared_kernel: one kernel, a copy of `kernel`, for all latent GPs; if False each gets a copy
            of its own.
        subspace_dim: dimension of the subspace that inducing inputs lie in; None for free ones.
        train_basis: train the basis of the subspace too.
        train_inducing: train the inducing inputs; if False they stay where they start.
        unit: bring inducing inputs to length one.
        posterior: "full", or "parsimonious" with $2M$ numbers for each latent GP.
        whiten: parametrise the full posterior by whitened variables.
        negatives: of the labels that a point has not, so many are sampled at each step; all count
            if None.
        shared_negatives: one sample for all points of a batch, not one for each.
        start: "data": biases at the log-odds of the labels; "random": drawn as the loadings are.
        nodes: of the quadrature, see `BernoulliLabels`.
        seed: of start values and of sampled labels.

    >>> import numpy as np
    >>> from mogp import LabelData
    >>> from mogp.models import mlgpf
    >>> X = np.random.default_rng(0).normal(size=(6, 3))
    >>> data = LabelData.of(X, [[0], [1, 2], [], [3], [0, 3], [2]], labels=4, normalise=True)
    >>> model = mlgpf(data, latents=2, inducing=4, posterior="parsimonious")
    >>> model.prior.W.shape, len(model.prior.kernels), model.top_labels(data.X, k=2).labels.shape
    (TensorShape([4, 2]), 1, (6, 2))
    """
    if latents < 1:
        raise ValueError(f"latents={latents}; at least one latent GP is needed.")
    if start not in get_args(Start):
        raise ValueError(f"start={start!r}; choose 'data' or 'random'.")
    check_posterior(posterior)
    rng, K = np.random.default_rng(seed), data.num_labels
    Phi = rng.standard_normal((K, latents), gpflow.default_float()) / np.sqrt(
        latents, dtype=gpflow.default_float()
    )
    bias = rng.normal(size=K) / np.sqrt(latents) if start == "random" else _log_odds(data)
    kernels = _kernels(data, kernel, 1 if shared_kernel else latents, lengthscale)
    prior = (
        ICM(kernels[0], K, latents, Phi, bias)
        if shared_kernel
        else LMC(kernels, K, W=Phi, bias=bias)
    )
    points = chosen_points(inducing, _made_points(data, subspace_dim, train_basis, unit, seed))
    if not train_inducing:
        set_trainable(points, False)
    model = LabelMOGP(
        prior=prior,
        inducing=points,
        posterior=Parsimonious() if posterior == "parsimonious" else Full(whiten),
        likelihood=BernoulliLabels(K, negatives, shared=shared_negatives, nodes=nodes, seed=seed),
        names=data.schema,
    )
    _start(model.posterior, rng)
    return model


def _kernels(
    data: LabelData, kernel: KernelChoice | KernelName, count: int, lengthscale: float | None
) -> list[Kernel]:
    name = "ard" if kernel is None else kernel
    if not isinstance(name, str):
        return list(chosen_kernels(name, count, list))
    if name not in get_args(KernelName):
        raise ValueError(
            f"kernel={name!r}; choose one of {', '.join(get_args(KernelName))}, or give a GPflow"
            " kernel."
        )
    width = _LENGTHSCALE if lengthscale is None else lengthscale
    return [_named_kernel(name, data.input_dim, width) for _ in range(count)]


def _named_kernel(name: str, inputs: int, lengthscale: float) -> Kernel:
    def unit(kernel: Kernel) -> Kernel:
        set_trainable(kernel.variance, False)
        return kernel

    match name:
        case "linear":
            return unit(Linear())
        case "linear-ard":
            return Linear(np.ones(inputs))
        case "se":
            return unit(SquaredExponential(lengthscales=lengthscale))
    ard = unit(SquaredExponential(lengthscales=np.full(inputs, lengthscale)))
    return ard if name == "ard" else ard + unit(Linear())


def _made_points(
    data: LabelData, subspace_dim: int | None, train_basis: bool, unit: bool, seed: int
) -> Callable[[int], InducingPoints]:
    """Makes so many inducing inputs: centres of clusters, or coordinates in a subspace."""

    def make(count: int) -> InducingPoints:
        if subspace_dim is not None:
            return subspace_points(data, count, subspace_dim, train_basis, unit, seed)
        if train_basis:
            raise ValueError(
                "train_basis=True, and inducing inputs are free; say of how many dimensions their"
                " subspace is, as subspace_dim=250."
            )
        return kmeans_points(data, count, seed=seed, unit=unit)

    return make


def _log_odds(data: LabelData) -> Array:
    """Of each label, counted with half a point more of each kind."""
    has = data.counts + 0.5
    odds: Array = np.log(has / (data.num_points + 1 - has))
    return odds


def _start(posterior: Any, rng: np.random.Generator) -> None:
    if isinstance(posterior, Parsimonious):
        posterior.mu.assign(0.5 * rng.normal(size=posterior.mu.shape))
        posterior.sigma.assign(np.logaddexp(0, rng.uniform(size=posterior.sigma.shape)) + 1e-6)
        return
    M, L = posterior.q_mu.shape
    posterior.q_mu.assign(0.5 * rng.normal(size=(M, L)))
    posterior.q_sqrt.assign(np.tile(0.2 * np.eye(M), (L, 1, 1)))
