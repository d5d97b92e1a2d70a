"""Start values of annotator models: what the annotators say together, and what a posterior makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.data import MultiOutputData
from mogp.inducing import given_points
from mogp.likelihoods import AnnotatedClasses
from mogp.models import ccgpma, cgpma
from mogp.models.annotator_start import first_functions, start_at


def told(rng, rows=150, missing=0.0):
    """A truth that two inputs tell; annotators: three who mostly know it, one who guesses, one who swaps."""
    X = rng.normal(size=(rows, 2))
    truth = (X.sum(1) > 0).astype(float)
    right = rng.uniform(size=(rows, 5)) < [0.8, 0.75, 0.7, 0.5, 0.1]
    annotations = np.where(right, truth[:, None], 1 - truth[:, None])
    annotations[rng.uniform(size=(rows, 5)) < missing] = np.nan
    return MultiOutputData.from_list([(X, annotations)], names=["class"]), truth


def test_the_start_is_the_regression_of_a_gp_on_the_first_functions(rng):
    """With inducing points at all inputs the moments are those of exact GPs with noise of variance 1."""
    data, _ = told(rng, rows=25)
    X = data.inputs(0)
    for whiten in (True, False):
        model = cgpma(data, 2, inducing=given_points(X), scaling=None, whiten=whiten)
        first = first_functions(data, AnnotatedClasses(2, 5))
        offsets = first.mean(0)
        found = model.predict_f(X)
        for j, kernel in enumerate(model.prior.kernels.kernels):
            K = kernel(X).numpy()
            mean = offsets[j] + K @ np.linalg.solve(K + np.eye(25), first[:, j] - offsets[j])
            var = np.diag(K - K @ np.linalg.solve(K + np.eye(25), K))
            np.testing.assert_allclose(found.mean[:, j], mean, atol=1e-4)
            np.testing.assert_allclose(found.var[:, j], var, atol=1e-4)


@pytest.mark.parametrize("latents", [7, 3])
def test_mixed_functions_start_at_their_regression_as_far_as_the_latents_allow(latents, rng):
    """The latent GPs that mix into functions which they can make are found again, shrunk by their noise."""
    data, _ = told(rng, rows=40)
    X = data.inputs(0)
    model = ccgpma(data, 2, inducing=given_points(X), latents=latents, scaling=None)
    W, b = model.prior.W.numpy(), model.prior.bias.numpy()
    u = rng.normal(size=(40, latents))
    start_at(model, X, u @ W.T + b)
    latent = np.column_stack(
        [
            k(X).numpy() @ np.linalg.solve(k(X).numpy() + np.eye(40), u[:, i])
            for i, k in enumerate(model.prior.kernels.kernels)
        ]
    )
    np.testing.assert_allclose(model.predict_f(X).mean, latent @ W.T + b, atol=1e-3)


@pytest.mark.parametrize("constructor", [ccgpma, cgpma])
def test_the_truth_is_near_before_the_first_step_although_one_swaps_the_classes(constructor, rng):
    data, truth = told(rng, missing=0.3)
    model = constructor(data, 2, inducing=15)
    p = model.predict_gold(data.inputs(0)).mean.numpy()
    assert np.mean(p.argmax(1) == truth) > 0.9
    trust = model.reliability(data.inputs(0)).mean.numpy().mean(0)
    assert trust[:3].min() > trust[3] > trust[4]


@pytest.mark.parametrize("constructor", [ccgpma, cgpma])
def test_a_plain_start_reads_no_annotations(constructor, rng):
    data, _ = told(rng)
    other = MultiOutputData.from_list([(data.inputs(0), 1 - data[0].Y)], names=["class"])
    one, same = (constructor(d, 2, inducing=5, start="plain") for d in (data, other))
    assert one.prior.bias is None
    np.testing.assert_array_equal(one.posterior.q_mu, np.zeros(one.posterior.q_mu.shape))
    for first, second in zip(one.trainable_variables, same.trainable_variables, strict=True):
        np.testing.assert_array_equal(first, second)


def test_names_of_the_classes_are_swapped_with_the_labels(rng):
    """Which class is called 0 and which 1 makes no difference to the first functions."""
    data, _ = told(rng, missing=0.3)
    Y = np.where(data[0].observed, 1 - data[0].Y, np.nan)
    swapped = MultiOutputData.from_list([(data.inputs(0), Y)], names=["class"])
    one, two = (first_functions(d, AnnotatedClasses(2, 5)) for d in (data, swapped))
    np.testing.assert_allclose(one[:, [1, 0]], two[:, :2], atol=1e-3)
    np.testing.assert_allclose(one[:, 2:], two[:, 2:], atol=1e-3)


def test_rows_that_nobody_annotated_have_classes_and_no_trusts(rng):
    data, _ = told(rng)
    Y = data[0].Y.copy()
    Y[3] = np.nan
    silent = MultiOutputData.from_list([(data.inputs(0), Y)], names=["class"])
    first = first_functions(silent, AnnotatedClasses(2, 5))
    silent_rows = ~silent[0].observed.any(1)
    assert np.isfinite(first[:, :2]).all()
    assert np.isnan(first[silent_rows, 2:]).all()
