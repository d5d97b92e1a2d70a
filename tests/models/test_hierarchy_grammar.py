"""One grammar for all constructors of hierarchies: kernels, nested replicas, data at the edge."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from dense_latent import common_data, levels_of, uneven_data
from gpflow.kernels import Matern32, Matern52, SquaredExponential
from gpflow.utilities import parameter_dict

from mogp.data import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints, ReplicaPoints, replica_points
from mogp.models import DHGP, HGP, add_outputs, hgp_ind, hmogp_lv, lmc_stacked, lvmogp
from mogp.training import fit, start

SMALL = {"inducing": 2, "latent_inducing": 2}
MODELS = {
    "HMOGP-LV": partial(hmogp_lv, **SMALL),
    "HMOGP-LV, GPLVM": partial(hmogp_lv, **SMALL, start="gplvm"),
    "LVMOGP": partial(lvmogp, **SMALL),
    "HGPInd": partial(hgp_ind, inducing=2),
    "LMC": partial(lmc_stacked, inducing=1),
    "HGP": HGP,
    "DHGP": DHGP,
}
LEVELS = {"HMOGP-LV": 2, "HGPInd": 2, "HGP": 2, "DHGP": 3}


def lengthscales(model) -> list[float]:
    found = parameter_dict(model)
    return [float(p.numpy()) for name, p in found.items() if "lengthscales" in name and "latent_kernel" not in name]


# ------------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("name", MODELS)
def test_one_kernel_is_copied_for_every_place(name):
    kernel = Matern52(lengthscales=0.7)
    model = MODELS[name](common_data(), kernel=kernel)
    found = lengthscales(model)
    np.testing.assert_allclose(found, 0.7)
    assert len(found) >= LEVELS.get(name, 1)
    own = [p for path, p in parameter_dict(model).items() if "lengthscales" in path]
    assert all(p is not kernel.lengthscales for p in own)
    assert kernel.active_dims == slice(None)


@pytest.mark.parametrize("name", LEVELS)
def test_a_sequence_has_a_kernel_for_each_level_from_the_root_on(name):
    kernels = [Matern32(lengthscales=0.5 + i) for i in range(LEVELS[name])]
    model = MODELS[name](common_data(), kernel=kernels)
    expected = [0.5 + i for i in range(LEVELS[name])]
    found = lengthscales(model)
    np.testing.assert_allclose(found, expected * (len(found) // len(expected)))
    assert all(kernel.active_dims == slice(None) for kernel in kernels)


@pytest.mark.parametrize("name", LEVELS)
def test_kernels_that_are_none_are_refused(name):
    for wrong in ([Matern32(), "rbf"], []):
        with pytest.raises(TypeError, match="expected a GPflow kernel for each level of the hierarchy"):
            MODELS[name](common_data(), kernel=wrong)
    with pytest.raises(TypeError, match="kernel is a int; expected a GPflow kernel"):
        MODELS[name](common_data(), kernel=3)


def test_hgp_has_two_levels():
    with pytest.raises(ValueError, match="3 kernels; HGP has two levels: an output, a replica"):
        HGP(common_data(), kernel=[Matern32()] * 3, scaling=None)


def test_a_list_of_nodes_is_a_tree_of_two_levels():
    data = uneven_data()
    flat, deep = (
        hmogp_lv(data, **SMALL, tree=tree, start="random", scaling=None) for tree in ([0, 0, 1], [[0], [0], [1]])
    )
    np.testing.assert_array_equal(flat.elbo(data), deep.elbo(data))
    assert len(lengthscales(flat)) == 2


def test_a_function_makes_kernels():
    model = lmc_stacked(
        common_data(), latents=3, inducing=2, kernel=lambda: SquaredExponential(lengthscales=0.4), scaling=None
    )
    np.testing.assert_allclose(lengthscales(model), [0.4, 0.4, 0.4])


@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
def test_inducing_points_without_replicas_are_refused(make):
    for wrong in (InducingPoints([[0.0]]), 2.0, True):
        with pytest.raises(TypeError, match=r"mogp\.inducing\.ReplicaPoints\(Z, replica\)"):
            make(common_data(), inducing=wrong)


@pytest.mark.parametrize("name", MODELS)
def test_every_constructor_takes_a_seed(name):
    data = common_data()
    assert np.isfinite(MODELS[name](data, seed=3).elbo(data))


# ------------------------------------------------------------------------------------------------------ nested replicas


def nested_and_crossed() -> tuple[MultiOutputData, MultiOutputData]:
    """Replicas nested in outputs, and the same with numbers that are distinct by hand."""
    data = uneven_data()
    own = [o.replica if o.replica is not None else np.zeros(len(o), int) for o in data.outputs]
    outputs = [replace(o, replica=r) for o, r in zip(data.outputs, own, strict=True)]
    apart = [replace(o, replica=10 * d + r) for d, (o, r) in enumerate(zip(outputs, own, strict=True))]
    nested = MultiOutputData(data.X, tuple(outputs), nested=True)
    return nested, MultiOutputData(data.X, tuple(apart))


def as_by_hand(points: ReplicaPoints, outputs: int) -> ReplicaPoints:
    """Replica `r * D + d` as `10 * d + r`."""
    r, d = np.divmod(points.replica, outputs)
    return ReplicaPoints(points.Z.numpy(), 10 * d + r)


@pytest.mark.parametrize("kind", ["pca", "random"])
def test_the_bound_of_nested_replicas_is_that_of_replicas_with_numbers_of_their_own(kind, either_way):
    nested, crossed = nested_and_crossed()
    points = replica_points(nested, 2)
    models = [
        hmogp_lv(nested, inducing=2, latent_inducing=2, start=kind, scaling=None),
        hmogp_lv(crossed, inducing=as_by_hand(points, nested.num_outputs), latent_inducing=2, start=kind, scaling=None),
    ]
    shared = replace(nested, nested=False)
    assert abs(float(models[0].elbo(nested) - models[0].elbo(shared))) > 1e-3
    for model, data in zip(models, (nested, crossed), strict=True):
        start(model, data)
        fit(model, data, steps=2, progress=False)
    np.testing.assert_allclose(models[0].elbo(nested), models[1].elbo(crossed), rtol=1e-8)


def test_points_of_nested_replicas_have_numbers_of_their_own():
    nested, crossed = nested_and_crossed()
    found = as_by_hand(replica_points(nested, 3), nested.num_outputs)
    expected = replica_points(crossed, 3)
    rows = [{tuple(row) for row in np.asarray(points.inputs)} for points in (found, expected)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", ["LVMOGP", "HGPInd", "LMC", "HGP", "DHGP"])
def test_models_without_functions_that_outputs_share_in_a_replica_read_nested_replicas_as_they_are(name, either_way):
    nested, _ = nested_and_crossed()
    crossed = replace(nested, nested=False)
    bounds = []
    for data in (nested, crossed):
        model = MODELS[name](data)
        fit(model, data, steps=2, progress=False)
        bounds.append(float(model.elbo(data)))
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-7)


def test_nested_replicas_have_no_tree_and_no_new_outputs():
    nested, _ = nested_and_crossed()
    with pytest.raises(UnsupportedError, match="have no tree in common"):
        hmogp_lv(nested, tree=[(0, 0), (0, 1), (1, 0)], scaling=None)
    model = hmogp_lv(common_data(), **SMALL, start="random", scaling=None)
    with pytest.raises(UnsupportedError, match="train a new model on all outputs"):
        add_outputs(model, nested)


# --------------------------------------------------------------------------------------------------- data at the edge

X3 = np.random.default_rng(0).normal(size=(6, 3))
EDGES = {
    "an output without rows": MultiOutputData.from_list(
        [([0.0, 1.0, 2.0], [1.0, 0.0, 2.0]), ([], []), ([1.0], [0.5])], replicas=[[0, 1, 1], [], [1]]
    ),
    "an output without rows, common inputs": MultiOutputData.from_arrays(
        np.arange(4.0), np.column_stack([np.arange(4.0), np.full(4, np.nan)]), replica=[0, 0, 1, 1]
    ),
    "one row": MultiOutputData.from_list([([1.0], [2.0])], replicas=[[0]]),
    "one row of two outputs": MultiOutputData.from_list([([1.0], [2.0]), ([], [])]),
    "one output": MultiOutputData.from_arrays(np.arange(4.0), np.sin(np.arange(4.0)), replica=[0, 1, 0, 1]),
    "one replica": MultiOutputData.from_arrays(np.arange(4.0), np.eye(4), replica=[0, 0, 0, 0]),
    "several inputs": MultiOutputData.from_arrays(X3, np.sin(X3[:, :2]), replica=[0, 0, 1, 1, 2, 2]),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("name", MODELS)
def test_data_at_the_edge_are_modelled_and_fitted(name, edge, either_way):
    data = EDGES[edge]
    model = MODELS[name](data)
    assert np.isfinite(model.elbo(data))
    history = fit(model, data, steps=1, progress=False)
    assert history.status == "finished", history.message
    assert np.isfinite(model.elbo(data))
    assert all(np.isfinite(v).all() for v in model.variables)
    assert np.isfinite(model.predict_y(data.X[:1], replica=0).var).all()


def test_kernels_of_levels_leave_those_that_were_given_alone():
    data, kernels = common_data(), levels_of()
    before = [float(k.variance.numpy()) for k in kernels]
    model = hmogp_lv(data, kernel=kernels, **SMALL, scaling=None)
    fit(model, data, steps=2, progress=False)
    assert [float(k.variance.numpy()) for k in kernels] == before


@pytest.mark.parametrize("build", [hmogp_lv, lvmogp])
@pytest.mark.parametrize(("outputs", "expected"), [(3, 3), (25, 20)])
def test_by_default_there_is_a_latent_point_for_each_output_up_to_twenty(build, outputs, expected):
    x = np.tile(np.arange(4.0), 2)
    data = MultiOutputData.from_arrays(x, np.sin(x[:, None] + np.arange(outputs)), replica=np.repeat([0, 1], 4))
    assert build(data, start="random").latent_inducing.shape == (expected, 2)
    assert build(data, latent_inducing=2, start="random").latent_inducing.shape == (2, 2)
