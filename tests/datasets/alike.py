"""What a stand-in must share with the data it stands for."""

from __future__ import annotations

import inspect

import numpy as np

from mogp.datasets import Dataset
from mogp.datasets.entry import Entry


def assert_same_options(entry: Entry) -> None:
    """A call that gets the real data gets the stand-in too."""
    assert inspect.signature(entry.load).parameters == inspect.signature(entry.standin).parameters


def assert_alike(real: Dataset, standin: Dataset) -> None:
    """Same names, layout, sizes and types; other numbers are fine."""
    assert (real.source, standin.source) == ("real", "stand-in")
    assert standin.description.startswith("synthetic stand-in for: ")
    for name in ("name", "inputs", "outputs", "likelihoods", "classes", "image_shape"):
        assert getattr(standin, name) == getattr(real, name), name
    for name in ("X", "Y", "output", "replica", "held_out"):
        ours, theirs = getattr(standin, name), getattr(real, name)
        if theirs is None:
            assert ours is None, name
        else:
            assert type(ours) is type(theirs)
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
    for name in ("per_row", "extras"):
        ours, theirs = getattr(standin, name), getattr(real, name)
        assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}
    if real.classes:
        assert set(np.unique(standin.Y)) == set(np.unique(real.Y))
