"""Named models with one likelihood for each output: chained GPs (CGP, CCGP, ACCGP) and
HetMOGP-LMC.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from gpflow.kernels import Kernel
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable

from mogp.data import MultiOutputData
from mogp.data.batches import Batch, BatchSource
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
from mogp.priors import LMC, Independent

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
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Heterogeneous outputs with shared latent GPs (Moreno-Muñoz et al. 2018; Giraldo, chapter 4).

    prior       LMC over all latent parameter functions
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
    points = _points(data, inducing, Q, seed)
    W, bias = _begin(data, outputs, rank * Q, start, seed)
    parts: dict[str, Any] = {
        "prior": LMC(
            _kernels(data, kernel, Q, points, start),
            functions=outputs.num_functions,
            rank=rank,
            W=W,
            bias=bias,
            seed=seed,
        ),
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
    _one_output(data)
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


def accgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 2,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
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

    Args:
        data: observations of one output.
        likelihood: of the output.
        latents, inducing, kernel, whiten, start, scaling, seed: as in `hetmogp_lmc`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import accgp
    >>> X = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(X, np.sin(6 * X), names=["level"])
    >>> accgp(data, HeteroscedasticGaussian(), inducing=4).names
    ('level', 'level (copy)')
    """
    _one_output(data)
    twice = hetmogp_lmc(
        twofold(data),
        [likelihood, likelihood],
        latents=latents,
        inducing=inducing,
        kernel=kernel,
        whiten=whiten,
        start=start,
        scaling=scaling,
        seed=seed,
    )
    return AugmentedMOGP(
        twice.prior,
        twice.inducing,
        twice.likelihood,
        Full(whiten),
        twice.schema,
        scaling=twice.scaling,
    )


class AugmentedMOGP(SparseMOGP):
    r"""A model of an output and a copy of it, for the data of one output.

    The objective counts every observation twice,

    $$\hat{\mathcal L} = \frac N{|A|}\sum_{a\in A}\mathbb E\log p(y_a\mid f_1) + \frac
      N{|B|}\sum_{b\in B} \mathbb E\log p(y_b\mid f_2) - \mathrm{KL},$$

    with independent draws $A$, $B$ of half a mini-batch each: no bound on the evidence, nor
    comparable with one. Predictions are those of the first output unless the copy is named.
    `accgp` builds such models.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import AugmentedMOGP, accgp
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8.0))
    >>> model = accgp(data, HeteroscedasticGaussian(), inducing=4)
    >>> isinstance(model, AugmentedMOGP), [len(own.Y) for own in model.batches(data, 6)(0).outputs]
    (True, [3, 3])
    """

    def batches(self, data: MultiOutputData, size: Any = None, seed: int = 0) -> BatchSource:
        """Mini-batches in which each copy has half of the `size` rows."""
        copies: MultiOutputData = self.scaled(data)
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

    def scaled(self, data: Any) -> Any:
        """Data of both as the kernels read them."""
        return super().scaled(_both(data))

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
    """The one output of the data and a copy of it, named after it.

    >>> from mogp import MultiOutputData
    >>> from mogp.models import twofold
    >>> twofold(MultiOutputData.from_arrays([0.0, 1.0], [3.0, 4.0], names=["level"])).names
    ('level', 'level (copy)')
    """
    _one_output(data)
    own = data[0]
    return replace(data, outputs=(own, replace(own, name=f"{own.name} (copy)")))


def _both(data: MultiOutputData) -> MultiOutputData:
    return data if data.num_outputs == 2 else twofold(data)


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
    _one_output(data)
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


def _one_output(data: MultiOutputData) -> None:
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
