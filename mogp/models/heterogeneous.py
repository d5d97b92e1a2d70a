"""Named models with one likelihood for each output: chained GPs (CGP, CCGP) and HetMOGP-LMC."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gpflow.kernels import Kernel
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable

from mogp.data import Array, MultiOutputData
from mogp.data.matrices import ranges
from mogp.inducing import InducingPoints, kmeans_points
from mogp.kernels import unit_kernels
from mogp.likelihoods import PerOutput
from mogp.models.choices import (
    KernelChoice,
    ScalingChoice,
    chosen_kernels,
    chosen_points,
    in_units,
)
from mogp.models.collapsed import affordable, constant_noise
from mogp.models.data_start import (
    DataStart,
    StartName,
    check_start_name,
    data_start,
    first_lengthscale,
    start_noise,
)
from mogp.models.row_effect import RowEffectMOGP, gaussian_variances, start_effect
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent, SharedAndOwn

_LEAST_OWN = 0.1
Likelihoods: TypeAlias = Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood]
"""The likelihood of the one output, or one for each output: a sequence, or a dict by name."""


def hetmogp_lmc(
    data: MultiOutputData,
    likelihood: Likelihoods,
    *,
    latents: int | None = None,
    rank: int = 1,
    inducing: int | InducingPoints = 50,
    kernel: KernelChoice = None,
    whiten: bool = True,
    row_effect: int = 0,
    own: bool | None = None,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Heterogeneous outputs with shared latent GPs (Moreno-Muñoz et al. 2018; Giraldo, chapter 4).

    prior       LMC over all latent parameter functions, with own parts where few latent GPs are
                to make many Gaussian outputs (never in the thesis: `own=False`)
    inducing    points, a set for each latent GP
    posterior   full, whitened (un-whitened in the thesis: `whiten=False`)
    likelihood  one for each output

    Args:
        data: observations of the outputs.
        likelihood: one for each output: a sequence, or a dict by name; for one output it may stand
            alone.
        latents: latent GPs `Q`; if None, one for each function (3 from 6 outputs on).
        rank: columns `R` of the mixing matrix of each latent GP: independent copies of it that
            share its kernel and inducing inputs.
        inducing: inducing inputs of each latent GP (centres of clusters), or the inducing points.
        kernel: a GPflow kernel, of which every latent GP gets a copy, or a function that makes one;
            a squared exponential of unit variance if None.
        whiten: parametrise the posterior by whitened variables.
        row_effect: rank of an effect that outputs observed at one row share besides their
            functions, for Gaussian outputs: see `RowEffectMOGP`; 0 for none.
        own: give each function a latent GP that no other reads, besides those that all share
            (`SharedAndOwn`); for `rank=1`. If None, where all outputs are Gaussian and have fewer
            latent GPs than functions, and `start` is "data": bands of outputs that were not
            observed for a while are too narrow without.
        start: "data" to read start values off the data (`data_start`): offsets of the functions,
            the mixing matrix by principal components, lengthscales by which inducing inputs see
            each other, .3 for Gaussian noise that was given none; "plain" for random mixing weights
            and lengthscales of a tenth of the diagonal, without offsets.
        scaling: "standard" to compute with input columns and real targets of mean 0 and standard
            deviation 1, which is what kernels and noises are of; `{"rain": "log"}` to transform
            targets of Gaussian outputs first ("log" or "yeo-johnson"); None for the units of the
            data.
        seed: of the inducing inputs and mixing weights.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian, Poisson
    >>> from mogp.models import hetmogp_lmc
    >>> X = np.linspace(0, 1, 8)
    >>> Y = np.stack([np.sin(6 * X), np.arange(8)], axis=1)
    >>> data = MultiOutputData.from_arrays(X, Y, names=["level", "visits"])
    >>> kinds = {"level": HeteroscedasticGaussian(), "visits": Poisson()}
    >>> model = hetmogp_lmc(data, kinds, latents=2, rank=2, inducing=4)
    >>> model.prior.W.shape  # three functions, two latent GPs in two copies
    TensorShape([3, 4])
    """
    outputs = _per_output(data, likelihood)
    data = in_units(scaling, data, outputs.likelihoods, sparse=True)
    Q = _latents(data, outputs, latents)
    J = outputs.num_functions
    if own is None:
        simple = start == "data" and rank == 1 and row_effect == 0
        own = simple and _wants_own(data, outputs, Q, inducing, kernel)
    if own and rank != 1:
        raise ValueError(f"own=True with rank={rank}: own parts go with rank=1.")
    G = Q + J if own else Q
    points = _points(data, inducing, G, seed)
    kernels = _kernels(data, kernel, G, points, start)
    W, bias = _begin(data, outputs, rank * Q, start, seed)
    parts: dict[str, Any] = {
        "prior": _with_own(kernels, J, W, bias, seed)
        if own
        else LMC(kernels, functions=J, rank=rank, W=W, bias=bias, seed=seed),
        "inducing": points,
        "posterior": Full(whiten),
        "likelihood": outputs,
        "names": data.schema,
        "scaling": data.scaled_by,
    }
    if row_effect == 0:
        return SparseMOGP(**parts)
    noise = gaussian_variances(outputs, data.names)
    return RowEffectMOGP(**parts, effect=start_effect(data, row_effect, noise, seed))


def ccgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 2,
    rank: int = 1,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Correlated chained GP: one output whose likelihood parameters share latent GPs (Giraldo,
    chapter 3).

    prior       LMC over the parameters of one likelihood
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  any with several latent functions

    Args:
        data: observations of one output.
        likelihood: of the output.
        latents, rank, inducing, kernel, whiten, start, scaling, seed: as in `hetmogp_lmc`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import ccgp
    >>> X = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(X, np.sin(6 * X))
    >>> model = ccgp(data, HeteroscedasticGaussian(), latents=3, inducing=4)
    >>> model.prior.W.shape  # two functions (mean and noise), three latent GPs
    TensorShape([2, 3])
    """
    check_one_output(data)
    return hetmogp_lmc(
        data,
        likelihood,
        latents=latents,
        rank=rank,
        inducing=inducing,
        kernel=kernel,
        whiten=whiten,
        start=start,
        scaling=scaling,
        seed=seed,
    )


def cgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Chained GP: one output, an independent GP for each parameter of its likelihood (Saul et al.
    2016).

    prior       independent, a kernel for each function
    inducing    points, a set for each function
    posterior   full, whitened
    likelihood  any with several latent functions

    Args:
        data: observations of one output.
        likelihood: of the output.
        inducing: inducing inputs of each function (centres of clusters), or the inducing points.
        kernel: a GPflow kernel, of which every function gets a copy, or a function that makes one;
            a squared exponential if None.
        whiten, start, scaling, seed: as in `hetmogp_lmc`.

    >>> import numpy as np
    >>> from gpflow.kernels import Matern32
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import cgp
    >>> X = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(X, np.sin(6 * X))
    >>> model = cgp(data, HeteroscedasticGaussian(), inducing=4, kernel=Matern32(lengthscales=0.2))
    >>> len(model.prior.kernels)
    2
    """
    check_one_output(data)
    outputs = _per_output(data, likelihood)
    data = in_units(scaling, data, outputs.likelihoods, sparse=True)
    points = _points(data, inducing, outputs.num_functions, seed)
    bias = _begin(data, outputs, 0, start, seed).bias
    kernels = _kernels(data, kernel, outputs.num_functions, points, start)
    if kernel is None:
        for one in kernels:
            set_trainable(one.variance, True)
    return SparseMOGP(
        prior=Independent(kernels, bias=bias),
        inducing=points,
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
        scaling=data.scaled_by,
    )


def _wants_own(
    data: MultiOutputData,
    outputs: PerOutput,
    latents: int,
    inducing: int | InducingPoints,
    kernel: KernelChoice,
) -> bool:
    """Whether own parts are called for, and cheap: see `own` in `hetmogp_lmc`."""
    J, rows = outputs.num_functions, data.X.shape[0]
    fits = isinstance(inducing, int) and not isinstance(kernel, Sequence)
    return (
        fits
        and latents < J
        and all(map(constant_noise, outputs.likelihoods))
        and affordable(latents, J, min(int(inducing), rows), rows)
    )


def _with_own(
    kernels: Sequence[Kernel], functions: int, W: Array | None, bias: Array | None, seed: int
) -> SharedAndOwn:
    """Own parts begin with what shared latent GPs leave of a variance of 1."""
    if W is None:
        W = np.random.default_rng(seed).normal(size=(functions, len(kernels) - functions))
        W /= np.linalg.norm(W, axis=1, keepdims=True) * np.sqrt(2)
    left = 1 - np.sum(np.square(W), axis=1)
    return SharedAndOwn(kernels, functions, W, np.sqrt(np.maximum(left, _LEAST_OWN)), bias)


def _per_output(data: MultiOutputData, likelihood: Likelihoods) -> PerOutput:
    if isinstance(likelihood, Likelihood):
        likelihood = [likelihood]
    if isinstance(likelihood, Mapping):
        for name in likelihood:
            data.index(name)
        likelihood = {name: likelihood[name] for name in data.names if name in likelihood}
    outputs = PerOutput(likelihood)
    outputs.check(data)
    _warn_of_constants(data)
    return outputs


def _warn_of_constants(data: MultiOutputData) -> None:
    """Columns that say nothing are no error, but hardly what was meant."""
    still = np.flatnonzero(ranges(data.X) == 0) if data.X.shape[0] > 1 else ()
    if len(still):
        which = ", ".join(map(str, still))
        warnings.warn(
            f"input column {which} is constant: it cannot tell rows apart, and its lengthscales"
            " will not be learned. Drop it.",
            stacklevel=4,
        )
    for own in data.outputs:
        if len(own) > 1 and np.ptp(own.Y) == 0:
            warnings.warn(
                f"all {len(own)} targets of output {own.name!r} are {own.Y.flat[0]:g}: there is"
                " nothing to learn about their spread, and a likelihood without a lower bound on"
                " it may run away. Check the column.",
                stacklevel=4,
            )


def _latents(data: MultiOutputData, outputs: PerOutput, latents: int | None) -> int:
    """The number asked for, or by the rule of Giraldo's Appendix I."""
    Q = latents if latents is not None else (outputs.num_functions if data.num_outputs <= 5 else 3)
    if Q < 1:
        raise ValueError(f"latents={latents}; at least one latent GP is needed.")
    return Q


def check_one_output(data: MultiOutputData) -> None:
    """Raise unless the data have one output.

    >>> check_one_output(MultiOutputData.from_arrays([0.0, 1.0], [3.0, 4.0]))
    """
    if data.num_outputs != 1:
        raise ValueError(
            f"a chained GP has one output, the data have {data.num_outputs}; use hetmogp_lmc for"
            " several."
        )


def _begin(
    data: MultiOutputData, outputs: PerOutput, latents: int, start: StartName, seed: int
) -> DataStart:
    """Mixing weights and offsets; noise begins here, too."""
    check_start_name(start)
    if start == "plain":
        return DataStart(None, None)
    if data.scaled_by is not None:
        start_noise(outputs.likelihoods)
    return data_start(data, outputs, latents, seed)


def _kernels(
    data: MultiOutputData,
    kernel: KernelChoice,
    count: int,
    points: InducingPoints,
    start: StartName,
) -> Sequence[Kernel]:
    """Those that were chosen, or squared exponentials of unit variance."""
    width = first_lengthscale(data.X, points, start)
    return chosen_kernels(kernel, count, lambda: unit_kernels(count, data.input_dim, width))


def _points(
    data: MultiOutputData, inducing: int | InducingPoints, sets: int, seed: int
) -> InducingPoints:
    def make(M: int) -> InducingPoints:
        return kmeans_points(data, M, sets=sets, seed=seed)

    return chosen_points(inducing, make, data.scaled_by)
