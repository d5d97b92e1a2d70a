"""What `fit` does with models of classes, and where their parameters start."""

from __future__ import annotations

from itertools import combinations

import gpflow
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from mogp import MultiOutputData, fit
from mogp.kernels import Patches
from mogp.likelihoods import Gaussian, Softmax
from mogp.models import g_a, g_m, hetmogp_lmc, mg_m, mocgps_ar, mogps_ar, ovse


@pytest.fixture(scope="module")
def blobs() -> MultiOutputData:
    """Rows around four corners, the label says which; columns of different units."""
    rng = np.random.default_rng(0)
    label = np.arange(320) % 4
    corner = np.stack([label % 2, label // 2], axis=1)
    X = (corner + 0.25 * rng.normal(size=(320, 2))) * [1.0, 50.0]
    return MultiOutputData.from_arrays(X, label, names=["corner"])


def few(data: MultiOutputData, rows: int) -> MultiOutputData:
    return MultiOutputData.from_arrays(data.X[:rows], data.outputs[0].Y[:rows, 0], names=data.names)


@pytest.mark.parametrize("make", [mogps_ar, mg_m, g_a, g_m])
def test_lengthscales_start_at_half_the_median_distance_of_scaled_inputs(blobs, make):
    X = (blobs.X - blobs.X.mean(0)) / blobs.X.std(0)
    median = np.median(pdist(X))
    for start, expected in (("data", median / 2), ("plain", median)):
        for kernel in make(blobs, inducing=3, start=start).prior.kernels.kernels:
            np.testing.assert_allclose(kernel.lengthscales, np.full(2, expected), rtol=1e-6)
    with pytest.raises(ValueError, match="choose 'data' or 'plain'"):
        make(blobs, inducing=3, start="thesis")


@pytest.mark.parametrize("make", [mogps_ar, mg_m])
def test_class_functions_start_with_a_standard_deviation_of_three_or_one(blobs, make):
    for start, expected in (("data", 9.0), ("plain", 1.0)):
        f = make(blobs, inducing=3, start=start).predict_f([[0.5, 25.0]])
        np.testing.assert_allclose(f.var, np.full((1, 4), expected), rtol=1e-5)
    W = np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(make(blobs, latents=2, inducing=3, W=W).prior.W, W)


@pytest.mark.parametrize("make", [mogps_ar, mg_m])
def test_there_is_a_latent_gp_for_each_class_function_up_to_twenty(make):
    labels = np.stack([np.arange(60) % 3, np.arange(60) % 4], axis=1)
    data = MultiOutputData.from_arrays(np.arange(60.0), labels)
    assert make(data, inducing=2).prior.num_latents == 7
    many = MultiOutputData.from_arrays(np.arange(60.0), np.arange(60) % 30)
    assert make(many, inducing=2).prior.num_latents == 20


def test_all_wrong_classes_count_unless_there_are_more_than_fifty():
    def negatives(classes: int) -> int:
        data = MultiOutputData.from_arrays(np.arange(120.0), np.arange(120) % classes)
        return mogps_ar(data, latents=1, inducing=2).likelihood.likelihoods[0].negatives

    assert [negatives(C) for C in (2, 26, 51, 60)] == [1, 25, 50, 50]


def test_a_bound_that_samples_fewer_classes_is_larger_on_average(blobs):
    """-log(1 + (C-1)/s sum of s terms), over all subsets: by Jensen's inequality."""
    ratios = np.random.default_rng(1).gamma(0.5, size=6)
    means = [np.mean([-np.log1p(6 / s * sum(chosen)) for chosen in combinations(ratios, s)]) for s in range(1, 7)]
    assert np.all(np.diff(means) < 0)
    exact, one = (mogps_ar(blobs, latents=2, inducing=4, negatives=n, seed=1) for n in (None, 1))
    for model in (exact, one):
        model.posterior.q_mu.assign(np.random.default_rng(2).normal(size=(4, 2)))
    assert np.mean([one.elbo(blobs) for _ in range(20)]) > float(exact.elbo(blobs))


@pytest.mark.parametrize("make", [mogps_ar, mg_m, g_a, g_m])
def test_models_of_classes_are_trained_by_natural_gradients_on_300_rows(blobs, make):
    model = make(blobs, inducing=3)
    told = fit(model, blobs, steps=1, progress=False).recipe
    assert "Natural(Adam(0.03), gamma=0.1)" in told
    assert "batches of 300" in told
    assert "all rows" in fit(model, few(blobs, 300), steps=1, progress=False).recipe


def test_a_posterior_that_is_held_fixed_stays_where_it_is(blobs):
    model = mogps_ar(blobs, latents=2, inducing=3)
    gpflow.set_trainable(model.posterior, False)
    before = model.posterior.q_mu.numpy().copy()
    assert "Falling(Adam(0.05))" in fit(model, blobs, steps=2, progress=False).recipe
    np.testing.assert_array_equal(model.posterior.q_mu, before)


def test_one_output_that_is_no_class_brings_the_recipe_of_other_models(blobs):
    both = MultiOutputData.from_arrays(blobs.X, np.column_stack([blobs.outputs[0].Y, blobs.X[:, 0]]))
    model = hetmogp_lmc(both, [Softmax(4), Gaussian()], latents=2, inducing=3)
    assert fit(model, both, steps=1, progress=False).recipe.startswith("Falling(Adam(0.05)), all rows")
    alone = hetmogp_lmc(blobs, Softmax(4), latents=2, inducing=3)
    assert "Natural" in fit(alone, blobs, steps=1, progress=False).recipe


def test_one_vs_each_keeps_the_recipe_of_other_models(blobs):
    recipe = fit(ovse(blobs, inducing=3), blobs, steps=1, progress=False).recipe
    assert recipe.startswith("Falling(Adam(0.05)), all rows")


def test_images_keep_ten_latent_gps():
    images = np.random.default_rng(0).random((12, 16))
    data = MultiOutputData.from_arrays(images, np.arange(12) % 12)
    assert mocgps_ar(data, patches=Patches((4, 4), (2, 2)), inducing=3).prior.num_latents == 10


def test_a_default_fit_of_classes_converges_and_says_what_the_rows_say(blobs):
    model = mogps_ar(blobs, inducing=20)
    history = fit(model, blobs, progress=False)
    assert history.converged
    right = model.predict_classes(blobs.X) == blobs.outputs[0].Y[:, 0]
    nearest = np.stack([blobs.X[:, 0] > 0.5, blobs.X[:, 1] > 25], axis=1) @ [1, 2]
    assert right.mean() > np.mean(nearest == blobs.outputs[0].Y[:, 0]) - 0.02
