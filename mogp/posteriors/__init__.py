"""Variational posteriors over the inducing variables."""

from mogp.posteriors.base import Factors, Posterior
from mogp.posteriors.full import Full
from mogp.posteriors.joint import Joint
from mogp.posteriors.joint_grid import JointGrid, JointGridFactors
from mogp.posteriors.kronecker import Kronecker, KroneckerFactors, Projected
from mogp.posteriors.parsimonious import Parsimonious
from mogp.posteriors.rows import latents_first, start_like_parsimonious

GridFactors = KroneckerFactors | JointGridFactors

__all__ = [
    "Factors",
    "Full",
    "GridFactors",
    "Joint",
    "JointGrid",
    "JointGridFactors",
    "Kronecker",
    "KroneckerFactors",
    "Parsimonious",
    "Posterior",
    "Projected",
    "latents_first",
    "start_like_parsimonious",
]
