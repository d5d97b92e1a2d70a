"""Inducing variables: what the sparse posterior is a distribution over."""

from mogp.inducing.patches import InducingPatches, patch_subset
from mogp.inducing.points import InducingPoints, given_points, kmeans_points, subset_points

__all__ = ["InducingPatches", "InducingPoints", "given_points", "kmeans_points", "patch_subset", "subset_points"]
