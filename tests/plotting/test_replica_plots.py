"""Panels of replicas, bars of scores and the latent map show the numbers they are given, in the right places."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse

from mogp import MultiOutputData, plotting
from mogp.plotting.style import COLOURS, INK


@pytest.fixture
def replicas():
    """Two outputs in three replicas; the second was not observed in its second replica, and is alone in the test."""
    x = np.arange(6.0)
    train = MultiOutputData.from_list(
        [(x, x + 10), (x[:4], x[:4] + 20)], names=["a", "b"], replicas=[[0, 0, 1, 1, 2, 2], [0, 0, 2, 2]]
    )
    test = MultiOutputData.from_list([(x[4:], x[4:] + 20)], names=["b"], replicas=[[1, 1]])
    grid = np.linspace(0, 5, 7)
    mean = 10.0 + np.arange(6.0).reshape(2, 3, 1) + 0 * grid
    return grid, mean, np.full(mean.shape, 0.5), train, test


@pytest.fixture
def subplots():
    def make(*shape):
        return plt.subplots(*shape, squeeze=False)[1]

    yield make
    plt.close("all")


def drawn(ax, colour):
    """All points of a colour on some axes."""
    lines = [line for line in ax.lines if line.get_marker() == "." and to_rgb(line.get_color()) == to_rgb(colour)]
    return np.concatenate([line.get_xydata() for line in lines])


def test_each_panel_shows_the_curve_and_the_points_of_its_output_and_replica(replicas, subplots):
    grid, mean, sd, train, test = replicas
    axes = plotting.replica_panels(subplots(2, 3), grid, mean, sd, train, test, [1, 0])
    np.testing.assert_array_equal(axes[0, 2].lines[0].get_ydata(), mean[1, 2])
    np.testing.assert_array_equal(drawn(axes[0, 2], INK), [[2, 22], [3, 23]])
    np.testing.assert_array_equal(drawn(axes[0, 1], COLOURS["red"]), [[4, 24], [5, 25]])
    np.testing.assert_array_equal(drawn(axes[1, 1], INK), [[2, 12], [3, 13]])
    assert len(drawn(axes[1, 1], COLOURS["red"])) == 0
    band = axes[0, 2].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (mean[1, 2, 0] - 1, mean[1, 2, 0] + 1)


def test_a_replica_without_training_points_is_headed_held_out(replicas, subplots):
    grid, mean, sd, train, test = replicas
    axes = plotting.replica_panels(subplots(2, 3), grid, mean, sd, train, test, [0, 1], ["first", "second"])
    titles = [[ax.get_title() for ax in row] for row in axes]
    assert titles == [["replica 1", "replica 2", "replica 3"], ["", "(held out)", ""]]
    assert [row[0].get_ylabel() for row in axes] == ["first", "second"]
    assert len({(*ax.get_xlim(), *ax.get_ylim()) for ax in axes.flat}) == 1


def test_a_model_without_deviations_has_curves_and_no_bands(replicas, subplots):
    grid, mean, sd, train, test = replicas
    axes = plotting.replica_panels(subplots(1, 3), grid, mean, np.full_like(sd, np.nan), train, test, [0])
    assert not axes[0, 1].collections
    np.testing.assert_array_equal(axes[0, 1].lines[0].get_ydata(), mean[0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": [0]}, r"axes have shape \(2, 3\).*need \(1, 3\)"),
        ({"x": np.zeros(4)}, r"must both be \[D, R, 4\]"),
        ({"names": ["only one"]}, "1 names for 2 rows"),
    ],
)
def test_panels_that_do_not_fit_are_refused(replicas, subplots, change, message):
    grid, mean, sd, train, test = replicas
    given = {"x": grid, "mean": mean, "sd": sd, "train": train, "test": test, "outputs": [0, 1], **change}
    with pytest.raises(ValueError, match=message):
        plotting.replica_panels(subplots(2, 3), **given)


def scores(**means):
    rows = [(model, m - 0.1 * m, n) for model, (m, n) in means.items()]
    rows += [(model, m + 0.1 * m, n) for model, (m, n) in means.items()]
    return pd.DataFrame(rows, columns=["model", "nmse", "nlpd"])


def test_bars_end_at_the_means_in_the_given_order_and_skip_missing_scores(subplots):
    table = scores(NN=(0.5, np.nan), LMC=(0.4, 1.0), DHGP=(0.3, -0.5))
    left, right = plotting.score_bars(subplots(1, 2), table, ["DHGP", "LMC", "HGP", "NN"], reference="LMC")
    np.testing.assert_allclose([bar.get_width() for bar in left.patches], [0.3, 0.4, 0.5])
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], [-0.5, 1.0])
    assert [label.get_text() for label in left.get_yticklabels()] == ["DHGP", "LMC", "NN"]
    assert [text.get_text() for text in left.texts] == ["0.300 ± 0.030", "0.400 ± 0.040", "0.500 ± 0.050"]
    assert right.texts[-1].get_text() == "–"
    np.testing.assert_allclose(left.lines[-1].get_xdata(), 0.4)
    assert left.get_xscale() == right.get_xscale() == "linear"


def test_scores_of_different_magnitude_are_on_a_logarithmic_scale(subplots):
    left, right = plotting.score_bars(subplots(1, 2), scores(LMC=(0.01, -2.0), DHGP=(0.5, 40.0)), ["LMC", "DHGP"])
    assert (left.get_xscale(), right.get_xscale()) == ("log", "symlog")
    np.testing.assert_allclose([bar.get_x() + bar.get_width() for bar in left.patches], [0.01, 0.5])


def test_bars_of_no_model_are_refused(subplots):
    with pytest.raises(ValueError, match="none of HGP; it has LMC"):
        plotting.score_bars(subplots(1, 2), scores(LMC=(1.0, 1.0)), ["HGP"])


def test_map_shows_the_two_latent_dimensions_in_which_outputs_differ_most(subplots, rng):
    mean = rng.normal(size=(5, 3)) * [1.0, 0.01, 3.0]
    var = rng.uniform(0.1, 0.2, (5, 3))
    ax = plotting.latent_map(subplots(1, 1)[0, 0], mean, var, names=list("abcde"))
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), mean[:, [0, 2]])
    ellipse = next(patch for patch in ax.patches if isinstance(patch, Ellipse))
    np.testing.assert_allclose([ellipse.width, ellipse.height], 2 * np.sqrt(var[0, [0, 2]]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("latent dimension 1", "latent dimension 3")


def test_map_of_a_single_latent_dimension_is_a_line(subplots):
    ax = plotting.latent_map(subplots(1, 1)[0, 0], [[0.0], [1.0]], [[0.1], [0.1]], values=[1, 2])
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[0, 0], [1, 0]])


def test_map_of_wrong_shapes_is_refused(subplots):
    with pytest.raises(ValueError, match=r"mean \(2, 2\) and var \(2, 1\)"):
        plotting.latent_map(subplots(1, 1)[0, 0], np.zeros((2, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="3 names for 2 outputs"):
        plotting.latent_map(subplots(1, 1)[0, 0], np.zeros((2, 2)), np.ones((2, 2)), names="abc")
