"""Models of one form share a graph, and no graph serves what it was not made for."""

import gc
import weakref

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES

import mogp
from mogp import MultiOutputData, compiling
from mogp.compiling import compiled, forget_compiled, repeated
from mogp.errors import UnsupportedError
from mogp.likelihoods import Gaussian
from mogp.models import hetmogp_lmc
from mogp.optimizers import FNG, LBFGS, Adam, NaturalAdam

CASE = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
def _nothing_kept():
    forget_compiled()
    yield
    forget_compiled()


def table(seed: int, rows: int = 40) -> MultiOutputData:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    return MultiOutputData.from_arrays(X, np.sin(3 * X @ rng.normal(size=(2, 3))) + 0.1 * rng.normal(size=(rows, 3)))


def small(data: MultiOutputData, seed: int = 0):
    return hetmogp_lmc(data, [Gaussian()] * 3, latents=2, inducing=6, seed=seed)


def trained(model, data, optimizer=None, **settings):
    return mogp.fit(model, data, steps=4, optimizer=optimizer, progress=False, **settings).elbo


def parameters(model) -> list[np.ndarray]:
    return [p.numpy() for p in gpflow.utilities.parameter_dict(model).values()]


@pytest.mark.parametrize(
    ("optimizer", "batch_size"),
    [(Adam, None), (Adam, 10), (NaturalAdam, None), (NaturalAdam, 10), (FNG, 10), (LBFGS, None)],
)
def test_models_of_one_form_train_as_if_each_had_its_own_graph(optimizer, batch_size):
    runs = []
    for alone in (True, False):
        ends = []
        for seed in range(3):
            if alone:
                forget_compiled()
            data = table(seed)
            model = small(data, seed)
            elbo = trained(model, data, optimizer(), batch_size=batch_size, seed=seed)
            ends.append((elbo, parameters(model)))
        runs.append(ends)
    assert sum(graph.accounted for graph in compiling._KEPT.values()) == len(compiling._KEPT)
    for own, shared in zip(*runs, strict=True):
        np.testing.assert_array_equal(own[0], shared[0])
        for a, b in zip(own[1], shared[1], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}:" for case in CASES])
def test_the_second_model_of_a_form_is_not_traced(case, monkeypatch):
    traced = []
    graph = compiling._Graph.__init__

    def counted(self, function, *rest):
        traced.append(function)
        graph(self, function, *rest)

    monkeypatch.setattr(compiling._Graph, "__init__", counted)
    ends = []
    for _ in range(2):
        data = case.data("several", 0)
        model = case.build(data)
        try:
            ends.append(trained(model, data, seed=len(ends)))
        except UnsupportedError:
            pytest.skip("cannot be trained like this")
        traced.append("end")
    first, second = traced[: traced.index("end")], traced[traced.index("end") + 1 : -1]
    assert not second, f"{len(second)} traces for the second model, {len(first)} for the first"
    assert np.isfinite(ends).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: gpflow.set_trainable(m.prior.kernels, False),
        lambda m: setattr(m, "kl_weight", 0.5),
        lambda m: setattr(m.likelihood.likelihoods[0], "variance", gpflow.Parameter(0.1)),
        lambda m: setattr(m.posterior, "whiten", not m.posterior.whiten),
    ],
    ids=["what is trained", "a number", "a transform", "a switch"],
)
def test_models_that_differ_in_what_a_graph_has_written_into_it_do_not_share_one(change):
    data = table(0)
    one, other, alone = small(data), small(data), small(data)
    trained(one, data)
    for model in (other, alone):
        change(model)
    found = trained(other, data)
    forget_compiled()
    np.testing.assert_array_equal(found, trained(alone, data))


def test_a_function_of_a_notebook_is_traced_again_when_a_global_that_it_reads_has_changed():
    notebook = {"__name__": "__main__"}
    exec("factor = 2.0\ndef inner(x): return factor * x\ndef times(x): return inner(x)", notebook)
    scalar = tf.TensorSpec([], tf.float64)
    two = compiled(notebook["times"], scalar)(tf.constant(1.0, tf.float64))
    notebook["factor"] = 3.0
    three = compiled(notebook["times"], scalar)(tf.constant(1.0, tf.float64))
    assert (float(two), float(three)) == (2.0, 3.0)


def test_a_class_of_a_notebook_is_traced_again_when_a_global_of_its_methods_has_changed():
    notebook = {"__name__": "__main__"}
    exec("factor = 2.0\nclass Times:\n    def of(self, x): return factor * x", notebook)
    scalar, one = tf.TensorSpec([], tf.float64), tf.constant(1.0, tf.float64)
    two = compiled(notebook["Times"]().of, scalar)(one)
    notebook["factor"] = 3.0
    assert (float(two), float(compiled(notebook["Times"]().of, scalar)(one))) == (2.0, 3.0)


def test_what_there_is_no_telling_of_gets_a_graph_of_its_own():
    class Slotted:
        __slots__ = ("value",)

    one = Slotted()
    one.value = 2.0
    scalar = tf.TensorSpec([], tf.float64)
    found = [float(compiled(lambda x, o=one: o.value * x, scalar)(tf.constant(1.0, tf.float64)))]
    one.value = 3.0
    found.append(float(compiled(lambda x, o=one: o.value * x, scalar)(tf.constant(1.0, tf.float64))))
    assert found == [2.0, 3.0]
    assert not compiling._KEPT


def test_settings_of_gpflow_belong_to_the_form():
    def tiny():
        return tf.constant(gpflow.config.default_jitter(), tf.float64)

    found = []
    for jitter in (1e-6, 1e-3):
        with gpflow.config.as_context(gpflow.config.Config(jitter=jitter)):
            found.append(float(compiled(tiny)()))
    assert found == [1e-6, 1e-3]


def test_graphs_are_kept_up_to_a_number_and_a_size(monkeypatch):
    monkeypatch.setattr(compiling, "_MOST_KEPT", 3)
    for width in range(2, 10):
        compiled(lambda x: x + 1, tf.TensorSpec([width], tf.float64))
    assert len(compiling._KEPT) == 3
    monkeypatch.setattr(compiling, "_LARGEST_KEPT", 8000)
    monkeypatch.setattr(compiling, "_MOST_BYTES_KEPT", 12000)
    for rows in (900, 800, 700, 2000):
        held = tf.zeros([rows], tf.float64)
        compiled(lambda held=held: held + 1)
    assert sum(graph.size for graph in compiling._KEPT.values()) <= 12000
    assert all(graph.size <= 8000 for graph in compiling._KEPT.values())


def test_models_of_a_known_form_are_let_go():
    gone = []
    for seed in range(4):
        data = table(seed)
        model = small(data, seed)
        trained(model, data, batch_size=10)
        for _ in range(6):
            model.predict_y(data.X)
        gone.append(weakref.ref(model))
        del model
    gc.collect()
    # The first is what the graphs were traced with.
    assert [ref() is None for ref in gone[1:]] == [True] * 3


def test_repeated_answers_are_those_of_each_model():
    for seed in range(8):
        data = table(seed)
        model = small(data, seed)
        f, y = model.predict_f(data.X), model.predict_y(data.X)
        density, bound = model.predict_log_density(data), model.training_loss(data.full())
        with tf.GradientTape():  # asked here, they are computed step by step
            np.testing.assert_allclose(f.mean, model.predict_f(data.X).mean, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(y.var, model.predict_y(data.X).var, rtol=1e-10)
            for name, found in model.predict_log_density(data).items():
                np.testing.assert_allclose(density[name], found, rtol=1e-9)
            np.testing.assert_allclose(bound, model.training_loss(data.full()), rtol=1e-10)


def test_gradients_of_repeated_answers_reach_each_model():
    for seed in range(7):
        data = table(seed)
        model = small(data, seed)
        batch = data.full()
        for _ in range(6):
            model.training_loss(batch)
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        assert all(g is not None for g in tape.gradient(loss, model.trainable_variables))


def test_repeated_calls_a_function_itself_until_it_is_asked_often(capsys):
    def noted(x):
        print("step by step" if tf.executing_eagerly() else "traced")
        return x + 1

    values = [tf.fill([200], float(n)) for n in range(9)]
    found = [float(repeated(lambda x=x: noted(x))[0]) for x in values]
    assert capsys.readouterr().out.splitlines() == ["step by step"] * 4 + ["traced"]
    assert found == [n + 1.0 for n in range(9)]


def test_functions_that_are_to_run_eagerly_are_called():
    tf.config.run_functions_eagerly(True)
    try:
        called = [compiled(tf.executing_eagerly)(), *(repeated(tf.executing_eagerly) for _ in range(9))]
    finally:
        tf.config.run_functions_eagerly(False)
    assert all(called)
    assert not compiling._KEPT
