"""Models: `SparseMOGP`, its named cases, and exact references."""

from mogp.models.classes import g_a, g_m, mg_m, mocgps_ar, mogps_ar
from mogp.models.exact import ExactLMC
from mogp.models.heterogeneous import ccgp, cgp, hetmogp_lmc
from mogp.models.sparse import SparseMOGP

__all__ = [
    "ExactLMC",
    "SparseMOGP",
    "ccgp",
    "cgp",
    "g_a",
    "g_m",
    "hetmogp_lmc",
    "mg_m",
    "mocgps_ar",
    "mogps_ar",
]
