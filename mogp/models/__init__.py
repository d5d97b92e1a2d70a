"""Models: `SparseMOGP`, `LatentMOGP` and `LatentChain`, their named cases, and exact references."""

from mogp.models.annotators import AnnotatedMOGP, ccgpma, cgpma
from mogp.models.augmented import AugmentedMOGP, accgp, twofold
from mogp.models.base import MOGP
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
from mogp.models.convolution import ccgp_cpm, ccgp_vik, hetmogp_cpm
from mogp.models.exact import DHGP, HGP, ExactLMC
from mogp.models.gplvm import bayesian_gplvm, rows_as_outputs
from mogp.models.heterogeneous import (
    ccgp,
    cgp,
    hetmogp_lmc,
)
from mogp.models.hierarchies import (
    ReplicaMOGP,
    hgp_ind,
    hmogp_lv,
    lmc_stacked,
    lvmogp,
)
from mogp.models.label_methods import mlgpf
from mogp.models.labels import LabelMOGP
from mogp.models.latent import LatentMOGP
from mogp.models.multiclass import ovse, ovse_linear, robust_max
from mogp.models.new_outputs import add_outputs
from mogp.models.one_vs_each import LinearOneVsEach, OneVsEachMOGP
from mogp.models.replicas import ReplicatedMOGP
from mogp.models.row_effect import RowEffectMOGP
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
    "LinearOneVsEach",
    "MOGP",
    "OneVsEachMOGP",
    "ReplicaMOGP",
    "ReplicatedMOGP",
    "RowEffectMOGP",
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
    "rows_as_outputs",
    "twofold",
]
