"""Every kind of data has a picture that shows the data, and a stand-in's says so."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mogp.book.plots.pictures import picture
from mogp.datasets import load

KINDS = {
    "images": "digits",
    "labels": "corel5k",
    "curves": "kalinka",
    "gaps": "eeg",
    "map": "london",
    "classes": "wine",
    "many classes": "bibtex-single",
    "outputs with inputs of their own": "landmine",
    "histograms": "naval",
    "counts": "zip-toy",
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)
def test_picture_is_drawn_and_tells_a_stand_in(name):
    dataset = load(name, stand_in="only")
    figure = picture(dataset)
    figure.canvas.draw()
    assert figure.get_suptitle() == (f"{name} (synthetic stand-in)" if dataset.source == "stand-in" else name)
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert visible
    assert all(ax.has_data() for ax in visible)


def test_held_out_targets_are_marked_where_they_are():
    eeg = load("eeg", stand_in="only")
    drawn = {ax.get_title(): ax for ax in picture(eeg).axes}
    held = next(line for line in drawn["FZ"].lines if line.get_label() == "held out")
    np.testing.assert_array_equal(held.get_xdata(), eeg.X[156:, 0])
    assert not [line for line in drawn["F3"].lines if line.get_label() == "held out"]


def test_labels_are_counted_as_they_are():
    corel = load("corel5k", stand_in="only")
    left, right = picture(corel).axes[:2]
    assert left.lines[0].get_ydata()[0] == corel.Y.toarray().sum(axis=0).max()
    assert sum(bar.get_height() for bar in right.patches) == len(corel)
