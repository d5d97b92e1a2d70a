"""What the annotators of each row say together: their votes, the majority, the average."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mogp.data import Array, MultiOutputData, Output

__all__ = [
    "annotations_of",
    "average",
    "check_classes",
    "majority_vote",
    "shares_of",
    "vote_shares",
    "votes_of",
    "with_column",
]


def majority_vote(data: MultiOutputData, classes: int) -> MultiOutputData:
    """The most frequent label of each row, in one column at the same inputs.

    A tie goes to the label that is more frequent among all annotations, and if they tie there too,
    to the smallest.
    """
    counts = votes_of(data, classes).sum(1)
    everywhere = counts.sum(0)
    return with_column(data, np.argmax(counts + everywhere / (everywhere.sum() + 1), 1))


def vote_shares(data: MultiOutputData, classes: int) -> Array:
    """The share of the annotators of each row who named each class, `[N, K]`."""
    return shares_of(votes_of(data, classes))


def average(data: MultiOutputData) -> MultiOutputData:
    """The mean of the annotations of each row, in one column at the same inputs."""
    own = annotations_of(data)
    return with_column(data, np.average(own.Y, axis=1, weights=own.observed))


def annotations_of(data: MultiOutputData) -> Output:
    """The one output of the data, whose target columns are the annotators."""
    if data.num_outputs != 1:
        raise ValueError(
            f"the data have {data.num_outputs} outputs; expected one whose target columns are the"
            " annotators: build it with MultiOutputData.from_list([(X, annotations)])."
        )
    return data[0]


def votes_of(data: MultiOutputData, classes: int) -> Array:
    """`[N, R, K]`, one where an annotator named a class."""
    check_classes(classes)
    own = annotations_of(data)
    broken = own.observed & ~np.isin(own.Y, np.arange(classes))
    if broken.any():
        n, r = np.argwhere(broken)[0]
        raise ValueError(
            f"output {own.name!r} has {int(broken.sum())} labels that are no class, first at row"
            f" {own.rows[n]} by annotator {r} ({own.Y[n, r]}); expected whole numbers from 0 to"
            f" {classes - 1}. Recode the labels with numpy.unique(labels, return_inverse=True), or"
            " raise the number of classes."
        )
    named = own.Y[:, :, None] == np.arange(classes)
    votes: Array = (own.observed[:, :, None] & named).astype(float)
    return votes


def shares_of(votes: Array) -> Array:
    """The share `[N, K]` of the votes `[N, R, K]` of each row that each class has."""
    counts = votes.sum(1)
    shares: Array = counts / counts.sum(1, keepdims=True)
    return shares


def with_column(data: MultiOutputData, column: Array) -> MultiOutputData:
    """The data with one target a row in place of those of the annotators."""
    Y = column[:, None].astype(float)
    return replace(data, outputs=(replace(data[0], Y=Y, observed=np.ones(Y.shape, bool)),))


def check_classes(classes: int) -> None:
    """Refuse a number of classes that is not a whole number of at least 2."""
    if not isinstance(classes, int | np.integer) or classes < 2:
        raise ValueError(
            f"classes={classes!r}; expected the number of classes, a whole number of at least 2."
        )
