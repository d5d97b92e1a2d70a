"""The study of default fits: splits, scores, resumption, and the page made from the rows."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mogp import MultiOutputData

ROOT = Path(__file__).parent.parent.parent
PACKAGED = (
    "motor",
    "seatbelts",
    "chicks",
    "states",
    "air",
    "engel",
    "diabetes",
    "quakes",
    "vowel",
    "soybeans",
    "stocks",
)


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`benchmarks/defaults` can be imported, as it is when it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    for name in [name for name in sys.modules if name.split(".")[0] == "defaults"]:
        sys.modules.pop(name)


# --- tasks and splits


def test_there_are_enough_sets_of_each_role_and_none_has_two():
    from defaults.tasks import TASKS, _deciding, _development

    assert len(TASKS) == len(_development()) + len(_deciding()) >= 12
    assert len(_deciding()) >= 6
    assert all(task.question.endswith(".") for task in TASKS.values())


def _targets(data: MultiOutputData) -> list[tuple]:
    """Every observation: output, replica, inputs and target."""
    return sorted(
        (o.name, -1 if o.replica is None else o.replica[n], *data.X[o.rows[n]], *o.Y[n])
        for o in data.outputs
        for n in range(len(o))
    )


@pytest.mark.parametrize("name", PACKAGED)
def test_a_split_takes_every_target_once_and_is_the_same_again(name: str):
    from defaults.tasks import TASKS

    task = TASKS[name]
    one, again, other = task.split(3), task.split(3), task.split(4)
    assert sorted(_targets(one.train) + _targets(one.test)) == _targets(task.whole())
    assert (one.train.fingerprint, one.test.fingerprint) == (again.train.fingerprint, again.test.fingerprint)
    assert one.test.fingerprint != other.test.fingerprint
    inside = task.validation(one.train, 3)
    assert sorted(_targets(inside.train) + _targets(inside.test)) == _targets(one.train)


def test_gaps_are_blocks_of_some_outputs():
    from defaults.holding import gaps

    data = MultiOutputData.from_arrays(np.arange(40.0)[::-1], np.arange(120.0).reshape(40, 3))
    _, test = gaps(outputs=2, share=0.25, blocks=2)(data, 1)
    assert sorted(test.sizes) == [0, 10, 10]
    for name in [name for name, size in zip(test.names, test.sizes, strict=True) if size]:
        x = np.sort(test.inputs(name)[:, 0])
        low, high = x[x < 20], x[x >= 20]
        assert len(low) == len(high) == 5
        assert np.ptp(low) == np.ptp(high) == 4


def test_tails_are_the_last_targets_of_half_the_replicas_and_replicas_go_whole():
    from defaults.holding import replicas, tails

    r = np.repeat(np.arange(4), 10)
    data = MultiOutputData.from_arrays(np.tile(np.arange(10.0), 4), np.arange(40.0), replica=r)
    _, late = tails(0.4)(data, 0)
    assert sorted(late.inputs(0)[:, 0]) == sorted([6, 7, 8, 9] * 2)
    _, whole = replicas()(data, 0)
    assert len(whole[0]) == 10
    assert len(np.unique(whole[0].replica)) == 1


# --- scores


def _column(kind: str, y: list[float], classes: int = 0):
    from defaults.scores import Column

    X = np.zeros((len(y), 1))
    return Column(kind, kind, classes, X, np.array(y), X, np.array(y))


def test_scores_are_those_of_a_hand_computation():
    from defaults.scores import Prediction, score

    number, kind = _column("real", [0.0, 4.0]), _column("classes", [0.0, 1.0, 1.0], 2)
    p = np.array([[0.5, 0.5], [0.8, 0.2], [0.25, 0.75]])
    found = score(
        [number, kind],
        {
            "real": Prediction.gaussian(number.y_test, np.array([1.0, 1.0]), np.array([1.0, 1.0])),
            "classes": Prediction.of_classes(kind.y_test, p),
        },
    )
    normal = [0.5 * d**2 + 0.5 * np.log(2 * np.pi) for d in (1.0, 3.0)]
    assert found["nlpd"] == pytest.approx((sum(normal) - np.log(0.5) - np.log(0.2) - np.log(0.75)) / 5)
    assert found["error"] == pytest.approx(((1 + 9) / 2 / 4 + 1 / 3) / 2)
    assert found["coverage"] == 0.5
    assert found["targets"] == 5


def test_a_prediction_for_other_rows_is_refused():
    from defaults.scores import Prediction, score

    number = _column("real", [0.0, 4.0])
    with pytest.raises(ValueError, match="real"):
        score([number], {"real": Prediction(np.zeros(3), np.zeros(3))})


def test_a_model_is_scored_as_its_own_density_and_table_say():
    from defaults.ours import exact_icm, predictions
    from defaults.scores import columns, score
    from defaults.tasks import TASKS, Split, Task

    import mogp

    rng = np.random.default_rng(0)
    x = np.linspace(0, 3, 30)
    data = MultiOutputData.from_arrays(x, 100 + 50 * np.sin(x) + rng.normal(size=30), names=["y"])
    task = Task("toy", "development", "", lambda: data, TASKS["motor"].hold, TASKS["motor"].model)
    split = Split(*data.split(0.3))
    model, history = exact_icm(task, split.train, 0)
    found = score(columns(task, split), predictions((model, history), task, split))
    mean, var = (np.asarray(a) for a in model.predict_y(split.test.X))
    y = split.test[0].Y
    normal = 0.5 * (y - mean) ** 2 / var + 0.5 * np.log(2 * np.pi * var)
    assert found["nlpd"] == pytest.approx(normal.mean(), rel=1e-6)
    assert found["error"] == pytest.approx(np.mean((y - mean) ** 2) / y.var(), rel=1e-6)
    assert isinstance(history, mogp.History)


def test_annotations_are_summed_up_by_majority_and_replicas_become_columns():
    from defaults.scores import columns
    from defaults.tasks import TASKS, Split, Task

    told = MultiOutputData.from_list([([0.0, 1.0, 2.0], [[1, 1, 0], [2, 0, 0], [np.nan, 2, 2]])], names=["y"])
    truth = MultiOutputData.from_list([([3.0], [[1.0]])], names=["y"])
    hold, model = TASKS["motor"].hold, TASKS["motor"].model
    task = Task("toy", "development", "", lambda: told, hold, model, {"": "classes"})
    (own,) = columns(task, Split(told, truth))
    assert own.y.tolist() == [1, 0, 2]
    assert own.classes == 3

    train = MultiOutputData.from_arrays([0.0, 1.0, 2.0], [5.0, 6.0, 7.0], replica=[0, 2, 2])
    test = MultiOutputData.from_arrays([9.0], [8.0], replica=[2])
    (own,) = columns(Task("toy", "development", "", lambda: train, hold, model), Split(train, test))
    assert own.X.tolist() == [[0, 1, 0], [1, 0, 1], [2, 0, 1]]
    assert own.X_test.tolist() == [[9, 0, 1]]
    assert own.replicas == 2


@pytest.mark.parametrize("kind", ["real", "count", "classes"])
@pytest.mark.parametrize("name", ["forest", "linear"])
def test_peers_give_densities_that_sum_to_one(name: str, kind: str):
    import defaults.peers as peers
    from defaults.scores import Column

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    targets = {
        "real": 3 + X[:, 0] + rng.normal(size=120),
        "count": rng.poisson(np.exp(0.5 * X[:, 0])),
        "classes": (X[:, 0] > 0) + 1 * (X[:, 1] > 0),
    }
    y = targets[kind]
    every = np.linspace(-10, 16, 600) if kind == "real" else np.arange(60.0 if kind == "count" else 3)
    one = Column("y", kind, 3 * (kind == "classes"), X, y.astype(float), np.zeros((len(every), 2)), every)
    found = getattr(peers, name)(one, 0)(one.X_test)
    width = every[1] - every[0]
    assert np.exp(found.log_density).sum() * width == pytest.approx(1, abs=1e-3)
    if kind == "classes":
        assert found.lower is None
    else:
        inside = (found.lower <= every) & (every <= found.upper)
        assert np.exp(found.log_density[inside]).sum() * width == pytest.approx(0.96, abs=0.03)


# --- runs


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from defaults import run
    from defaults.results import missing, read

    file, asked, done = tmp_path / "rows.csv", (["a", "b"], [0, 1], ["default", "old"]), []

    def measured(task: str, split: int, method: str) -> dict[str, object]:
        if task == "b":
            raise ValueError("two\nlines")
        return {"status": "finished", "nlpd": 1.5, "converged": True}

    def child(measure: Callable[[], dict[str, object]], limit: float) -> dict[str, object]:
        done.append(measure)
        return whole(measure, 60)

    whole = run.child
    monkeypatch.setattr(run, "TASKS", {"a": "a", "b": "b"})
    monkeypatch.setattr(run, "measure", measured)
    monkeypatch.setattr(run, "child", child)
    runs = missing(read(file), *asked)
    assert runs[:4] == [("a", 0, "default"), ("b", 0, "default"), ("a", 0, "old"), ("b", 0, "old")]
    run.run_all(runs[:3], file, budget=None, limit=1)
    left = missing(read(file), *asked)
    assert left == runs[3:]
    run.run_all(left, file, budget=0, limit=1)  # no time: nothing is started
    assert len(done) == 3
    run.run_all(left, file, budget=None, limit=1)
    assert missing(read(file), *asked) == []
    again = missing(read(file), *asked, retry=True)
    assert {task for task, _, _ in again} == {"b"}
    table = read(file)
    assert len(table) == len(done) == 8
    assert table["message"].dropna().unique().tolist() == ["ValueError: two lines"]
    assert table.loc[table["task"] == "a", "converged"].tolist() == ["True"] * 4


def test_a_failure_is_a_row_with_its_error():
    from defaults.run import child

    def fails() -> dict[str, object]:
        raise ValueError("no such thing")

    assert child(fails, 60) == {"status": "error", "message": "ValueError: no such thing"}
    slow = child(lambda: time.sleep(60), 0.2)
    assert slow["status"] == "error"
    assert "not finished" in slow["message"]
    killed = child(lambda: os.kill(os.getpid(), signal.SIGKILL), 60)
    assert killed == {"status": "error", "message": "ended with exit code -9"}
    assert child(lambda: {"nlpd": 1}, 60) == {"nlpd": 1}


def test_rows_are_not_added_below_other_columns(tmp_path: Path):
    from defaults.results import append

    file = tmp_path / "rows.csv"
    file.write_text("task,split\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="other columns"):
        append(file, {"task": "a"})


# --- the page


def _rows(**nlpd: float) -> list[dict[str, object]]:
    """Five splits of two deciding tasks; the second one is `far` nats worse than its peers where it says so."""
    found = []
    for task in ("near", "far"):
        for split in range(5):
            for method, value in nlpd.items():
                behind = 0.3 if (task, method) == ("far", "default") else 0.0
                row = {"task": task, "split": split, "method": method, "nlpd": value + behind + split}
                found.append(row | {"cpu_s": 8.0 if method == "default" else 4.0, "status": "finished"})
    return found


def _table(rows: list[dict[str, object]]) -> pd.DataFrame:
    from defaults.results import FIELDS, TEXT

    return pd.DataFrame(rows).reindex(columns=list(FIELDS)).astype(dict.fromkeys(TEXT, "string"))


TASKS = {"near": ("deciding", "Near?"), "far": ("deciding", "Far?"), "dev": ("development", "Dev?")}


def test_the_page_says_when_the_deciding_sets_were_not_run():
    from defaults.page import page

    rows = [{"task": "dev", "split": 0, "method": "default", "nlpd": 1.0, "status": "finished"}]
    text = page(_table(rows), TASKS)
    assert "**The deciding sets have not been run yet.**" in text
    assert "| asked | found |" not in text
    assert "| dev | **1.000** |" in text


def test_the_page_says_what_holds_and_names_misses():
    from defaults.page import acceptance, behind, page

    table = _table(_rows(default=1.0, old=2.0, forest=0.9, gp_per_output=1.02))
    default = table["method"] == "default"
    table.loc[default, "coverage"] = np.where(table.loc[default, "task"] == "far", 0.7, 0.95)
    table.loc[default, "converged"] = "True"
    table.loc[default & (table["task"] == "far") & (table["split"] == 4), "converged"] = "False"
    gaps = behind(table, ("forest", "gp_per_output"))
    assert gaps["gap"].to_dict() == pytest.approx({"near": 0.1, "far": 0.4})
    assert set(gaps["rival"]) == {"forest"}
    near, single, coverage, converged, same, cpu = acceptance(table)
    assert (near.holds, near.found) == (False, "0.250 over 2 sets")
    assert (single.holds, single.misses) == (False, ("far: 0.280 nats a target behind a GP per output",))
    assert (coverage.holds, coverage.misses) == (False, ("far: coverage 0.700, and the diagnosis says nothing",))
    assert (converged.holds, converged.found) == (True, "90% of 10 fits")
    assert same.holds is None
    assert (cpu.holds, cpu.found) == (True, "2.00 times over 2 sets")
    text = page(table, TASKS)
    assert "- far: 0.400 nats a target behind random forest" in text
    assert "runs so far: tuned (0 of 10)" in text
    assert "| random forest | 2.900 (0.900 to 4.900) |" in text


def test_a_repeat_that_differs_is_named():
    from defaults.page import acceptance

    again = {"split": 0, "method": "repeat"}
    rows = [*_rows(default=1.0), {"task": "near", "nlpd": 1.0} | again, {"task": "far", "nlpd": 9.0} | again]
    same = list(acceptance(_table(rows)))[4]
    assert (same.holds, same.misses) == (False, ("far (split 0): differs when run again",))


def test_the_guide_has_the_page_that_the_results_make():
    from defaults.page import PAGE, page
    from defaults.results import read, results_file
    from defaults.tasks import TASKS as REAL

    described = {name: (task.role, task.question) for name, task in REAL.items()}
    made = page(read(results_file()), described).rstrip() + "\n"
    assert PAGE.read_text(encoding="utf-8") == made, "cd benchmarks && python -m defaults.page"
