"""The drawing functions put the right data on the axes and refuse what they cannot draw."""

from __future__ import annotations

import io

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from mogp import plotting
from mogp.book.plots import graph


@pytest.fixture
def ax():
    with mpl.rc_context():
        mpl.use("Agg")
        plotting.use_style()
        figure, axes = plt.subplots()
        yield axes
        plt.close(figure)


def edges_of_band(ax):
    """Lower and upper edge of the last band, by input."""
    vertices = ax.collections[-1].get_paths()[0].vertices
    table = pd.DataFrame(vertices, columns=["x", "y"]).groupby("x").y
    return table.min(), table.max()


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def test_band_spans_mean_plus_minus_width_times_sd_at_sorted_inputs(ax):
    x, mean, sd = np.array([2.0, 0.0, 1.0]), np.array([5.0, 1.0, 3.0]), np.array([0.5, 0.1, 0.2])
    plotting.bands(ax, x[:, None], mean[:, None], sd[:, None], width=3.0)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]])
    lower, upper = edges_of_band(ax)
    np.testing.assert_allclose(lower.loc[[0.0, 1.0, 2.0]], [0.7, 2.4, 3.5])
    np.testing.assert_allclose(upper.loc[[0.0, 1.0, 2.0]], [1.3, 3.6, 6.5])


def test_band_takes_quantiles_and_the_colour_of_its_line(ax):
    plotting.bands(ax, [0.0, 1.0], [1.0, 1.0], lower=[0.0, 0.5], upper=[4.0, 2.0])
    lower, upper = edges_of_band(ax)
    assert (lower.loc[1.0], upper.loc[0.0]) == (0.5, 4.0)
    assert to_rgb(ax.collections[0].get_facecolor()[0][:3]) == to_rgb(ax.lines[0].get_color())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either `sd`, or both"),
        ({"sd": [1.0, 1.0], "lower": [0.0, 0.0], "upper": [1.0, 1.0]}, "either `sd`, or both"),
        ({"lower": [0.0, 0.0]}, "either `sd`, or both"),
        ({"sd": [-1.0, 1.0]}, "1 negative"),
        ({"sd": [1.0]}, "sd has 1 values, x has 2"),
        ({"sd": np.ones((2, 2))}, r"sd has shape \(2, 2\)"),
    ],
)
def test_band_refuses_contradictory_arguments(ax, arguments, message):
    with pytest.raises(ValueError, match=message):
        plotting.bands(ax, [0.0, 1.0], [0.0, 0.0], **arguments)


def test_draws_are_one_line_each_named_once(ax):
    samples = np.arange(6.0).reshape(3, 2)
    plotting.draws(ax, [1.0, 0.0], samples, color="k", label="draws")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1.0, 0.0], [3.0, 2.0], [5.0, 4.0]]
    assert ax.get_legend_handles_labels()[1] == ["draws"]


def test_one_draw_and_no_draw_can_be_drawn(ax):
    plotting.draws(ax, [0.0, 1.0], [2.0, 3.0])
    plotting.draws(ax, [0.0, 1.0], np.empty((0, 2)), color="k")
    assert len(ax.lines) == 1


def test_draws_of_another_length_are_refused(ax):
    with pytest.raises(ValueError, match=r"shape \(2, 3\), expected \[S, 2\]"):
        plotting.draws(ax, [0.0, 1.0], np.ones((2, 3)))


def test_trace_draws_every_run_with_its_running_mean_over_the_raw_values(ax):
    frame = pd.DataFrame({"step": [0, 10, 20], "elbo": [-9.0, -3.0, -6.0]})
    plotting.trace(ax, {"a": frame, "b": frame + 1}, smooth=3)
    smooth, raw = ax.lines[0].get_ydata(), ax.lines[1].get_ydata()
    np.testing.assert_allclose(smooth, [-6.0, -6.0, -4.5])
    np.testing.assert_allclose(raw, frame.elbo)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_trace_of_one_run_has_no_legend_and_names_a_missing_column(ax):
    plotting.trace(ax, pd.DataFrame({"step": [0], "elbo": [-1.0]}))
    assert ax.get_legend() is None
    with pytest.raises(ValueError, match="no column \\['elbo'\\]"):
        plotting.trace(ax, pd.DataFrame({"step": [0], "loss": [1.0]}))


def test_area_of_hinton_squares_is_proportional_to_the_entries(ax):
    matrix = np.array([[1.0, -4.0, 0.0], [0.25, 2.0, -1.0]])
    plotting.hinton(ax, matrix, ["a", "b"], ["u", "v", "w"])
    areas = np.array([square.get_width() * square.get_height() for square in ax.patches]).reshape(2, 3)
    np.testing.assert_allclose(areas / areas.max(), np.abs(matrix) / 4.0)
    centres = [np.add(square.get_xy(), square.get_width() / 2).tolist() for square in ax.patches]
    np.testing.assert_allclose(centres, [[c, r] for r in range(2) for c in range(3)], atol=1e-12)
    positive, negative = ax.patches[0].get_facecolor(), ax.patches[1].get_facecolor()
    assert positive == ax.patches[4].get_facecolor() != negative
    assert ax.yaxis_inverted()


def test_hinton_of_zeros_draws_nothing_visible(ax):
    plotting.hinton(ax, np.zeros((2, 2)))
    assert all(square.get_width() == 0 for square in ax.patches)


def test_coregionalisation_shows_correlations_on_a_symmetric_scale(ax):
    B = np.array([[4.0, -3.0], [-3.0, 9.0]])
    plotting.coregionalisation(ax, B, ["first", "second"], correlation=True)
    (image,) = ax.images
    np.testing.assert_allclose(image.get_array(), [[1.0, -0.5], [-0.5, 1.0]])
    assert image.get_clim() == (-1.0, 1.0)
    assert [text.get_text() for text in ax.texts] == ["1.00", "-0.50", "-0.50", "1.00"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["first", "second"]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.ones((2, 3)), {}, "square"),
        (np.ones(3), {}, "two dimensions"),
        (np.array([[np.nan]]), {}, "not finite"),
        (np.zeros((2, 2)), {"correlation": True}, "positive variances"),
        (np.ones((2, 2)), {"names": ["a"]}, "1 labels for 2 rows"),
    ],
)
def test_coregionalisation_refuses_what_is_not_one(ax, matrix, options, message):
    with pytest.raises(ValueError, match=message):
        plotting.coregionalisation(ax, matrix, **options)


def test_graph_draws_every_node_and_edge_and_shades_the_observed(ax):
    nodes = {"x": (0.0, 1.0), "f": (1.0, 1.0), "y": (1.0, 0.0), "θ": (2.0, 1.0)}
    graph(
        ax,
        nodes,
        [("x", "f"), ("f", "y")],
        labels={"f": "$f$", ("f", "y"): "link"},
        observed={"y"},
        plain={"θ"},
        dashed=[("θ", "f")],
        plates={"N": ["f", "y"]},
    )
    circles = {circle.center: circle for circle in ax.patches if isinstance(circle, Circle)}
    assert set(circles) == {nodes["x"], nodes["f"], nodes["y"]}
    assert circles[nodes["y"]].get_facecolor() != circles[nodes["f"]].get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert [arrow.get_linestyle() for arrow in arrows(ax)] == ["-", "-", "--"]
    assert {text.get_text() for text in ax.texts} == {"x", "$f$", "y", "θ", "link", "N"}
    (plate,) = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    left, right = plate.get_x(), plate.get_x() + plate.get_width()
    assert nodes["x"][0] < left < nodes["f"][0] < right < nodes["θ"][0]


def test_bent_arrows_and_boxes_stay_inside_the_axes(ax):
    nodes = {"left": (0.0, 0.0), "a rather long name of a model": (3.0, 0.0)}
    edge = ("left", "a rather long name of a model")
    graph(ax, nodes, [edge], boxes=nodes, bend={edge: 0.6})
    ax.figure.canvas.draw()
    frame = ax.get_window_extent()
    for text in ax.texts:
        box = text.get_bbox_patch().get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
    bottom = ax.transData.transform((1.5, -0.5 * 0.6 * 3.0))[1]
    assert frame.y0 <= bottom


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": [("a", "z")]}, r"no node \['z'\]"),
        ({"observed": ["z"]}, r"no node \['z'\]"),
        ({"labels": {("b", "a"): "?"}}, "no edge"),
        ({"edges": [("a", "a")]}, "to itself"),
        ({"plates": {"N": []}}, "enclose no node"),
    ],
)
def test_graph_names_what_it_does_not_know(ax, arguments, message):
    with pytest.raises(ValueError, match=message):
        graph(ax, {"a": (0, 0), "b": (1, 0)}, **{"edges": [("a", "b")], **arguments})


def test_an_empty_graph_is_an_empty_picture(ax):
    assert graph(ax, {}) is ax


def test_every_function_returns_the_axes_it_was_given(ax):
    assert plotting.bands(ax, [0.0], [0.0], [1.0]) is ax
    assert plotting.draws(ax, [0.0], [0.0]) is ax
    assert plotting.trace(ax, pd.DataFrame({"step": [0], "elbo": [0.0]})) is ax
    assert plotting.hinton(ax, [[1.0]]) is ax
    assert plotting.coregionalisation(ax, [[1.0]]) is ax


def test_the_same_figure_is_the_same_svg_file(ax):
    def svg():
        figure, axes = plt.subplots()
        plotting.bands(axes, [0.0, 1.0], [0.0, 1.0], [1.0, 1.0], label="mean")
        axes.legend()
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
        plt.close(figure)
        return file.getvalue()

    assert svg() == svg()


def contrast_with_white(colour):
    """Contrast ratio of the Web Content Accessibility Guidelines."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


def test_palette_has_distinct_colours_that_stand_out_on_white(ax):
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert [to_rgb(c) for c in cycle] == [to_rgb(c) for c in plotting.COLOURS.values()]
    assert len(set(cycle)) == len(cycle) == 8
    assert all(contrast_with_white(colour) > 2.0 for colour in cycle)
    assert to_rgb(mpl.rcParams["figure.facecolor"]) == to_rgb("white")


def judged(rank=None, probability=None, happened=None, how="left out", name="a"):
    from mogp.training import Calibration

    n = len(rank if rank is not None else probability)
    nothing = np.full(n, np.nan)
    points = pd.DataFrame(
        {
            "output": name,
            "how": how,
            "rank": nothing if rank is None else rank,
            "probability": nothing if probability is None else probability,
            "happened": nothing if happened is None else happened,
        }
    )
    return Calibration(pd.DataFrame(), points, (), "")


def test_reliability_draws_the_share_of_ranks_within_each_level():
    figure = plotting.reliability(judged(rank=np.array([0.5, 0.4, 0.7, 0.05])))
    (ax,) = figure.axes
    level, share = ax.lines[1].get_data()
    assert np.interp([0.1, 0.25, 0.5, 0.95], level, share).tolist() == [0.25, 0.5, 0.75, 1.0]
    plt.close(figure)


def test_reliability_draws_what_came_true_against_what_was_predicted():
    figure = plotting.reliability(judged(probability=np.repeat([0.2, 0.8], 50), happened=np.tile([0.0, 1.0], 50)))
    (ax,) = figure.axes
    mean, true = ax.lines[1].get_data()
    assert set(np.round(mean, 6)) == {0.2, 0.8}
    np.testing.assert_allclose(true, 0.5, atol=0.11)
    plt.close(figure)


def test_reliability_needs_something_that_can_be_judged():
    with pytest.raises(ValueError, match="hold out rows"):
        plotting.reliability(judged(rank=np.full(3, 0.5), how="seen"))
