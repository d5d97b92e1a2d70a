"""Optimisers for `mogp.fit`."""

from mogp.optimizers.adam import Adam
from mogp.optimizers.base import Ending, Flat, GradientOptimizer, Optimizer, Problem, Search, Watch
from mogp.optimizers.exploratory import VAN, Exploratory, Newton, Vadam
from mogp.optimizers.falling import Falling
from mogp.optimizers.keras import Keras
from mogp.optimizers.lbfgs import LBFGS
from mogp.optimizers.natural import FNG, Natural, NaturalAdam, hyb, natural_step, parsimonious_step

__all__ = [
    "FNG",
    "LBFGS",
    "VAN",
    "Adam",
    "Ending",
    "Exploratory",
    "Falling",
    "Flat",
    "GradientOptimizer",
    "Keras",
    "Natural",
    "NaturalAdam",
    "Newton",
    "Optimizer",
    "Problem",
    "Search",
    "Vadam",
    "Watch",
    "hyb",
    "natural_step",
    "parsimonious_step",
]
