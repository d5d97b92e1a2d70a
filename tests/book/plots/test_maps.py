"""Heat maps show the cells they are given, on one scale where they are to be compared."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from mogp.book.plots.maps import cell_map, cell_maps


@pytest.fixture
def axes():
    mpl.use("Agg")
    figure, axes = plt.subplots(1, 3)
    yield axes
    plt.close(figure)


def test_every_cell_has_the_colour_of_its_value_and_the_first_row_is_on_top(axes):
    values = np.arange(6.0).reshape(2, 3)
    image = cell_map(axes[0], values)
    np.testing.assert_array_equal(image.get_array(), values)
    low, high = axes[0].get_ylim()
    assert low > high
    np.testing.assert_allclose(image.to_rgba(values)[0, 0], plt.get_cmap("viridis")(0.0))


def test_maps_of_one_unit_share_a_scale_that_spans_them_all_and_have_one_bar(axes):
    maps = {"a": np.array([[1.0, 2.0]]), "b": np.array([[0.5, np.nan]]), "c": np.array([[7.0, 3.0]])}
    images = cell_maps(axes, maps, "people in an hour", scale="sqrt")
    assert {image.get_clim() for image in images} == {(0.5, 7.0)}
    assert [ax.get_title() for ax in axes] == ["a", "b", "c"]
    bars = [ax for ax in axes[0].figure.axes if ax not in axes]
    assert [bar.get_ylabel() for bar in bars] == ["people in an hour"]


def test_cells_without_a_value_are_neither_drawn_nor_counted(axes):
    image = cell_map(axes[0], [[np.nan, 2.0], [np.inf, 3.0]])
    assert image.get_clim() == (2.0, 3.0)
    np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), [[True, False], [True, False]])


def test_a_logarithmic_scale_draws_cells_below_it_at_its_lower_end(axes):
    image = cell_map(axes[0], [[0.0, 1.0, 100.0]], scale="log", limits=(0.1, 100.0))
    np.testing.assert_allclose(image.get_array(), [[0.1, 1.0, 100.0]])


def test_an_outline_runs_between_cells_inside_and_outside(axes):
    inside = np.zeros((3, 3), bool)
    inside[1, 1] = True
    cell_map(axes[0], np.zeros((3, 3)), outline=inside)
    drawn = {tuple(map(tuple, np.sort(s, axis=0))) for s in axes[0].collections[-1].get_segments()}
    square = {((0.5, 0.5), (1.5, 0.5)), ((0.5, 1.5), (1.5, 1.5)), ((0.5, 0.5), (0.5, 1.5)), ((1.5, 0.5), (1.5, 1.5))}
    assert drawn == square


def test_a_map_of_one_value_is_drawn(axes):
    assert cell_map(axes[0], np.zeros((2, 2)), unit="bicycles").get_clim() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda axes: cell_map(axes[0], np.zeros(3)), r"shape \(3,\); expected \[rows, columns\]"),
        (lambda axes: cell_map(axes[0], np.full((2, 2), np.nan)), "no cell has a finite value"),
        (lambda axes: cell_map(axes[0], np.ones((2, 2)), limits=(2.0, 1.0)), "the lower one comes first"),
        (lambda axes: cell_map(axes[0], np.zeros((2, 2)), scale="log"), "begins above zero"),
        (lambda axes: cell_map(axes[0], np.ones((2, 2)), scale="cubic"), "scale='cubic'"),
        (lambda axes: cell_map(axes[0], np.ones((2, 2)), outline=np.ones(2)), "outline has shape"),
        (lambda axes: cell_maps(axes[:2], {"a": np.ones((2, 2))}, "people"), "2 axes for 1 maps"),
    ],
)
def test_what_cannot_be_drawn_is_refused(axes, call, said):
    with pytest.raises(ValueError, match=said):
        call(axes)
