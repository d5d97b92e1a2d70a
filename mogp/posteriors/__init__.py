"""Variational posteriors over the inducing variables."""

from mogp.posteriors.base import Factors, Posterior
from mogp.posteriors.full import Full
from mogp.posteriors.parsimonious import Parsimonious

__all__ = ["Factors", "Full", "Parsimonious", "Posterior"]
