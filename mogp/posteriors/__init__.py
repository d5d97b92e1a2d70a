"""Variational posteriors over the inducing variables."""

from mogp.posteriors.base import Factors, Posterior
from mogp.posteriors.full import Full
from mogp.posteriors.joint import MOST_JOINT, Joint, check_size
from mogp.posteriors.joint_grid import JointGrid, JointGridFactors
from mogp.posteriors.kronecker import Kronecker, KroneckerFactors, Projected
from mogp.posteriors.optimum import Gaussian, Told, inverse_root, log_determinant
from mogp.posteriors.parsimonious import Parsimonious
from mogp.posteriors.rows import latents_first, start_like_parsimonious

GridFactors = KroneckerFactors | JointGridFactors

__all__ = [
    "MOST_JOINT",
    "Factors",
    "Full",
    "Gaussian",
    "GridFactors",
    "Joint",
    "JointGrid",
    "JointGridFactors",
    "Kronecker",
    "KroneckerFactors",
    "Parsimonious",
    "Posterior",
    "Projected",
    "Told",
    "check_size",
    "inverse_root",
    "latents_first",
    "log_determinant",
    "start_like_parsimonious",
]
