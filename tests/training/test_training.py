from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import gpflow
import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k
from gpflow.keras import tf_keras

import mogp
from mogp.data import MultiOutputData
from mogp.inducing import given_points, subset_points
from mogp.likelihoods import Gaussian, Softmax
from mogp.models import SparseMOGP
from mogp.optimizers import LBFGS, Adam, Keras, NaturalAdam
from mogp.optimizers import base as steps_of
from mogp.posteriors import Parsimonious
from mogp.priors import ICM, Independent
from mogp.training import History, fit, loop
from mogp.training.state import State

RUN = '''
"""Runs with checkpoints: classes with Adam and Monte Carlo, regression with natural gradients, one to interrupt."""

import sys
from pathlib import Path

import numpy as np
from gpflow import kernels as k

from mogp.data import MultiOutputData
from mogp.inducing import given_points
from mogp.likelihoods import Gaussian, Softmax
from mogp.models import SparseMOGP
from mogp.optimizers import Adam, NaturalAdam
from mogp.priors import ICM, Independent
from mogp.training import fit, loop, state


def case(name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 1))
    if name == "classes":
        data = MultiOutputData.from_arrays(X, np.digitize(X[:, 0], [-0.5, 0.5]))
        return SparseMOGP(Independent(k.Matern32(), functions=3), given_points(X[:4]), Softmax(3, samples=2)), data
    data = MultiOutputData.from_arrays(X, np.column_stack([np.sin(3 * X), np.cos(3 * X)]))
    return SparseMOGP(ICM(k.Matern32(), 2), given_points(X[:4]), [Gaussian(), Gaussian()]), data


def run(name, folder, steps):
    model, data = case(name)
    optimizer = NaturalAdam(gamma=0.1) if name == "regression" else Adam(0.01)
    checkpoint = None if folder is None else folder / f"{name}.npz"
    history = fit(
        model, data, steps=steps, optimizer=optimizer, batch_size=7, seed=5, checkpoint=checkpoint, progress=False
    )
    return model, data, history


if __name__ == "__main__":
    loop.SECONDS_BETWEEN_REPORTS = state.SECONDS_BETWEEN_REPORTS = 0.05
    folder = Path(sys.argv[1])
    for name, steps in (("classes", 1500), ("regression", 700)):
        if not (folder / f"{name}-history.npy").exists():
            np.save(folder / f"{name}-history.npy", run(name, folder, steps)[2].elbo)
    model, data, history = run("interrupted", folder, 10**9)
    print(history.status, history.steps, float(model.elbo(data)) > float(case("interrupted")[0].elbo(data)))
'''


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


@pytest.fixture
def data(rng) -> MultiOutputData:
    X = rng.normal(size=(20, 1))
    return MultiOutputData.from_arrays(X, np.column_stack([np.sin(3 * X), np.cos(3 * X)]))


def model_of(data: MultiOutputData, posterior=None) -> SparseMOGP:
    return SparseMOGP(
        ICM(k.Matern32(), data.num_outputs), given_points(data.X[:4]), [Gaussian() for _ in data], posterior
    )


def values(model) -> list[np.ndarray]:
    return [v.numpy().copy() for v in model.variables]


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


# -------------------------------------------------------------------------------- killed, resumed, interrupted


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_runs_killed_at_random_moments_and_resumed_have_the_history_of_an_uninterrupted_run(tmp_path):
    """Adam with a Monte-Carlo likelihood, natural gradients, and Ctrl-C, in one script that is killed twice."""
    script, work = tmp_path / "train.py", tmp_path / "work"
    script.write_text(RUN)
    work.mkdir()
    rng = np.random.default_rng()

    def start():
        environment = {**os.environ, "PYTHONPATH": str(Path(mogp.__file__).parents[1])}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, str(script), str(work)], env=environment, **pipes)

    for name in ("classes", "regression"):
        process = start()
        wait_for((work / f"{name}.npz").exists, process)
        time.sleep(rng.uniform(0, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    process = start()
    wait_for((work / "interrupted.npz").exists, process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    status, steps, better = out.split()
    assert (status, better) == ("interrupted", "True")
    with np.load(work / "interrupted.npz") as kept:
        assert len(kept["elbo"]) == int(steps)
    assert not [p.name for p in work.iterdir() if "part" in p.name]

    scope: dict = {"__name__": "reference"}
    exec(compile(RUN, "reference", "exec"), scope)
    for name, steps in (("classes", 1500), ("regression", 700)):
        elbo = scope["run"](name, None, steps)[2].elbo
        np.testing.assert_array_equal(np.load(work / f"{name}-history.npy"), elbo, err_msg=name)


@pytest.mark.parametrize("make", [lambda: Adam(0.02), lambda: NaturalAdam(0.2)], ids=["Adam", "NaturalAdam"])
def test_a_run_in_two_parts_is_the_run_in_one(data, tmp_path, make):
    whole, parts = model_of(data), model_of(data)
    options = {"batch_size": 6, "seed": 3, "progress": False}
    one = fit(whole, data, steps=30, optimizer=make(), **options)
    fit(parts, data, steps=11, optimizer=make(), checkpoint=tmp_path / "run.npz", **options)
    fresh = model_of(data)
    two = fit(fresh, data, steps=30, optimizer=make(), checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(one.elbo, two.elbo)
    assert equal(values(whole), values(fresh))
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_a_finished_run_is_read_not_repeated(data, tmp_path):
    first = model_of(data)
    done = fit(first, data, steps=5, checkpoint=tmp_path / "run.npz", progress=False)
    again = model_of(data)
    history = fit(again, data, steps=5, checkpoint=tmp_path / "run.npz", progress=False)
    np.testing.assert_array_equal(done.elbo, history.elbo)
    assert equal(values(first), values(again))


def test_what_a_killed_writer_left_behind_is_cleared(data, tmp_path):
    (tmp_path / ".run.npz.part").write_bytes(b"half a file")
    fit(model_of(data), data, steps=2, checkpoint=tmp_path / "run.npz", progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda d: {"model": SparseMOGP(ICM(k.Matern32(), 2), given_points(d.X[:5]), [Gaussian(), Gaussian()])},
            "other shapes",
        ),
        (
            lambda d: {"model": SparseMOGP(ICM(k.Matern52(), 2), given_points(d.X[:4]), [Gaussian(), Gaussian()])},
            "other parts",
        ),
        (lambda d: {"optimizer": NaturalAdam()}, "other shapes|NaturalAdam"),
        (lambda d: {"seed": 1}, "seed 0.*not.*seed 1"),
        (lambda d: {"batch_size": 5}, "batches of None.*not.*batches of 5"),
    ],
    ids=["shapes", "kernel", "optimiser", "seed", "batch size"],
)
def test_a_checkpoint_of_another_run_is_refused(data, tmp_path, change, said):
    options = {
        "steps": 2,
        "checkpoint": tmp_path / "run.npz",
        "progress": False,
        "optimizer": Adam(),
        "seed": 0,
        "batch_size": None,
    }
    fit(model_of(data), data, **options)
    options = {"model": model_of(data), **options, **change(data)}
    with pytest.raises(ValueError, match=f"(?s)belongs to another run: .*({said}).*checkpoint file of its own"):
        fit(options.pop("model"), data, **options)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_what_is_not_a_checkpoint_is_refused(data, tmp_path, content):
    (tmp_path / "run.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint written by"):
        fit(model_of(data), data, steps=2, checkpoint=tmp_path / "run.npz", progress=False)


def test_ctrl_c_keeps_what_was_learned_and_the_next_one_works_as_usual(data, monkeypatch):
    model = model_of(data)
    start = values(model)
    source = data.batches(5)
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_REPORTS", 1e-3)
    compiled = steps_of._compiled

    def interrupting(*arguments):
        run = compiled(*arguments)

        def call(start, count):
            if int(start) >= 3:
                os.kill(os.getpid(), signal.SIGINT)
            return run(start, count)

        return call

    monkeypatch.setattr(steps_of, "_compiled", interrupting)
    history = fit(model, source, steps=10_000, progress=False)
    assert history.status == "interrupted"
    assert 3 < history.steps < 10_000
    assert not equal(start, values(model))
    assert signal.getsignal(signal.SIGINT) is handler


# -------------------------------------------------------------------------------- the loop


def test_a_seed_fixes_the_run_and_another_gives_another(data):
    runs = [fit(model_of(data), data, steps=8, batch_size=5, seed=s, progress=False).elbo for s in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_the_loop_takes_the_steps_of_the_optimiser_one_by_one(data):
    compiled, by_hand = model_of(data), model_of(data)
    history = fit(compiled, data, steps=12, optimizer=Adam(0.05), batch_size=6, seed=4, progress=False)
    adam, source = Adam(0.05), data.batches(6, seed=4)
    adam.start(by_hand)
    batches = [source(step) for step in range(12)]
    losses = [float(adam.step(by_hand, partial(by_hand.training_loss, batch))) for batch in batches]
    np.testing.assert_allclose(history.elbo, -np.array(losses), rtol=1e-9)
    for a, b in zip(values(compiled), values(by_hand), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_how_the_steps_are_grouped_into_calls_does_not_matter(data):
    runs = [fit(model_of(data), data, steps=25, batch_size=6, window=w, progress=False).elbo for w in (1, 7, 100)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


def test_compiling_with_xla_gives_the_same_run(data):
    plain = fit(model_of(data), data, steps=3, batch_size=6, progress=False)
    compiled = fit(model_of(data), data, steps=3, batch_size=6, progress=False, jit_compile=True)
    np.testing.assert_allclose(plain.elbo, compiled.elbo, rtol=1e-8)


def test_training_reaches_the_bound_of_the_exact_optimum(data):
    """With hyper-parameters held, 100 natural steps of a conjugate model end at the Titsias bound."""
    model = model_of(data)
    for part in (model.prior, model.inducing, model.likelihood):
        gpflow.set_trainable(part, False)
    history = fit(model, data, steps=100, optimizer=NaturalAdam(0.5), progress=False)
    W, kernel, Z = np.asarray(model.prior.W)[:, 0], model.prior.kernels.kernels[0], data.X[:4]
    Kuu = kernel(Z).numpy() + gpflow.default_jitter() * np.eye(4)
    Q = kernel(data.X, Z).numpy() @ np.linalg.solve(Kuu, kernel(Z, data.X).numpy())
    y = np.concatenate([o.Y[:, 0] for o in data])
    K = np.kron(np.outer(W, W), Q) + np.eye(len(y))
    log_density = -0.5 * (len(y) * np.log(2 * np.pi) + np.linalg.slogdet(K)[1] + y @ np.linalg.solve(K, y))
    bound = log_density - 0.5 * np.sum(W**2) * np.sum(np.asarray(kernel(data.X, full_cov=False)) - np.diag(Q))
    np.testing.assert_allclose(history.elbo[-1], bound, rtol=1e-6)


def test_any_gpflow_model_with_external_data_can_be_trained(data):
    X, Y = tf.constant(data.X), tf.constant(data[0].Y)
    model = gpflow.models.SVGP(k.Matern32(), gpflow.likelihoods.Gaussian(), data.X[:4], num_data=20)
    history = fit(model, lambda step: (X, Y), steps=40, optimizer=Adam(0.05), progress=False)
    assert history.elbo[-1] > history.elbo[0]


def test_float32_models_train(float32, rng):
    data = MultiOutputData.from_arrays(rng.normal(size=(10, 1)), rng.normal(size=10))
    model = SparseMOGP(Independent([k.Matern32()]), subset_points(data, 4), Gaussian())
    for optimizer in (Adam(), NaturalAdam(), LBFGS()):
        history = fit(model, data, steps=5, optimizer=optimizer, progress=False)
        assert np.isfinite(history.elbo).all()
        assert model.posterior.q_mu.dtype == tf.float32


def test_a_mean_that_no_longer_rises_ends_the_training_early(data):
    model = model_of(data)
    history = fit(model, data, steps=5000, optimizer=Adam(0.1), patience=40, window=20, progress=False)
    assert history.status == "stopped early"
    assert history.steps < 5000
    means = history.elbo.reshape(-1, 20).mean(1)
    assert np.argmax(means) == len(means) - 1 - 2
    assert "No better mean ELBO for 40 steps" in str(history)


def test_a_run_that_stopped_early_stays_so_when_resumed(data, tmp_path):
    options = {"steps": 5000, "optimizer": Adam(0.1), "patience": 40, "window": 20, "progress": False}
    plain = fit(model_of(data), data, **options)
    fit(model_of(data), data, checkpoint=tmp_path / "run.npz", **options)
    again = fit(model_of(data), data, checkpoint=tmp_path / "run.npz", **{**options, "optimizer": Adam(0.1)})
    np.testing.assert_array_equal(plain.elbo, again.elbo)
    assert again.status == "stopped early"


# -------------------------------------------------------------------------------- things that go wrong


@pytest.mark.parametrize("window", [1, 100])
def test_a_step_into_nonsense_is_undone(data, tmp_path, window):
    """The objective is finite before the step and not after it: the state before is the last good one."""
    model = model_of(data)
    with pytest.warns(UserWarning, match="smaller step size"):
        history = fit(
            model, data, steps=50, optimizer=Adam(1e200), window=window, checkpoint=tmp_path / "run.npz", progress=False
        )
    assert history.status == "failed"
    assert np.isfinite(model.elbo(data))
    assert np.isfinite(history.elbo).all()
    assert f"The model is as it was at step {history.steps}." in history.message
    with np.load(tmp_path / "run.npz") as kept:
        assert all(np.isfinite(kept[name]).all() for name in kept.files if name.startswith("v"))
    resumed = fit(model_of(data), data, steps=20, optimizer=Adam(0.01), checkpoint=tmp_path / "run.npz", progress=False)
    assert (resumed.status, resumed.steps) == ("finished", 20)


def test_an_objective_that_is_nan_from_the_start_is_said_not_raised(data):
    model = model_of(data)
    model.likelihood.likelihoods[0].variance.unconstrained_variable.assign(np.nan)
    with pytest.warns(UserWarning, match="NaN or infinite"):
        history = fit(model, data, steps=5, optimizer=Adam(0.01), progress=False)
    assert (history.status, history.steps) == ("failed", 0)
    assert "Too few steps" in str(history)


def test_a_matrix_that_cannot_be_factorised_is_named(data):
    model = model_of(data)
    model.prior.kernels.kernels[0].lengthscales.unconstrained_variable.assign(np.nan)
    with pytest.warns(UserWarning, match="Kuu"):
        history = fit(model, data, steps=5, optimizer=Adam(0.01), progress=False)
    assert history.status == "failed"
    assert "Kuu cannot be factorised" in str(history.diagnosis)


def test_a_recipe_by_line_search_says_what_it_cannot_begin_with(data):
    model = model_of(data)
    model.prior.kernels.kernels[0].lengthscales.unconstrained_variable.assign(np.nan)
    with pytest.raises(ValueError, match=r"cannot be evaluated at the start: .*Kuu"):
        fit(model, data, steps=5, progress=False)


class Slope(gpflow.models.BayesianModel, gpflow.models.training_mixins.ExternalDataTrainingLossMixin):
    """The loss is that of the batch, whatever the model has learned: `x` counts the steps."""

    def __init__(self):
        super().__init__()
        self.x = gpflow.Parameter(0.0)

    def maximum_log_likelihood_objective(self, data):
        return -data + 0.0 * self.x

    def training_loss(self, data):
        return data + self.x - tf.stop_gradient(self.x)


def descent(losses: np.ndarray):
    """A training along which the objective is what is given: SGD of size one adds -1 to `x` at every step."""
    table = tf.constant(losses)
    return lambda step: tf.gather(table, tf.minimum(tf.cast(step, tf.int32), len(losses) - 1))


def taken(losses: np.ndarray, steps: int) -> tuple[Slope, History]:
    model = Slope()
    sgd = Keras(tf_keras.optimizers.SGD(1.0))
    return model, fit(model, descent(losses), steps=steps, optimizer=sgd, progress=False)


def noisy(rng, *parts: tuple[int, float]) -> np.ndarray:
    return np.concatenate([level + rng.normal(size=count) for count, level in parts])


def test_a_loss_far_above_the_best_for_long_ends_the_training_in_the_best_state(rng):
    losses = noisy(rng, (10, 1000.0), (90, 400.0), (100, 100.0), (800, 6e16))
    with pytest.warns(UserWarning, match=r"the objective fell to -6e\+16, far below -(100|99)"):
        model, history = taken(losses, 1000)
    assert history.status == "failed"
    assert "Stopped at step 300" in history.message
    best = -float(model.x.numpy())
    assert best in (100, 150)
    assert history.steps == best
    assert f"The model is as it was at step {history.steps}." in history.message
    assert "Converged." not in str(history)


def test_stray_losses_and_a_fall_smaller_than_the_rise_do_not_end_a_training(rng):
    losses = noisy(rng, (10, 1000.0), (190, 100.0), (200, 900.0), (100, 100.0))
    losses[::7] = 1e12
    model, history = taken(losses, 500)
    assert history.status == "finished"
    assert model.x.numpy() == -500


@pytest.mark.parametrize(("last", "good"), [(20, 50), (1, 50)])
def test_a_training_that_ends_far_off_is_put_back(rng, last, good):
    """The last steps, or nothing but the state that the last step leaves."""
    losses = noisy(rng, (10, 1000.0), (40, 200.0), (70 - last + 1, 100.0), (last, 6e16))
    with pytest.warns(UserWarning, match="The model is as it was at step"):
        model, history = taken(losses, 120)
    assert history.status == "failed"
    assert -model.x.numpy() == history.steps
    assert good <= history.steps < 120
    assert np.median(history.elbo[-10:]) > -210


def test_a_state_that_is_far_off_is_not_gone_back_to_when_the_objective_becomes_nan(rng):
    losses = np.concatenate([noisy(rng, (10, 1000.0), (90, 100.0), (60, 6e16)), [np.nan]])
    with pytest.warns(UserWarning, match="NaN or infinite"):
        model, history = taken(losses, 300)
    assert -model.x.numpy() == history.steps == 50


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"steps": 0}, ValueError, "steps=0; at least one"),
        ({"steps": -5}, ValueError, "steps=-5"),
        ({"batch_size": 0}, ValueError, "batch sizes must be whole numbers"),
        ({"batch_size": [1, 2, 3]}, ValueError, "3 batch sizes for 2 outputs"),
        ({"batch_size": {"output 0": 3}}, ValueError, "no batch size for output 'output 1'"),
        ({"batch_size": 3, "optimizer": LBFGS()}, ValueError, "L-BFGS needs the same objective"),
        ({"window": 0}, ValueError, "window=0"),
        ({"patience": 0}, ValueError, "patience=0"),
    ],
)
def test_wrong_options_are_refused_with_what_was_given(data, options, error, said):
    with pytest.raises(error, match=said):
        fit(model_of(data), data, progress=False, **options)


def test_data_that_do_not_fit_are_refused_before_training(data):
    with pytest.raises(ValueError, match="the data have 1 outputs"):
        fit(model_of(data), MultiOutputData.from_arrays([0.0], [1.0]), progress=False)


def test_an_unwritable_checkpoint_fails_at_once(data, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        fit(model_of(data), data, steps=5, checkpoint=tmp_path / "file" / "run.npz", progress=False)


# -------------------------------------------------------------------------------- L-BFGS


def test_lbfgs_reaches_the_exact_log_marginal_when_points_are_the_data(rng):
    X, y = rng.normal(size=(10, 1)), rng.normal(size=10)
    data = MultiOutputData.from_arrays(X, y)
    model = SparseMOGP(Independent([k.Matern12()]), given_points(X), Gaussian(0.5))
    for part in (model.prior, model.inducing, model.likelihood):
        gpflow.set_trainable(part, False)
    history = fit(model, data, steps=500, optimizer=LBFGS(), progress=False)
    exact = gpflow.models.GPR((X, y[:, None]), k.Matern12(), noise_variance=0.5).log_marginal_likelihood()
    np.testing.assert_allclose(history.elbo[-1], exact, atol=1e-3)
    assert history.message.startswith("L-BFGS")
    assert (np.diff(history.elbo) > -1e-9).all()


def test_lbfgs_ends_where_fifty_iterations_gain_too_little():
    """What is left of the way is less than is asked for; without a tolerance SciPy ends it later, and higher."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 40)
    data = MultiOutputData.from_arrays(x, np.sin(9 * x) + 0.1 * rng.normal(size=40))
    ends = {}
    for tolerance in (None, 1e-2, 10.0):
        model = SparseMOGP(Independent([k.Matern32()]), given_points(x[::5]), Gaussian(0.5))
        ends[tolerance] = fit(model, data, steps=2000, optimizer=LBFGS(tolerance=tolerance), progress=False)
    whole, flat, early = ends.values()
    assert early.steps == 51
    assert early.message.startswith("Flat after 51 iterations of L-BFGS")
    assert early.converged
    assert 51 < flat.steps < whole.steps
    assert flat.elbo[-1] - flat.elbo[-51] < 1e-2 * 40 <= flat.elbo[-2] - flat.elbo[-52]
    np.testing.assert_array_equal(flat.elbo, whole.elbo[: flat.steps])
    with pytest.raises(ValueError, match="tolerance=0"):
        LBFGS(tolerance=0)


def test_lbfgs_restarts_from_its_last_iterate(data, tmp_path):
    first = model_of(data)
    begun = fit(first, data, steps=4, optimizer=LBFGS(), checkpoint=tmp_path / "run.npz", progress=False)
    second = model_of(data)
    resumed = fit(second, data, steps=12, optimizer=LBFGS(), checkpoint=tmp_path / "run.npz", progress=False)
    np.testing.assert_array_equal(resumed.elbo[: begun.steps], begun.elbo)
    assert begun.steps == 4 < resumed.steps <= 12
    assert resumed.elbo[-1] > begun.elbo[-1]
    np.testing.assert_allclose(second.elbo(data), resumed.elbo[-1], rtol=1e-9)


def test_lbfgs_interrupted_is_at_its_last_iterate(data, monkeypatch):
    model = model_of(data)

    def save(self, history, force=False):
        if history.steps == 3 and not force:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(State, "save", save)
    history = fit(model, data, steps=100, optimizer=LBFGS(), progress=False)
    assert history.status == "interrupted"
    assert history.steps in (3, 4)
    np.testing.assert_allclose(model.elbo(data), history.elbo[-1], rtol=1e-9)


def test_lbfgs_goes_as_far_as_the_objective_can_be_evaluated(data):
    free, bounded = model_of(data), model_of(data)
    best = fit(free, data, steps=100, optimizer=LBFGS(), progress=False)
    edge = 0.5 * float(tf.reduce_max(tf.abs(free.posterior.q_mu)))
    bound = bounded.elbo

    def fragile(batch):
        """Fails beyond an edge that lies between the start and the optimum."""
        tf.debugging.Assert(tf.reduce_max(tf.abs(bounded.posterior.q_mu)) < edge, ["Kuu has no Cholesky factor"])
        return bound(batch)

    bounded.elbo = fragile
    history = fit(bounded, data, steps=100, optimizer=LBFGS(), progress=False)
    assert re.search(r"points tried that could not be evaluated: [1-9]", history.message)
    assert history.elbo[0] < history.elbo[-1] < best.elbo[-1]
    assert 0.9 * edge < float(tf.reduce_max(tf.abs(bounded.posterior.q_mu))) < edge
    np.testing.assert_allclose(bound(data), history.elbo[-1], rtol=1e-9)


def test_lbfgs_refuses_a_random_objective_and_one_that_is_nan(data):
    labels = MultiOutputData.from_arrays(data.X, np.arange(20) % 3)
    model = SparseMOGP(Independent(k.Matern32(), functions=3), given_points(data.X[:3]), Softmax(3))
    with pytest.raises(ValueError, match="this objective is random"):
        fit(model, labels, optimizer=LBFGS(), progress=False)
    broken = model_of(data)
    broken.likelihood.likelihoods[0].variance.unconstrained_variable.assign(np.nan)
    with pytest.raises(ValueError, match="the objective is nan at the start"):
        fit(broken, data, optimizer=LBFGS(), progress=False)


# -------------------------------------------------------------------------------- the history


def test_history_tells_itself_as_words_table_and_plot(data):
    history = fit(model_of(data, Parsimonious()), data, steps=60, progress=False)
    assert history.steps == len(history.frame()) == 60
    assert list(history.frame()["step"][:2]) == [1, 2]
    assert str(history).startswith("finished after 60 steps in ")
    ax = history.plot()
    assert ax.get_xlabel() == "step"
    assert len(ax.lines) == 2
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), history.elbo)
    assert history.plot(ax) is ax


@pytest.mark.parametrize("elbo", [np.empty(0), np.array([1.0]), np.full(30, 2.0)])
def test_short_and_flat_histories_plot_too(elbo):
    assert History(elbo=elbo).plot() is not None
    assert "after" in str(History(elbo=elbo))


def test_progress_shows_the_bound_and_leaves_no_trace(data, capsys):
    fit(model_of(data), data, steps=3)
    fit(model_of(data), data, steps=1, optimizer=LBFGS())
    assert "Traceback" not in capsys.readouterr().err


def monitored_case():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 1))
    data = MultiOutputData.from_arrays(X, np.sin(3 * X))
    return SparseMOGP(Independent(k.Matern32(), functions=1), given_points(X[:4]), Gaussian()), data


def test_a_monitor_sees_the_model_before_the_first_step_and_after_every_few():
    model, data = monitored_case()
    look = {"monitor": lambda: {"elbo": float(model.elbo(data))}, "every": 10}
    history = fit(model, data, steps=25, optimizer=Adam(0.01), progress=False, **look)
    assert [look["step"] for look in history.monitored] == [0, 10, 20, 25]
    seen = [look["elbo"] for look in history.monitored]
    np.testing.assert_allclose(seen[:3], [history.elbo[0], history.elbo[10], history.elbo[20]], rtol=1e-12)
    assert seen[-1] == float(model.elbo(data))


def test_a_monitor_changes_nothing_and_a_resumed_run_keeps_what_it_saw(tmp_path):
    plain, data = monitored_case()
    alone = fit(plain, data, steps=30, batch_size=7, progress=False)
    whole, _ = monitored_case()
    watched = fit(whole, data, steps=30, batch_size=7, progress=False, monitor=lambda: {"x": [1, 2]}, every=7)
    np.testing.assert_array_equal(alone.elbo, watched.elbo)
    for steps in (11, 30):
        again, _ = monitored_case()
        resumed = fit(
            again, data, steps=steps, batch_size=7, progress=False, monitor=lambda: {"x": [1, 2]}, every=7,
            checkpoint=tmp_path / "run.npz",
        )  # fmt: skip
    np.testing.assert_array_equal(resumed.elbo, watched.elbo)
    assert [look["step"] for look in resumed.monitored] == [0, 7, 11, 14, 21, 28, 30]


def test_monitors_need_at_least_one_step_between_two_calls():
    model, data = monitored_case()
    with pytest.raises(ValueError, match="every=0"):
        fit(model, data, steps=5, every=0)


def test_iterations_of_lbfgs_are_monitored_as_steps_are():
    model, data = monitored_case()
    history = fit(model, data, steps=5, optimizer=LBFGS(), monitor=lambda: {"elbo": float(model.elbo(data))}, every=2)
    assert [seen["step"] for seen in history.monitored] == [0, 2, 4, 5]
    np.testing.assert_allclose([s["elbo"] for s in history.monitored[1:]], history.elbo[[1, 3, 4]], rtol=1e-9)


def test_a_model_from_elsewhere_needs_batches_from_a_function(data):
    stock = gpflow.models.SVGP(k.Matern32(), gpflow.likelihoods.Gaussian(), np.zeros((3, 1)))
    with pytest.raises(TypeError, match="SVGP is not a model of mogp and cannot read MultiOutputData"):
        fit(stock, data, steps=1)
