"""Covariance functions, and the means to evaluate many of them at once."""

from mogp.kernels.convolved import ConvolvedStack, SmoothedStack
from mogp.kernels.expected import expected_k, expected_kk
from mogp.kernels.hierarchy import SameNode, hierarchical, on_inputs, with_replica
from mogp.kernels.layers import LayerKernels, LayerKind
from mogp.kernels.patches import Patches, PatchStack
from mogp.kernels.rows import KernelRows, kernels_of, take_rows
from mogp.kernels.stack import KernelStack, parameters_read_once
from mogp.kernels.unit import unit_kernels

__all__ = [
    "ConvolvedStack",
    "KernelRows",
    "KernelStack",
    "LayerKernels",
    "LayerKind",
    "PatchStack",
    "Patches",
    "SameNode",
    "SmoothedStack",
    "expected_k",
    "expected_kk",
    "hierarchical",
    "kernels_of",
    "on_inputs",
    "parameters_read_once",
    "take_rows",
    "unit_kernels",
    "with_replica",
]
