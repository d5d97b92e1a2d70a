"""Every model in single precision: it trains, stays finite, and predicts what it does in double precision."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from case_data import new_inputs
from cases import CASES, Case

import mogp
from mogp.data import MultiOutputData
from mogp.likelihoods import Gaussian
from mogp.models import GPAR, hetmogp_lmc
from mogp.models.exact.base import ExactMOGP
from mogp.optimizers import Adam

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDED = {"rtol": 1e-3, "atol": 1e-4}
"""Rounding of float32 (6e-8), times what conditions of Kuu of up to 1e4 make of it."""


FIRST = {case.row: case for case in reversed(CASES)}
ASKED = [case for case in CASES if not case.sampled or FIRST[case.row] is case]
"""All but variants of chains, which take seconds each."""
ERRORS, PATHS = 5, 100
"""Averages over at least so many random paths, which differ in float32, are this many standard errors apart."""
JITTERED = gpflow.config.Config(jitter=1e-4)
"""Double precision with the jitter of float32, for kernels of variance 1."""


@pytest.fixture(autouse=True)
def eagerly():
    """Tracing takes longer than a step; compiled steps in float32 are in `test_training.py`."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def predicted(model: Any, X: Any) -> list[np.ndarray]:
    """Moments of the targets."""
    return [np.asarray(a) for a in model.predict_y(X, **({"replica": 1} if model.has_replicas else {}))]


def by_adam(model: Any) -> dict[str, Any]:
    """Adam, which leaves a model the posterior that it was built with; none where only L-BFGS serves."""
    return {} if isinstance(model, ExactMOGP | GPAR) else {"optimizer": Adam(0.01)}


def take(model: Any, other: Any) -> Any:
    """The model with the values of another one."""
    for mine, theirs in zip(model.variables, other.variables, strict=True):
        mine.assign(tf.cast(theirs, mine.dtype))
    return model


@pytest.mark.parametrize("case", ASKED, ids=[case.name for case in ASKED])
def test_a_model_trains_in_float32_and_predicts_as_in_float64(case: Case):
    data = case.data("several", 0)
    X = new_inputs(data)[:2]
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = case.build(data)
        assert {v.dtype for v in single.trainable_variables} == {tf.float32}
        before = [v.numpy() for v in single.trainable_variables]
        history = mogp.fit(single, data, steps=1, progress=False, **by_adam(single))
        found = predicted(single, X)
    assert history.status == "finished"
    assert np.isfinite(history.elbo).all()
    after = [v.numpy() for v in single.trainable_variables]
    assert all(np.isfinite(own).all() for own in after)
    assert any((one != two).any() for one, two in zip(before, after, strict=True))
    with gpflow.config.as_context(JITTERED):
        mean, var = predicted(take(case.build(data), single), X)
    assert [a.dtype for a in found] == [np.float32] * 2
    if case.sampled:
        assert (np.abs(found[0] - mean) < ERRORS * np.sqrt(var / PATHS)).all()
        assert (found[1] > 0).all()
    else:
        np.testing.assert_allclose(found[0], mean, **ROUNDED)
        np.testing.assert_allclose(found[1], var, **ROUNDED)


@pytest.mark.parametrize("whiten", [True, False])
def test_inducing_points_that_lie_close_together_are_no_trouble_in_float32(whiten):
    """Bound, KL and variances are those of float64 with the same jitter, after training too."""
    x = np.linspace(0, 1, 60)
    data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(6 * x), np.cos(6 * x)]))

    def build() -> Any:
        return hetmogp_lmc(data, {n: Gaussian(0.1) for n in data.names}, latents=2, inducing=40, whiten=whiten)

    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = build()
        start = float(single.elbo(data))
        history = mogp.fit(single, data, steps=30, optimizer=Adam(0.02), progress=False)
        found = [single.elbo(data), *single.predict_f(x)]
    assert history.status == "finished"
    assert start < float(found[0])
    with gpflow.config.as_context(JITTERED):
        double = take(build(), single)
        bound, mean, var = double.elbo(data), *double.predict_f(x)
    np.testing.assert_allclose(found[0], bound, rtol=1e-2)
    np.testing.assert_allclose(found[1], mean, atol=2e-3)
    np.testing.assert_allclose(found[2], var, rtol=1e-2)
