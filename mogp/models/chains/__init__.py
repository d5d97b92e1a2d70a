"""Chains of outputs: GPAR, GPLAR and their relatives."""

from mogp.models.chains.additive import additive_gplar
from mogp.models.chains.chain import LatentChain
from mogp.models.chains.gpar import GPAR
from mogp.models.chains.gplar import bi_gplar, dgp, gplar, igp
from mogp.models.chains.structure import Component

__all__ = [
    "GPAR",
    "Component",
    "LatentChain",
    "additive_gplar",
    "bi_gplar",
    "dgp",
    "gplar",
    "igp",
]
