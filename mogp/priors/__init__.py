"""Priors: how latent GPs make the latent parameter functions of the likelihoods."""

from mogp.priors.base import Conditional, Marginals, Prior, View
from mogp.priors.convolution import CPM
from mogp.priors.correlated import CorrelatedCurves, CorrelatedLatents
from mogp.priors.known import Informed, Known, RowEffects
from mogp.priors.mixing import ICM, LMC, Independent, MixingPrior, independent_functions
from mogp.priors.own import SharedAndOwn

__all__ = [
    "CPM",
    "Conditional",
    "CorrelatedCurves",
    "CorrelatedLatents",
    "ICM",
    "Independent",
    "Informed",
    "Known",
    "LMC",
    "Marginals",
    "MixingPrior",
    "Prior",
    "RowEffects",
    "SharedAndOwn",
    "View",
    "independent_functions",
]
