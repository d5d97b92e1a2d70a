"""A model in the units of the data answers as one whose user standardised the data by hand."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case, run_of
from scipy import integrate, special, stats

import mogp
from mogp.data import MultiOutputData, Scaling
from mogp.errors import UnsupportedError
from mogp.inducing import given_points
from mogp.likelihoods import Gaussian, HeteroscedasticGaussian, Poisson, function_units, has_units
from mogp.models import GPAR, ExactLMC, hetmogp_lmc, lvmogp

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = int(os.environ.get("MOGP_SCALING_STEPS", "3"))
"""Steps of training before models are compared; the rule is for 50."""
SCALED = [case for case in CASES if case.scales]
CLOSE = 1e-6
UNITS = np.array([1e6, 1e-6]), np.array([-3e6, 7e-6])


def in_odd_units(data: MultiOutputData, real: np.ndarray) -> MultiOutputData:
    """The data with inputs in units of a millionth and a million, and real targets in thousands of something."""
    a, b = (one[: data.input_dim] for one in UNITS)
    outputs = tuple(replace(o, Y=1000.0 * (1 + d) * o.Y - 5000.0) if real[d] else o for d, o in enumerate(data.outputs))
    return replace(data, X=a * data.X + b, outputs=outputs)


def by_hand(data: MultiOutputData, real: np.ndarray) -> tuple[MultiOutputData, Any, np.ndarray, np.ndarray]:
    """Standardised data, the function that standardises inputs, and means and deviations of targets."""
    c, w = data.X.mean(0), data.X.std(0)
    m, s = np.zeros(len(data.outputs)), np.ones(len(data.outputs))
    outputs = []
    for d, o in enumerate(data.outputs):
        if real[d]:
            values = o.Y[o.observed]
            m[d], s[d] = values.mean(), values.std()
        outputs.append(replace(o, Y=(o.Y - m[d]) / s[d]))
    return replace(data, X=(data.X - c) / w, outputs=tuple(outputs)), lambda X: (X - c) / w, m, s


def is_real(case: Case, data: MultiOutputData) -> np.ndarray:
    """Which outputs of the data are real-valued, by what they hold."""
    whole = [bool(np.all(np.round(o.Y) == o.Y)) for o in data.outputs]
    return ~np.array(whole)


def close(found: Any, expected: Any, scale: Any = 1.0) -> None:
    """Equal to a millionth of the scale, and of the numbers."""
    found, expected = np.asarray(found) / scale, np.asarray(expected) / scale
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE * max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.name}:", marks=run_of(case)) for case in SCALED])
def test_the_model_scales_as_a_user_would_by_hand(case, tmp_path, either_way):
    plain = case.data("several", 0)
    real = is_real(case, plain)
    data = in_odd_units(plain, real)
    own, place, m, s = by_hand(data, real)
    model, theirs = case.build(data), case.build(own, scaling=None)
    assert model.scaling is not None
    assert theirs.scaling is None
    for one, seen in ((model, data), (theirs, own)):
        mogp.fit(one, seen, steps=STEPS, progress=False)
    X = data.X[:4] + 0.1 * data.X.std(0)
    at = place(X)
    D = [model.names[d] for d in model.reported]
    for name in D:
        d = D.index(name)
        found, expected = model.predict_y(X, name), theirs.predict_y(at, name)
        close(found.mean, expected.mean * s[d] + m[d], s[d])
        close(found.var, expected.var * s[d] ** 2, s[d] ** 2)
        drawn, wanted = (one.predict_y_samples(x, name, 3, seed=5) for one, x in ((model, X), (theirs, at)))
        close(drawn, np.asarray(wanted) * s[d] + m[d], s[d])
        f, g = model.predict_f(X, name), theirs.predict_f(at, name)
        if f.mean.shape[1] == 1 or not real[d]:
            close(f.mean, g.mean * s[d] + m[d], s[d])
            close(f.var, g.var * s[d] ** 2, s[d] ** 2)
        table, other = (one.predict(x, name, (0.1, 0.9), 50) for one, x in ((model, X), (theirs, at)))
        close(table["q0.9"], other["q0.9"] * s[d] + m[d], s[d])
        assert np.array_equal(table[list(data.input_names)].astype(float)[:: len(table) // 4], X)
    told = {o.name: o.observed.sum(1) for o in data.outputs}
    ours, known = model.predict_log_density(data), theirs.predict_log_density(own)
    for d, name in enumerate(D):
        close(ours[name], known[name] - told[name] * np.log(s[d]))
    bound = sum(told[name].sum() * np.log(s[d]) for d, name in enumerate(D)) * len(model.names) / len(D)
    if not case.sampled:
        close(model.elbo(data), float(theirs.elbo(own)) - bound)
    again = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    assert np.array_equal(again.predict_y(X).mean, model.predict_y(X).mean)


@pytest.mark.parametrize(
    "build",
    [
        lambda d: ExactLMC(d, latents=2),
        lambda d: hetmogp_lmc(d, [Gaussian(), HeteroscedasticGaussian(), Gaussian()], inducing=4),
    ],
    ids=["exact", "sparse"],
)
def test_another_unit_of_one_output_changes_its_predictions_and_no_others(build):
    data = next(case for case in CASES if case.name == "LMC").data("several", 0)
    first, *rest = data.outputs
    stretched = replace(data, outputs=(replace(first, Y=1000 * first.Y), *rest))
    models = [build(data), build(stretched)]
    for model, seen in zip(models, (data, stretched), strict=True):
        mogp.fit(model, seen, steps=20, progress=False)
    one, other = (model.predict_y(data.X) for model in models)
    scale = np.array([1000.0, 1.0, 1.0])
    close(other.mean / scale, one.mean)
    close(other.var / scale**2, one.var)


def test_a_constant_column_and_a_constant_output_are_moved_and_not_stretched():
    data = MultiOutputData.from_arrays(np.column_stack([np.arange(4.0), np.full(4, 7.0)]), np.full(4, 3e8))
    scaling = Scaling.of(data)
    assert scaling.width[1] == scaling.scale[0] == 1
    assert np.array_equal(scaling.data(data).X[:, 1], np.zeros(4))
    assert np.array_equal(scaling.data(data).outputs[0].Y, np.zeros((4, 1)))


def test_counts_shares_and_classes_have_no_units():
    data = MultiOutputData.from_arrays(np.arange(6.0), np.column_stack([np.arange(6.0) ** 2, np.arange(6) % 3]))
    model = hetmogp_lmc(data, [Gaussian(), Poisson()], inducing=3)
    assert model.scaling.scale[1] == 1
    assert model.scaling.location[1] == 0
    assert model.scaling.scale[0] == pytest.approx(np.std(np.arange(6.0) ** 2))
    assert not has_units(Poisson())
    moved, multiplied = function_units(Poisson(), 1, 5.0, 2.0)
    assert moved.tolist() == [0.0]
    assert multiplied.tolist() == [1.0]


def test_functions_of_a_varying_noise_are_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 10, 40)
    data = MultiOutputData.from_arrays(X, 300 + 50 * np.sin(X) + 10 * rng.normal(size=40))
    model = hetmogp_lmc(data, HeteroscedasticGaussian(), inducing=8)
    f, y = model.predict_f(X), model.predict_y(X)
    mean, log_var = f.mean[:, 0], f.mean[:, 1]
    close(y.mean[:, 0], mean, 50)
    close(y.var[:, 0], f.var[:, 0] + np.exp(log_var + 0.5 * f.var[:, 1]), 2500)


def test_inducing_points_are_given_in_the_units_of_the_data():
    data = MultiOutputData.from_arrays(np.linspace(1000, 2000, 9), np.arange(9.0))
    model = hetmogp_lmc(data, Gaussian(), inducing=given_points([[1250.0], [1750.0]]))
    c, w = model.scaling.centre, model.scaling.width
    assert np.allclose(model.inducing.Z * w + c, [[1250.0], [1750.0]])


def test_data_in_the_units_of_one_model_are_refused_by_another():
    data = MultiOutputData.from_arrays(np.arange(4.0), np.arange(4.0) ** 2)
    one, other = (ExactLMC(data) for _ in range(2))
    assert one.scaled(one.scaled(data)) is not data
    with pytest.raises(ValueError, match="units of another model"):
        other.scaled(one.scaled(data))
    with pytest.raises(ValueError, match="scaling='on'"):
        ExactLMC(data, scaling="on")


# ---------------------------------------------------------------------------------------------------- transforms


def skewed() -> MultiOutputData:
    """A positive and skewed output, one of both signs, over one input."""
    rng = np.random.default_rng(3)
    X = np.linspace(0, 5, 30)
    rain = np.exp(np.sin(X) + 0.3 * rng.normal(size=30))
    return MultiOutputData.from_arrays(X, np.column_stack([rain, rain - 2]), names=["rain", "change"])


@pytest.mark.parametrize("family", ["exact", "sparse"])
@pytest.mark.parametrize("name", ["log", "yeo-johnson"])
def test_a_transform_is_what_a_user_would_do_by_hand(family, name):
    def build(data, scaling):
        if family == "exact":
            return ExactLMC(data, latents=2, scaling=scaling)
        return hetmogp_lmc(data, [Gaussian(0.1), Gaussian(0.1)], latents=2, inducing=5, scaling=scaling)

    data = skewed()
    model = build(data, {"rain": name})
    transform = model.scaling.transform(0)
    rain = data["rain"].Y
    moved = stats.yeojohnson(rain[:, 0], transform.power)[:, None] if name == "yeo-johnson" else np.log(rain)
    own = replace(data, outputs=(replace(data["rain"], Y=moved), data["change"]))
    theirs = build(own, "standard")
    for one, seen in ((model, data), (theirs, own)):
        mogp.fit(one, seen, steps=5, progress=False)
    X = np.array([0.3, 2.1])
    z, y = theirs.predict_y(X), model.predict_y(X)
    draws = np.asarray(theirs.predict_y_samples(X, "rain", 200_000, seed=1))
    back = special.inv_boxcox1p(np.maximum(draws, 0), transform.power) if name == "yeo-johnson" else np.exp(draws)
    if name == "yeo-johnson":
        power = 2 - transform.power
        back = np.where(draws < 0, 1 - (1 - power * np.minimum(draws, 0)) ** (1 / power), back)
    np.testing.assert_allclose(y.mean[:, 0], back.mean(0)[:, 0], rtol=0.02)
    np.testing.assert_allclose(y.var[:, 0], back.var(0)[:, 0], rtol=0.1)
    close(y.mean[:, 1], z.mean[:, 1])
    close(model.predict_f(X).mean, theirs.predict_f(X).mean)
    few = model.predict_y_samples(X, "rain", 200_000, seed=1)
    close(few, back)
    above, below = (stats.yeojohnson(rain[:, 0] + e, transform.power) for e in (1e-6, -1e-6))
    slope = 1 / rain[:, 0] if name == "log" else (above - below) / 2e-6
    known = theirs.predict_log_density(own)["rain"] + np.log(slope)
    np.testing.assert_allclose(model.predict_log_density(data)["rain"], known, rtol=1e-5)
    np.testing.assert_allclose(model.elbo(data), float(theirs.elbo(own)) + np.log(slope).sum(), rtol=1e-6)
    given = {"rain": np.array([2.0, np.nan])}
    told = {"rain": np.array([float(transform.forward(2.0)), np.nan])}
    close(model.predict_y(X, "change", given=given).mean, theirs.predict_y(X, "change", given=told).mean)
    close(model.predict_y(X, "rain", given=given).mean[0], [2.0])


def test_the_density_of_transformed_targets_is_one_over_all_of_them():
    data = skewed()
    model = ExactLMC(data, latents=2, scaling={"rain": "log"})
    y = np.exp(np.linspace(-8, 8, 4001))
    grid = MultiOutputData.from_list([(np.full((len(y), 1), 1.0), y)], names=["rain"])
    density = np.exp(model.predict_log_density(grid)["rain"])
    assert integrate.trapezoid(density, y) == pytest.approx(1.0, abs=1e-4)


def test_transforms_that_cannot_be_are_refused_with_what_to_do():
    data = skewed()
    with pytest.raises(ValueError, match=r"positive ones\. Use 'yeo-johnson'"):
        ExactLMC(data, scaling={"change": "log"})
    with pytest.raises(ValueError, match="choose log or yeo-johnson"):
        ExactLMC(data, scaling={"rain": "sqrt"})
    with pytest.raises(KeyError, match="no output 'snow'"):
        ExactLMC(data, scaling={"snow": "log"})
    with pytest.raises(UnsupportedError, match="Transform the column before"):
        hetmogp_lmc(data, [HeteroscedasticGaussian(), Gaussian()], scaling={"rain": "log"})
    with pytest.raises(UnsupportedError, match="Transform the column before"):
        lvmogp(data, scaling={"rain": "log"})
    with pytest.raises(UnsupportedError, match="Transform the column before"):
        GPAR(data, scaling={"rain": "log"})
