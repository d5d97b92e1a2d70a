"""Named models with a convolution process: HetMOGP-CPM, CCGP-CPM and CCGP-VIK (Giraldo, chapters 5
and 6).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gpflow.likelihoods import Likelihood

from mogp.data import Array, MultiOutputData
from mogp.inducing import FunctionPoints, InducingPoints, SmoothedPoints
from mogp.kernels import ConvolvedStack, SmoothedStack
from mogp.models.choices import ScalingChoice, in_units
from mogp.models.heterogeneous import Likelihoods, _latents, _per_output, _points, check_one_output
from mogp.models.lengthscales import start_lengthscales
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import CPM


def hetmogp_cpm(
    data: MultiOutputData,
    likelihood: Likelihoods,
    *,
    latents: int | None = None,
    rank: int = 1,
    inducing: int | InducingPoints = 50,
    on: Literal["functions", "latents", "joint"] = "functions",
    whiten: bool = True,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Heterogeneous outputs whose functions are smoothed latent GPs (Giraldo, chapter 5).

    prior       convolution process (CPM): squared exponentials, smoothed with Gaussians
    inducing    points on the functions or on the latent GPs, see `on`
    posterior   full, whitened (un-whitened in the thesis: `whiten=False`)
    likelihood  one for each output

    There is no `kernel` to choose: covariances of smoothed GPs have a closed form because the
    latent GPs and the smoothing kernels are all Gaussian.

    Args:
        data, likelihood, latents, whiten, scaling, seed: as in `hetmogp_lmc`.
        rank: columns `R` of the weights of each latent GP: independent copies of it that share its
            kernel.
        inducing: inducing inputs of each function or latent GP, or the inducing points.
        on: what the inducing variables are values of: the "functions", a set for each (as
            published: functions then share hyper-parameters only); one "joint" block of them with
            the full prior; or the "latents".

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import Gaussian, Poisson
    >>> from mogp.models import hetmogp_cpm
    >>> X = np.linspace(0, 1, 8)
    >>> Y = np.stack([np.sin(6 * X), np.arange(8)], axis=1)
    >>> data = MultiOutputData.from_arrays(X, Y, names=["level", "visits"])
    >>> model = hetmogp_cpm(data, [Gaussian(), Poisson()], latents=1, inducing=4, on="latents")
    >>> model.prior.kernels.smoothing.shape  # a width for each function and input
    TensorShape([2, 1])
    """
    if on not in ("functions", "latents", "joint"):
        raise ValueError(
            f'on={on!r}; inducing points are on the "functions", the "latents" or "joint".'
        )
    outputs = _per_output(data, likelihood)
    data = in_units(scaling, data, outputs.likelihoods)
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
                rank=rank,
                seed=seed,
            )
        ),
        inducing=points,
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
        scaling=data.scaled_by,
    )


def ccgp_cpm(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 3,
    rank: int | None = None,
    inducing: int | InducingPoints = 50,
    whiten: bool = True,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Correlated chained GP with a convolution process (Giraldo, chapter 6).

    prior       convolution process (CPM) over the parameters of one likelihood
    inducing    points on the latent GPs, a set for each
    posterior   full, whitened
    likelihood  any

    There is no `kernel` to choose, see `hetmogp_cpm`.

    Args:
        data: observations of one output.
        likelihood: of the output.
        rank: columns `R` of the weights of each latent GP; if None, one for each parameter of the
            likelihood.
        latents, inducing, whiten, scaling, seed: as in `hetmogp_cpm`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import ZeroInflatedPoisson
    >>> from mogp.models import ccgp_cpm
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8) % 3)
    >>> model = ccgp_cpm(data, ZeroInflatedPoisson(), latents=3, inducing=4)
    >>> model.prior.kernels.rank, model.prior.num_latents
    (2, 6)
    """
    check_one_output(data)
    R = likelihood.latent_dim or 1 if rank is None else rank
    return hetmogp_cpm(
        data,
        likelihood,
        latents=latents,
        rank=R,
        inducing=inducing,
        on="latents",
        whiten=whiten,
        scaling=scaling,
        seed=seed,
    )


def ccgp_vik(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    variant: Literal["classical", "thesis"] = "classical",
    latents: int = 3,
    rank: int | None = None,
    inducing: int | InducingPoints = 50,
    whiten: bool = True,
    scaling: ScalingChoice = "standard",
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

    There is no `kernel` to choose, see `hetmogp_cpm`.

    Args:
        data: observations of one output.
        likelihood: of the output.
        variant: "classical" or "thesis", see above.
        latents, rank, inducing, whiten, scaling, seed: as in `ccgp_cpm`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import ZeroInflatedPoisson
    >>> from mogp.models import ccgp_vik
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8) % 3)
    >>> type(ccgp_vik(data, ZeroInflatedPoisson(), inducing=4).inducing).__name__
    'SmoothedPoints'
    """
    if variant not in ("classical", "thesis"):
        raise ValueError(f'variant={variant!r}; choose "classical" or "thesis".')
    check_one_output(data)
    outputs = _per_output(data, likelihood)
    data = in_units(scaling, data, outputs.likelihoods)
    J, Q, width = (
        outputs.num_functions,
        _latents(data, outputs, latents),
        start_lengthscales(data.X, "diagonal"),
    )
    options: dict[str, Any] = {"lengthscales": width, "smoothing": 0.3 * width, "seed": seed}
    options["rank"] = J if rank is None else rank
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
        scaling=data.scaled_by,
    )


def _sets(points: InducingPoints, count: int) -> Array:
    """`[count, M, P]`: a set of inducing inputs for each, copies where one set was given."""
    Z = points.Z.numpy()
    return np.repeat(Z[None], count, 0) if Z.ndim == 2 else np.asarray(Z)
