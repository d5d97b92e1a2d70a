"""Models: `SparseMOGP`, its named cases, and exact references."""

from mogp.models.exact import ExactLMC
from mogp.models.heterogeneous import ccgp, cgp, hetmogp_lmc
from mogp.models.sparse import SparseMOGP

__all__ = ["ExactLMC", "SparseMOGP", "ccgp", "cgp", "hetmogp_lmc"]
