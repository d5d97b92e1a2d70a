"""Named models with one likelihood for each output: chained GPs (CGP, CCGP, ACCGP) and HetMOGP, by
prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import tensorflow as tf
from gpflow.kernels import Kernel
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable

from mogp.data import Array, MultiOutputData
from mogp.data.batches import Batch, BatchSource
from mogp.inducing import FunctionPoints, InducingPoints, SmoothedPoints, kmeans_points
from mogp.kernels import ConvolvedStack, SmoothedStack, unit_kernels
from mogp.likelihoods import PerOutput
from mogp.models.choices import KernelChoice, chosen_kernels, chosen_points
from mogp.models.lengthscales import start_lengthscales
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import CPM, LMC, Independent

Likelihoods: TypeAlias = Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood]


def hetmogp_lmc(
    data: MultiOutputData,
    likelihoods: Likelihoods,
    *,
    latents: int | None = None,
    copies: int = 1,
    inducing: int | InducingPoints = 50,
    kernel: KernelChoice = None,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Heterogeneous outputs with shared latent GPs (Moreno-Muñoz et al. 2018; Giraldo, chapter 4).

    prior       LMC over all latent parameter functions; `latents` GPs, by default one a function (3
                from 6 outputs on), in `copies` that share kernel and inducing inputs
    inducing    points, a set for each latent GP
    posterior   full, whitened (un-whitened in the thesis: `whiten=False`)
    likelihood  one for each output

    Args:
        data: observations of the outputs.
        likelihoods: one for each output: a sequence, or a dict by name.
        latents: latent GPs `Q`.
        copies: of each latent GP, with mixing weights of their own.
        inducing: inducing inputs of each latent GP (centres of clusters), or the inducing points.
        kernel: of the latent GPs, see `mogp.models.choices.KernelChoice`; a squared exponential of
            unit variance if None.
        whiten: the posterior.
        seed: of the inducing inputs and mixing weights.
    """
    outputs = _per_output(data, likelihoods)
    Q = _latents(data, outputs, latents)
    return SparseMOGP(
        prior=LMC(
            _kernels(data, kernel, Q), functions=outputs.num_functions, rank=copies, seed=seed
        ),
        inducing=_points(data, inducing, Q, seed),
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
    )


def hetmogp_cpm(
    data: MultiOutputData,
    likelihoods: Likelihoods,
    *,
    latents: int | None = None,
    copies: int = 1,
    inducing: int | InducingPoints = 50,
    on: Literal["functions", "latents", "joint"] = "functions",
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Heterogeneous outputs whose functions are smoothed latent GPs (Giraldo, chapter 5).

    prior       convolution process (CPM); `latents` GPs, by default one a function (3 from 6
                outputs on), in `copies` with weights of their own
    inducing    points on the "functions", a set for each (as published: functions then share
                hyper-parameters only); one "joint" block of them with the full prior; or points on
                the "latents"
    posterior   full, whitened (un-whitened in the thesis: `whiten=False`)
    likelihood  one for each output
    """
    if on not in ("functions", "latents", "joint"):
        raise ValueError(
            f'on={on!r}; inducing points are on the "functions", the "latents" or "joint".'
        )
    outputs = _per_output(data, likelihoods)
    J, Q, width = (
        outputs.num_functions,
        _latents(data, outputs, latents),
        start_lengthscales(data.X, "diagonal"),
    )
    points = _points(data, inducing, Q if on == "latents" else J, seed)
    if on != "latents" and not isinstance(points, FunctionPoints):
        points = FunctionPoints(_sets(points, J), joint=on == "joint")
    return SparseMOGP(
        prior=CPM(
            ConvolvedStack(
                J,
                Q,
                data.input_dim,
                lengthscales=width,
                smoothing=0.3 * width,
                copies=copies,
                seed=seed,
            )
        ),
        inducing=points,
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
    )


def ccgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 2,
    copies: int = 1,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Correlated chained GP: one output whose likelihood parameters share latent GPs (Giraldo,
    chapter 3).

    prior       LMC over the parameters of one likelihood
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  any with several latent functions
    """
    _one_output(data)
    return hetmogp_lmc(
        data,
        likelihood,
        latents=latents,
        copies=copies,
        inducing=inducing,
        kernel=kernel,
        whiten=whiten,
        seed=seed,
    )


def ccgp_cpm(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 3,
    copies: int | None = None,
    inducing: int | InducingPoints = 50,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Correlated chained GP with a convolution process (Giraldo, chapter 6).

    prior       convolution process (CPM) over the parameters of one likelihood; `latents` GPs, each
                in `copies`, by default one a parameter
    inducing    points on the latent GPs, a set for each, which its copies share
    posterior   full, whitened
    likelihood  any
    """
    _one_output(data)
    R = likelihood.latent_dim or 1 if copies is None else copies
    return hetmogp_cpm(
        data,
        likelihood,
        latents=latents,
        copies=R,
        inducing=inducing,
        on="latents",
        whiten=whiten,
        seed=seed,
    )


def ccgp_vik(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    variant: Literal["classical", "thesis"] = "classical",
    latents: int = 3,
    copies: int | None = None,
    inducing: int | InducingPoints = 50,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Correlated chained GP with variational inducing kernels (Giraldo, chapter 6).

    prior       convolution process (CPM) as in `ccgp_cpm`; in the `variant` of the "thesis" over
                latent GPs that are smoothed once more, which is a CPM with other names for its
                parameters
    inducing    points on smoothed latent GPs: "classical" (Álvarez et al. 2010) their widths are
                variational parameters that leave the prior alone, in the "thesis" they are the
                prior's
    posterior   full, whitened
    likelihood  any
    """
    if variant not in ("classical", "thesis"):
        raise ValueError(f'variant={variant!r}; choose "classical" or "thesis".')
    _one_output(data)
    outputs = _per_output(data, likelihood)
    J, Q, width = (
        outputs.num_functions,
        _latents(data, outputs, latents),
        start_lengthscales(data.X, "diagonal"),
    )
    options: dict[str, Any] = {"lengthscales": width, "smoothing": 0.3 * width, "seed": seed}
    options["copies"] = J if copies is None else copies
    points = _points(data, inducing, Q, seed)
    if variant == "classical":
        kernels, points = (
            ConvolvedStack(J, Q, data.input_dim, **options),
            SmoothedPoints(_sets(points, Q), 0.3 * width),
        )
    else:
        kernels = SmoothedStack(J, Q, data.input_dim, width=0.3 * width, **options)
    return SparseMOGP(
        prior=CPM(kernels),
        inducing=points,
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
    )


def accgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 2,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    seed: int = 0,
) -> AugmentedMOGP:
    """Augmented correlated chained GP: a CCGP trained on its output and a copy of it (Giraldo,
    chapter 3).

    prior       LMC over the parameters of both, so that the copy has weights of its own
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  any with several latent functions, twice

    Train it and predict with the data of one output; the first of the two outputs is the one to
    report.
    """
    _one_output(data)
    twice = hetmogp_lmc(
        twofold(data),
        [likelihood, likelihood],
        latents=latents,
        inducing=inducing,
        kernel=kernel,
        whiten=whiten,
        seed=seed,
    )
    return AugmentedMOGP(twice.prior, twice.inducing, twice.likelihood, Full(whiten), twice.names)


class AugmentedMOGP(SparseMOGP):
    r"""A model of an output and a copy of it, for the data of one output.

    The objective counts every observation twice,

    $$\hat{\mathcal L} = \frac N{|A|}\sum_{a\in A}\mathbb E\log p(y_a\mid f_1) + \frac
      N{|B|}\sum_{b\in B} \mathbb E\log p(y_b\mid f_2) - \mathrm{KL},$$

    with independent draws $A$, $B$ of half a mini-batch each: no bound on the evidence, nor
    comparable with one. Predictions are those of the first output unless the copy is named.
    """

    def batches(self, data: MultiOutputData, size: Any = None, seed: int = 0) -> BatchSource:
        """Mini-batches in which each copy has half of the `size` rows."""
        copies = twofold(data)
        if size is None:
            return copies.batches(None, seed)
        if not isinstance(size, int | np.integer) or size < 2:
            raise ValueError(
                f"batch_size={size!r}; an augmented model takes one number of at least 2, halved"
                " for each copy."
            )
        return copies.batches([int(size) // 2] * 2, seed)

    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data of its one output."""
        super().check(_both(data))

    def aligned(self, data: Any) -> Any:
        """Data of the one output, given to both."""
        return super().aligned(_both(data))

    def _batch(self, data: Any) -> Batch:
        return super()._batch(_both(data) if isinstance(data, MultiOutputData) else data)

    @property
    def reported(self) -> range:
        """The outputs that predictions are of unless one is named: the first."""
        return range(1)

    def predict_log_density(self, data: Any) -> dict[str, tf.Tensor]:
        """See `MOGP.predict_log_density`; of the copy too, where the data have it (`twofold`)."""
        found = super().predict_log_density(data)
        return {name: found[name] for name in data.names}


def twofold(data: MultiOutputData) -> MultiOutputData:
    """The one output of the data and a copy of it, named after it."""
    _one_output(data)
    name, own = data.names[0], (data.inputs(0), data[0].Y)
    return MultiOutputData.from_list([own, own], names=[name, f"{name} (copy)"])


def _both(data: MultiOutputData) -> MultiOutputData:
    return data if data.num_outputs == 2 else twofold(data)


def cgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Chained GP: one output, an independent GP for each parameter of its likelihood (Saul et al.
    2016).

    prior       independent, a kernel for each function
    inducing    points, a set for each function
    posterior   full, whitened
    likelihood  any with several latent functions
    """
    _one_output(data)
    outputs = _per_output(data, likelihood)
    kernels = _kernels(data, kernel, outputs.num_functions)
    if kernel is None:
        for one in kernels:
            set_trainable(one.variance, True)
    return SparseMOGP(
        prior=Independent(kernels),
        inducing=_points(data, inducing, len(kernels), seed),
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
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
    _warn_of_constants(data)
    return outputs


def _warn_of_constants(data: MultiOutputData) -> None:
    """Columns that say nothing are no error, but hardly what was meant."""
    still = np.flatnonzero(np.ptp(data.X, axis=0) == 0) if len(data.X) > 1 else ()
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


def _one_output(data: MultiOutputData) -> None:
    if data.num_outputs != 1:
        raise ValueError(
            f"a chained GP has one output, the data have {data.num_outputs}; use hetmogp_lmc for"
            " several."
        )


def _kernels(data: MultiOutputData, kernel: KernelChoice, count: int) -> Sequence[Kernel]:
    """Those that were chosen, or squared exponentials of unit variance."""
    width = start_lengthscales(data.X, "diagonal")
    return chosen_kernels(kernel, count, lambda: unit_kernels(count, data.input_dim, width))


def _points(
    data: MultiOutputData, inducing: int | InducingPoints, sets: int, seed: int
) -> InducingPoints:
    return chosen_points(inducing, lambda M: kmeans_points(data, M, sets=sets, seed=seed))


def _sets(points: InducingPoints, count: int) -> Array:
    """`[count, M, P]`: a set of inducing inputs for each, copies where one set was given."""
    Z = points.Z.numpy()
    return np.repeat(Z[None], count, 0) if Z.ndim == 2 else np.asarray(Z)
