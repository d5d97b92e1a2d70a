"""Priors: how latent GPs make the latent parameter functions of the likelihoods."""

from mogp.priors.base import Conditional, Marginals, Prior
from mogp.priors.mixing import ICM, LMC, Independent

__all__ = ["Conditional", "ICM", "Independent", "LMC", "Marginals", "Prior"]
