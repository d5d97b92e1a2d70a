"""The contract of `mogp.models.base`: every model answers the same calls in the same way.

`cases.py` builds the models; what one of them cannot do is listed there, and raises `UnsupportedError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from case_data import KINDS, Data, Kind, new_frame, new_inputs
from cases import CALLS, CASES, Case, handmade, run_of
from eager import eagerly
from scipy import sparse, stats

import mogp
from mogp.data import LabelData, MultiOutputData
from mogp.errors import UnsupportedError
from mogp.models import GPAR
from mogp.models.base import MOGP
from mogp.priors import Marginals
from mogp.project import data_folder

pytestmark = pytest.mark.filterwarnings("ignore")

REFUSED = (ValueError, KeyError)
SAMPLES = 1000
ERRORS = 5
"""Standard errors that a mean over draws may be away from what it estimates."""
JITTER = 1e-6
"""What a Cholesky factor may add to the variance of a draw."""
PATHS = 100
"""Paths behind a prediction that is itself an average over draws, at least."""


def _each(keep: Callable[[Case], Any] = lambda case: True, kinds: tuple[Kind, ...] = KINDS) -> pytest.MarkDecorator:
    """Parametrise over cases and the kinds of data they can have. (The ids group a case's tests for xdist.)"""
    pairs = [(case, kind) for case in CASES if keep(case) for kind in kinds if kind in case.kinds]
    asked = [pytest.param(case, kind, id=f"{case.name}:{kind}", marks=run_of(case)) for case, kind in pairs]
    return pytest.mark.parametrize(("case", "kind"), asked)


each = _each()
twice = _each(kinds=("several", "gap"))
first = _each(kinds=("several",))
FIRST = {case.row: case.name for case in reversed(CASES)}
COMPILED = {case.name for case in CASES if not run_of(case)} | set(FIRST.values())
"""Of each row the ablest case and the first are compiled, on their first kind of data: others take longer to trace."""


@pytest.fixture(autouse=True)
def _traced(request: pytest.FixtureRequest) -> Iterator[None]:
    asked = getattr(request.node, "callspec", None)
    case, kind = (asked.params.get(name) for name in ("case", "kind")) if asked else (None, None)
    with nullcontext() if kind == "several" and case.name in COMPILED else eagerly():
        yield


@functools.lru_cache(len(KINDS))
def _trained(name: str, kind: Kind) -> tuple[Any, Any, Any]:
    case = next(case for case in CASES if case.name == name)
    data = case.data(kind, 0)
    model = case.build(data)
    return model, data, mogp.fit(model, data, steps=2, progress=False)


def trained(case: Case, kind: Kind) -> tuple[Any, Any]:
    """The model after two steps, and its data; made once, as a case's tests stand together."""
    return _trained(case.name, kind)[:2]


def cannot(case: Case, call: str, ask: Callable[[], Any]) -> bool:
    """Whether the case cannot do a call: then it must say so, and why."""
    if call not in case.exceptions:
        return False
    with pytest.raises(UnsupportedError, match=r"\w+ \w+"):
        ask()
    return True


def pair(answer: Any) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(answer, Marginals)
    return np.asarray(answer.mean), np.asarray(answer.var)


@functools.lru_cache(len(KINDS))
def columns_of(model: Any) -> tuple[tuple[str, Any], ...]:
    """The columns of a model, which it finds by a prediction: asked for once."""
    columns: tuple[tuple[str, Any], ...] = model.columns
    return columns


def is_classes(model: Any, data: Data, name: str) -> bool:
    """Whether predictions of an output are probabilities of its classes."""
    return isinstance(data, MultiOutputData) and sum(output == name for output, _ in columns_of(model)) > 1


def targets_of(model: Any, name: str) -> list[int]:
    """Columns of `predict_y` that are of an output."""
    return [c for c, (output, _) in enumerate(columns_of(model)) if output == name]


def reported(model: Any) -> list[str]:
    """Outputs of the data. (An augmented model has a copy of its output, which is not one of them.)"""
    return [model.names[d] for d in model.reported]


def reversed_outputs(data: MultiOutputData) -> MultiOutputData:
    return replace(data, outputs=data.outputs[::-1])


def renamed(data: Data) -> Data:
    """Data of outputs with other names."""
    if isinstance(data, LabelData):
        return replace(data, name="something else")
    return replace(data, outputs=tuple(replace(o, name=f"other {d}") for d, o in enumerate(data.outputs)))


# ---------------------------------------------------------------------------- the table of models


def test_cases_are_all_rows_of_the_table_of_models():
    table = pd.read_csv(data_folder() / "models.csv")
    assert {case.row for case in CASES if case.row is not None} == set(table["model"])
    assert len({case.name for case in CASES}) == len(CASES)
    assert not [case.name for case in CASES if ":" in case.name]


@pytest.mark.parametrize("case", [case for case in CASES if case.row], ids=lambda case: case.name)
def test_case_calls_the_constructor_that_the_table_names(case):
    table = pd.read_csv(data_folder() / "models.csv").set_index("model")
    called = set(case.build.__code__.co_names)
    if handmade.__name__ in called:
        called |= set(handmade.__code__.co_names)
    assert table.loc[case.row, "constructor"] in called


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exceptions_are_calls_with_a_reason(case):
    assert set(case.exceptions) <= set(CALLS)
    assert set(case.refused) <= set(KINDS)
    assert all(len(reason.split()) > 2 for reason in (*case.exceptions.values(), *case.refused.values()))


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for case in CASES for kind in case.refused],
    ids=lambda value: getattr(value, "name", value),
)
def test_data_that_a_model_cannot_have_are_refused_when_it_is_built(case, kind):
    if case.name in ("MOCGPs-AR", "Bayesian GPLVM"):
        pytest.skip("such data cannot be made")
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        case.build(case.data(kind, 0))


# ---------------------------------------------------------------------------- training


@each
def test_fit(case, kind):
    history = _trained(case.name, kind)[2]
    assert isinstance(history, mogp.History)
    assert history.steps >= 1
    assert np.isfinite(history.elbo).all()


@_each(lambda case: case.holds_data, ("several", "gap"))
def test_fit_refuses_other_data_where_a_model_holds_its_own(case, kind):
    model, _ = trained(case, kind)
    with pytest.raises(ValueError, match=r"(?i)data"):
        mogp.fit(model, case.data(kind, 1), steps=1, progress=False)


@each
def test_names_and_columns(case, kind):
    model, data = trained(case, kind)
    assert isinstance(model, MOGP)
    assert tuple(reported(model)) == data.names
    columns = model.columns
    assert isinstance(columns, tuple)
    assert [len(column) for column in columns] == [2] * len(columns)
    outputs = [output for output, _ in columns]
    assert list(dict.fromkeys(outputs)) == reported(model)
    assert len(set(columns)) == len(columns)
    for own in data.outputs if isinstance(data, MultiOutputData) else ():
        if own.classes is not None:
            assert tuple(target for output, target in columns if output == own.name) == own.classes


# ---------------------------------------------------------------------------- moments


@each
def test_predict_f(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    mean, var = pair(model.predict_f(X))
    assert mean.shape == var.shape
    assert mean.shape[0] == len(X)
    assert np.isfinite(mean).all()
    assert (var >= 0).all()
    if kind != "several":
        return
    parts = [pair(model.predict_f(X, output=name)) for name in model.names]
    np.testing.assert_allclose(np.hstack([m for m, _ in parts]), mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.hstack([v for _, v in parts]), var, rtol=1e-6, atol=1e-8)
    by_position = pair(model.predict_f(X, len(model.names) - 1))
    np.testing.assert_allclose(by_position[0], parts[-1][0], rtol=1e-6, atol=1e-8)


@_each(kinds=("several", "row"))
def test_full_cov(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    if cannot(case, "full_cov", lambda: model.predict_f(X, full_cov=True)):
        return
    mean, var = pair(model.predict_f(X))
    joint_mean, cov = pair(model.predict_f(X, full_cov=True))
    assert cov.shape == (mean.shape[1], len(X), len(X))
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2).T, var, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cov, np.swapaxes(cov, 1, 2), atol=1e-8)
    assert np.linalg.eigvalsh(cov).min() > -1e-5 * max(1.0, var.max())
    one = pair(model.predict_f(X, model.names[0], full_cov=True))[1]
    np.testing.assert_allclose(one, cov[: len(one)], rtol=1e-6, atol=1e-8)


@each
def test_predict_y(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    mean, var = pair(model.predict_y(X))
    assert mean.shape == var.shape == (len(X), len(columns_of(model)))
    assert np.isfinite(mean).all()
    assert np.isfinite(var).all()
    assert (var >= 0).all()
    for name in reported(model):
        columns = targets_of(model, name)
        if is_classes(model, data, name):
            np.testing.assert_allclose(mean[:, columns].sum(1), 1, rtol=1e-4)
            assert (mean[:, columns] >= 0).all()
        if kind == "several":
            own, spread = pair(model.predict_y(X, name))
            np.testing.assert_allclose(own, mean[:, columns], rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(spread, var[:, columns], rtol=1e-6, atol=1e-8)


@each
def test_predict_log_density(case, kind):
    model, data = trained(case, kind)
    found = model.predict_log_density(data)
    assert tuple(found) == data.names
    sizes = (data.num_points,) if isinstance(data, LabelData) else data.sizes
    for values, size in zip(found.values(), sizes, strict=True):
        assert np.shape(values) == (size,)
        assert np.isfinite(values).all()
    if case.truth is not None:
        (values,) = model.predict_log_density(case.truth(kind, 0)).values()
        assert np.isfinite(values).all()


@_each(lambda case: case.gaussian)
def test_log_density_is_that_of_the_predicted_gaussian(case, kind):
    model, data = trained(case, kind)
    found = model.predict_log_density(data)
    for own in data.outputs:
        replica = {} if own.replica is None else {"replica": own.replica}
        mean, var = pair(model.predict_y(data.inputs(own.name), own.name, **replica))
        expected = stats.norm(mean[:, 0], np.sqrt(var[:, 0])).logpdf(own.Y[:, 0])
        np.testing.assert_allclose(found[own.name], expected, rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------------- draws


@each
def test_same_seed_same_draws(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data, 3)
    f = np.asarray(model.predict_f_samples(X, samples=2, seed=5))
    assert f.shape[:2] == (2, 3)
    assert np.isfinite(f).all()
    np.testing.assert_array_equal(model.predict_f_samples(X, samples=2, seed=5), f)
    y = np.asarray(model.predict_y_samples(X, samples=2, seed=5))
    assert y.shape[:2] == (2, 3)
    np.testing.assert_array_equal(model.predict_y_samples(X, samples=2, seed=5), y)


@first
def test_draws_of_one_output(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data, 3)
    functions = np.shape(model.predict_f(X).mean)[1]
    parts = [np.shape(model.predict_f_samples(X, name, samples=2))[2] for name in model.names]
    assert sum(parts) == functions
    y = model.predict_y_samples(X, samples=2, seed=5)
    own = [np.shape(model.predict_y_samples(X, name, samples=2)) for name in reported(model)]
    assert sum(shape[2] for shape in own) == np.shape(y)[2]
    for name, shape in zip(reported(model), own, strict=True):
        assert shape == (2, 3, 1 if is_classes(model, data, name) else len(targets_of(model, name)))
    assert np.shape(model.predict_f_samples(X)) == (1, 3, functions)


def close_moments(draws: np.ndarray, mean: np.ndarray, var: np.ndarray, sampled: bool) -> None:
    """Draws `[S, N, T]` have these moments, within Monte-Carlo error (that of the moments too, if they are sampled)."""
    S = len(draws)
    more = np.sqrt(1 + S / PATHS) if sampled else 1.0
    centred = draws - draws.mean(0)
    spread = centred.var(0)
    tiny = 1e-9 + 1e-4 * np.sqrt(var)
    error = more * np.sqrt(np.maximum(spread, var) / S)
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), ERRORS * error + tiny)
    of_var = more * np.sqrt((np.mean(centred**4, 0) - spread**2).clip(min=2 * spread**2) / S)
    np.testing.assert_array_less(np.abs(spread - var), ERRORS * of_var + JITTER + 1e-3 * var)


@first
def test_draws_have_the_moments_of_predictions(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data, 3)
    f = np.asarray(model.predict_f_samples(X, samples=SAMPLES, seed=1))
    close_moments(f, *pair(model.predict_f(X)), case.sampled)
    for name in model.names:
        y = np.asarray(model.predict_y_samples(X, name, samples=SAMPLES, seed=2))
        mean, var = pair(model.predict_y(X, name))
        if is_classes(model, data, name):
            assert set(np.unique(y)) <= set(range(mean.shape[1]))
            y = (y == np.arange(mean.shape[1])).astype(float)
        close_moments(y, mean, var, case.sampled)


@first
def test_draws_of_functions_are_joint_over_inputs(case, kind):
    model, data = trained(case, kind)
    one = new_inputs(data, 1)
    f = np.asarray(model.predict_f_samples(np.concatenate([one, one + 1e-6]), samples=50, seed=3))
    apart = np.sqrt(np.mean((f[:, 0] - f[:, 1]) ** 2, 0))
    near = apart <= 0.1 * f[:, 0].std(0) + np.sqrt(JITTER)
    if isinstance(model, GPAR):
        near = near[[model.names.index(model.order[0])]]  # later layers read values with noise
    assert near.all()


# ---------------------------------------------------------------------------- tables


def check_table(found: pd.DataFrame, model: Any, inputs: list[str], more: list[str]) -> None:
    wanted = ["row", *inputs, "output", "target", "mean", "sd", "q0.025", "q0.5", "q0.975", *more]
    assert [c for c in found.columns if c in wanted] == wanted
    assert set(found.columns) <= {*wanted, "replica"}
    assert np.isfinite(found[["mean", "sd", "q0.025", "q0.5", "q0.975"]]).all(axis=None)
    assert (found["q0.025"] <= found["q0.5"]).all()
    assert (found["q0.5"] <= found["q0.975"]).all()
    assert set(zip(found["output"], found["target"], strict=True)) <= set(columns_of(model))


@each
def test_predict(case, kind):
    model, data = trained(case, kind)
    named = isinstance(data, MultiOutputData)
    X = new_frame(data) if named else pd.DataFrame(new_inputs(data), index=[f"new {n}" for n in range(4)])
    found = model.predict(X, samples=20, seed=0)
    names = list(data.input_names) if named else [c for c in found.columns if str(c).startswith("x")]
    check_table(found, model, names, [])
    assert len(found) == len(X) * len(columns_of(model))
    for row, part in found.groupby("row", sort=False):
        assert list(zip(part["output"], part["target"], strict=True)) == list(columns_of(model))
        for name, value in zip(names, X.loc[row], strict=True):
            assert (part[name] == value).all()
    if kind == "one" and named and data.columns[0].date:
        assert found[names[0]].dtype.kind == "M"
    assert list(dict.fromkeys(found["row"])) == list(X.index)
    mean, var = pair(model.predict_y(X))
    wide = found.pivot(index="row", columns=["output", "target"])
    np.testing.assert_allclose(wide["mean"].loc[X.index, list(columns_of(model))], mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(wide["sd"].loc[X.index, list(columns_of(model))], np.sqrt(var), rtol=1e-6, atol=1e-8)


@first
def test_predict_one_output(case, kind):
    model, data = trained(case, kind)
    one = model.predict(new_inputs(data), reported(model)[-1], quantiles=(0.1,), samples=20)
    assert set(one["output"]) == {reported(model)[-1]}
    assert [c for c in one.columns if str(c).startswith("q0")] == ["q0.1"]


@_each(kinds=("one", "row", "gap"))
def test_predictions(case, kind):
    model, data = trained(case, kind)
    asked = data if case.truth is None else case.truth(kind, 0)
    if cannot(case, "predictions", lambda: model.predictions(asked)):
        return
    found = model.predictions(asked)
    assert "observed" in found.columns
    assert np.isfinite(found["observed"]).all()
    if isinstance(asked, LabelData):
        assert len(found) == asked.num_points * asked.num_labels
        assert found["observed"].sum() == asked.Y.nnz
        return
    check_table(found.drop(columns="observed"), model, list(asked.input_names), [])
    for own in asked.outputs:
        part = found[found["output"] == own.name]
        if is_classes(model, data, own.name):
            assert len(part) == len(own) * len(targets_of(model, own.name))
            assert set(part["observed"]) <= {0, 1}
            assert part["observed"].sum() == len(own)
        else:
            np.testing.assert_allclose(part["observed"], own.Y[:, 0])


# ---------------------------------------------------------------------------- replicas, and what is known


@twice
def test_replica(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    if cannot(case, "replica", lambda: model.predict_y(X, replica=0)):
        with pytest.raises(UnsupportedError):
            model.predict_f(X, replica=0)
        return
    shape = (len(X), len(columns_of(model)))
    one = pair(model.predict_y(X, replica=1))
    assert one[0].shape == shape
    several = pair(model.predict_y(X, replica=np.array([1, 0, 1, 0])))
    np.testing.assert_allclose(several[0][[0, 2]], one[0][[0, 2]], rtol=1e-6, atol=1e-8)
    assert np.shape(model.predict_f(X, model.names[0], replica=2).mean)[0] == len(X)
    with pytest.raises(ValueError, match="replica"):
        model.predict_y(X, replica=-1)


@twice
def test_given(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    known = {model.names[0]: np.asarray(model.predict_y(X, model.names[0]).mean)[:, 0]}
    if cannot(case, "given", lambda: model.predict_y(X, given=known)):
        with pytest.raises(UnsupportedError):
            model.predict_f(X, given=known)
        return
    last = model.names[-1]
    for ask in (model.predict_y, model.predict_f):
        mean, var = pair(ask(X, given=known))
        assert mean.shape == np.shape(ask(X).mean)
        assert np.isfinite(mean).all()
        assert (var >= 0).all()
    nothing = pair(model.predict_y(X, last, given={model.names[0]: np.full(len(X), np.nan)}))
    free = pair(model.predict_y(X, last))
    np.testing.assert_allclose(nothing[0], free[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nothing[1], free[1], rtol=1e-5, atol=1e-6)
    if not case.sampled:
        check_given(case, model, X, known)
    with pytest.raises(REFUSED, match="no such"):
        model.predict_y(X, given={"no such": np.zeros(len(X))})
    with pytest.raises(ValueError, match=str(len(X))):
        model.predict_y(X, given={model.names[0]: np.zeros(len(X) + 1)})


def check_given(case: Case, model: Any, X: np.ndarray, known: dict[str, np.ndarray]) -> None:
    """What is known is predicted as itself, and nothing is told better by less; draws and tables know it too."""
    ((first, values),) = known.items()
    some = {first: np.where([True, False, True, False], values + 0.1, np.nan)}
    mean, var = pair(model.predict_y(X, first, given=some))
    np.testing.assert_allclose(mean[[0, 2], 0], some[first][[0, 2]], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(var[[0, 2], 0], 0)
    f = pair(model.predict_f(X, given=some))
    assert (f[1] <= pair(model.predict_f(X))[1] + 1e-8).all()
    assert (pair(model.predict_f(X, given=known))[1] <= f[1] + 1e-8).all()
    assert (pair(model.predict_y(X, given=some))[1] <= pair(model.predict_y(X))[1] + 1e-8).all()
    joint = pair(model.predict_f(X, given=some, full_cov=True))
    np.testing.assert_allclose(joint[0], f[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.diagonal(joint[1], axis1=1, axis2=2).T, f[1], rtol=1e-4, atol=1e-5)
    draws = np.asarray(model.predict_f_samples(X, given=some, samples=SAMPLES, seed=1))
    close_moments(draws, *f, sampled=False)
    draws = np.asarray(model.predict_y_samples(X, given=some, samples=SAMPLES, seed=1))
    np.testing.assert_allclose(draws[:, [0, 2], 0], np.tile(mean[[0, 2], 0], (SAMPLES, 1)), rtol=1e-12)
    close_moments(draws, *pair(model.predict_y(X, given=some)), sampled=False)
    table = model.predict(X, first, given=some, samples=20)
    np.testing.assert_allclose(table["mean"], mean[:, 0], rtol=1e-10)
    np.testing.assert_allclose(table["sd"], np.sqrt(var[:, 0]), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(table["q0.5"][[0, 2]], mean[[0, 2], 0], rtol=1e-12)


# ---------------------------------------------------------------------------- files, citations, figures, words


@first
def test_save_and_load(case, kind, tmp_path):
    model, data = trained(case, kind)
    again = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    X = new_inputs(data)
    for one, other in zip(model.predict_y(X), again.predict_y(X), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10)
    assert (again.names, again.columns) == (model.names, columns_of(model))
    found = again.predict_log_density(data)
    for name, values in model.predict_log_density(data).items():
        np.testing.assert_allclose(found[name], values, rtol=1e-8)


@first
def test_cite(case, kind):
    assert mogp.cite(trained(case, kind)[0]).startswith("@")


@first
def test_print(case, kind):
    model, data = trained(case, kind)
    said = str(model)
    assert type(model).__name__ in said
    shown = model.names[0]
    assert shown in said or str(len(model.names)) in said
    assert str(data.input_dim) in said
    assert "object at 0x" not in said
    assert len(said.splitlines()) < 60


@_each(kinds=("one", "gap"))
def test_plot(case, kind):
    import matplotlib.pyplot as plt

    model, data = trained(case, kind)
    if cannot(case, "plot", lambda: mogp.plotting.predictions(model, data)):
        return
    asked = data if case.truth is None else case.truth(kind, 0)
    figure = mogp.plotting.predictions(model, asked, points=5, samples=10)
    try:
        figure.canvas.draw()
        assert len(figure.axes) >= 1
        assert all(ax.has_data() for ax, n in zip(figure.axes, getattr(asked, "sizes", ()), strict=False) if n)
    finally:
        plt.close(figure)


# ---------------------------------------------------------------------------- what is refused


def asked_at(model: Any, X: Any) -> list[Callable[[], Any]]:
    """Every call that takes inputs."""
    return [
        lambda: model.predict_f(X),
        lambda: model.predict_y(X),
        lambda: model.predict_f_samples(X),
        lambda: model.predict_y_samples(X),
        lambda: model.predict(X, samples=2),
    ]


@first
def test_unknown_outputs_are_refused(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    for ask in (model.predict_f, model.predict_y, model.predict_f_samples, model.predict_y_samples, model.predict):
        with pytest.raises(REFUSED, match="no such"):
            ask(X, output="no such")
        with pytest.raises((ValueError, IndexError), match="99"):
            ask(X, output=99)


@first
def test_inputs_with_other_columns_or_nan_are_refused(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    wide = np.column_stack([X, X[:, 0]])
    for ask in asked_at(model, wide):
        with pytest.raises(ValueError, match=str(data.input_dim)):
            ask()
    X[1, 0] = np.nan
    for ask in asked_at(model, X):
        with pytest.raises(ValueError, match=r"(?i)nan|finite"):
            ask()


@twice
def test_data_of_other_outputs_are_refused(case, kind):
    model, data = trained(case, kind)
    wrong = {"other": renamed(data)}
    if data.num_outputs > 1:
        wrong["order"] = reversed_outputs(data)
    fewer = replace(data, outputs=data.outputs[:-1]) if data.num_outputs > 1 else None
    if fewer is not None and any(fewer.sizes):
        with pytest.raises(REFUSED, match=fewer.names[0]):
            mogp.fit(model, fewer, steps=1, progress=False)
        some, whole = model.predict_log_density(fewer), model.predict_log_density(data)
        assert list(some) == list(fewer.names)
        if not case.sampled:
            np.testing.assert_allclose(some[fewer.names[0]], whole[fewer.names[0]], rtol=1e-6)
    for other in wrong.values():
        for ask in (
            lambda other=other: mogp.fit(model, other, steps=1, progress=False),
            lambda other=other: model.predict_log_density(other),
            lambda other=other: model.predictions(other),
        ):
            with pytest.raises(REFUSED, match=other.names[0]):
                ask()


@_each(lambda case: isinstance(case.data("several", 0), MultiOutputData), ("several",))
def test_inputs_are_read_by_name_and_other_names_are_refused(case, kind):
    model, data = trained(case, kind)
    if data.columns[0].name is None:
        return
    X = new_frame(data)
    mean = pair(model.predict_y(X))[0]
    np.testing.assert_allclose(mean, model.predict_y(X.to_numpy()).mean, rtol=1e-10)
    np.testing.assert_allclose(mean, model.predict_y(X[X.columns[::-1]]).mean, rtol=1e-10)
    for ask in asked_at(model, X.rename(columns={X.columns[0]: "elsewhere"})):
        with pytest.raises(ValueError, match=X.columns[0]):
            ask()
    swapped = replace(data, columns=data.columns[::-1])
    other = replace(data, columns=(replace(data.columns[0], name="elsewhere"), *data.columns[1:]))
    for wrong in (swapped, other):
        with pytest.raises(ValueError, match=data.input_names[0]):
            mogp.fit(model, wrong, steps=1, progress=False)
        with pytest.raises(ValueError, match=data.input_names[0]):
            model.predict_log_density(wrong)
        with pytest.raises(ValueError, match=data.input_names[0]):
            model.predictions(wrong)


# ---------------------------------------------------------------------------- forms of the inputs


@first
def test_no_rows_no_answers(case, kind):
    model, data = trained(case, kind)
    X = np.empty((0, data.input_dim))
    functions = np.shape(model.predict_f(new_inputs(data, 1)).mean)[1]
    assert [np.shape(a) for a in model.predict_f(X)] == [(0, functions)] * 2
    assert [np.shape(a) for a in model.predict_y(X)] == [(0, len(columns_of(model)))] * 2
    assert np.shape(model.predict_f_samples(X, samples=2)) == (2, 0, functions)
    assert np.shape(model.predict_y_samples(X, model.names[0], samples=2))[:2] == (2, 0)
    found = model.predict(X, samples=2)
    assert len(found) == 0
    assert {"output", "target", "mean", "sd", "q0.5"} <= set(found.columns)


@_each(kinds=("one",))
def test_a_vector_will_do_for_one_input(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    np.testing.assert_allclose(model.predict_y(X[:, 0]).mean, model.predict_y(X).mean, rtol=1e-10)
    assert np.shape(model.predict_f_samples(list(X[:, 0])))[1] == len(X)


@first
def test_single_precision_and_tensors_will_do(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data).astype(np.float32)
    expected = model.predict_y(X.astype(float)).mean
    np.testing.assert_allclose(model.predict_y(X).mean, expected, rtol=1e-10)
    np.testing.assert_allclose(model.predict_y(tf.constant(X)).mean, expected, rtol=1e-10)
    assert np.isfinite(model.predict_f_samples(X)).all()


@first
def test_sparse_inputs_are_for_labels(case, kind):
    model, data = trained(case, kind)
    X = new_inputs(data)
    if isinstance(data, LabelData):
        for ask in (model.predict_f, model.predict_y):
            np.testing.assert_allclose(ask(sparse.csr_array(X)).mean, ask(X).mean, rtol=1e-8, atol=1e-10)
