"""The dashboard of annotators shows the numbers it is given, in the right places."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from mogp import MultiOutputData
from mogp.book.plots.dashboard import agreement, annotator_dashboard, most_trusted, standing
from mogp.plotting.style import COLOURS

NAN = np.nan
LABELS = np.array([[0, 0, 1], [1, 1, NAN], [1, 0, 0], [0, NAN, 1], [2, 2, NAN]])


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def annotations(Y=LABELS, inputs=1):
    X = np.linspace(0, 1, len(Y))[:, None] * np.ones(inputs)
    return MultiOutputData.from_list([(X, Y)], names=["class"])


def model(classes=True):
    """The first annotator is the best below 1/2, the third above it; the second has 0.4 everywhere."""

    def reliability(X):
        x = np.asarray(X)[:, :1]
        mean = np.hstack([0.9 - 0.8 * x, 0.4 + 0 * x, 0.1 + 0.8 * x])
        return mean, np.full(mean.shape, 0.01)

    return SimpleNamespace(
        reliability=reliability, annotators=SimpleNamespace(**({"num_classes": 3} if classes else {}))
    )


def test_agreement_is_the_share_of_equal_labels_on_common_rows():
    expected = [[1, 3 / 4, 0], [3 / 4, 1, 1 / 2], [0, 1 / 2, 1]]
    np.testing.assert_allclose(agreement(annotations(), labels=True), expected)


def test_agreement_of_values_is_their_correlation_and_unknown_without_common_rows():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(20, 3))
    Y[:10, 2] = NAN
    Y[10:, 1] = NAN
    found = agreement(annotations(Y), labels=False)
    assert found[0, 1] == pytest.approx(np.corrcoef(Y[:10, 0], Y[:10, 1])[0, 1])
    assert np.isnan(found[1, 2])


def test_most_trusted_is_the_most_probable_or_the_least_noisy():
    best, lead = most_trusted([[0.2, 0.9, 0.5], [0.8, 0.1, 0.7]], labels=True)
    np.testing.assert_array_equal(best, [1, 0])
    np.testing.assert_allclose(lead, [0.4, 0.1])
    best, lead = most_trusted([[0.2, 0.9, 0.5]], labels=False)
    np.testing.assert_array_equal(best, [0])
    np.testing.assert_allclose(lead, [0.3])


def test_standing_tells_who_is_alone_in_front_who_is_close_and_where_nobody_knows():
    found = standing([[0.9, 0.85, 0.2], [0.9, 0.5, 0.2], [0.4, 0.3, 0.1]], labels=True, close=0.1)
    np.testing.assert_array_equal(found, [[1, 1, 0], [2, 0, 0], [0, 0, 0]])
    found = standing([[1.0, 1.05, 3.0], [1.0, 2.0, 3.0]], labels=False, close=0.1)
    np.testing.assert_array_equal(found, [[1, 1, 0], [2, 0, 0]])


def test_dashboard_draws_curves_regions_and_amounts():
    panels = annotator_dashboard(model(), annotations(), np.array([0, 1, 1, 0, 0]), points=21)
    curves = [line for line in panels[0].lines if len(line.get_xdata()) == 21]
    np.testing.assert_allclose(curves[0].get_ydata(), 0.9 - 0.8 * np.linspace(0, 1, 21))
    dark = {r: lane.get_paths() for r, lane in enumerate(panels[2].collections[1::2])}
    first, third = (np.concatenate([path.vertices[:, 0] for path in dark[r]]) for r in (0, 2))
    assert (first.min(), third.max()) == (0, 1)
    assert 0.3 < first.max() < 0.5 < third.min() < 0.7
    assert not dark[1]
    assert to_rgb(panels[2].collections[1].get_facecolor()[0]) == to_rgb(COLOURS["blue"])
    heights = [bar.get_height() for bar in panels[3].patches]
    assert heights == [5, 4, 3, 4, 2, 0]


def test_dashboard_of_many_inputs_groups_rows_along_the_first_component():
    rng = np.random.default_rng(1)
    Y = rng.integers(0, 3, (60, 3)).astype(float)
    panels = annotator_dashboard(model(), annotations(Y, inputs=4), axes=plt.subplots(2, 2)[1])
    assert "principal component" in panels[0].get_xlabel()
    y = panels[0].lines[0].get_ydata()
    assert len(y) == 12
    assert (np.diff(y) < 0).all() or (np.diff(y) > 0).all()


def test_dashboard_of_values_shows_standard_deviations():
    Y = np.random.default_rng(2).normal(size=(10, 3))
    panels = annotator_dashboard(model(classes=False), annotations(Y), np.zeros(10), points=5)
    np.testing.assert_allclose(panels[0].lines[1].get_ydata(), np.sqrt(0.4))
    texts = {text.get_text() for text in panels[3].texts}
    assert f"{np.sqrt(np.mean(Y[:, 0] ** 2)):.2g}" in texts


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="2 names for 3 annotators"):
        annotator_dashboard(model(), annotations(), names=["a", "b"])
    with pytest.raises(ValueError, match="gold has 2 values for 5 annotated rows"):
        annotator_dashboard(model(), annotations(), [0, 1])
    with pytest.raises(ValueError, match="four panels"):
        annotator_dashboard(model(), annotations(), axes=plt.subplots(1, 2)[1])
