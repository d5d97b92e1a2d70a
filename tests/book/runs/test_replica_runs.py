"""Runs of the models of HMOGP-LV: what they give back, and that their scores are what they are said to be."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import mogp
from mogp import datasets, metrics
from mogp.book.runs.hierarchies import ALL, MODELS, STUDIES, AsOne, replica_run, stacked, study
from mogp.training import History

SMALL = {"steps": 2, "iterations": 2, "epochs": 2, "inducing": 2, "latent_inducing": 2, "most_rows": 60}
"""Ten outputs with three replicas; one point of each replica of the last output is observed."""


@pytest.mark.parametrize("model", MODELS)
def test_every_model_runs_and_scores_what_it_predicts(model):
    """H17: NLPD is the mean negative normal log density, NMSE the squared error over that of the test mean."""
    grid = 3 if model in ("HMOGP-LV", "NN", "HGPInd, as published") else 0
    start = "pca" if model == "HMOGP-LV" else "random"
    found = replica_run("hmogp-synth-4", "synthetic", model, grid=grid, start=start, **SMALL)
    test = datasets.load("hmogp-synth-4").test
    np.testing.assert_array_equal(found["test_target"], test.Y[:, 0])
    np.testing.assert_array_equal(found["test_x"], test.X[:, 0])
    np.testing.assert_array_equal(found["test_replica"], test.replica)
    np.testing.assert_array_equal(found["test_output"], test.output)
    y, mean, sd = (found[f"test_{k}"] for k in ("target", "mean", "sd"))
    assert np.isfinite(mean).all()
    np.testing.assert_allclose(found["nmse"], np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2), rtol=1e-9)
    if model == "NN":
        assert np.isnan(found["nlpd"])
    else:
        np.testing.assert_allclose(found["nlpd"], -np.mean(norm.logpdf(y, mean, sd)), rtol=1e-9)
        np.testing.assert_allclose(found["coverage"], np.mean(np.abs(y - mean) <= 2 * sd), rtol=1e-9)
        assert 1 <= found["trained"] <= 2
    if model in ("HMOGP-LV", "LVMOGP"):
        assert found["latent"].shape == found["latent_var"].shape == (10, 2)
    if grid:
        assert found["grid_mean"].shape == found["grid_sd"].shape == (10, 3, 3)


def test_nmse_of_the_constant_test_mean_is_one():
    """H17."""
    y = np.random.default_rng(0).normal(3, 2, 40)
    assert metrics.nmse(y, np.full(40, y.mean())) == pytest.approx(1, rel=1e-12)
    assert metrics.nlpd(norm.logpdf(y, 3, 2)) == pytest.approx(-np.mean(norm.logpdf(y, 3, 2)), rel=1e-12)


def test_an_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model='GP'; choose one of 'HMOGP-LV'"):
        replica_run("hmogp-synth-4", "synthetic", "GP", **SMALL)


@pytest.mark.parametrize("name", STUDIES)
def test_points_of_a_study_are_arguments_of_a_run(name):
    points = study(name, "synthetic", repetitions=2, steps=3)
    assert {p["model"] for p in points} == set(STUDIES[name]["models"]) <= set(MODELS)
    assert len(points) == 2 * len(STUDIES[name]["models"])
    for point in points:
        inspect.signature(replica_run).bind(**point)
    assert [p["repetition"] for p in points[:2]] == [0, 1]


def test_some_models_of_a_study():
    assert [p["model"] for p in study("genes", "real", repetitions=1, models=("LMC", "HGP"))] == ["LMC", "HGP"]
    with pytest.raises(ValueError, match=r"synthetic 2 has no HGP; its models are HMOGP-LV"):
        study("synthetic 2", "synthetic", repetitions=1, models=("HGP",))
    with pytest.raises(KeyError):
        study("synthetic 9", "synthetic", repetitions=1)
    assert set(ALL) < set(MODELS)


@pytest.mark.parametrize("name", ["hmogp-synth-2", "hmogp-synth-3"])
def test_train_and_test_parts_agree_on_the_numbers_of_replicas(name):
    """A replica that an output misses in the training part is the one it is tested on, under its own number."""
    whole = datasets.load(name, repetition=1, **({"protocol": "replica"} if name == "hmogp-synth-3" else {}))
    train, test = whole.train.data, whole.test.data
    R = int(whole.replica.max()) + 1
    for d, (seen, held) in enumerate(zip(train.outputs, test.outputs, strict=True)):
        assert set(held.replica) == {(d + 1) % R}
        assert set(seen.replica) == set(range(R)) - set(held.replica)


def test_genes_keep_the_numbers_of_their_replicas():
    """Four genes and eight replicas: the test part never has all numbers."""
    whole = datasets.load("kalinka", stand_in="only", protocol="replica", repetition=5)
    for d, (seen, held) in enumerate(zip(whole.train.data.outputs, whole.test.data.outputs, strict=True)):
        assert set(held.replica) == {(d + 5) % 8}
        assert set(seen.replica) == set(range(8)) - {(d + 5) % 8}
    rows = stacked(whole.test.data)
    np.testing.assert_array_equal(rows.outputs[0].replica, np.concatenate([o.replica for o in whole.test.data.outputs]))


def test_outputs_stacked_as_one_keep_their_rows_and_their_names():
    data = datasets.load("hmogp-synth-4").test.data
    one = stacked(data)
    assert one.num_outputs == 1
    np.testing.assert_array_equal(one.outputs[0].Y, np.concatenate([o.Y for o in data.outputs]))

    class Constant:
        def predictions(self, rows, quantiles=()):
            return pd.DataFrame({"output": "all", "observed": rows.outputs[0].Y[:, 0]})

    table = AsOne(Constant()).predictions(data)
    for name, part in table.groupby("output"):
        np.testing.assert_array_equal(part["observed"], data[name].Y[:, 0])


def test_a_run_that_failed_is_no_result(monkeypatch):
    failed = History(elbo=-np.arange(7.0), status="failed", message="no Cholesky factor")
    monkeypatch.setattr(mogp, "fit", lambda *args, **options: failed)
    with pytest.raises(RuntimeError, match="LMC: no Cholesky factor"):
        replica_run(data="hmogp-synth-3", source="synthetic", model="LMC", inducing=2)
