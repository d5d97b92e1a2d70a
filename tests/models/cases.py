"""Every model and variant of `data/models.csv` on small data, with what it cannot do: `test_contract.py` asks them all.

A case is built in one line by the constructor that its row of the table names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import case_data as small
import pytest
from case_data import CLASSES, IMAGE, Data, Kind

from mogp.inducing import kmeans_points
from mogp.kernels import LayerKernels, Patches, unit_kernels
from mogp.likelihoods import (
    Bernoulli,
    Gaussian,
    HeteroscedasticGaussian,
    Poisson,
    Softmax,
    ZeroInflatedPoisson,
)
from mogp.models import (
    DHGP,
    GPAR,
    HGP,
    ExactLMC,
    LatentMOGP,
    SparseMOGP,
    accgp,
    additive_gplar,
    bayesian_gplvm,
    bi_gplar,
    ccgp,
    ccgp_cpm,
    ccgp_vik,
    ccgpma,
    cgp,
    cgpma,
    dgp,
    g_a,
    g_m,
    gplar,
    hetmogp_cpm,
    hetmogp_lmc,
    hgp_ind,
    hmogp_lv,
    igp,
    lmc_stacked,
    lvmogp,
    mg_m,
    mlgpf,
    mocgps_ar,
    mogps_ar,
    ovse,
    ovse_linear,
    robust_max,
)
from mogp.models.choices import ScalingChoice, in_units
from mogp.posteriors import Joint, JointGrid, Parsimonious, Posterior
from mogp.priors import ICM, LMC, Independent, Prior

CALLS = (
    "fit",
    "names",
    "columns",
    "predict_f",
    "full_cov",
    "predict_y",
    "predict_log_density",
    "predict_f_samples",
    "predict_y_samples",
    "predict",
    "predictions",
    "replica",
    "given",
    "save and load",
    "cite",
    "plot",
    "print",
)
"""What a model can be asked: the names by which a case lists what it cannot do."""

NO_REPLICAS = {"replica": "its outputs have no replicas"}
ONE_OUTPUT = {"given": "it has one output, which is not Gaussian: there is nothing else to know"}
NOT_GAUSSIAN = {"given": "targets are not Gaussian: the posterior given some of them has no closed form"}
BY_LABEL = {"given": "labels that are known are told with given_labels"}
NO_CONDITION = {"given": "latent variables of outputs: the posterior given a target has no closed form"}
SUMS = {"given": "a function is a sum of GPs, of which only the sum is known"}
PATHS = {"full_cov": "a mixture over paths; predict_f_samples draws jointly"}
EVERY_CLASS = {"row": "every class needs a row"}


@dataclass(frozen=True)
class Case:
    """A model to be asked.

    Attributes:
        row: of `data/models.csv`; None for a baseline that the table does not list.
        name: of the variant.
        data: from a kind of data and a seed to small data that suit the model.
        build: from data to the model, in one line; `scaling` can be chosen where there is one to choose.
        exceptions: the calls the model cannot do, with the reason; it raises `UnsupportedError`.
        refused: the kinds of data it cannot be built on, with the reason.
        truth: for models of annotations, data that hold what they speak of.
        gaussian: whether the predictive distribution of a target is Gaussian.
        holds_data: whether it trains on nothing but the data it was built on.
        sampled: whether predictions are averages over sampled paths.
        scales: whether its units can be chosen.
    """

    row: str | None
    name: str
    data: Callable[[Kind, int], Data]
    build: Callable[..., Any]
    exceptions: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    truth: Callable[[Kind, int], Data] | None = None
    gaussian: bool = False
    holds_data: bool = False
    sampled: bool = False
    scales: bool = True

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of data it can be built on."""
        return tuple(kind for kind in small.KINDS if kind not in self.refused)


def _mixed() -> dict[str, Any]:
    """Likelihoods of `case_data.mixed`."""
    return {"a": HeteroscedasticGaussian(), "b count": Poisson(), "colour": Softmax(3)}


def _tame() -> dict[str, Any]:
    """Likelihoods of `case_data.tame`."""
    return {"a": Gaussian(0.1), "b yes": Bernoulli(), "colour": Softmax(3)}


def _gaussians(data: Data) -> dict[str, Any]:
    return {name: Gaussian(0.1) for name in data.names}


def handmade(
    data: Any,
    prior: Prior,
    sets: int | None,
    likelihood: list[Any] | None = None,
    posterior: Posterior | None = None,
    scaling: ScalingChoice = "standard",
) -> SparseMOGP:
    """A model from its four choices, with Gaussian outputs unless others are given."""
    kinds = likelihood or [Gaussian(0.1) for _ in data.names]
    data = in_units(scaling, data, kinds)
    points = kmeans_points(data, 3, sets=sets)
    return SparseMOGP(prior, points, kinds, posterior, names=data.names, scaling=data.scaled_by)


def on_a_joint_grid(model: LatentMOGP) -> LatentMOGP:
    """The model with a joint posterior, which is trained as it is."""
    inputs, latents = (int(n) for n in model.posterior.q_mu.shape)
    model.posterior = JointGrid()
    model.posterior.build(inputs, latents)
    return model


def _units(data: Data, number: int) -> Any:
    return unit_kernels(number, data.input_dim)


def _numbers(names: tuple[str, ...]) -> dict[str, int]:
    """How many classes each output has."""
    return {name: len(CLASSES[name]) for name in names}


_reps = partial(small.reals, replica="run")
_TREE = [[0, 0], [0, 1], [1, 0], [1, 1]]
_PATCHES = Patches(IMAGE, (3, 3))
_COLOURS = len(CLASSES["colour"])

CHAINED: tuple[Case, ...] = tuple(
    Case(row, name, data, build, NO_REPLICAS | ONE_OUTPUT)
    for row, name, data, build in [
        (
            "CGP",
            "CGP",
            small.real,
            lambda d, **how: cgp(d, HeteroscedasticGaussian(), inducing=3, **how),
        ),
        (
            "CCGP (CCGP-LMC)",
            "CCGP",
            small.real,
            lambda d, **how: ccgp(d, HeteroscedasticGaussian(), inducing=3, **how),
        ),
        (
            "CCGP (CCGP-LMC)",
            "CCGP, zero-inflated, rank 2",
            small.count,
            lambda d, **how: ccgp(d, ZeroInflatedPoisson(), rank=2, inducing=3, **how),
        ),
        (
            "ACCGP",
            "ACCGP",
            small.real,
            lambda d, **how: accgp(d, HeteroscedasticGaussian(), inducing=3, **how),
        ),
        (
            "CCGP-CPM",
            "CCGP-CPM",
            small.count,
            lambda d, **how: ccgp_cpm(d, ZeroInflatedPoisson(), latents=2, inducing=3, **how),
        ),
        (
            "CCGP-VIK",
            "CCGP-VIK, classical",
            small.count,
            lambda d, **how: ccgp_vik(d, ZeroInflatedPoisson(), latents=2, inducing=3, **how),
        ),
        (
            "CCGP-VIK",
            "CCGP-VIK, thesis",
            small.count,
            lambda d, **how: ccgp_vik(d, ZeroInflatedPoisson(), variant="thesis", latents=2, inducing=3, **how),
        ),
    ]
)

MIXES = (
    Case(
        "SVGP",
        "SVGP",
        small.real,
        lambda d, **how: handmade(d, Independent(_units(d, 1)), 1, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "SVGP",
        "SVGP, parsimonious, Bernoulli",
        small.answer,
        lambda d, **how: handmade(d, Independent(_units(d, 1)), 1, [Bernoulli()], Parsimonious(), **how),
        NO_REPLICAS | ONE_OUTPUT,
    ),
    Case(
        "Independent GPs (IGP)",
        "IGP",
        small.reals,
        lambda d, **how: handmade(d, Independent(_units(d, 3)), 3, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "ICM, LMC, exact",
        "LMC, exact",
        small.reals,
        lambda d, **how: ExactLMC(d, latents=2, **how),
        NO_REPLICAS,
        gaussian=True,
        holds_data=True,
    ),
    Case(
        "ICM, LMC, exact",
        "ICM, exact, rank 2",
        small.reals,
        lambda d, **how: ExactLMC(d, rank=2, **how),
        NO_REPLICAS,
        gaussian=True,
        holds_data=True,
    ),
    Case(
        "ICM, LMC, sparse",
        "LMC",
        small.reals,
        lambda d, **how: handmade(d, LMC(_units(d, 2), functions=3), 2, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "ICM, LMC, sparse",
        "ICM",
        small.reals,
        lambda d, **how: handmade(d, ICM(_units(d, 1)[0], 3, 2), None, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "ICM, LMC, sparse",
        "LMC, a joint posterior",
        small.reals,
        lambda d, **how: handmade(d, LMC(_units(d, 2), functions=3), 2, posterior=Joint(), **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "ICM, LMC, exact",
        "LMC, exact, a row effect",
        small.reals,
        lambda d, **how: ExactLMC(d, latents=2, row_effect=1, **how),
        NO_REPLICAS,
        gaussian=True,
        holds_data=True,
    ),
    *CHAINED,
    Case(
        "HetMOGP-LMC",
        "HetMOGP-LMC",
        small.mixed,
        lambda d, **how: hetmogp_lmc(d, _mixed(), latents=2, inducing=3, **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "HetMOGP-CPM",
        "HetMOGP-CPM, functions",
        small.mixed,
        lambda d, **how: hetmogp_cpm(d, _mixed(), latents=2, inducing=3, **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "HetMOGP-CPM",
        "HetMOGP-CPM, joint",
        small.mixed,
        lambda d, **how: hetmogp_cpm(d, _mixed(), latents=2, inducing=3, on="joint", **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "HetMOGP-CPM",
        "HetMOGP-CPM, latents",
        small.mixed,
        lambda d, **how: hetmogp_cpm(d, _mixed(), latents=2, inducing=3, on="latents", **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "HetMOGP-LMC",
        "HetMOGP-LMC, a row effect of rank 2",
        small.reals,
        lambda d, **how: hetmogp_lmc(d, _gaussians(d), inducing=3, row_effect=2, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "HetMOGP-LMC",
        "HetMOGP-LMC, own parts",
        small.reals,
        lambda d, **how: hetmogp_lmc(d, _gaussians(d), latents=1, inducing=3, own=True, **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "HetMOGP-CPM",
        "HetMOGP-CPM, latents, Gaussian",
        small.reals,
        lambda d, **how: hetmogp_cpm(d, _gaussians(d), latents=2, inducing=3, on="latents", **how),
        NO_REPLICAS,
        gaussian=True,
    ),
    Case(
        "CGPMA-C, CGPMA-R",
        "CGPMA-C",
        partial(small.annotations, values=False),
        lambda d, **how: cgpma(d, 3, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        truth=partial(small.truth, values=False),
    ),
    Case(
        "CGPMA-C, CGPMA-R",
        "CGPMA-R",
        small.annotations,
        lambda d, **how: cgpma(d, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        truth=small.truth,
    ),
    Case(
        "CCGPMA-C, CCGPMA-R",
        "CCGPMA-C",
        partial(small.annotations, values=False),
        lambda d, **how: ccgpma(d, 3, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        truth=partial(small.truth, values=False),
    ),
    Case(
        "CCGPMA-C, CCGPMA-R",
        "CCGPMA-R",
        small.annotations,
        lambda d, **how: ccgpma(d, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        truth=small.truth,
    ),
)

CLASS_MODELS = (
    Case(
        "G-M",
        "G-M",
        small.colours,
        lambda d, **how: g_m(d, [_COLOURS], inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
    ),
    Case(
        "G-A",
        "G-A",
        small.colours,
        lambda d, **how: g_a(d, [_COLOURS], inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
    ),
    Case(
        "MG-M",
        "MG-M",
        small.classes,
        lambda d, **how: mg_m(d, _numbers(d.names), latents=2, inducing=3, **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "MOGPs-AR",
        "MOGPs-AR",
        small.classes,
        lambda d, **how: mogps_ar(d, _numbers(d.names), latents=2, inducing=3, negatives=1, **how),
        NO_REPLICAS | NOT_GAUSSIAN,
    ),
    Case(
        "MOCGPs-AR",
        "MOCGPs-AR",
        small.images,
        lambda d, **how: mocgps_ar(d, _numbers(d.names), patches=_PATCHES, latents=2, inducing=3),
        NO_REPLICAS | NOT_GAUSSIAN,
        {"one": "an image has several pixels"},
        scales=False,
    ),
    Case(
        "OvsE-P, OvsE-F",
        "OvsE-P",
        small.colours,
        lambda d, **how: ovse(d, _COLOURS, posterior="parsimonious", inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "OvsE-P, OvsE-F",
        "OvsE-F",
        small.colours,
        lambda d, **how: ovse(d, _COLOURS, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "OvsE-P-SH, OvsE-F-SH",
        "OvsE-P-SH",
        small.colours,
        lambda d, **how: ovse(
            d, _COLOURS, shared=True, shared_kernel=False, posterior="parsimonious", inducing=3, **how
        ),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "OvsE-P-SH, OvsE-F-SH",
        "OvsE-F-SH",
        small.colours,
        lambda d, **how: ovse(d, _COLOURS, shared=True, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        None,
        "OvsE-LIN",
        small.colours,
        lambda d, **how: ovse_linear(d, _COLOURS, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "RM-P, RM-F",
        "RM-P",
        small.colours,
        lambda d, **how: robust_max(d, _COLOURS, posterior="parsimonious", inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "RM-P, RM-F",
        "RM-F",
        small.colours,
        lambda d, **how: robust_max(d, _COLOURS, inducing=3, **how),
        NO_REPLICAS | ONE_OUTPUT,
        EVERY_CLASS,
    ),
    Case(
        "MLGPF",
        "MLGPF, ARD",
        small.points,
        lambda d, **how: mlgpf(d, latents=2, inducing=3),
        NO_REPLICAS | BY_LABEL,
        scales=False,
    ),
    Case(
        "MLGPF",
        "MLGPF, linear, parsimonious, sampled labels",
        small.points,
        lambda d, **how: mlgpf(d, kernel="linear", posterior="parsimonious", latents=2, inducing=3, negatives=2),
        NO_REPLICAS | BY_LABEL,
        scales=False,
    ),
    Case(
        "MLGPF",
        "MLGPF, in a subspace",
        small.points,
        lambda d, **how: mlgpf(d, kernel="se", subspace_dim=2, train_basis=True, latents=2, inducing=3),
        NO_REPLICAS | BY_LABEL,
        {"one": "a subspace has fewer dimensions than the inputs", "row": "a subspace needs several points"},
        scales=False,
    ),
    Case(
        "MLGPF",
        "MLGPF, a kernel for each factor",
        small.points,
        lambda d, **how: mlgpf(d, kernel="se", shared_kernel=False, latents=2, inducing=3),
        NO_REPLICAS | BY_LABEL,
        scales=False,
    ),
)

HIERARCHIES = (
    Case(
        "HMOGP-LV",
        "HMOGP-LV",
        _reps,
        lambda d, **how: hmogp_lv(d, latent_dim=1, inducing=2, latent_inducing=2, **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, random start",
        _reps,
        lambda d, **how: hmogp_lv(d, latent_dim=1, inducing=2, latent_inducing=2, start="random", **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, nested",
        partial(_reps, nested=True),
        lambda d, **how: hmogp_lv(d, latent_dim=1, inducing=2, latent_inducing=2, start="random", **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, a tree",
        _reps,
        lambda d, **how: hmogp_lv(d, latent_dim=1, inducing=2, latent_inducing=2, tree=_TREE, start="random", **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, Poisson",
        partial(small.counts, replica="run"),
        lambda d, **how: hmogp_lv(d, Poisson(), latent_dim=1, inducing=2, latent_inducing=2, start="random", **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, Bernoulli",
        partial(small.answers, replica="run"),
        lambda d, **how: hmogp_lv(d, Bernoulli(), latent_dim=1, inducing=2, latent_inducing=2, start="random", **how),
        NO_CONDITION,
    ),
    Case(
        "HMOGP-LV",
        "HMOGP-LV, a joint posterior",
        _reps,
        lambda d, **how: on_a_joint_grid(
            hmogp_lv(d, latent_dim=1, inducing=2, latent_inducing=2, start="random", **how)
        ),
        NO_CONDITION,
    ),
    Case(
        "LVMOGP",
        "LVMOGP",
        _reps,
        lambda d, **how: lvmogp(d, latent_dim=1, inducing=2, latent_inducing=2, start="random", **how),
        NO_CONDITION,
    ),
    Case("HGP", "HGP", _reps, lambda d, **how: HGP(d, **how), gaussian=True, holds_data=True),
    Case("HGPInd", "HGPInd", _reps, lambda d, **how: hgp_ind(d, inducing=2, **how), gaussian=True),
    Case("DHGP", "DHGP", _reps, lambda d, **how: DHGP(d, **how), gaussian=True, holds_data=True),
    Case(
        "Bayesian GPLVM",
        "Bayesian GPLVM",
        small.rows_of_a_table,
        lambda d, **how: bayesian_gplvm(d, latent_dim=1, latent_inducing=3),
        NO_CONDITION,
        {"gap": "a table of numbers, all of them known"},
        scales=False,
    ),
    Case(
        "LMC, replicas stacked",
        "LMC, replicas stacked",
        _reps,
        lambda d, **how: lmc_stacked(d, inducing=3, **how),
        gaussian=True,
    ),
)

CHAINS = (
    Case(
        "GPAR",
        "GPAR",
        small.reals,
        lambda d, **how: GPAR(d, LayerKernels(d.input_dim, "nonlinear"), **how),
        NO_REPLICAS | PATHS,
        holds_data=True,
        sampled=True,
    ),
    Case(
        "GPAR",
        "GPAR, sparse, backward",
        small.reals,
        lambda d, **how: GPAR(d, LayerKernels(d.input_dim, "nonlinear"), order=d.names[::-1], inducing=3, **how),
        NO_REPLICAS | PATHS,
        holds_data=True,
        sampled=True,
    ),
    Case(
        "GPLAR",
        "GPLAR, A",
        small.reals,
        lambda d, **how: gplar(d, strategy="A", inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS,
        {"gap": "inducing inputs are rows at which all outputs were observed"},
        sampled=True,
    ),
    Case(
        "GPLAR",
        "GPLAR, B",
        small.reals,
        lambda d, **how: gplar(d, strategy="B", inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
    Case(
        "GPLAR",
        "GPLAR, C",
        small.reals,
        lambda d, **how: gplar(d, strategy="C", inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
    Case(
        "GPLAR",
        "GPLAR, C, mixed likelihoods",
        small.tame,
        lambda d, **how: gplar(d, _tame(), inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
    Case(
        "bi-directional GPLAR",
        "bi-directional GPLAR, full",
        small.reals,
        lambda d, **how: bi_gplar(d, inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS | SUMS,
        sampled=True,
    ),
    Case(
        "bi-directional GPLAR",
        "bi-directional GPLAR, light",
        small.reals,
        lambda d, **how: bi_gplar(d, light=True, combine="sum", inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS | SUMS,
        sampled=True,
    ),
    Case(
        "additive GPLAR",
        "additive GPLAR",
        small.reals,
        lambda d, **how: additive_gplar(d, inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
    Case(
        "additive GPLAR",
        "additive GPLAR, fully, bi-directional",
        small.reals,
        lambda d, **how: additive_gplar(d, fully=True, bidirectional=True, inducing=3, start="zero", **how),
        NO_REPLICAS | PATHS | SUMS,
        sampled=True,
    ),
    Case(
        "DGP",
        "DGP",
        small.reals,
        lambda d, **how: dgp(d, width=2, inducing=3, **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
    Case(
        "IGP, as a chain",
        "IGP, as a chain",
        small.reals,
        lambda d, **how: igp(d, inducing=3, **how),
        NO_REPLICAS | PATHS,
        sampled=True,
    ),
)

CASES: tuple[Case, ...] = (*MIXES, *CLASS_MODELS, *HIERARCHIES, *CHAINS)

_ABLEST = {case.row: case.name for case in sorted(CASES, key=lambda c: -len(c.exceptions) - len(c.refused))}


def run_of(case: Case) -> list[pytest.MarkDecorator]:
    """Marks: of a row, the case that can do most is always tried, the others by `make check`.

    Of several that can do as much it is the last, as variants come after the plain model.
    """
    return [] if _ABLEST[case.row] == case.name else [pytest.mark.full]
