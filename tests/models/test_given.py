"""`given=`: predictions where the targets of some outputs are known at the test rows."""

from __future__ import annotations

from dataclasses import replace

import gpflow
import numpy as np
import pytest
from gpflow import kernels as k

from mogp.data import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints
from mogp.likelihoods import Gaussian, HeteroscedasticGaussian, Poisson, Softmax
from mogp.models import DHGP, HGP, ExactLMC, SparseMOGP, hetmogp_lmc
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC, Independent

CLOSE = {"rtol": 1e-8, "atol": 1e-8}
PRIORS = {
    "independent": lambda J: Independent([k.Matern32(0.5 + j, 0.6 + 0.1 * j) for j in range(J)]),
    "independent, one kernel": lambda J: Independent(k.Matern32(1.3, 0.7), functions=J, bias=0.3),
    "LMC": lambda J: LMC([k.Matern32(1.0, 0.5), k.SquaredExponential(1.0, 1.4)], J, rank=2, bias=-0.2),
    "ICM": lambda J: ICM(k.Matern52(1.0, 0.8), J, rank=2),
}
POSTERIORS = {"whitened": Full, "plain": lambda: Full(whiten=False), "parsimonious": Parsimonious}
NAMES = ("a", "b", "c")


def sparse(prior: str, posterior: str, randomise, likelihoods: list | None = None) -> tuple[SparseMOGP, np.ndarray]:
    rng = np.random.default_rng(1)
    likelihoods = [Gaussian(0.2), Gaussian(0.05), Gaussian(0.4)] if likelihoods is None else likelihoods
    J = sum(one.latent_dim for one in likelihoods)
    Z = InducingPoints(rng.normal(size=(5, 2)))
    model = SparseMOGP(PRIORS[prior](J), Z, likelihoods, POSTERIORS[posterior](), names=NAMES)
    randomise(model, 2)
    return model, rng.normal(size=(6, 2))


def some_targets(seed: int = 0) -> np.ndarray:
    """`[6, 3]`: one output known here, two there, none at the last row."""
    known = np.random.default_rng(seed).normal(size=(6, 3))
    known[:, 1] = np.nan
    known[[1, 5], 0] = np.nan
    known[[2, 3, 5], 2] = np.nan
    return known


def as_given(known: np.ndarray) -> dict[str, np.ndarray]:
    return {name: known[:, d] for d, name in enumerate(NAMES) if not np.isnan(known[:, d]).all()}


# ---------------------------------------------------------------------------- against dense conditioning


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("prior", PRIORS)
def test_sparse_predictions_are_those_of_dense_conditioning(prior, posterior, randomise, dense, told):
    model, X = sparse(prior, posterior, randomise)
    known = some_targets()
    f_mean, f_cov, y_mean, y_cov = told(*dense(model, X), np.diag([0.2, 0.05, 0.4]), known)
    given = as_given(known)
    f = model.predict_f(X, given=given)
    np.testing.assert_allclose(f.mean, f_mean, **CLOSE)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", f_cov), **CLOSE)
    over_rows = model.predict_f(X, given=given, full_cov=True)
    np.testing.assert_allclose(over_rows.var, np.einsum("njmj->jnm", f_cov), **CLOSE)
    between = model.predict_f(X, given=given, full_output_cov=True)
    np.testing.assert_allclose(between.var, np.einsum("njnk->njk", f_cov), **CLOSE)
    y = model.predict_y(X, given=given)
    np.testing.assert_allclose(y.mean, y_mean, **CLOSE)
    np.testing.assert_allclose(y.var, np.einsum("njnj->nj", y_cov), **CLOSE)
    table = model.predict(X, "b", quantiles=(), given=given)
    np.testing.assert_allclose(table["mean"], y_mean[:, 1], **CLOSE)


def test_functions_of_other_likelihoods_are_conditioned_too(randomise, dense, told):
    """A Gaussian output tells of two functions of a heteroscedastic one, and of the logits of classes."""
    model, X = sparse("LMC", "whitened", randomise, [Gaussian(0.2), HeteroscedasticGaussian(), Softmax(3)])
    known = np.full((6, 6), np.nan)
    known[[0, 2, 3], 0] = [0.4, -1.0, 0.3]
    mean, cov, _, _ = told(*dense(model, X), 0.2 * np.eye(6), known)
    given = {"a": known[:, 0]}
    f = model.predict_f(X, given=given)
    var = np.einsum("njnj->nj", cov)
    np.testing.assert_allclose(f.mean, mean, **CLOSE)
    np.testing.assert_allclose(f.var, var, **CLOSE)
    y = model.predict_y(X, "b", given=given)
    np.testing.assert_allclose(y.mean[:, 0], mean[:, 1], **CLOSE)
    np.testing.assert_allclose(y.var[:, 0], var[:, 1] + np.exp(mean[:, 2] + var[:, 2] / 2), rtol=1e-6)
    classes = np.asarray(model.predict_y(X, "c", given=given).mean)
    rng, draws = np.random.default_rng(0), []
    for n in range(6):
        logits = rng.multivariate_normal(mean[n, 3:], cov[n, 3:, n, 3:], size=20_000)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        draws.append((odds / odds.sum(1, keepdims=True)).mean(0))
    np.testing.assert_allclose(classes, draws, atol=0.02)  # both are averages over draws


def dense_exact(model: ExactLMC, data: MultiOutputData, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The posterior of all functions at `X`, and the noise of a row, from the kernel of the model."""
    D, N = len(model.names), len(X)
    noise = np.diag(np.asarray(model.noise))
    if model.effect is not None:
        noise = noise + np.asarray(model.effect) @ np.asarray(model.effect).T
    d = np.concatenate([np.full(len(o), i) for i, o in enumerate(data)])
    row = np.concatenate([o.rows for o in data])
    train = np.column_stack([data.X[row], d])
    new = np.column_stack([np.repeat(X, D, 0), np.tile(np.arange(D), N)])
    K = model.kernel(train).numpy() + noise[np.ix_(d, d)] * (row[:, None] == row)
    cross, inverse = model.kernel(new, train).numpy(), np.linalg.inv(K)
    y = np.concatenate([o.Y[:, 0] for o in data])
    cov = model.kernel(new).numpy() - cross @ inverse @ cross.T
    return (cross @ inverse @ y).reshape(N, D), cov.reshape(N, D, N, D), noise


@pytest.mark.parametrize("row_effect", [0, 1, 2])
def test_exact_predictions_are_those_of_dense_conditioning(row_effect, shared, told):
    model = ExactLMC(shared, latents=2, rank=2, row_effect=row_effect, scaling=None, seed=3)
    X, known = np.random.default_rng(5).normal(size=(6, 2)), some_targets()
    f_mean, f_cov, y_mean, y_cov = told(*dense_exact(model, shared, X), known)
    given = as_given(known)
    f, y = model.predict_f(X, given=given), model.predict_y(X, given=given)
    np.testing.assert_allclose(f.mean, f_mean, **CLOSE)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", f_cov), **CLOSE)
    over_rows = model.predict_f(X, given=given, full_cov=True)
    np.testing.assert_allclose(over_rows.var, np.einsum("njmj->jnm", f_cov), **CLOSE)
    np.testing.assert_allclose(y.mean, y_mean, **CLOSE)
    np.testing.assert_allclose(y.var, np.einsum("njnj->nj", y_cov), **CLOSE)


@pytest.mark.parametrize("row_effect", [0, 1])
def test_exact_predictions_are_those_of_a_model_that_has_the_targets_in_its_data(row_effect, shared):
    model = ExactLMC(shared, latents=2, row_effect=row_effect, scaling=None, seed=3)
    X, known = np.random.default_rng(5).normal(size=(6, 2)), some_targets()
    Y = np.full((12, 3), np.nan)
    for d, own in enumerate(shared):
        Y[own.rows, d] = own.Y[:, 0]
    more = MultiOutputData.from_arrays(np.concatenate([shared.X, X]), np.concatenate([Y, known]), names=NAMES)
    larger = ExactLMC(more, latents=2, row_effect=row_effect, scaling=None, seed=3)
    gpflow.utilities.multiple_assign(larger, gpflow.utilities.parameter_dict(model))
    for one, other in zip(model.predict_f(X, given=as_given(known)), larger.predict_f(X), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


@pytest.mark.parametrize("family", [HGP, DHGP])
def test_hierarchies_are_conditioned_on_an_output_in_a_replica(family, told):
    rng = np.random.default_rng(0)
    x, run = np.tile(np.arange(4.0), 2), np.repeat([0, 1], 4)
    data = MultiOutputData.from_arrays(x, rng.normal(size=(8, 3)), names=NAMES, replica=run)
    model = family(data, scaling=None)
    X, replica, known = rng.uniform(0, 3, size=6), np.array([0, 1, 2, 0, 1, 2]), some_targets()
    # The joint of functions in a call without given is tested against NumPy elsewhere; here it is conditioned.
    mean, joint = (np.asarray(a) for a in model._joint(model.at(X, replica), range(3)))
    if len(joint) == 3:
        cov = np.einsum("jnm,jk->njmk", joint, np.eye(3))
    else:
        cov = joint.reshape(3, 6, 3, 6).transpose(1, 0, 3, 2)
    noise = np.diag(np.broadcast_to(np.asarray(model.noise), 3))
    f_mean, f_cov, y_mean, _ = told(mean.reshape(3, 6).T, cov, noise, known)
    f = model.predict_f(X, replica=replica, given=as_given(known))
    np.testing.assert_allclose(f.mean, f_mean, **CLOSE)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", f_cov), **CLOSE)
    np.testing.assert_allclose(model.predict_y(X, replica=replica, given=as_given(known)).mean, y_mean, **CLOSE)


# ---------------------------------------------------------------------------- draws, and what a call knows


@pytest.mark.parametrize("build", ["sparse", "exact"])
def test_draws_given_targets_have_the_moments_of_dense_conditioning(build, randomise, dense, told, shared):
    known, samples = some_targets(), 20_000
    if build == "sparse":
        model, X = sparse("LMC", "whitened", randomise)
        joint = told(*dense(model, X), np.diag([0.2, 0.05, 0.4]), known)
    else:
        model, X = ExactLMC(shared, latents=2, row_effect=1, scaling=None), np.random.default_rng(5).normal(size=(6, 2))
        joint = told(*dense_exact(model, shared, X), known)
    f = np.asarray(model.predict_f_samples(X, given=as_given(known), samples=samples, seed=1)).reshape(samples, -1)
    y = np.asarray(model.predict_y_samples(X, given=as_given(known), samples=samples, seed=1)).reshape(samples, -1)
    for drawn, mean, cov in ((f, *joint[:2]), (y, *joint[2:])):
        cov = cov.reshape(18, 18)
        scale = np.outer(np.sqrt(np.diag(cov).clip(0)), np.sqrt(np.diag(cov).clip(0)))
        error = 5 * np.sqrt(np.diag(cov).clip(0) / samples) + 1e-6
        np.testing.assert_array_less(np.abs(drawn.mean(0) - mean.ravel()), error)
        np.testing.assert_array_less(np.abs(np.cov(drawn.T) - cov), 5 * np.sqrt(2 / samples) * scale + 1e-5)


def test_a_call_knows_the_targets_of_all_its_rows_and_no_others(randomise, dense, told):
    model, X = sparse("ICM", "whitened", randomise)
    known, noise = some_targets(), np.diag([0.2, 0.05, 0.4])
    whole = model.predict_y(X, "b", given=as_given(known)).mean
    parts = [slice(0, 2), slice(2, 6)]
    apart = [model.predict_y(X[part], "b", given=as_given(known[part])).mean for part in parts]
    expected = [told(*dense(model, X[part]), noise, known[part])[2][:, 1:2] for part in parts]
    np.testing.assert_allclose(np.concatenate(apart), np.concatenate(expected), **CLOSE)
    assert np.abs(np.concatenate(apart) - whole).max() > 1e-3


def test_outputs_that_are_independent_tell_nothing_of_each_other(randomise):
    model, X = sparse("independent", "whitened", randomise)
    given = {"a": np.ones(6)}
    for one, other in zip(model.predict_y(X, "b", given=given), model.predict_y(X, "b"), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
    assert (np.asarray(model.predict_f(X, "a", given=given).var) < np.asarray(model.predict_f(X, "a").var)).all()


@pytest.mark.parametrize("row_effect", [0, 1])
@pytest.mark.parametrize("family", ["exact", "sparse"])
def test_targets_are_given_in_the_units_of_the_data(family, row_effect, shared):
    """A model of stretched and moved data says of them what one of scaled data says, told as much."""

    def build(data: MultiOutputData, scaling: str | None) -> ExactLMC | SparseMOGP:
        if family == "exact":
            return ExactLMC(data, latents=2, row_effect=row_effect, scaling=scaling)
        kinds = [Gaussian(0.1) for _ in data.names]
        return hetmogp_lmc(data, kinds, inducing=4, row_effect=row_effect, scaling=scaling)

    far = replace(shared, outputs=tuple(replace(o, Y=10.0 ** (d + 1) * o.Y - 7 * d) for d, o in enumerate(shared)))
    m, s = (np.array([f(o.Y) for o in far]) for f in (np.mean, np.std))
    c, w = shared.X.mean(0), shared.X.std(0)
    near = replace(far, X=(far.X - c) / w, outputs=tuple(replace(o, Y=(o.Y - m[d]) / s[d]) for d, o in enumerate(far)))
    X, known = np.random.default_rng(5).normal(size=(6, 2)), some_targets()
    ours, theirs = build(far, "standard"), build(near, None)
    told, by_hand = {"given": as_given(known * s + m)}, {"given": as_given(known)}
    at = (X - c) / w
    for ask in ("predict_f", "predict_y"):
        found, expected = getattr(ours, ask)(X, **told), getattr(theirs, ask)(at, **by_hand)
        np.testing.assert_allclose((found.mean - m) / s, expected.mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.var / s**2, expected.var, rtol=1e-6, atol=1e-6)
    for ask in ("predict_f_samples", "predict_y_samples"):
        drawn, wanted = getattr(ours, ask)(X, samples=3, **told), getattr(theirs, ask)(at, samples=3, **by_hand)
        np.testing.assert_allclose((drawn - m) / s, wanted, rtol=1e-6, atol=1e-6)
    table = ours.predict(X, "b", quantiles=(), **told)
    np.testing.assert_allclose(table["mean"], np.asarray(ours.predict_y(X, "b", **told).mean)[:, 0], rtol=1e-10)


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("likelihood", [Poisson(), HeteroscedasticGaussian()])
def test_targets_that_are_not_gaussian_cannot_be_given(likelihood):
    data = MultiOutputData.from_arrays(np.arange(6.0), np.arange(12.0).reshape(6, 2), names=["a", "b"])
    model = hetmogp_lmc(data, [likelihood, Gaussian(0.1)], inducing=3)
    for ask in (model.predict_f, model.predict_y, model.predict_f_samples, model.predict_y_samples, model.predict):
        with pytest.raises(UnsupportedError, match=rf"'a'.*{type(likelihood).__name__}.*not Gaussian.*GPAR"):
            ask([0.5], given={"a": [1.0]})
        ask([0.5], given={"b": [1.0]})


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"z": [1.0, 2.0]}, KeyError, "no output 'z'"),
        ({"a": [1.0]}, ValueError, r"given\['a'\] has 1 values for 2 rows"),
        ({"a": [1.0, np.inf]}, ValueError, "finite"),
    ],
)
def test_what_cannot_be_read_is_refused(given, error, said, randomise):
    model, X = sparse("ICM", "whitened", randomise)
    for ask in (model.predict_f, model.predict_y, model.predict_f_samples, model.predict_y_samples, model.predict):
        with pytest.raises(error, match=said):
            ask(X[:2], given=given)


def test_float32_is_served(float32):
    data = MultiOutputData.from_arrays(np.arange(6.0), np.arange(12.0).reshape(6, 2), names=["a", "b"])
    for model in (hetmogp_lmc(data, [Gaussian(0.1), Gaussian(0.1)], inducing=3), ExactLMC(data)):
        y = model.predict_y([0.5, 1.5], given={"a": [1.0, np.nan]})
        assert y.mean.dtype == np.float32
        assert np.isfinite(y.mean).all()
        assert np.isfinite(model.predict_y_samples([0.5, 1.5], given={"a": [1.0, np.nan]})).all()
