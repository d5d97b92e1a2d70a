"""GPAR against separate exact GPs, a loop in NumPy, and quadrature."""

from __future__ import annotations

import warnings

import gpflow
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

import mogp
from mogp import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.kernels import LayerKernels
from mogp.models import GPAR, gplar
from mogp.optimizers import LBFGS, Adam, NaturalAdam
from mogp.training import greedy_order

N, NOISE = 14, 0.05
NAMES = ("first", "second", "third")
KERNELS = LayerKernels(1, "linear+nonlinear", input_lengthscale=0.3, linear_variance=0.5)


def targets(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    y1 = np.sin(6 * x) + 0.2 * rng.normal(size=n)
    y2 = y1**2 + 3 * x + 0.1 * rng.normal(size=n)
    return x[:, None], np.column_stack([y1, y2, 10 * y2 - y1 + 0.3 * rng.normal(size=n)])


X, Y = targets()
GAPS = Y.copy()
GAPS[2:5, 0], GAPS[8:11, 1], GAPS[12:, 2] = np.nan, np.nan, np.nan
CLOSED = Y.copy()
CLOSED[9:, 1:], CLOSED[5:9, 2] = np.nan, np.nan


def data_of(Y):
    return MultiOutputData.from_arrays(X, Y, names=NAMES)


def model_of(Y, kernels=KERNELS, **options):
    return GPAR(data_of(Y), kernels, **{"noise": NOISE, "starts": 1, **options}, scaling=None)


def fitted(model, data, steps=1000, **how):
    return mogp.fit(model, data, steps=steps, progress=False, **how)


def se(A, B, lengthscale):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1) / lengthscale**2)


def kernel(A, B):
    """`KERNELS` at its start values."""
    K = se(A[:, :1], B[:, :1], 0.3)
    if A.shape[1] > 1:
        K = K + se(A[:, 1:], B[:, 1:], 1.0) + 0.5 * A[:, 1:] @ B[:, 1:].T
    return K


def standardised(Y):
    return (Y - np.nanmean(Y, 0)) / np.nanstd(Y, 0)


def by_hand(Y, replace, impute, xnew=None):
    """Log evidences of the layers and what the next would read, by a loop over outputs; also posterior means."""
    Z, inputs, evidences = standardised(Y), X, []
    new = None if xnew is None else xnew
    for y in Z.T:
        seen = np.isfinite(y) & np.isfinite(inputs).all(1)
        K = kernel(inputs[seen], inputs[seen]) + NOISE * np.eye(seen.sum())
        evidences.append(multivariate_normal(cov=K).logpdf(y[seen]))
        usable = np.isfinite(inputs).all(1)
        mean = np.full(len(y), np.nan)
        mean[usable] = kernel(inputs[usable], inputs[seen]) @ np.linalg.solve(K, y[seen])
        if new is not None:
            new = np.column_stack([new, kernel(new, inputs[seen]) @ np.linalg.solve(K, y[seen])])
        observed = np.isfinite(y)
        column = np.where(observed, mean if replace else y, mean if impute else np.nan)
        inputs = np.column_stack([inputs, column])
    return evidences, new


@pytest.mark.parametrize("kind", ["linear", "nonlinear-input-dependent", "linear-input-dependent"])
def test_evidence_of_closed_data_is_a_sum_of_exact_gps(kind):
    kernels = LayerKernels(1, kind, "rq", input_lengthscale=0.3)
    model = model_of(CLOSED, kernels, replace=False, impute=False)
    Z = standardised(CLOSED)
    for position, name in enumerate(NAMES):
        seen = np.isfinite(Z[:, position])
        inputs = np.column_stack([X, Z[:, :position]])[seen]
        exact = gpflow.models.GPR((inputs, Z[seen, position, None]), kernels.layer(position), noise_variance=NOISE)
        np.testing.assert_allclose(model.log_evidence()[name], exact.log_marginal_likelihood(), rtol=1e-9)
    np.testing.assert_allclose(model.elbo(), sum(model.log_evidence().values()))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("impute", [True, False])
@pytest.mark.parametrize("Y", [GAPS, CLOSED], ids=["gaps", "closed downwards"])
def test_replaced_and_imputed_values_are_those_of_a_loop(Y, replace, impute):
    model = model_of(Y, replace=replace, impute=impute)
    xnew = np.linspace(-0.2, 1.1, 5)[:, None]
    evidences, means = by_hand(Y, replace, impute, xnew)
    np.testing.assert_allclose(list(model.log_evidence().values()), evidences, rtol=1e-8)
    np.testing.assert_allclose(model.posterior_means(xnew), means[:, 1:], atol=1e-8)


def test_a_given_order_is_the_chain_of_the_data_in_that_order():
    backward = model_of(GAPS, order=NAMES[::-1])
    turned = GPAR(MultiOutputData.from_arrays(X, GAPS[:, ::-1], names=NAMES[::-1]), KERNELS, noise=NOISE, scaling=None)
    assert backward.log_evidence() == turned.log_evidence()
    draws = [m.predict_y_samples(X[:3], samples=4, seed=1) for m in (backward, turned)]
    np.testing.assert_allclose(draws[0], draws[1][..., ::-1])


def test_without_output_kernels_it_is_independent_gps():
    model = model_of(GAPS, LayerKernels(1, input_lengthscale=0.3, markov=0))
    xnew = np.linspace(0, 1, 4)[:, None]
    mean, var = model.predict_y(xnew)
    for d, name in enumerate(NAMES):
        seen = np.isfinite(GAPS[:, d])
        z = standardised(GAPS)[seen, d, None]
        alone = gpflow.models.GPR(
            (X[seen], z), gpflow.kernels.SquaredExponential(lengthscales=0.3), noise_variance=NOISE
        )
        m, v = alone.predict_y(xnew)
        centre, sd = np.nanmean(GAPS[:, d]), np.nanstd(GAPS[:, d])
        np.testing.assert_allclose(mean[:, d], centre + sd * m[:, 0], atol=1e-8)
        np.testing.assert_allclose(var[:, d], sd**2 * v[:, 0], atol=1e-8)
        np.testing.assert_allclose(model.log_evidence()[name], alone.log_marginal_likelihood(), rtol=1e-9)


def test_a_markov_chain_forgets_all_but_the_output_before():
    """T20."""
    markov = model_of(Y, LayerKernels(1, "nonlinear", markov=1), replace=False)
    pair = GPAR(
        MultiOutputData.from_arrays(X, Y[:, 1:], names=NAMES[1:]),
        LayerKernels(1, "nonlinear"),
        noise=NOISE,
        replace=False,
        scaling=None,
    )
    np.testing.assert_allclose(markov.log_evidence()["third"], pair.log_evidence()["third"], rtol=1e-9)


def by_quadrature(model, x, noisy):
    """Moments of the second of two outputs at `x`, and its density at a point, by integrating the first out."""
    first, second = model.layers
    point = np.array([[x]])
    mean, var = (float(a[0]) for a in first.moments(point))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    y1 = mean + np.sqrt(var + noisy * NOISE) * nodes
    m, v = (np.asarray(a) for a in second.moments(np.column_stack([np.full_like(y1, x), y1])))
    w = weights / weights.sum()
    centre, sd = model.scale["second"]
    total = w @ (v + m**2) - (w @ m) ** 2
    density = w @ norm(m, np.sqrt(v + NOISE)).pdf((1.0 - centre) / sd) / sd
    return centre + sd * (w @ m), sd**2 * total, density


@pytest.mark.parametrize("passes", ["functions", "noisy"])
def test_moments_density_and_draws_of_a_second_output_are_those_of_quadrature(passes):
    data, noisy = MultiOutputData.from_arrays(X, Y[:, :2], names=NAMES[:2]), passes == "noisy"
    kernels = LayerKernels(1, "nonlinear", input_lengthscale=0.3)
    model = GPAR(data, kernels, noise=NOISE, replace=not noisy, passes=passes, scaling=None)
    x, S = 1.15, 20_000
    mean, var, density = by_quadrature(model, x, noisy)
    found = model.predict_f([[x]], "second", samples=S)
    noise = NOISE * model.scale["second"].sd ** 2
    tolerance = 5 * np.sqrt(var / S)
    assert abs(float(found.mean[0, 0]) - mean) < tolerance
    np.testing.assert_allclose(found.var[0, 0], var, rtol=0.03)
    np.testing.assert_allclose(model.predict_y([[x]], "second", samples=S).var[0, 0], var + noise, rtol=0.03)
    held_out = MultiOutputData.from_arrays([[x]], [[0.0, 1.0]], names=NAMES[:2])
    log_p = model.predict_log_density(held_out, samples=S)["second"]
    np.testing.assert_allclose(np.exp(log_p), density, rtol=0.03)
    for latent, spread in ((True, var), (False, var + noise)):
        ask = model.predict_f_samples if latent else model.predict_y_samples
        draws = ask([[x], [0.4]], samples=S).numpy()[:, 0, 1]
        assert abs(draws.mean() - mean) < tolerance * 2
        np.testing.assert_allclose(draws.var(), spread, rtol=0.05)


def test_with_means_passed_on_an_output_is_one_gaussian_at_the_means_before():
    """The reference: a loop over dense regressions that reads means in predictions as in training."""
    model, xnew = model_of(GAPS), np.array([[0.37], [0.4], [1.15]])
    Z, inputs, new, S = standardised(GAPS), X, xnew, 20_000
    mean, var = model.predict_y(xnew)
    test = MultiOutputData.from_arrays(xnew, Y[:3], names=NAMES)
    log_p = model.predict_log_density(test, samples=7)
    draws = model.predict_f_samples(xnew, samples=S).numpy()
    for d, (y, name) in enumerate(zip(Z.T, NAMES, strict=True)):
        seen = np.isfinite(y)
        solve = np.linalg.inv(kernel(inputs[seen], inputs[seen]) + NOISE * np.eye(seen.sum()))
        k = kernel(new, inputs[seen])
        m, C = k @ solve @ y[seen], kernel(new, new) - k @ solve @ k.T
        centre, sd = model.scale[name]
        spread = sd * np.sqrt(np.diag(C) + NOISE)
        np.testing.assert_allclose(mean[:, d], centre + sd * m, atol=1e-7)
        np.testing.assert_allclose(var[:, d], spread**2, atol=1e-7)
        np.testing.assert_allclose(log_p[name], norm(centre + sd * m, spread).logpdf(Y[:3, d]), atol=1e-6)
        largest = sd**2 * np.max(np.diag(C))
        np.testing.assert_allclose(np.cov(draws[..., d].T), sd**2 * C, atol=0.04 * largest)
        inputs = np.column_stack([inputs, kernel(inputs, inputs[seen]) @ solve @ y[seen]])
        new = np.column_stack([new, m])


def test_what_is_passed_on_is_what_layers_were_trained_on():
    assert model_of(Y).passes == "means"
    assert model_of(Y, replace=False).passes == "noisy"
    assert "draws of functions, without noise" in str(model_of(Y, passes="functions"))
    with pytest.raises(ValueError, match=r"replace=True: layers are trained on posterior means.*Take 'means'"):
        model_of(Y, passes="noisy")
    for passes in ("means", "functions"):
        with pytest.raises(ValueError, match=r"replace=False: layers are trained on observed targets.*Take 'noisy'"):
            model_of(Y, replace=False, passes=passes)
    with pytest.raises(ValueError, match="passes='both'; expected one of 'means'"):
        model_of(Y, passes="both")


def test_joint_draws_have_the_covariance_of_an_exact_posterior():
    model = model_of(Y[:, :1].repeat(3, 1), LayerKernels(1, markov=0, input_lengthscale=0.3))
    xnew, S = np.array([[0.3], [0.35], [1.2]]), 20_000
    z = standardised(Y[:, :1])
    alone = gpflow.models.GPR((X, z), gpflow.kernels.SquaredExponential(lengthscales=0.3), noise_variance=NOISE)
    _, cov = alone.predict_f(xnew, full_cov=True)
    draws = model.predict_f_samples(xnew, samples=S).numpy()[..., 0] / np.std(Y[:, 0])
    np.testing.assert_allclose(np.cov(draws.T), cov[0], atol=0.02)


def test_the_matched_density_without_noise_is_a_gaussian_of_the_functions_moments():
    model = model_of(GAPS)
    test = MultiOutputData.from_arrays(X[:3], Y[:3], names=NAMES)
    mean, var = model.predict_f(X[:3])
    for noise in (False, True):
        log_p = model.predict_log_density(test, noise=noise, matched=True)
        for d, name in enumerate(NAMES):
            spread = var[:, d] + noise * NOISE * model.scale[name].sd ** 2
            np.testing.assert_allclose(log_p[name], norm(mean[:, d], np.sqrt(spread)).logpdf(Y[:3, d]), rtol=1e-9)


def test_densities_of_one_output_are_those_among_all():
    model = model_of(GAPS)
    every = model.predict_log_density(MultiOutputData.from_arrays(X[:3], Y[:3], names=NAMES))
    alone = model.predict_log_density(MultiOutputData.from_arrays(X[:3], Y[:3, 2:], names=NAMES[2:]))
    assert list(alone) == ["third"]
    np.testing.assert_array_equal(alone["third"], every["third"])
    with pytest.raises(ValueError, match=r"1 outputs \(fourth\), the model has 3"):
        model.predict_log_density(MultiOutputData.from_arrays(X[:3], Y[:3, :1], names=["fourth"]))


def test_training_raises_every_evidence_and_leaves_fixed_parameters_alone():
    model = model_of(GAPS)
    before = model.log_evidence()
    lengthscales = model.layer("second").kernel.kernels[0].lengthscales
    gpflow.set_trainable(lengthscales, False)
    history = fitted(model, data_of(GAPS), 15)
    after = model.log_evidence()
    assert after["first"] > before["first"]
    assert list(history.frame()["stage"].unique()) == list(NAMES)
    for name, layer in history.frame().groupby("stage"):
        assert (np.diff(layer["elbo"]) >= -1e-9).all()
        np.testing.assert_allclose(layer["elbo"].iloc[-1], after[name], rtol=1e-9)
    np.testing.assert_allclose(lengthscales, [0.3])
    assert history.steps == len(history.frame()) <= 45
    assert "first" in str(history)


@pytest.mark.parametrize("inducing", [None, 5])
def test_fit_takes_the_steps_of_lbfgs_on_the_evidence_of_each_layer(inducing):
    """An independent search: SciPy on `-layer.evidence()`, with differences in place of gradients.

    Three steps: the line search of the fourth looks where the sparse bound is known to a millionth only.
    """
    model, other = (model_of(GAPS, inducing=inducing) for _ in range(2))
    fitted(model, data_of(GAPS), 3)
    for position in range(len(NAMES)):
        other.propagate()
        layer = other.layers[position]
        parameters = [layer.likelihood.variance, *layer.kernel.parameters]
        sizes = [int(np.prod(p.shape)) for p in parameters]

        def loss(x, parameters=parameters, sizes=sizes, layer=layer):
            for p, part in zip(parameters, np.split(x, np.cumsum(sizes)[:-1]), strict=True):
                p.unconstrained_variable.assign(part.reshape(p.shape))
            return -layer.evidence()

        start = np.concatenate([p.unconstrained_variable.numpy().reshape(-1) for p in parameters])
        bounds = [(np.log(1e-8), np.log(1e8))] * len(start)
        options = {"maxiter": 3, "maxfun": 1000}
        loss(minimize(loss, start, method="L-BFGS-B", jac="3-point", bounds=bounds, options=options).x)
    np.testing.assert_allclose(list(model.log_evidence().values()), list(other.log_evidence().values()), rtol=1e-4)
    for layer, same in zip(model.layers, other.layers, strict=True):
        np.testing.assert_allclose(layer.noise, same.noise, rtol=1e-3)


def minimised(layer, start):
    """The highest evidence of a layer that SciPy finds from a start, with differences in place of gradients."""
    parameters = [layer.likelihood.variance, *layer.kernel.parameters]
    sizes = [int(np.prod(p.shape)) for p in parameters]

    def loss(x):
        for p, part in zip(parameters, np.split(x, np.cumsum(sizes)[:-1]), strict=True):
            p.unconstrained_variable.assign(part.reshape(p.shape))
        return -layer.evidence()

    bounds = [(np.log(1e-8), np.log(1e8))] * len(start)
    return -minimize(loss, start, method="L-BFGS-B", jac="3-point", bounds=bounds).fun


def test_of_several_starts_a_layer_keeps_the_best():
    """The starts are written out: ten times the noise, three times and a third of the lengthscale."""
    data = MultiOutputData.from_arrays(X, GAPS[:, :1], names=NAMES[:1])
    kernels = LayerKernels(1, input_lengthscale=0.03)
    ends = []
    for lengthscale in (0.03, 0.09, 0.01):
        for noise in (1e-4, 1e-3):
            layer = GPAR(data, kernels, noise=NOISE, scaling=None).layers[0]
            ends.append(minimised(layer, np.log([noise, lengthscale, 1.0])))
    for starts in (1, 2, 3, 4, 5, 6):
        model = GPAR(data, kernels, noise=1e-4, starts=starts, scaling=None)
        history = fitted(model, data)
        assert [one.name for one in history.stages[:2]] == ["first", "first, start 2"][:starts]
        assert len(history.stages) == starts
        np.testing.assert_allclose(model.elbo(), max(ends[:starts]), atol=1e-3)
    with pytest.raises(ValueError, match="starts=0"):
        model_of(Y, starts=0)


def test_a_worse_start_changes_no_parameter():
    model = model_of(GAPS, starts=1)
    fitted(model, data_of(GAPS))
    alone = gpflow.utilities.read_values(model)
    model.starts = 2
    fitted(model, data_of(GAPS), 1)  # one step from the further start does not beat an optimum
    for name, value in gpflow.utilities.read_values(model).items():
        np.testing.assert_allclose(value, alone[name], rtol=1e-2, err_msg=name)


def test_a_layer_that_is_white_noise_is_warned_of():
    """With a lengthscale below any distance the covariance is diagonal, whatever the parameters."""
    data = MultiOutputData.from_arrays(X, Y[:, :1], names=["flat"])
    model = GPAR(data, LayerKernels(1, input_lengthscale=1e-5), scaling=None)
    gpflow.set_trainable(model.layers[0].kernel.lengthscales, False)
    with pytest.warns(UserWarning, match=r"layer of 'flat' explains nothing.*starts="):
        fitted(model, data)
    np.testing.assert_allclose(model.elbo(), -N / 2 * (np.log(2 * np.pi) + 1), atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(GPAR(data, LayerKernels(1, input_lengthscale=0.3), scaling=None), data)


def test_layers_are_up_to_date_after_a_fit():
    model = model_of(GAPS)
    fitted(model, data_of(GAPS), 4)
    after = model.log_evidence()
    model.propagate()
    assert model.log_evidence() == after


def test_parameters_set_by_hand_before_a_fit_are_kept():
    model = model_of(GAPS)
    for layer in model.layers:
        layer.likelihood.variance.assign(0.3)
        gpflow.set_trainable(layer.likelihood.variance, False)
    model.layer("first").kernel.lengthscales.assign([0.7])
    gpflow.set_trainable(model.layer("first").kernel, False)
    history = fitted(model, data_of(GAPS), 3)
    np.testing.assert_allclose([float(layer.noise) for layer in model.layers], 0.3)
    np.testing.assert_allclose(model.layer("first").kernel.lengthscales, [0.7])
    assert history.stages[0].steps == 0
    assert "no parameter is trainable" in history.stages[0].message


def test_a_monitor_that_asks_for_predictions_changes_nothing():
    model, watched = model_of(GAPS), model_of(GAPS)
    history = fitted(model, data_of(GAPS), 4)
    seen = fitted(watched, data_of(GAPS), 4, monitor=lambda: {"all": watched.elbo()}, every=1)
    np.testing.assert_array_equal(history.elbo, seen.elbo)
    assert seen.monitored[-1]["all"] == watched.elbo() == model.elbo()


def test_other_data_mini_batches_and_other_optimisers_are_refused():
    model = model_of(GAPS)
    for call in (fitted, lambda m, data: m.elbo(data), lambda m, data: m.training_loss(data)):
        with pytest.raises(ValueError, match="GPAR holds its data: build a new one"):
            call(model, data_of(Y))
    assert model.elbo(data_of(GAPS)) == model.elbo() == -model.training_loss()
    with pytest.raises(UnsupportedError, match=r"no mini-batches.*use gplar"):
        fitted(model, data_of(GAPS), batch_size=3)
    for optimizer in (Adam(), NaturalAdam()):
        with pytest.raises(UnsupportedError, match="trained by LBFGS, not by"):
            fitted(model, data_of(GAPS), optimizer=optimizer)
    history = fitted(model, data_of(GAPS), 5, optimizer=LBFGS({"maxfun": 3}))
    assert all("EVALUATIONS EXCEEDS LIMIT" in stage.message for stage in history.stages)


class CrashError(Exception):
    """Ends a run in the middle."""


def test_a_checkpoint_continues_at_its_layer(tmp_path, monkeypatch):
    """Layers before it are as they were, and it reads what they say."""
    monkeypatch.setattr("mogp.training.state.SECONDS_BETWEEN_REPORTS", -1.0)
    data, path, looks = data_of(GAPS), tmp_path / "run.npz", []
    whole, begun, resumed = (model_of(GAPS) for _ in range(3))
    expected = fitted(whole, data, 6)

    def crash():
        looks.append(begun.elbo())
        if len(looks) == 1 + 6 + 4:
            raise CrashError
        return {}

    with pytest.raises(CrashError):
        fitted(begun, data, 6, checkpoint=path, monitor=crash, every=1)
    resumed.elbo()  # what layers read before the checkpoint was found must not stay
    history = fitted(resumed, data, 6, checkpoint=path)
    np.testing.assert_array_equal(history.elbo[: 6 + 3], expected.elbo[: 6 + 3])
    assert [(stage.name, stage.steps) for stage in history.stages] == [(name, 6) for name in NAMES]
    np.testing.assert_array_equal(resumed.layers[0].kernel.lengthscales, whole.layers[0].kernel.lengthscales)
    np.testing.assert_array_equal(resumed.layers[1].X, whole.layers[1].X)
    np.testing.assert_allclose(history.elbo[-1], resumed.log_evidence()["third"], rtol=1e-9)


def test_a_checkpoint_continues_at_its_start(tmp_path, monkeypatch):
    """What the starts before it have found is kept."""
    monkeypatch.setattr("mogp.training.state.SECONDS_BETWEEN_REPORTS", -1.0)
    data, path, looks = data_of(GAPS), tmp_path / "run.npz", []
    whole, begun, resumed = (model_of(GAPS, starts=2) for _ in range(3))
    expected = fitted(whole, data)

    def crash():
        looks.append(begun.log_evidence()["first"])
        if len(looks) == 1 + expected.stages[0].steps + 3:
            raise CrashError
        return {}

    with pytest.raises(CrashError):
        fitted(begun, data, checkpoint=path, monitor=crash, every=1)
    assert (np.diff(looks) >= -1e-9).all()
    history = fitted(resumed, data, checkpoint=path)
    names = [title for name in NAMES for title in (name, f"{name}, start 2")]
    assert [stage.name for stage in history.stages] == names
    np.testing.assert_allclose(resumed.log_evidence()["first"], whole.log_evidence()["first"], atol=1e-4)


def test_without_kernels_layers_have_those_of_gplar():
    data = data_of(GAPS)
    gpar, chain = GPAR(data, scaling=None), gplar(data, inducing=4, start="zero", scaling=None)
    for layer, kernel in zip(gpar.layers, chain.kernels, strict=True):
        expected = gpflow.utilities.read_values(kernel)
        for name, value in gpflow.utilities.read_values(layer.kernel).items():
            np.testing.assert_allclose(value, expected[name])


def test_training_finds_the_optimum_that_gpflow_finds():
    data = MultiOutputData.from_arrays(X, Y[:, :1], names=["first"])
    model = GPAR(data, LayerKernels(1, input_lengthscale=0.3), noise=NOISE, scaling=None)
    fitted(model, data)
    exact = gpflow.models.GPR(
        (X, standardised(Y[:, :1])), gpflow.kernels.SquaredExponential(lengthscales=0.3), noise_variance=NOISE
    )
    gpflow.optimizers.Scipy().minimize(exact.training_loss, exact.trainable_variables)
    np.testing.assert_allclose(model.elbo(), exact.log_marginal_likelihood(), atol=1e-5)


def test_layers_of_one_form_share_a_compiled_function(monkeypatch):
    compiled = {}
    monkeypatch.setattr("mogp.models.chains.regression._COMPILED", compiled)
    model_of(Y, LayerKernels(1, "linear", "rq")).elbo()
    before = len(compiled)
    model_of(GAPS, LayerKernels(1, "linear", "rq"), order=NAMES[::-1]).elbo()
    assert len(compiled) == before > 0
    assert all(f.experimental_get_tracing_count() == 1 for f in compiled.values())


def test_with_inducing_inputs_layers_are_gpflows_sparse_regressions():
    Z = np.linspace(0, 1, 5)[:, None]
    model = model_of(GAPS, inducing=Z)
    inputs, at_inducing = X, Z
    for position, name in enumerate(NAMES):
        y = standardised(GAPS)[:, position]
        seen = np.isfinite(y)
        sparse = gpflow.models.SGPR(
            (inputs[seen], y[seen, None]), KERNELS.layer(position), at_inducing, noise_variance=NOISE
        )
        np.testing.assert_allclose(model.log_evidence()[name], sparse.elbo(), rtol=1e-6)
        mean, var = sparse.predict_f(inputs)
        found = model.layers[position].moments(inputs)
        np.testing.assert_allclose(found[0], mean[:, 0], atol=1e-6)
        np.testing.assert_allclose(found[1], var[:, 0], atol=1e-6)
        inputs = np.column_stack([inputs, mean])
        at_inducing = np.column_stack([at_inducing, sparse.predict_f(at_inducing)[0]])


def test_inducing_inputs_at_the_data_give_the_exact_chain():
    np.testing.assert_allclose(model_of(Y, inducing=X).elbo(), model_of(Y).elbo(), atol=1e-3)
    assert model_of(Y, inducing=4).layers[2].Z.shape == (4, 3)


def test_predictions_follow_units_of_the_targets():
    """T21: under $y \\to cy + b$ means and variances follow, and the log density falls by $\\log c$ a target."""
    c, b = np.array([3.0, 0.01, 50.0]), np.array([100.0, -2.0, 0.5])
    plain, scaled = model_of(GAPS), model_of(c * GAPS + b)
    for name in ("predict_f", "predict_y"):
        (m, v), (m2, v2) = (getattr(one, name)(X[:4]) for one in (plain, scaled))
        np.testing.assert_allclose(m2, c * m + b, rtol=1e-8)
        np.testing.assert_allclose(v2, c**2 * v, rtol=1e-8)
    np.testing.assert_allclose(
        scaled.predict_y_samples(X[:4], samples=3), c * plain.predict_y_samples(X[:4], samples=3) + b, rtol=1e-6
    )
    first = plain.predict_log_density(MultiOutputData.from_arrays(X[:4], Y[:4], names=NAMES))
    second = scaled.predict_log_density(MultiOutputData.from_arrays(X[:4], c * Y[:4] + b, names=NAMES))
    for d, name in enumerate(NAMES):
        np.testing.assert_allclose(second[name], first[name] - np.log(c[d]), rtol=1e-8)


def test_shifting_the_inputs_changes_nothing():
    far = GPAR(MultiOutputData.from_arrays(X + 2007, GAPS, names=NAMES), KERNELS, noise=NOISE, scaling=None)
    np.testing.assert_allclose(far.elbo(), model_of(GAPS).elbo(), atol=1e-6)


def test_the_last_of_one_hot_classes_is_a_linear_function_of_the_others():
    """T19: no noise, and nothing of the inputs, is needed."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (40, 2))
    label = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.3)
    data = MultiOutputData.from_arrays(x, np.eye(3)[label], names=["a", "b", "c"])
    model = GPAR(
        data, LayerKernels(2, "linear", input_lengthscale=0.5, linear_variance=0.01), replace=False, scaling=None
    )
    fitted(model, data, 200)
    on_inputs, linear = model.layer("c").kernel.kernels
    assert float(model.layer("c").noise) < 1e-6
    assert on_inputs.variance.numpy() < 1e-5 < 0.1 < linear.variance.numpy().min()
    sd = [model.scale[name].sd for name in "abc"]
    at = np.array([[0.2, 0.1, 1.0, -1.0]])
    expected = -(sd[0] * at[0, 2] + sd[1] * at[0, 3]) / sd[2]
    np.testing.assert_allclose(model.layer("c").moments(at)[0], expected, atol=1e-3)


def test_a_greedy_order_takes_the_best_conditional_at_every_position():
    data = MultiOutputData.from_arrays(X, GAPS, names=NAMES)
    found = greedy_order(data, KERNELS, steps=5, noise=NOISE, scaling=None)
    scores = found.scores
    assert sorted(found.order) == sorted(NAMES)
    assert len(scores) == 6
    for position, name in enumerate(found.order):
        here = scores[scores["position"] == position]
        assert here.loc[here["evidence"].idxmax(), "output"] == name == here.loc[here["chosen"], "output"].item()
    model = GPAR(data, KERNELS, order=found.order, noise=NOISE, starts=1, scaling=None)
    fitted(model, data, 5)
    np.testing.assert_allclose(found.evidence, model.elbo(), rtol=1e-6)


def test_a_saved_model_predicts_the_same(tmp_path):
    model = model_of(GAPS)
    fitted(model, data_of(GAPS), 3)
    again = mogp.load(mogp.save(model, tmp_path / "chain.mogp"))
    for a, b in zip(model.predict_y(X[:3]), again.predict_y(X[:3]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.order == model.order


def test_predictions_come_as_a_table():
    table = model_of(GAPS).predict(X[:3], quantiles=(0.1, 0.9), samples=50)
    assert list(table.columns) == ["row", "x", "output", "target", "mean", "sd", "q0.1", "q0.9"]
    assert (table["q0.1"] < table["q0.9"]).all()
    assert list(table["output"].unique()) == list(NAMES)


def test_repeated_inputs_and_repeated_observations_are_used():
    data = MultiOutputData.from_list([([0.0, 0.0, 1.0], [1.0, 3.0, 0.0]), ([0.0, 1.0], [5.0, 2.0])], names=["a", "b"])
    model = GPAR(data, LayerKernels(1, "linear"), noise=0.1, scaling=None)
    fitted(model, data, 20)
    assert np.isfinite(model.elbo())
    assert abs(float(model.predict_f([[0.0]], "a").mean[0, 0]) - 2.0) < 0.7


def test_constant_targets_are_left_unscaled():
    model = GPAR(
        MultiOutputData.from_arrays(X[:4], np.full((4, 1), 7.0), names=["flat"]), LayerKernels(1), scaling=None
    )
    np.testing.assert_allclose(model.predict_f(X[:4]).mean, np.full((4, 1), 7.0))
    assert model.scale["flat"] == (7.0, 1.0)


def test_float32_is_honoured():
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-4)):
        model = model_of(GAPS)
        fitted(model, data_of(GAPS), 3)
        assert model.predict_y(X[:3]).mean.dtype == np.float32
        assert model.predict_y_samples(X[:3], samples=2).dtype == np.float32
        single = model.posterior_means(X)
    double = model_of(GAPS)
    fitted(double, data_of(GAPS), 3)
    np.testing.assert_allclose(single, double.posterior_means(X), atol=1e-3)


def test_wrong_uses_are_named():
    data = MultiOutputData.from_arrays(X, Y, names=NAMES)
    with pytest.raises(ValueError, match="every output must be named once"):
        model_of(Y, order=["first", "second"])
    with pytest.raises(ValueError, match="kernels for 2 input columns; the data have 1"):
        GPAR(data, LayerKernels(2), scaling=None)
    with pytest.raises(ValueError, match="noise=0"):
        model_of(Y, noise=0.0)
    with pytest.raises(ValueError, match="inducing inputs have shape"):
        model_of(Y, inducing=np.zeros((3, 2)))
    apart = Y.copy()
    apart[:7, 0], apart[7:, 1] = np.nan, np.nan
    with pytest.raises(ValueError, match="use impute=True, or another order"):
        model_of(apart, impute=False).elbo()
    wide = MultiOutputData.from_list([(X, Y[:, :2])], names=["wide"])
    with pytest.raises(ValueError, match="one target column an output; wide has more"):
        GPAR(wide, LayerKernels(1), scaling=None)
    for call in (
        lambda m: fitted(m, data, 0),
        lambda m: m.predict_y_samples(X, samples=0),
        lambda m: m.paths(X, samples=0),
    ):
        with pytest.raises(ValueError, match="at least one"):
            call(model_of(Y))
