"""What holds for every data set of Giraldo's thesis: real ones and stand-ins look alike, and are the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.datasets import (
    annotated_toys,
    annotators,
    bike,
    crowds,
    heterogeneous,
    london,
    mobility,
    occupancy,
    traffic,
    uci,
)
from mogp.datasets.store import DataUnavailableError

MODULES = (annotated_toys, annotators, bike, crowds, heterogeneous, london, mobility, occupancy, traffic, uci)
ENTRIES = {name: entry for module in MODULES for name, entry in module.ENTRIES.items()}
PRIVATE = ("human", "guangzhou", "voice")
ABSENT = ("ctslice", "sarcos", "london-3types")
AT_HAND = tuple(name for name, e in ENTRIES.items() if e.standin and name not in (*PRIVATE, *ABSENT))
NEAR = 0.15
"""How far the accuracy or R² of a simple baseline may be from that on the real data."""


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


@pytest.mark.parametrize("name", AT_HAND)
def test_standin_has_the_layout_of_the_real_data(name, mirror):
    real, standin = ENTRIES[name].load(), ENTRIES[name].standin()
    assert (real.source, standin.source) == ("real", "stand-in")
    assert real.X.shape == standin.X.shape
    assert real.Y.shape == standin.Y.shape
    assert real.X.dtype == standin.X.dtype == np.float64
    assert real.Y.dtype == standin.Y.dtype == np.float64
    for field in ("name", "inputs", "outputs", "likelihoods", "classes", "image_shape"):
        assert getattr(real, field) == getattr(standin, field), field
    assert {k: v.shape for k, v in real.per_row.items()} == {k: v.shape for k, v in standin.per_row.items()}
    assert set(real.extras) == set(standin.extras)
    assert (real.output is None, real.held_out is None) == (standin.output is None, standin.held_out is None)
    assert standin.description.startswith("synthetic stand-in")
    assert real.licence
    assert real.citation
    assert np.isfinite(real.X).all()
    assert np.isfinite(real.Y).all()


@pytest.mark.parametrize("name", AT_HAND)
def test_standin_is_about_as_hard_as_the_real_data(name, mirror):
    real, standin = ENTRIES[name].load(), ENTRIES[name].standin()
    for column, output in enumerate(real.outputs):
        score = _accuracy if output in real.classes else _r_squared
        ours, theirs = (score(data.X, data.Y[:, column]) for data in (standin, real))
        assert np.abs(np.subtract(ours, theirs)).min() <= NEAR, (output, ours, theirs)


def _accuracy(X, y):
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    return _scores(X, y, LogisticRegression(max_iter=300), KNeighborsClassifier(5))


def _r_squared(X, y):
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor

    return _scores(X, y, Ridge(), KNeighborsRegressor(5))


def _scores(X, y, *models):
    rows = np.random.default_rng(0).permutation(len(X))[:2000]
    train, test = rows[: 3 * len(rows) // 4], rows[3 * len(rows) // 4 :]
    return [model.fit(X[train], y[train]).score(X[test], y[test]) for model in models]


GENERATORS = {name: e.standin or e.load for name, e in ENTRIES.items() if name != "ctslice"}


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_data_are_the_same_each_time(name):
    first = GENERATORS[name]()
    assert first.digest == GENERATORS[name]().digest
    assert first.frame.shape[0] == len(first)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_data_say_what_is_nearest(name):
    entry = ENTRIES[name]
    nearest = entry.private.rpartition("'")[0].rpartition("'")[2]
    assert nearest in ENTRIES
    with pytest.raises(DataUnavailableError, match=nearest):
        entry.load()


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(PRIVATE)))
def test_loader_and_standin_take_the_same_documented_options(name):
    import inspect

    entry = ENTRIES[name]
    assert entry.summary.endswith((".", ":")) or "." in inspect.getdoc(entry.load)
    for option in entry.options:
        assert option in inspect.getdoc(entry.load), f"{name}: option {option} is not explained"
    if entry.standin is not None:
        assert inspect.signature(entry.standin) == inspect.signature(entry.load)


@pytest.mark.parametrize("name", [name for name, e in ENTRIES.items() if e.standin and name not in PRIVATE])
def test_without_mirror_and_network_the_error_says_what_to_run(name, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match="MOGP_DATA_MIRROR"):
        ENTRIES[name].load()
