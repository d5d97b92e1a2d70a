"""Inducing variables: what the sparse posterior is a distribution over."""

from mogp.inducing.points import InducingPoints, given_points, kmeans_points, subset_points

__all__ = ["InducingPoints", "given_points", "kmeans_points", "subset_points"]
