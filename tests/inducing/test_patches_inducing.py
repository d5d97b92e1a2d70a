"""Inducing patches, and the convolutional models on them."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import mogp
from mogp.data import MultiOutputData
from mogp.inducing import InducingPatches, InducingPoints, patch_subset
from mogp.kernels import Patches, PatchStack
from mogp.models import g_a, g_m, mg_m, mocgps_ar, mogps_ar
from mogp.optimizers import Adam

CUT = Patches(image=(4, 5), patch=(2, 2))
CLASSES = (3, 4)


def pictures(seed: int = 0, values: int | None = 2, rows: tuple[int, int] = (9, 8)) -> MultiOutputData:
    """Two outputs of images of 4 x 5 pixels, with 3 and 4 classes."""
    rng = np.random.default_rng(seed)
    pairs = []
    for n, c in zip(rows, CLASSES, strict=True):
        X = rng.uniform(size=(n, 20)) if values is None else rng.integers(0, values, (n, 20))
        pairs.append((X.astype(float), rng.permutation(np.arange(n) % c)))
    return MultiOutputData.from_list(pairs, names=["a", "b"])


@pytest.fixture(scope="module")
def data() -> MultiOutputData:
    return pictures()


def ready(data: MultiOutputData, randomise, cut: Patches = CUT, seed: int = 3, **options):
    rng = np.random.default_rng(seed)
    start = {"latents": 2, "W": rng.normal(size=(7, 2)), "negatives": None, "lengthscale": 1.3, "inducing": 5}
    model = mocgps_ar(data, patches=cut, **{**start, **options})
    for kernel in model.prior.kernels.kernels:
        kernel.weights.assign(rng.normal(size=cut.number))
    randomise(model, seed)
    return model


# ------------------------------------------------------------------------------------------------- the patches


@pytest.mark.parametrize("sets", [None, 2])
def test_covariances_are_those_of_responses_at_patches_and_of_image_functions(sets):
    rng = np.random.default_rng(0)
    Z, X = rng.uniform(size=(3, 4) if sets is None else (2, 3, 4)), pictures().X
    found = PatchStack(CUT.kernels(2, 1.3))
    patches = InducingPatches(Z, CUT)
    each = np.stack([Z, Z]) if sets is None else Z
    np.testing.assert_allclose(
        patches.Kuu(found), [k.base_kernel(z) for k, z in zip(found.kernels, each, strict=True)], rtol=1e-9
    )
    stock = [
        gpflow.covariances.Kuf(gpflow.inducing_variables.InducingPatches(z), k, tf.constant(X))
        for k, z in zip(found.kernels, each, strict=True)
    ]
    np.testing.assert_allclose(patches.Kuf(found, tf.constant(X)), stock, rtol=1e-9)
    assert (patches.num_inducing, patches.num_sets, patches.input_dim) == (3, sets, 20)


def test_a_subset_is_distinct_patches_of_the_images_alike_in_every_set_and_fixed_by_the_seed(data):
    one, again, other = (np.asarray(patch_subset(data, CUT, 6, sets=3, seed=s).Z) for s in (2, 2, 3))
    assert one.shape == (3, 6, 4)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    for Z in one:
        np.testing.assert_array_equal(Z, one[0])
    there = {tuple(p) for p in CUT.cut(data.X).reshape(-1, 4)}
    assert len(np.unique(one[0], axis=0)) == 6
    assert {tuple(z) for z in one[0]} <= there


def test_more_patches_than_distinct_ones_gives_those():
    with pytest.warns(UserWarning, match="9 inducing patches were asked for"):
        found = patch_subset(np.repeat([[0.0], [0.0], [1.0]], 20, axis=1), CUT, 9)
    np.testing.assert_array_equal(np.sort(np.asarray(found.Z), 0), [[0] * 4, [1] * 4])


@pytest.mark.parametrize("count", [0, -1])
def test_no_patches_are_refused(data, count):
    with pytest.raises(ValueError, match=f"{count} inducing"):
        patch_subset(data, CUT, count)


def test_patches_of_another_length_are_refused():
    with pytest.raises(ValueError, match="4"):
        InducingPatches(np.zeros((3, 5)), CUT)


# ------------------------------------------------------------------------------------------------- the models


def test_a_patch_as_large_as_the_image_gives_the_model_on_images(randomise):
    """T4.1: bound, functions and probabilities of MOGPs-AR with ARD kernels and inducing points."""
    data = pictures(values=None)
    cut = Patches((4, 5), (4, 5), ard=True)
    Z = np.random.default_rng(1).uniform(size=(2, 5, 20))
    convolutional = ready(data, randomise, cut, inducing=InducingPatches(Z, cut))
    plain = mogps_ar(
        data,
        latents=2,
        W=np.asarray(convolutional.prior.W),
        negatives=None,
        lengthscale=1.3,
        inducing=InducingPoints(Z),
        scaling=None,
    )
    randomise(plain, 3)
    for g, kernel in enumerate(convolutional.prior.kernels.kernels):
        kernel.weights.assign([1.0])
        lengthscales = np.random.default_rng(g).uniform(1.0, 2.0, 20)
        kernel.base_kernel.lengthscales.assign(lengthscales)
        plain.prior.kernels.kernels[g].lengthscales.assign(lengthscales)
    np.testing.assert_allclose(convolutional.elbo(data), plain.elbo(data), rtol=1e-9)
    for one, other in zip(convolutional.predict_f(data.X), plain.predict_f(data.X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(convolutional.predict_y(data.X)[0], plain.predict_y(data.X)[0], rtol=1e-8)


def test_functions_are_mixtures_of_stock_convolutional_gps(data, randomise):
    """A GPflow SVGP for each latent GP, on images, with its own inducing patches."""
    model = ready(data, randomise)
    W, Z = np.asarray(model.prior.W), np.asarray(model.inducing.Z)
    mean, var, kl = 0.0, 0.0, 0.0
    for q, kernel in enumerate(model.prior.kernels.kernels):
        stock = gpflow.models.SVGP(
            kernel,
            gpflow.likelihoods.Gaussian(),
            gpflow.inducing_variables.InducingPatches(Z[q]),
            q_mu=np.asarray(model.posterior.q_mu)[:, [q]],
            q_sqrt=np.asarray(model.posterior.q_sqrt)[[q]],
        )
        m, v = stock.predict_f(data.X)
        mean, var, kl = mean + m * W[:, q], var + v * W[:, q] ** 2, kl + stock.prior_kl()
    found = model.predict_f(data.X)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.var, var, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.kl(), kl, rtol=1e-9)


def test_scaled_weights_and_mixing_scaled_back_leave_the_functions_unchanged(data, randomise):
    """T4.4: prior covariance, posterior and bound."""
    model = ready(data, randomise)

    def prior() -> np.ndarray:
        K, B = model.prior.kernels.K(tf.constant(data.X)).numpy(), model.prior.coregionalisation().numpy()
        return np.einsum("gnm,gij->nimj", K, B)

    before = [prior(), *model.predict_f(data.X), model.elbo(data)]
    for kernel in model.prior.kernels.kernels:
        kernel.weights.assign(2.5 * kernel.weights)
    model.prior.W.assign(model.prior.W / 2.5)
    for one, other in zip(before, [prior(), *model.predict_f(data.X), model.elbo(data)], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_images_with_new_patches_are_predicted_as_by_a_model_without_a_table(data, randomise):
    model = ready(data, randomise)
    direct = ready(data, randomise)
    direct.prior.kernels = PatchStack(direct.prior.kernels.kernels)
    new = np.concatenate([data.X[:3], pictures(7, values=None).X[:3]])
    for one, other in zip(model.predict_f(new), direct.predict_f(new), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict_classes(new, "b"), direct.predict_classes(new, "b"))
    assert model.predict_classes(new, "b").shape == (6,)


def test_duplicated_images_count_twice(data, randomise):
    model = ready(data, randomise)
    twice = data.take({o.name: np.tile(np.arange(len(o)), 2) for o in data})
    np.testing.assert_allclose(model.data_terms(twice), 2 * model.data_terms(data), rtol=1e-10)


def test_covariances_between_points_agree_with_the_variances(data, randomise):
    model = ready(data, randomise)
    full = model.predict_f(data.X, full_cov=True).var.numpy()
    np.testing.assert_allclose(np.diagonal(full, axis1=1, axis2=2).T, model.predict_f(data.X).var, rtol=1e-7, atol=1e-9)


def test_a_resumed_run_has_the_history_of_an_uninterrupted_one(data, tmp_path):
    def run(steps: int, checkpoint=None) -> np.ndarray:
        model = mocgps_ar(data, patches=CUT, latents=2, inducing=5, negatives=1)
        return mogp.fit(model, data, steps=steps, batch_size=4, checkpoint=checkpoint, progress=False).elbo

    run(4, tmp_path / "run.npz")
    np.testing.assert_array_equal(run(9, tmp_path / "run.npz"), run(9))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("MOCGPs-AR", lambda d: mocgps_ar(d, patches=CUT, latents=2, inducing=5, negatives=1, theta="local")),
        ("MG-M", lambda d: mg_m(d, latents=2, inducing=5, samples=3, patches=CUT, scaling=None)),
        ("G-A", lambda d: g_a(d, inducing=5, patches=CUT, scaling=None)),
        ("G-M", lambda d: g_m(d, inducing=5, samples=3, patches=CUT, kl_weight=2.0, scaling=None)),
    ],
)
def test_every_convolutional_model_takes_steps_and_is_saved(name, make, data, tmp_path):
    own = MultiOutputData.from_list([(data.inputs(0), data[0].Y)], names=["a"]) if name.startswith("G-") else data
    model, adam = make(own), Adam(0.05)
    adam.start(model)
    before = [v.numpy().copy() for v in model.trainable_variables]
    for step in range(2):
        batch = own.batches(4)(step)
        model.update_local(batch)
        assert np.isfinite(adam.step(model, lambda batch=batch: model.training_loss(batch)))
    for one, variable in zip(before, model.trainable_variables, strict=True):
        assert not np.array_equal(one, variable.numpy())
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    np.testing.assert_array_equal(loaded.predict_y(own.X)[0], model.predict_y(own.X)[0])
    np.testing.assert_allclose(np.sum(model.predict_y(own.X, 0)[0], 1), 1.0, atol=1e-12)


def test_weights_lengthscales_patches_and_mixing_are_trainable_and_the_variance_of_responses_is_not(data):
    model = mocgps_ar(data, patches=CUT, latents=2, inducing=5)
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    assert shapes.count((CUT.number,)) == 2
    assert (7, 2) in shapes
    assert (2, 5, 4) in shapes
    assert shapes.count(()) == 2


def test_the_table_and_the_pieces_give_the_same_bound_and_gradient(data, randomise):
    model = ready(data, randomise)
    parameters = [p.unconstrained_variable for p in model.trainable_parameters]
    values = []
    for kernels in (model.prior.kernels, PatchStack(model.prior.kernels.kernels, bytes_at_once=1)):
        model.prior.kernels = kernels
        with tf.GradientTape() as tape:
            value = model.elbo(data)
        values.append([value, *(tf.convert_to_tensor(g) for g in tape.gradient(value, parameters))])
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


# ------------------------------------------------------------------------------------------------- shared patches


@pytest.mark.parametrize(("make", "classes"), [(mocgps_ar, 7), (mg_m, 7)])
def test_one_set_of_patches_serves_all_latent_gps_on_request(make, classes, data):
    own, one = (make(data, patches=CUT, latents=3, inducing=5, shared=shared) for shared in (False, True))
    assert (own.inducing.num_sets, one.inducing.num_sets) == (3, None)
    np.testing.assert_array_equal(one.inducing.Z, own.inducing.Z[0])
    assert one.prior.W.shape == (classes, 3)
    assert one.posterior.q_mu.shape == own.posterior.q_mu.shape


def test_one_set_of_points_serves_all_latent_gps_of_plain_inputs_on_request(data):
    one = mogps_ar(data, latents=3, inducing=5, shared=True)
    assert one.inducing.Z.shape == (5, 20)
    assert np.isfinite(one.elbo(data))


@pytest.mark.parametrize("ard", [False, True])
def test_shared_patches_give_the_model_of_equal_separate_ones_and_the_sum_of_their_gradients(data, randomise, ard):
    cut = Patches((4, 5), (2, 2), ard=ard)
    values, gradients = [], []
    for shared in (False, True):
        model = ready(data, randomise, cut, shared=shared)
        # Points are among what was randomised.
        Z = np.random.default_rng(8).uniform(size=(5, 4))
        model.inducing.Z.assign(Z if shared else np.stack([Z, Z]))
        with tf.GradientTape() as tape:
            value = model.elbo(data)
        gradient = tape.gradient(value, model.inducing.Z.unconstrained_variable)
        values.append([value, *model.predict_f(data.X)])
        gradients.append(tf.convert_to_tensor(gradient).numpy())
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradients[1], gradients[0].sum(0), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_steps_in_float32_on_large_patches_stay_finite_and_near_those_in_float64(shared):
    """Twenty-five of them, on images of two levels whose patches are too many for a table."""
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(12, 90)) < 0.8, 1.0, 0.0)
    pictures_of = MultiOutputData.from_list([(X[:6], np.arange(6) % 3), (X[6:], np.arange(6) % 3)])

    def bounds() -> np.ndarray:
        model = mocgps_ar(
            pictures_of, patches=Patches((9, 10), (8, 8)), latents=2, inducing=6, shared=shared, negatives=None
        )
        history = mogp.fit(model, pictures_of, steps=25, optimizer=Adam(0.01), progress=False)
        assert all(np.isfinite(np.asarray(v)).all() for v in model.trainable_variables)
        return np.asarray(history.elbo)

    exact = bounds()
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-5)):
        found = bounds()
    np.testing.assert_allclose(found, exact, rtol=2e-3)


# ------------------------------------------------------------------------------------------------------- errors


def test_inputs_that_are_not_such_images_are_refused(data):
    with pytest.raises(ValueError, match=r"20|24"):
        mocgps_ar(data, patches=Patches((4, 6), (2, 2)), latents=2, inducing=3)
    model = mocgps_ar(data, patches=CUT, latents=2, inducing=3)
    with pytest.raises(ValueError, match="20"):
        model.predict_y(np.zeros((2, 21)), "a")
    with pytest.raises(ValueError, match="20"):
        model.predict_classes(np.zeros((2, 4)), "a")


def test_a_patch_larger_than_the_image_is_refused(data):
    with pytest.raises(ValueError, match="do not fit"):
        mocgps_ar(data, patches=Patches((4, 5), (5, 5)))


def test_float32_is_close_to_float64(data, randomise):
    exact = ready(data, randomise).elbo(data)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-5)):
        model = ready(data, randomise)
        value = model.elbo(data)
        assert value.dtype == tf.float32
        np.testing.assert_allclose(value, exact, rtol=5e-3)
