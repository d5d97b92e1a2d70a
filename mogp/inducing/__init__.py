"""Inducing variables: what the sparse posterior is a distribution over."""

from mogp.inducing.functions import FunctionPoints, SmoothedPoints
from mogp.inducing.patches import InducingPatches, patch_subset
from mogp.inducing.points import (
    InducingPoints,
    ReplicaPoints,
    given_points,
    kmeans_points,
    replica_points,
    subset_points,
)

__all__ = [
    "FunctionPoints",
    "InducingPatches",
    "InducingPoints",
    "ReplicaPoints",
    "SmoothedPoints",
    "given_points",
    "kmeans_points",
    "patch_subset",
    "replica_points",
    "subset_points",
]
