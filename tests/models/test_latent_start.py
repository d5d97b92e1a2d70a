"""Start values of models with latent outputs: what takes training waits until the model meets its data."""

from __future__ import annotations

import pickle

import gpflow
import numpy as np
import pytest
from dense_latent import common_data, levels_of, uneven_data
from gpflow.kernels import Matern32
from gpflow.utilities import read_values, set_trainable

import mogp
from mogp.data import MultiOutputData
from mogp.inducing import replica_points
from mogp.kernels import hierarchical
from mogp.models import LatentMOGP, hmogp_lv, lvmogp
from mogp.models.latent_start import latent_model
from mogp.optimizers import Adam
from mogp.optimizers.line_search import LineSearch
from mogp.training import fit, start

SIZES = {"latent_dim": 2, "latent_inducing": 3, "nodes": 7, "noise": None, "seed": 1}


def made(data: MultiOutputData, kind: str) -> LatentMOGP:
    return hmogp_lv(data, inducing=2, latent_inducing=3, kernel=levels_of(), start=kind, seed=1, scaling=None)


def assert_same(one: LatentMOGP, other: LatentMOGP) -> None:
    """To the last digit."""
    for a, b in zip(one.variables, other.variables, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
@pytest.mark.parametrize("kind", ["pca", "gplvm"])
def test_a_constructor_does_not_train_and_begins_at_the_random_start(make, kind, monkeypatch):
    data = uneven_data()

    def trains(*args, **options):
        raise AssertionError("the constructor trains")

    monkeypatch.setattr(LineSearch, "minimize", trains)
    model = make(data, inducing=2, latent_inducing=3, start=kind)
    assert_same(model, make(data, inducing=2, latent_inducing=3, start="random"))
    with pytest.raises(AssertionError, match="the constructor trains"):
        start(model, data)


@pytest.mark.parametrize("kind", ["pca", "gplvm"])
def test_starting_gives_the_values_of_a_model_built_from_trained_parts(kind):
    data = uneven_data()
    model = made(data, kind)
    start(model, data)
    parts = {"kernel": hierarchical(levels_of(), 1), "points": replica_points(data, 2), "likelihood": None}
    assert_same(model, latent_model(data, kind, **parts, **SIZES))
    assert np.abs(read_values(model)[".posterior.q_mu"]).max() > 0.1


def test_fit_starts_a_model_once():
    data = uneven_data()
    first, second = made(data, "pca"), made(data, "pca")
    start(first, data)
    histories = [fit(model, data, steps=3, optimizer=Adam(0.05), progress=False) for model in (first, second)]
    np.testing.assert_array_equal(histories[0].elbo, histories[1].elbo)
    trained = gpflow.utilities.deepcopy(first)
    start(first, data)
    assert_same(first, trained)


def test_a_model_that_was_not_started_can_be_copied_pickled_and_saved(tmp_path):
    data = uneven_data()
    model = made(data, "pca")
    model.elbo(data)
    copies = [
        gpflow.utilities.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        mogp.load(mogp.save(model, tmp_path / "model.mogp")),
    ]
    for one in (model, *copies):
        start(one, data)
    for one in copies:
        assert_same(one, model)


def test_a_start_goes_from_the_kernels_that_the_model_has_and_keeps_what_is_fixed():
    data = uneven_data()
    model = made(data, "pca")
    set_trainable(model.kernel, False)
    model.kernel.kernels[0].variance.assign(3.0)
    start(model, data)
    kernel = hierarchical([Matern32(3.0, 1.3), Matern32(0.5, 0.6)], 1)
    set_trainable(kernel, False)
    assert_same(
        model, latent_model(data, "pca", kernel=kernel, points=replica_points(data, 2), likelihood=None, **SIZES)
    )
    assert not model.kernel.trainable_variables


def test_other_data_are_refused_before_a_start():
    model = made(common_data(), "pca")
    with pytest.raises(ValueError, match="names and order must agree"):
        start(model, uneven_data())


@pytest.mark.parametrize("kind", ["pca", "random"])
@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
def test_noise_that_is_given_is_where_the_noise_starts(make, kind):
    data = common_data()
    model = make(data, noise=[0.1, 0.2, 0.3], inducing=2, latent_inducing=2, start=kind)
    start(model, data)
    np.testing.assert_allclose(model.noise, [0.1, 0.2, 0.3], rtol=1e-12)


def test_noise_is_that_of_gaussian_targets():
    data = MultiOutputData.from_arrays(np.arange(4.0), np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"noise=0.1 was given with a Poisson likelihood"):
        hmogp_lv(data, gpflow.likelihoods.Poisson(), noise=0.1, scaling=None)
