"""Covariance functions, and the means to evaluate many of them at once."""

from mogp.kernels.patches import Patches, PatchStack
from mogp.kernels.stack import KernelStack, parameters_read_once
from mogp.kernels.unit import unit_kernels

__all__ = ["KernelStack", "PatchStack", "Patches", "parameters_read_once", "unit_kernels"]
