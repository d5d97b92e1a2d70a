"""Runs of multi-class models: what they return, and that units of a parameter change its pace and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from eager import eagerly

from mogp import datasets
from mogp.book.runs.multiclass import METHODS, multiclass_model, multiclass_run, step_cost, stepper

SIZES = dict(data="digits", rows=120, test_rows=40, inducing=3, lengthscale=2.0, batch_size=20, steps=2, every=1)


@pytest.fixture(autouse=True)
def _eagerly() -> Iterator[None]:
    with eagerly():
        yield


@pytest.mark.parametrize("method", ["OvsE-P", "RM-F", "OvsE-LIN"])
def test_a_run_follows_error_and_bound_and_ends_with_its_scores(method):
    found = multiclass_run(method, "real", **SIZES, shown=range(10 if method == "OvsE-P" else 2), samples=20)
    assert found["status"] == "finished"
    assert found["step"] == [0, 1, 2]
    assert len(found["elbo"]) == len(found["elbo_step"]) == 2
    assert 0 <= found["error"] <= 1
    if method == "OvsE-LIN":
        assert "bound" not in found
        return
    # A step trains the inducing images of one class, unless all share them.
    assert np.shape(found["last_images"]) == ((10, 64) if method == "OvsE-P" else (2, 64))
    assert found["first_images"] != found["last_images"]
    assert found["first_entropy"] >= 0
    if method == "OvsE-P":
        assert found["nlpd_bound"] >= found["nlpd_normalised"]


def test_units_leave_values_and_bound_alone_and_scale_the_step():
    data = datasets.load("digits").take(np.arange(60)).data
    plain, scaled = (
        multiclass_model("OvsE-P", data, inducing=2, lengthscale=2.0, pace=pace, mean_pace=pace) for pace in (1.0, 0.1)
    )
    np.testing.assert_allclose(scaled.elbo(data), plain.elbo(data), rtol=1e-12)
    before = plain.inducing.Z.numpy()
    for model in (plain, scaled):
        adam = stepper("Adam", 0.01, 1, decay=False, lazy=True)
        adam.start(model)
        adam.step(model, lambda model=model: model.training_loss(data))
    for one, other, start in (
        (plain.inducing.Z, scaled.inducing.Z, before),
        (plain.posterior.mu, scaled.posterior.mu, 0.0),
    ):
        moved = one.numpy() - start
        clear = np.abs(moved) > 0.01 * (1 - 1e-4)
        assert clear.mean() > 0.5
        np.testing.assert_allclose((other.numpy() - start)[clear], 0.1 * moved[clear], rtol=1e-2)


def test_parameters_are_counted_as_in_the_thesis():
    for method in METHODS:
        found = step_cost(method, classes=3, inducing=4, inputs=5, rows=30, batch_size=6, steps=1)
        q = 3 * (2 * 4 if "-P" in method else 4 + 10)
        sets = 3 if method in ("OvsE-P", "OvsE-F") else 1
        assert found["variational"] == q + sets * 4 * 5
        assert found["parameters"] == found["variational"] + 3 + (6 if method == "OvsE-P-SH" else 2)
        assert found["step_seconds"] > 0


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="no method 'OvsE'; there are OvsE-P"):
        multiclass_run("OvsE", "real", **SIZES)
    with pytest.raises(ValueError, match="no optimiser 'SGD'; there are AdaDelta"):
        stepper("SGD", 0.1, 1, decay=False, lazy=False)
