"""Inducing variables: what the sparse posterior is a distribution over."""

from mogp.inducing.functions import FunctionPoints, SmoothedPoints
from mogp.inducing.patches import InducingPatches, patch_subset
from mogp.inducing.points import (
    InducingPoints,
    ReplicaPoints,
    cluster_centres,
    distinct_points,
    given_points,
    kmeans_points,
    replica_points,
    subset_points,
)
from mogp.inducing.subspace import SubspacePoints, leading_directions, subspace_points

__all__ = [
    "FunctionPoints",
    "InducingPatches",
    "InducingPoints",
    "ReplicaPoints",
    "SmoothedPoints",
    "SubspacePoints",
    "cluster_centres",
    "distinct_points",
    "given_points",
    "kmeans_points",
    "leading_directions",
    "patch_subset",
    "replica_points",
    "subset_points",
    "subspace_points",
]
