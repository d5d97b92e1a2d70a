"""Optimisers for `mogp.fit`."""

from mogp.optimizers.adam import Adam, NaturalAdam
from mogp.optimizers.base import Optimizer
from mogp.optimizers.lbfgs import LBFGS

__all__ = ["Adam", "LBFGS", "NaturalAdam", "Optimizer"]
