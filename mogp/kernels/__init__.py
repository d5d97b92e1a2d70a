"""Covariance functions, and the means to evaluate many of them at once."""

from mogp.kernels.stack import KernelStack
from mogp.kernels.unit import unit_kernels

__all__ = ["KernelStack", "unit_kernels"]
