from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k
from gpflow.keras import tf_keras

from mogp import fit
from mogp.data import MultiOutputData
from mogp.inducing import FunctionPoints, InducingPoints, given_points
from mogp.kernels import ConvolvedStack
from mogp.likelihoods import AugmentReduce, Bernoulli, Beta, Gaussian, HeteroscedasticGaussian, Poisson
from mogp.models import SparseMOGP, accgp, mogps_ar
from mogp.optimizers import FNG, VAN, Adam, Keras, Natural, NaturalAdam, Vadam, hyb, natural_step, parsimonious_step
from mogp.posteriors import Full, Parsimonious
from mogp.priors import CPM, ICM, LMC, Independent


def freeze(model: SparseMOGP, *parts: str) -> SparseMOGP:
    for part in parts:
        gpflow.set_trainable(getattr(model, part), False)
    return model


def gaussians(rng, batch=3, size=4):
    m = rng.normal(size=(batch, size))
    L = np.tril(0.3 * rng.normal(size=(batch, size, size)), -1) + np.eye(size) * rng.uniform(0.5, 1.5, (batch, size, 1))
    return m, L


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_natural_steps_are_those_of_precision_and_mean_with_gradients_by_the_covariance_itself(rng, momentum):
    """V⁻¹ ← V⁻¹ + 2β∇_V, m ← m − βV∇_m + υ V_new V_old⁻¹ (m − m_before), with inverses; ∇_V by autodiff through V."""
    m, L = gaussians(rng)
    before, H = rng.normal(size=m.shape), rng.normal(size=(3, 4, 4))
    H = H @ H.transpose(0, 2, 1)
    V = L @ L.transpose(0, 2, 1)

    def objective(m, V):
        """Anything smooth in m and V."""
        return tf.reduce_sum(tf.einsum("bij,bji->b", H, V) + tf.reduce_sum(tf.sin(m), 1)) - tf.reduce_sum(
            tf.linalg.logdet(V) + tf.einsum("bi,bij,bj->b", m, V, m)
        )

    mean, cov, root = tf.Variable(m), tf.Variable(V), tf.Variable(L)
    with tf.GradientTape() as tape:
        value = objective(mean, cov)
    by_m, by_V = (np.asarray(g) for g in tape.gradient(value, [mean, cov]))
    by_V = 0.5 * (by_V + by_V.transpose(0, 2, 1))
    with tf.GradientTape() as tape:
        lower = tf.linalg.band_part(root, -1, 0)
        value = objective(mean, tf.linalg.matmul(lower, lower, transpose_b=True))
    by_L = tape.gradient(value, root)
    beta = 0.02
    expected_V = np.linalg.inv(np.linalg.inv(V) + 2 * beta * by_V)
    push = np.einsum("bij,bj->bi", expected_V @ np.linalg.inv(V), m - before)
    expected_m = m - beta * np.einsum("bij,bj->bi", expected_V, by_m) + momentum * push
    new_m, new_L = natural_step(
        m, tf.constant(L), tf.constant(by_m), by_L, tf.constant(beta, tf.float64), momentum, before
    )
    np.testing.assert_allclose(new_m, expected_m, rtol=1e-10)
    np.testing.assert_allclose(new_L @ np.transpose(new_L, (0, 2, 1)), expected_V, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(np.triu(new_L, 1), 0)


def test_a_step_that_would_leave_the_positive_definite_matrices_is_halved_for_that_latent_alone(rng):
    m, L = gaussians(rng, batch=2)
    zero = np.zeros_like(m)
    by_V = np.stack([-50.0 * np.eye(4), 0.1 * np.eye(4)])
    by_L = np.tril(2 * by_V @ L)
    _, new = natural_step(m, tf.constant(L), zero, tf.constant(by_L), tf.constant(0.5, tf.float64))
    precision = np.linalg.inv(L @ L.transpose(0, 2, 1))
    found = np.linalg.inv(new @ np.transpose(new, (0, 2, 1)))
    np.testing.assert_allclose(found[1], precision[1] + 0.1 * np.eye(4), rtol=1e-8)
    taken = (precision[0] - found[0]) / 100.0
    np.testing.assert_allclose(taken, taken[0, 0] * np.eye(4), atol=1e-10)
    halvings = np.log2(0.5 / taken[0, 0])
    assert halvings == pytest.approx(round(halvings), abs=1e-6)
    assert round(halvings) >= 1
    assert np.linalg.eigvalsh(precision[0] - 2 * taken[0, 0] * 100.0 * np.eye(4)).min() <= 0


def conjugate(data: MultiOutputData, posterior, Z=None) -> SparseMOGP:
    return SparseMOGP(
        ICM(k.Matern32(), data.num_outputs, W=[[1.0], [0.5], [-1.0]][: data.num_outputs]),
        given_points(data.X[:5] if Z is None else Z),
        [Gaussian(0.3) for _ in range(data.num_outputs)],
        posterior,
    )


@pytest.mark.parametrize("whiten", [True, False])
def test_one_step_of_size_one_is_the_exact_posterior_of_a_gaussian_model(uneven, whiten):
    """Giraldo 11.8, from a start far away, to 1e-8."""
    model = freeze(conjugate(uneven, Full(whiten)), "prior", "inducing", "likelihood")
    rng = np.random.default_rng(1)
    model.posterior.q_mu.assign(rng.normal(size=(5, 1)))
    model.posterior.q_sqrt.assign(np.tril(rng.normal(size=(1, 5, 5))) + 3 * np.eye(5))
    fit(model, uneven, steps=1, optimizer=Natural(Adam(), gamma=1.0), progress=False)
    W, Z, kernel = np.asarray(model.prior.W)[:, 0], np.asarray(model.inducing.Z), model.prior.kernels.kernels[0]
    inverse = np.linalg.inv(kernel(Z) + gpflow.default_jitter() * np.eye(5))
    precision, linear = inverse.copy(), np.zeros(5)
    for d, own in enumerate(uneven):
        A = W[d] * inverse @ kernel(Z, uneven.inputs(d)).numpy()
        precision += A @ A.T / 0.3
        linear += A @ own.Y[:, 0] / 0.3
    m, S = model.posterior.moments(model.factors())
    np.testing.assert_allclose(S[0], np.linalg.inv(precision), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(m[0], np.linalg.solve(precision, linear), rtol=1e-8, atol=1e-8)


def test_whitened_and_plain_posteriors_take_the_same_natural_step(uneven, randomise):
    plain, white = conjugate(uneven, Full(False)), conjugate(uneven, Full(True))
    randomise(plain, 3)
    root = np.linalg.cholesky(plain.prior.kernels.kernels[0](plain.inducing.Z) + gpflow.default_jitter() * np.eye(5))
    white.posterior.q_mu.assign(np.linalg.solve(root, plain.posterior.q_mu))
    white.posterior.q_sqrt.assign(np.linalg.solve(root, plain.posterior.q_sqrt[0])[None])
    for model in (freeze(plain, "prior", "inducing"), freeze(white, "prior", "inducing")):
        fit(model, uneven, steps=4, optimizer=Natural(Adam(), gamma=0.3, momentum=0.5), progress=False)
    for a, b in zip(plain.predict_f(uneven.X), white.predict_f(uneven.X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_gradients_by_the_posterior_are_those_of_the_appendix(uneven, randomise):
    """Giraldo 11.11: ∇_m = Σ Aᵀ g_m + K⁻¹m, ∇_V = Σ Aᵀ diag(g_v) A − ½(V⁻¹ − K⁻¹), g from the derivatives of log p."""
    data = MultiOutputData.from_arrays(uneven.X, np.random.default_rng(0).poisson(2.0, len(uneven.X)))
    model = SparseMOGP(Independent([k.Matern32()]), given_points(data.X[:5]), Poisson(), Full(False))
    randomise(model, 2)
    m, root = model.posterior.q_mu, model.posterior.q_sqrt
    with tf.GradientTape() as tape:
        loss = model.training_loss(data)
    by_m, by_root = tape.gradient(loss, [m.unconstrained_variable, root.unconstrained_variable])
    K = (model.factors().Kuu[0] + gpflow.default_jitter() * np.eye(5)).numpy()
    A = np.linalg.solve(K, model.inducing.Kuf(model.prior.kernels, tf.constant(data.X))[0]).T
    L = np.asarray(root)[0]
    f = model.predict_f(data.X)
    rate = np.exp(f.mean[:, 0] + 0.5 * f.var[:, 0])
    g_m, g_v = rate - data[0].Y[:, 0], 0.5 * rate
    np.testing.assert_allclose(by_m[:, 0], A.T @ g_m + np.linalg.solve(K, m[:, 0]), rtol=1e-8)
    by_V = A.T @ np.diag(g_v) @ A - 0.5 * (np.linalg.inv(L @ L.T) - np.linalg.inv(K))
    np.testing.assert_allclose(root.transform.forward(by_root)[0], np.tril(2 * by_V @ L), rtol=1e-7, atol=1e-9)


def several_latents(data: MultiOutputData) -> SparseMOGP:
    W = np.random.default_rng(7).normal(size=(3, 2))
    return SparseMOGP(
        LMC([k.Matern32(), k.SquaredExponential(lengthscales=0.5)], 3, W=W),
        InducingPoints(np.repeat(data.X[None, :6], 2, 0)),
        [Gaussian(0.3) for _ in range(3)],
        Full(False),
    )


def exact_mean_and_blocks(model: SparseMOGP, data: MultiOutputData) -> tuple[np.ndarray, list[np.ndarray]]:
    """Posterior mean of all inducing values together, and the inverse of each diagonal block of their precision."""
    Z, W = np.asarray(model.inducing.Z), np.asarray(model.prior.W)
    inverses = [
        np.linalg.inv(kern(z) + gpflow.default_jitter() * np.eye(6))
        for kern, z in zip(model.prior.kernels.kernels, Z, strict=True)
    ]
    precision, linear = np.zeros((12, 12)), np.zeros(12)
    for q, inverse in enumerate(inverses):
        precision[6 * q : 6 * q + 6, 6 * q : 6 * q + 6] = inverse
    for d, own in enumerate(data):
        A = np.hstack(
            [W[d, q] * (inverses[q] @ model.prior.kernels.kernels[q](Z[q], data.inputs(d)).numpy()).T for q in range(2)]
        )
        precision += A.T @ A / 0.3
        linear += A.T @ own.Y[:, 0] / 0.3
    blocks = [np.linalg.inv(precision[6 * q : 6 * q + 6, 6 * q : 6 * q + 6]) for q in range(2)]
    return np.linalg.solve(precision, linear), blocks


def test_with_several_latents_one_step_gives_the_mean_field_covariances_and_turns_lead_to_the_exact_mean(uneven):
    """Giraldo 11.9."""
    model = freeze(several_latents(uneven), "prior", "inducing", "likelihood")
    mean, blocks = exact_mean_and_blocks(model, uneven)
    fit(model, uneven, steps=1, optimizer=Natural(Adam(), gamma=1.0), progress=False)
    _, S = model.posterior.moments(model.factors())
    np.testing.assert_allclose(S, blocks, rtol=1e-6, atol=1e-8)
    fit(model, uneven, steps=60, optimizer=Natural(Adam(), gamma=1.0, sequential=True), progress=False)
    m, _ = model.posterior.moments(model.factors())
    np.testing.assert_allclose(np.ravel(m), mean, rtol=1e-5, atol=1e-6)


def test_hybrid_with_frozen_hyperparameters_is_fng_without_momentum_and_noise(uneven):
    """Giraldo 11.24."""
    ours, theirs = several_latents(uneven), several_latents(uneven)
    for model in (ours, theirs):
        freeze(model, "prior", "inducing", "likelihood")
    fit(ours, uneven, steps=5, optimizer=hyb(gamma=0.2), progress=False)
    fit(theirs, uneven, steps=5, optimizer=FNG(gamma=0.2, momentum=0.0, samples=0), progress=False)
    for a, b in zip(ours.trainable_variables, theirs.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_entries_of_the_gradient_of_the_mean_are_clipped(uneven):
    model = freeze(conjugate(uneven, Full(False)), "prior", "inducing", "likelihood")
    with tf.GradientTape() as tape:
        loss = model.training_loss(uneven)
    gradient = np.asarray(tape.gradient(loss, model.posterior.q_mu.unconstrained_variable))
    clip = float(np.median(np.abs(gradient)))
    fit(model, uneven, steps=1, optimizer=Natural(Adam(), gamma=0.1, clip=clip), progress=False)
    _, V = model.posterior.moments(model.factors())
    np.testing.assert_allclose(model.posterior.q_mu, -0.1 * V[0] @ np.clip(gradient, -clip, clip), rtol=1e-8)


def test_parsimonious_steps_of_size_one_are_exact_where_the_posterior_is(rng):
    """With Z = X and Gaussian noise the exact posterior has precision K⁻¹ + I/σ²: it is in the family."""
    data = MultiOutputData.from_arrays(np.linspace(0, 3, 8)[:, None], rng.normal(size=8))
    model = SparseMOGP(Independent([k.Matern32()]), given_points(data.X), Gaussian(0.3), Parsimonious())
    freeze(model, "prior", "inducing", "likelihood")
    fit(model, data, steps=1, optimizer=Natural(Adam(), gamma=1.0), progress=False)
    K = model.prior.kernels.kernels[0](data.X).numpy()
    np.testing.assert_allclose(model.posterior.sigma, 0.3, rtol=1e-4)
    np.testing.assert_allclose(
        model.predict_f(data.X).mean[:, 0],
        K @ np.linalg.solve(K + 0.3 * np.eye(8), data[0].Y[:, 0]),
        rtol=1e-4,
        atol=1e-6,
    )


def test_parsimonious_steps_follow_the_fisher_information_of_their_parameters(rng):
    """The step of (μ, λ) is −β F⁻¹∇ to first order in β, with F from second derivatives of the KL divergence."""
    X = rng.normal(size=(4, 1))
    K = k.Matern32()(X).numpy() + 1e-6 * np.eye(4)
    mu, sigma = rng.normal(size=4), rng.uniform(0.5, 2.0, 4)
    by_mu, by_sigma = rng.normal(size=4), rng.normal(size=4)

    def kl(point: tf.Tensor) -> tf.Tensor:
        def moments(mu, sigma):
            return tf.linalg.matvec(K, mu), K - K @ tf.linalg.inv(K + tf.linalg.diag(sigma)) @ K

        m, S = moments(point[:4], point[4:])
        m0, S0 = moments(tf.constant(mu), tf.constant(sigma))
        d = m - m0
        return 0.5 * (
            tf.linalg.trace(tf.linalg.solve(S0, S))
            + tf.tensordot(d, tf.linalg.solve(S0, d[:, None])[:, 0], 1)
            - tf.linalg.logdet(S)
        )

    point = tf.Variable(np.concatenate([mu, sigma]))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            value = kl(point)
        gradient = inner.gradient(value, point)
    fisher = outer.jacobian(gradient, point).numpy()
    expected = -np.linalg.solve(fisher, np.concatenate([by_mu, by_sigma]))
    beta = 1e-7
    new_mu, new_sigma = parsimonious_step(
        tf.constant(K)[None],
        mu[None],
        sigma[None],
        tf.constant(by_mu)[None],
        tf.constant(by_sigma)[None],
        tf.constant(beta, tf.float64),
    )
    np.testing.assert_allclose((np.asarray(new_mu)[0] - mu) / beta, expected[:4], rtol=1e-3)
    np.testing.assert_allclose((np.asarray(new_sigma)[0] - sigma) / beta, expected[4:], rtol=1e-3)


def test_parsimonious_scales_stay_positive_when_the_step_is_too_large(rng):
    K = k.Matern32()(rng.normal(size=(4, 1))).numpy()[None]
    _, sigma = parsimonious_step(K, np.zeros((1, 4)), np.ones((1, 4)), np.zeros((1, 4)), -1e3 * np.ones((1, 4)), 1.0)
    assert (np.asarray(sigma) > 0).all()


def counts(rng) -> MultiOutputData:
    X = rng.normal(size=(20, 2))
    return MultiOutputData.from_list(
        [(X, rng.normal(size=20)), (X[:12], rng.integers(0, 2, 12)), (X, rng.uniform(0.1, 0.9, 20))],
        names=["real", "binary", "share"],
    )


def kinds():
    return [HeteroscedasticGaussian(), Bernoulli(), Beta()]


MODELS = {
    "LMC": lambda data: SparseMOGP(LMC([k.Matern32(), k.Matern32()], 5), given_points(data.X[:5], 2), kinds()),
    "LMC, rank 2, plain": lambda data: SparseMOGP(
        LMC([k.Matern32()], 5, rank=2, bias=0.0), given_points(data.X[:5]), kinds(), Full(False)
    ),
    "parsimonious": lambda data: SparseMOGP(
        LMC([k.Matern32(), k.Matern32()], 5), given_points(data.X[:5], 2), kinds(), Parsimonious()
    ),
    "CPM on functions": lambda data: SparseMOGP(
        CPM(ConvolvedStack(5, 2, 2)), FunctionPoints(np.repeat(data.X[None, :4], 5, 0)), kinds()
    ),
    "CPM, joint": lambda data: SparseMOGP(
        CPM(ConvolvedStack(5, 2, 2)), FunctionPoints(np.repeat(data.X[None, :4], 5, 0), joint=True), kinds()
    ),
    "CPM on latents": lambda data: SparseMOGP(
        CPM(ConvolvedStack(5, 2, 2, rank=2)), given_points(data.X[:4], 2), kinds()
    ),
}  # fmt: skip
OPTIMISERS = {
    "SGD": lambda: Keras(tf_keras.optimizers.SGD(1e-4)),
    "AdaDelta": lambda: Keras(tf_keras.optimizers.Adadelta(0.1)),
    "Adam": lambda: Adam(0.01),
    "VAN": lambda: VAN(0.01, start=1e4),
    "Vadam": lambda: Vadam(0.01, start=1e4),
    "NaturalAdam": lambda: NaturalAdam(0.05),
    "HYB": hyb,
    "FNG": lambda: FNG(start=1e4),
    "FNG, root": lambda: FNG("root", start=1e4),
    "FNG, literal": lambda: FNG("literal", learning_rate=1e-3, start=1e4),
}


PAIRS = [
    *(("LMC", o) for o in OPTIMISERS),
    *((m, "NaturalAdam") for m in list(MODELS)[1:]),
    *(pytest.param(m, "FNG", marks=pytest.mark.full) for m in list(MODELS)[1:]),
]


@pytest.mark.parametrize(("model", "optimizer"), PAIRS)
def test_every_optimiser_lowers_the_loss_of_every_model_by_the_same_fit(model, optimizer, rng):
    data = counts(rng)
    made = MODELS[model](data)
    before = float(made.training_loss(data))
    history = fit(made, data, steps=30, optimizer=OPTIMISERS[optimizer](), batch_size=[10, 6, 10], progress=False)
    assert history.status == "finished"
    assert np.isfinite(history.elbo).all()
    assert float(made.training_loss(data)) < before


@pytest.mark.parametrize("optimizer", ["HYB", "FNG", "Vadam"])
def test_optimisers_serve_augmented_outputs_and_likelihoods_that_read_functions(optimizer, rng):
    single = MultiOutputData.from_arrays(rng.normal(size=(20, 1)), rng.normal(size=20), names=["y"])
    augmented = accgp(single, HeteroscedasticGaussian(), inducing=5, scaling=None)
    classes = MultiOutputData.from_arrays(rng.normal(size=(20, 2)), rng.integers(0, 4, 20), names=["class"])
    many = mogps_ar(classes, latents=2, inducing=5, negatives=2, scaling=None)
    assert isinstance(many.likelihood.likelihoods[0], AugmentReduce)
    for model, data in ((augmented, single), (many, classes)):
        before = float(model.training_loss(data))
        fit(model, data, steps=40, optimizer=OPTIMISERS[optimizer](), batch_size=10, progress=False)
        assert float(model.training_loss(data)) < before


def test_fng_leaves_the_mean_in_the_variables_and_draws_around_it(uneven):
    model, fng = several_latents(uneven), FNG(start=100.0)
    fit(model, uneven, steps=5, optimizer=fng, progress=False)
    mean = np.asarray(model.prior.W).copy()
    drawn = [np.asarray(model.prior.W).copy() for _ in fng.draws(200)]
    np.testing.assert_array_equal(model.prior.W, mean)
    spread = np.std(drawn, axis=0)
    order = [v for v in model.trainable_variables if v is not model.posterior.q_mu.unconstrained_variable]
    order = [v for v in order if v is not model.posterior.q_sqrt.unconstrained_variable]
    sizes = np.cumsum([0, *(int(np.prod(v.shape)) for v in order)])
    place = next(i for i, v in enumerate(order) if v is model.prior.W.unconstrained_variable)
    sigma = np.asarray(fng.rest.deviation)[sizes[place] : sizes[place + 1]].reshape(mean.shape)
    np.testing.assert_allclose(spread, sigma, rtol=0.25)


def test_keras_optimisers_are_kerass_own(rng):
    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.a = tf.Variable([1.0, -2.0], dtype=tf.float64)
            self.unused = tf.Variable(3.0, dtype=tf.float64)

        def loss(self):
            return tf.reduce_sum(self.a**4)

    settings = tf_keras.optimizers.RMSprop(0.05, momentum=0.3)
    ours, theirs = Line(), Line()
    for _ in range(2):
        wrapped = Keras(settings)
        wrapped.start(ours)
        stock = tf_keras.optimizers.RMSprop(0.05, momentum=0.3)
        step = tf.function(lambda wrapped=wrapped: wrapped.step(ours, ours.loss))
        for _ in range(4):
            step()
            with tf.GradientTape() as tape:
                value = theirs.loss()
            stock.apply_gradients([(tape.gradient(value, theirs.a), theirs.a)])
        np.testing.assert_allclose(ours.a, theirs.a, rtol=1e-6)
    assert ours.unused.numpy() == 3.0
    assert len(wrapped.variables) > 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Natural(Adam(), gamma=1.5), r"gamma=1.5.*\(0, 1\]"),
        (lambda: Natural(Adam(), momentum=1.0), r"momentum=1.0.*\[0, 1\)"),
        (lambda: Natural(Adam(), clip=0.0), "clip=0.0.*positive"),
        (lambda: FNG("newton"), "rule='newton'.*vadam"),
        (lambda: FNG(samples=-1), "samples=-1"),
        (lambda: FNG(penalty=-1.0), "penalty=-1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_keras_takes_keras_optimisers_only():
    with pytest.raises(TypeError, match=r"tf_keras\.optimizers, got str"):
        Keras("sgd")


def test_only_exploratory_optimisers_have_draws(uneven):
    model, natural = several_latents(uneven), hyb()
    natural.start(model)
    with pytest.raises(TypeError, match=r"Adam has no exploratory distribution.*FNG"):
        natural.draws(3)


@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("kind", [Poisson, Bernoulli])
def test_with_log_concave_likelihoods_whole_steps_stay_positive_definite(kind, beta, uneven, randomise):
    """Giraldo 4.4 and 11.10: V⁻¹ ← (1 − β)V⁻¹ + β(K⁻¹ + 2 Σ Aᵀ diag(g_v) A), g_v by quadrature."""
    y = np.random.default_rng(0).integers(0, 2, len(uneven.X))
    data = MultiOutputData.from_arrays(uneven.X, y)
    model = SparseMOGP(Independent([k.Matern32()]), given_points(data.X[:5]), kind(), Full(False))
    randomise(model, 2)
    freeze(model, "prior", "inducing", "likelihood")
    K = (model.factors().Kuu[0] + gpflow.default_jitter() * np.eye(5)).numpy()
    A = np.linalg.solve(K, model.inducing.Kuf(model.prior.kernels, tf.constant(data.X))[0]).T
    f = model.predict_f(data.X)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    draws = f.mean.numpy() + np.sqrt(f.var.numpy()) * z
    second = np.exp(draws) if kind is Poisson else 1 / (2 + np.exp(draws) + np.exp(-draws))
    g_v = 0.5 * second @ w / w.sum()
    assert (g_v > 0).all()
    L = np.asarray(model.posterior.q_sqrt)[0]
    expected = (1 - beta) * np.linalg.inv(L @ L.T) + beta * (np.linalg.inv(K) + 2 * A.T @ np.diag(g_v) @ A)
    fit(model, data, steps=1, optimizer=Natural(Adam(), gamma=beta), progress=False)
    new = np.asarray(model.posterior.q_sqrt)[0]
    np.testing.assert_allclose(np.linalg.inv(new @ new.T), expected, rtol=1e-5, atol=1e-6)


# -------------------------------------------------------------------------------- steps that are too long to be trusted


def kl_of_normals(m, L, m0, L0) -> float:
    V, V0 = L @ L.T, L0 @ L0.T
    inverse, d = np.linalg.inv(V0), m - m0
    return 0.5 * (np.trace(inverse @ V) - len(m) + d @ inverse @ d - np.linalg.slogdet(V)[1] + np.linalg.slogdet(V0)[1])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [4, 40])
def test_a_step_is_halved_until_its_kl_is_trusted_and_one_that_is_short_is_the_plain_one(rng, size, compiled):
    """One latent has a stray gradient of the mean, one a covariance that would explode, one neither."""
    m, L = gaussians(rng, 3, size)
    by_m, by_L = 0.1 * rng.normal(size=m.shape), np.tril(0.1 * rng.normal(size=L.shape))
    by_m[0] *= 1e6
    by_L[1] = np.tril(-9.9 * np.linalg.inv(L[1]).T)  # I + βP = 0.01 I at β = 0.1
    given = [tf.constant(a) for a in (m, L, by_m, by_L)]
    run = tf.function(natural_step, autograph=False) if compiled else natural_step
    step = tf.constant(0.1, tf.float64)
    plain, safe = run(*given, step), run(*given, step, trust=0.5)
    lengths = [
        [kl_of_normals(np.asarray(a[0])[i], np.asarray(a[1])[i], m[i], L[i]) for i in range(3)] for a in (plain, safe)
    ]
    assert min(lengths[0][:2]) > 0.5 * size > lengths[0][2]
    assert max(lengths[1]) <= 0.5 * size
    for new, same in zip(safe, plain, strict=True):
        np.testing.assert_array_equal(new[2], same[2])
    for i in (0, 1):
        halved = [
            natural_step(*(a[i : i + 1] for a in given), step / 2**k) for k in range(60)
        ]  # fmt: skip
        first = next(
            k for k, (a, b) in enumerate(halved) if kl_of_normals(a[0].numpy(), b[0].numpy(), m[i], L[i]) <= 0.5 * size
        )
        np.testing.assert_allclose(safe[0][i], halved[first][0][0], rtol=1e-10)


def test_parsimonious_steps_that_are_too_long_are_halved_and_short_ones_are_plain(rng):
    K = np.repeat((k.Matern32()(rng.normal(size=(4, 1))).numpy() + 1e-6 * np.eye(4))[None], 2, 0)
    mu, sigma = rng.normal(size=(2, 4)), rng.uniform(0.5, 2.0, (2, 4))
    by_mu, by_sigma = 0.1 * rng.normal(size=(2, 4)), 0.1 * rng.normal(size=(2, 4))
    by_mu[0] *= 1e4
    given = [tf.constant(a) for a in (K, mu, sigma, by_mu, by_sigma)]
    plain, safe = (
        [np.asarray(a) for a in parsimonious_step(*given, tf.constant(0.1, tf.float64), trust=trust)]
        for trust in (None, 0.5)
    )

    def length(new, i):
        roots = [np.linalg.cholesky(np.linalg.inv(np.linalg.inv(K[i]) + np.diag(1 / s))) for s in (new[1][i], sigma[i])]
        return kl_of_normals(K[i] @ new[0][i], roots[0], K[i] @ mu[i], roots[1])

    assert length(plain, 0) > 2 > length(plain, 1)
    assert 0.2 < length(safe, 0) <= 2.0
    for new, same in zip(safe, plain, strict=True):
        np.testing.assert_array_equal(new[1], same[1])


def test_one_stray_gradient_does_not_throw_the_posterior_away(uneven):
    """In step 5 the means have a gradient of a million: with trust the model recovers, without it does not."""
    ends = {}
    for trust in (10.0, None):
        model = freeze(conjugate(uneven, Full()), "prior", "inducing", "likelihood")
        optimizer = Natural(Adam(), gamma=0.1, trust=trust)
        optimizer.start(model)
        for step in range(40):
            stray = 1e6 if step == 5 else 0.0
            optimizer.step(
                model,
                lambda stray=stray, model=model: (
                    model.training_loss(uneven) + stray * tf.reduce_sum(model.posterior.q_mu)
                ),
            )
        ends[trust] = float(model.elbo(uneven))
    best = freeze(conjugate(uneven, Full()), "prior", "inducing", "likelihood")
    fit(best, uneven, steps=1, optimizer=Natural(Adam(), gamma=1.0), progress=False)
    assert ends[10.0] > float(best.elbo(uneven)) - 5.0
    assert ends[None] < float(best.elbo(uneven)) - 1000.0
