"""Exact models, which hold their data: references for the sparse ones."""

from mogp.models.exact.base import ExactMOGP
from mogp.models.exact.hierarchies import DHGP, HGP
from mogp.models.exact.lmc import ExactLMC

__all__ = ["DHGP", "HGP", "ExactLMC", "ExactMOGP"]
