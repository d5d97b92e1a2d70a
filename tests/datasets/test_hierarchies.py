"""The synthetic hierarchies have the covariance, the layout and the held-out parts that the documents give them."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.datasets import hierarchies
from mogp.datasets.hierarchies import ENTRIES, draw_product

SIZES = {"hmogp-synth-1": (50, 3), "hmogp-synth-2": (50, 4), "hmogp-synth-3": (10, 5), "hmogp-synth-4": (10, 3)}


def test_product_draws_have_the_product_of_the_two_covariances(monkeypatch):
    monkeypatch.setattr(hierarchies, "FEATURES", 100)
    x = np.array([0.0, 0.3, 1.0, 1.0, 4.0])
    H = np.array([[0.0, 0.0], [0.0, 0.5], [1.0, 1.0], [0.2, 0.1], [0.0, 0.0]])
    rng = np.random.default_rng(0)
    draws = np.array([draw_product(x, H, rng) for _ in range(8000)])
    r = np.sqrt(3.0) * np.abs(x[:, None] - x)
    squares = ((H[:, None] - H) ** 2).sum(axis=2)
    expected = (1.0 + r) * np.exp(-r) * np.exp(-0.5 * squares)
    np.testing.assert_allclose(draws.T @ draws / len(draws), expected, atol=0.07)


@pytest.mark.parametrize(("variant", "shared", "noise"), [("documents", 0.1, 0.02), ("code", 1.0, 0.0004)])
def test_replicas_share_the_upper_level_and_nothing_else(variant, shared, noise, monkeypatch):
    monkeypatch.setattr(hierarchies, "FEATURES", 200)
    across, within, errors = [], [], []
    for seed in range(150):
        data = hierarchies.hmogp_synth_4(variant=variant, seed=seed)
        f = data.extras["f"].reshape(10, 3, 10)
        across.append((f[:, 0] * f[:, 1]).mean())
        within.append((f**2).mean())
        errors.append(((data.Y[:, 0] - data.extras["f"]) ** 2).mean())
    assert np.mean(across) == pytest.approx(shared, abs=4 * np.std(across) / np.sqrt(150))
    assert np.mean(within) == pytest.approx(1.0 + shared, abs=4 * np.std(within) / np.sqrt(150))
    assert np.mean(errors) == pytest.approx(noise, rel=0.03)


@pytest.mark.parametrize("name", SIZES)
def test_every_output_has_its_own_inputs_which_its_replicas_share(name):
    (D, R), data = SIZES[name], ENTRIES[name].load()
    assert len(data) == D * R * 10
    assert len(data.outputs) == D
    inputs = [[data.X[(data.output == d) & (data.replica == r), 0] for r in range(R)] for d in range(D)]
    assert all(np.array_equal(of[0], other) for of in inputs for other in of)
    assert len({of[0].tobytes() for of in inputs}) == D
    assert data.X.min() >= 0.0
    assert data.X.max() <= 10.0
    assert data.train.data.sizes == tuple(np.sum(~data.held_out[data.output == d]) for d in range(D))


@pytest.mark.parametrize("repetition", [0, 2])
def test_half_of_the_points_are_held_out_at_the_same_places_in_all_replicas(repetition):
    data = hierarchies.hmogp_synth_1(repetition=repetition)
    for d in (0, 7, 49):
        train = np.random.RandomState(seed=d + 1000 * repetition).permutation(10)[:5]
        for r in range(3):
            held_out = data.held_out[(data.output == d) & (data.replica == r)]
            assert set(np.flatnonzero(~held_out)) == set(train)


def test_missing_replicas_are_those_of_the_figures():
    data = hierarchies.hmogp_synth_2()
    missing = {d + 1: set(data.replica[(data.output == d) & data.held_out]) for d in range(50)}
    assert (missing[14], missing[24], missing[40]) == ({1}, {3}, {3})
    assert all(len(replicas) == 1 for replicas in missing.values())
    assert data.held_out.sum() == 500
    later = hierarchies.hmogp_synth_2(repetition=1)
    assert set(later.replica[(later.output == 13) & later.held_out]) == {2}
    assert np.array_equal(later.Y, data.Y)


@pytest.mark.parametrize("train_points", [1, 9])
def test_only_the_last_output_is_reduced(train_points):
    data = hierarchies.hmogp_synth_4(train_points=train_points)
    assert set(data.output[data.held_out]) == {9}
    assert data.held_out.sum() == 3 * (10 - train_points)
    seen = np.random.RandomState(9).permutation(10)[:train_points]
    for r in range(3):
        assert set(np.flatnonzero(~data.held_out[(data.output == 9) & (data.replica == r)])) == set(seen)


def test_protocol_of_the_third_set_can_be_chosen():
    points, replica = (hierarchies.hmogp_synth_3(protocol=protocol) for protocol in ("points", "replica"))
    assert np.array_equal(points.Y, replica.Y)
    assert (points.held_out.sum(), replica.held_out.sum()) == (250, 100)


@pytest.mark.parametrize("name", SIZES)
def test_a_seed_gives_the_same_numbers_and_another_seed_others(name):
    load = ENTRIES[name].load
    assert load().digest == load().digest != load(seed=2).digest


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("hmogp-synth-1", {"variant": "paper"}, "'documents', 'code'"),
        ("hmogp-synth-1", {"repetition": -1}, "count from 0"),
        ("hmogp-synth-3", {"protocol": "rows"}, "'points' or 'replica'"),
        ("hmogp-synth-4", {"train_points": 0}, "1 to 9"),
        ("hmogp-synth-4", {"train_points": 10}, "1 to 9"),
    ],
)
def test_an_unknown_option_is_met_with_those_there_are(name, options, said):
    with pytest.raises(ValueError, match=said):
        ENTRIES[name].load(**options)
