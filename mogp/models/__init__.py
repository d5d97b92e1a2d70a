"""Models: `SparseMOGP`, `LatentMOGP` and `LatentChain`, their named cases, and exact references."""

from mogp.models.annotators import AnnotatedMOGP, ccgpma, cgpma
from mogp.models.chains import (
    GPAR,
    Component,
    LatentChain,
    additive_gplar,
    bi_gplar,
    dgp,
    gplar,
    igp,
)
from mogp.models.classes import g_a, g_m, mg_m, mocgps_ar, mogps_ar
from mogp.models.exact import DHGP, HGP, ExactLMC
from mogp.models.heterogeneous import (
    AugmentedMOGP,
    accgp,
    ccgp,
    ccgp_cpm,
    ccgp_vik,
    cgp,
    hetmogp_cpm,
    hetmogp_lmc,
    twofold,
)
from mogp.models.hierarchies import (
    ReplicaMOGP,
    bayesian_gplvm,
    hgp_ind,
    hmogp_lv,
    lmc_stacked,
    lvmogp,
)
from mogp.models.label_methods import Method, mlgpf
from mogp.models.labels import LabelMOGP
from mogp.models.latent import LatentMOGP
from mogp.models.new_outputs import add_outputs
from mogp.models.one_vs_each import LinearOneVsEach, OneVsEachMOGP, ovse, ovse_linear, robust_max
from mogp.models.replicas import ReadsReplicas
from mogp.models.sparse import SparseMOGP

__all__ = [
    "AnnotatedMOGP",
    "AugmentedMOGP",
    "Component",
    "DHGP",
    "GPAR",
    "HGP",
    "ExactLMC",
    "LabelMOGP",
    "LatentChain",
    "LatentMOGP",
    "Method",
    "LinearOneVsEach",
    "OneVsEachMOGP",
    "ReadsReplicas",
    "ReplicaMOGP",
    "SparseMOGP",
    "accgp",
    "add_outputs",
    "additive_gplar",
    "bayesian_gplvm",
    "bi_gplar",
    "ccgp",
    "ccgp_cpm",
    "ccgp_vik",
    "ccgpma",
    "cgp",
    "cgpma",
    "dgp",
    "g_a",
    "g_m",
    "gplar",
    "hetmogp_cpm",
    "hetmogp_lmc",
    "hgp_ind",
    "hmogp_lv",
    "igp",
    "lmc_stacked",
    "lvmogp",
    "mg_m",
    "mlgpf",
    "mocgps_ar",
    "mogps_ar",
    "ovse",
    "ovse_linear",
    "robust_max",
    "twofold",
]
