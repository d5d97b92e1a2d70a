"""Named models for outputs with replicas: HMOGP-LV, LVMOGP, and sparse baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel, SquaredExponential
from gpflow.likelihoods import Likelihood

from mogp.data import MultiOutputData
from mogp.data.padded import distinct_inputs
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints, ReplicaPoints, kmeans_points, replica_points
from mogp.kernels import hierarchical, unit_kernels
from mogp.kernels.hierarchy import tree_size
from mogp.likelihoods import Gaussian
from mogp.models.choices import (
    KernelChoice,
    LevelKernels,
    ScalingChoice,
    chosen_kernels,
    chosen_levels,
    chosen_points,
    in_units,
)
from mogp.models.latent import LatentMOGP
from mogp.models.latent_start import Start, check_start, latent_model, trained_start
from mogp.models.lengthscales import start_lengthscales
from mogp.models.replicas import ReplicatedMOGP
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent

_MOST_LATENT = 20


def hmogp_lv(
    data: MultiOutputData,
    likelihood: Likelihood | None = None,
    *,
    latent_dim: int = 2,
    inducing: int | ReplicaPoints = 6,
    latent_inducing: int | None = None,
    kernel: LevelKernels = None,
    tree: npt.ArrayLike | None = None,
    start: Start = "pca",
    nodes: int = 7,
    noise: npt.ArrayLike | None = None,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LatentMOGP:
    r"""Hierarchical multi-output GP with latent variables (Ma, Leroy and Álvarez; Ma, chapter 5).

    kernel      $k_H(h_d, h_{d'})\,\big(k_g(x, x') + \mathbb 1[r = r'] k_f(x, x')\big)$: a hierarchy
                of replicas, or of any depth with `tree`
    inducing    a grid of inputs with replica numbers and latent points
    posterior   Kronecker, whitened, and $q(H)$
    likelihood  Gaussian with a noise variance for each output, or one of a single function for all

    The model begins with random latent variables. Start values that take training are found by
    `mogp.fit` before its first step, or by `mogp.training.start(model, data)`: they replace all
    values, so assign values of your own after that.

    Args:
        data: outputs with replica numbers. Where replicas are nested in outputs, replica `r` of
            output `d` of `D` has the number `r * D + d`, and no two outputs share one.
        likelihood: of one function, for all outputs, ours or GPflow's; None for Gaussian targets
            with a noise variance for each output. (`Gaussian(0.1)` has one for all of them.)
        latent_dim: $Q_H$.
        inducing: rows of $Z^X$ taken from each output (the documents' $M_X$), or the points.
        latent_inducing: $M_H$; one for each output, at most 20, if None. With fewer than outputs
            the bound is bought with bands that are too narrow.
        kernel: on the inputs: a kernel, of which every level gets a copy, or a sequence of kernels
            from the root of the hierarchy to the replicas, which are copied; Matérn-3/2 if None.
        tree: `[R, L]` paths of the replicas through the levels below the root, for hierarchies of
            three levels or more.
        start: of the latent variables: "pca" of the smoothed outputs, "gplvm" on them, "random".
        nodes: see `LatentMOGP`.
        noise: start value of the noise variances of scaled targets, `[D]` or one number; None for
            those that fit the other start values best.
        scaling: as in `hetmogp_lmc`. Outputs that share functions are compared by shape, each in
            units of its own spread; None compares them by their values.
        seed: of the start values.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import hmogp_lv
    >>> x = np.arange(4.0)
    >>> data = MultiOutputData.from_arrays(
    ...     x, np.column_stack([np.sin(x), np.cos(x), x]), replica=[0, 0, 1, 1]
    ... )
    >>> model = hmogp_lv(data, inducing=2, latent_inducing=2, start="random")
    >>> model.latent_mean.shape.as_list(), model.predict_y([0.5], replica=1).mean.shape.as_list()
    ([3, 2], [1, 3])
    """
    if tree is not None and data.nested:
        raise UnsupportedError(
            "replicas that are nested in outputs have no tree in common. Give replicas that are"
            " crossed with outputs (nested=False), or leave tree out."
        )
    data = _scaled(scaling, data, likelihood)
    levels = chosen_levels(kernel, _depth(tree), data.X)
    on_x = hierarchical(levels, data.input_dim, tree)
    return _latent(
        data, on_x, _points(data, inducing), likelihood, latent_dim, latent_inducing, start, nodes,
        noise, seed,
    )  # fmt: skip


def lvmogp(
    data: MultiOutputData,
    likelihood: Likelihood | None = None,
    *,
    latent_dim: int = 2,
    inducing: int | ReplicaPoints = 6,
    latent_inducing: int | None = None,
    kernel: KernelChoice = None,
    start: Start = "pca",
    nodes: int = 7,
    noise: npt.ArrayLike | None = None,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LatentMOGP:
    r"""Latent-variable multi-output GP (Dai, Álvarez and Lawrence 2017): replicas are repeated
    observations.

    kernel      $k_H(h_d, h_{d'})\,k_X(x, x')$, squared exponential
    inducing    a grid of inputs and latent points
    posterior   Kronecker, whitened, and $q(H)$
    likelihood  Gaussian with a noise variance for each output, or one of a single function for all

    Args:
        data: outputs; replica numbers are ignored.
        likelihood: of one function, for all outputs, ours or GPflow's; None for Gaussian targets
            with a noise variance for each output. (`Gaussian(0.1)` has one for all of them.)
        latent_dim: $Q_H$.
        inducing: rows of $Z^X$ taken from each output, or the points.
        latent_inducing: $M_H$; one for each output, at most 20, if None. With fewer than outputs
            the bound is bought with bands that are too narrow.
        kernel: $k_X$, copied; squared exponential if None.
        start: see `hmogp_lv`; what takes training is found by `mogp.fit` before its first step.
        nodes: see `LatentMOGP`.
        noise: start value of the noise variances, as for `hmogp_lv`.
        scaling: as for `hmogp_lv`.
        seed: of the start values.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import lvmogp
    >>> x = np.arange(4.0)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x), x]))
    >>> model = lvmogp(data, inducing=2, latent_inducing=2, noise=0.1)
    >>> model.latent_inducing.shape.as_list(), model.noise.numpy().round(3).tolist()
    ([2, 2], [0.1, 0.1, 0.1])
    """
    data = _scaled(scaling, replace(data, nested=False), likelihood)

    def default() -> list[Kernel]:
        return [SquaredExponential(lengthscales=start_lengthscales(data.X, "range"))]

    on_x = hierarchical(chosen_kernels(kernel, 1, default), data.input_dim)
    points = _points(data, inducing)
    if isinstance(inducing, int):
        points = _without_replicas(points)
    return _latent(
        data, on_x, points, likelihood, latent_dim, latent_inducing, start, nodes, noise, seed
    )


def hgp_ind(
    data: MultiOutputData,
    *,
    inducing: int | ReplicaPoints = 3,
    kernel: LevelKernels = None,
    tree: npt.ArrayLike | None = None,
    noise: float = 0.1,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> ReplicaMOGP:
    r"""Hierarchical GPs, one for each output, with inducing inputs that carry replica numbers
    ("HGPInd").

    prior       independent: $k_g + \mathbb 1[r = r'] k_f$ for each output, with parameters of its
                own
    inducing    points with replica numbers, a set for each output
    posterior   full, whitened
    likelihood  Gaussian, a noise variance for each output

    Args:
        data: outputs with replica numbers, crossed or nested.
        inducing: rows of each output, at a constant stride, or the points.
        kernel: on the inputs, copied for each output: a kernel for all levels, or a sequence from
            the root of the hierarchy to the replicas; Matérn-3/2 if None.
        tree: see `hmogp_lv`.
        noise: start value of the noise variances of scaled targets.
        scaling: as in `hetmogp_lmc`.
        seed: nothing is drawn; accepted so that all constructors can be called alike.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import hgp_ind
    >>> x = np.arange(4.0)
    >>> data = MultiOutputData.from_arrays(
    ...     x, np.column_stack([np.sin(x), np.cos(x)]), replica=[0, 0, 1, 1]
    ... )
    >>> model = hgp_ind(data, inducing=2)
    >>> model.inducing.Z.shape.as_list(), model.predict_y([0.5], replica=1).mean.shape.as_list()
    ([2, 2, 1], [1, 2])
    """
    data = _scaled(scaling, replace(data, nested=False), None, transforms=True)
    D, P = data.num_outputs, data.input_dim
    if isinstance(inducing, int):
        fullest = int(np.argmax(data.sizes))
        shown = [d if data.sizes[d] else fullest for d in range(D)]
        points = _sets([replica_points(_only(data, d), inducing) for d in shown])
    else:
        points = _points(data, inducing)
    own = [hierarchical(chosen_levels(kernel, _depth(tree), data.X), P, tree) for _ in range(D)]
    return ReplicaMOGP(
        prior=Independent(own),
        inducing=points,
        posterior=Full(whiten=True),
        likelihood=[Gaussian(variance=noise) for _ in data.names],
        names=data.schema,
        scaling=data.scaled_by,
    )


def lmc_stacked(
    data: MultiOutputData,
    *,
    latents: int = 2,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    noise: float = 0.1,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> ReplicaMOGP:
    """LMC that takes replicas for repeated observations of one function: the flat baseline of
    HMOGP-LV.

    prior       LMC, `latents` squared exponential GPs
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  Gaussian, a noise variance for each output

    Args:
        data: outputs; replica numbers are ignored.
        latents: latent GPs.
        inducing: inducing inputs in each set, or the points.
        kernel: of a latent GP, copied for each, or a function that makes one; squared exponential
            with unit variance if None.
        noise: start value of the noise variances of scaled targets.
        scaling: as in `hetmogp_lmc`.
        seed: of the start values.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import lmc_stacked
    >>> x = np.arange(4.0)
    >>> data = MultiOutputData.from_arrays(
    ...     x, np.column_stack([np.sin(x), np.cos(x)]), replica=[0, 0, 1, 1]
    ... )
    >>> model = lmc_stacked(data, latents=1, inducing=3)
    >>> model.inducing.Z.shape.as_list(), model.predict_y([0.5], replica=1).mean.shape.as_list()
    ([1, 3, 1], [1, 2])
    """
    data = _scaled(scaling, data, None, transforms=True)

    def make(count: int) -> InducingPoints:
        return kmeans_points(data, count, seed=seed)

    flat = chosen_points(inducing, make, data.scaled_by).Z.numpy()
    Z = np.repeat(flat[None], latents, axis=0) if flat.ndim == 2 else flat
    length = start_lengthscales(data.X, "range")
    kernels = chosen_kernels(kernel, latents, lambda: unit_kernels(latents, data.input_dim, length))
    return ReplicaMOGP(
        prior=LMC(
            [hierarchical([k], data.input_dim) for k in kernels],
            functions=data.num_outputs,
            seed=seed,
        ),
        inducing=ReplicaPoints(Z, np.zeros(Z.shape[:-1], int)),
        posterior=Full(whiten=True),
        likelihood=[Gaussian(variance=noise) for _ in data.names],
        names=data.schema,
        scaling=data.scaled_by,
    )


class ReplicaMOGP(ReplicatedMOGP, SparseMOGP):
    """A `SparseMOGP` whose kernels read `[x, replica]`, with the predictions of models with
    replicas.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x, run = np.tile([0.0, 1.0, 2.0], 2), np.repeat([0, 1], 3)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([x, -x]), replica=run)

    >>> from mogp.models import hgp_ind
    >>> model = hgp_ind(data, inducing=2)
    >>> type(model).__name__, model.predict_y([0.5], replica=1).mean.shape.as_list()
    ('ReplicaMOGP', [1, 2])
    """

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, without the replica number."""
        return self.inducing.input_dim - 1

    @property
    def num_replicas(self) -> int | None:
        """Replicas in the trees of the kernels; None if they need none."""
        return tree_size(self.prior)

    def batches(self, data: MultiOutputData, size: Any = None, seed: int = 0) -> Any:
        """Batches with the replica number as last column of the inputs."""
        return replica_as_input(self.scaled(data)).batches(size, seed)

    def _batch(self, data: Any) -> Any:
        if isinstance(data, MultiOutputData):
            self.check(data)
            return replica_as_input(self.scaled(data)).full()
        return data

    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data."""
        ReplicatedMOGP.check(self, data)
        self.likelihood.check(data)

    def _log_densities(self, data: Any) -> dict[str, tf.Tensor]:
        return super()._log_densities(replica_as_input(data))


def replica_as_input(data: MultiOutputData) -> MultiOutputData:
    """The same observations with the replica number as last column of the inputs.

    Nested replicas keep their numbers: the models that read this have functions of replicas for
    each output, or none.
    """
    X, rows = distinct_inputs(replace(data, nested=False))
    outputs = [replace(o, rows=r) for o, r in zip(data.outputs, rows, strict=True)]
    return MultiOutputData(X, tuple(outputs))


def _latent(
    data: MultiOutputData,
    kernel: Kernel,
    points: ReplicaPoints,
    likelihood: Likelihood | None,
    latent_dim: int,
    latent_inducing: int | None,
    start: Start,
    nodes: int,
    noise: npt.ArrayLike | None,
    seed: int,
) -> LatentMOGP:
    """The model from a random start; what takes training waits for `MOGP.start`."""
    check_start(start)
    if likelihood is not None and noise is not None:
        raise ValueError(
            f"noise={noise!r} was given with a {type(likelihood).__name__} likelihood; noise is"
            " that of Gaussian targets, likelihood=None. Leave one of them out."
        )
    if latent_inducing is None:
        latent_inducing = min(data.num_outputs, _MOST_LATENT)
    make: dict[str, Any] = {
        "kernel": kernel, "points": points, "likelihood": likelihood, "latent_dim": latent_dim,
        "latent_inducing": latent_inducing, "nodes": nodes, "noise": noise, "seed": seed,
    }  # fmt: skip
    model = latent_model(data, "random", **make)
    if start != "random":
        model._prepare = partial(trained_start, start=start, **make)
    return model


def _scaled(
    scaling: ScalingChoice,
    data: MultiOutputData,
    likelihood: Likelihood | None,
    transforms: bool = False,
) -> MultiOutputData:
    kind = Gaussian() if likelihood is None else likelihood
    return in_units(scaling, data, [kind] * data.num_outputs, transforms=transforms)


def _points(data: MultiOutputData, inducing: int | ReplicaPoints) -> ReplicaPoints:
    if isinstance(inducing, ReplicaPoints):
        units = data.scaled_by
        return inducing if units is None else inducing.moved(units.inputs)
    if isinstance(inducing, bool) or not isinstance(inducing, int):
        raise TypeError(
            f"inducing is a {type(inducing).__name__}; expected how many rows of each output become"
            " inducing inputs, or the points: mogp.inducing.ReplicaPoints(Z, replica)."
        )
    return replica_points(data, inducing)


def _depth(tree: npt.ArrayLike | None) -> int:
    """Levels of a hierarchy, the root among them."""
    paths = np.zeros((1, 1)) if tree is None else np.asarray(tree)
    return 2 if paths.ndim == 1 else paths.shape[1] + 1


def _only(data: MultiOutputData, d: int) -> MultiOutputData:
    return replace(data, outputs=(data.outputs[d],))


def _sets(parts: Sequence[ReplicaPoints]) -> ReplicaPoints:
    """Sets of equal size: shorter ones are filled up with points between their own."""
    size = max(p.num_inducing for p in parts)
    Z, replica = [], []
    for p in parts:
        own, numbers = p.Z.numpy(), p.replica
        missing = size - len(own)
        step = np.ptp(own, axis=0).max() / (4 * size) + 1e-3
        again = np.arange(missing) % len(own)
        Z.append(
            np.concatenate([own, own[again] + step * (1 + np.arange(missing)[:, None] // len(own))])
        )
        replica.append(np.concatenate([numbers, numbers[again]]))
    return ReplicaPoints(np.stack(Z), np.stack(replica))


def _without_replicas(points: ReplicaPoints) -> ReplicaPoints:
    distinct = np.unique(points.Z.numpy(), axis=0)
    return ReplicaPoints(distinct, np.zeros(len(distinct), int))
