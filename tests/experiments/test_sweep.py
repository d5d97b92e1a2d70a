"""A sweep gives the same table however often it is killed, and says which runs failed and why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mogp.experiments import SweepError, sweep


def product(x, y):
    return {"product": x * y}


@pytest.fixture(autouse=True)
def environment_kept(monkeypatch):
    """Workers that live in this process set variables of its environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def here(tmp_path):
    """`sweep` in this process, with a cache of its own."""
    return partial(sweep, workers=0, cache=tmp_path / "cache", progress=False)


@pytest.fixture
def counted(tmp_path):
    """A function that leaves a trace of every call, and the number of calls so far."""
    log = tmp_path / "calls"

    def function(x):
        with log.open("a") as lines:
            lines.write(f"{x}\n")
        return {"square": x * x}

    return function, lambda: len(log.read_text().split()) if log.exists() else 0


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return path


def start(path, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, path, *arguments], env=environment, stdout=subprocess.PIPE, text=True)


# ---------------------------------------------------------------------------------------------------------- the grid


def test_rows_follow_the_product_of_the_grid_with_the_last_name_fastest(here):
    table = here(product, {"x": [3, 1], "y": [10, 20]})
    assert table[["x", "y", "product"]].to_numpy().tolist() == [[3, 10, 30], [3, 20, 60], [1, 10, 10], [1, 20, 20]]
    assert list(table.columns) == ["x", "y", "product", "seconds"]
    assert (table.seconds >= 0).all()


def test_a_list_of_points_and_a_data_frame_are_grids_too(here):
    points = [{"x": 2, "y": 0.5}, {"x": 1, "y": 4.0}]
    expected = [1.0, 4.0]
    assert here(product, points)["product"].tolist() == expected
    assert here(product, pd.DataFrame(points))["product"].tolist() == expected


def test_a_point_that_occurs_twice_is_run_once_and_listed_twice(here, counted):
    function, calls = counted
    table = here(function, {"x": [2, 3, 2]})
    assert table.square.tolist() == [4, 9, 4]
    assert calls() == 2


@pytest.mark.parametrize("grid", [{"x": [], "y": [1]}, [], pd.DataFrame({"x": [], "y": []})])
def test_an_empty_grid_gives_an_empty_table(here, grid):
    table = here(product, grid)
    assert len(table) == 0
    assert list(table.columns)[-1] == "seconds"


@pytest.mark.parametrize(
    ("grid", "message"), [({"x": 3}, r"\[3\] for a single one"), ({"x": "ab"}, "'ab'"), ([3], "point 0")]
)
def test_what_is_no_grid_is_refused(here, grid, message):
    with pytest.raises(TypeError, match=message):
        here(product, grid)


@pytest.mark.parametrize("option", [{"workers": -1}, {"threads": 0}, {"retries": -1}])
def test_counts_below_their_least_are_refused(here, option):
    with pytest.raises(ValueError, match="must be at least"):
        here(product, {"x": [1], "y": [1]}, **option)


# --------------------------------------------------------------------------------------------------------- the cache


def test_finished_runs_are_not_run_again_and_a_larger_grid_runs_only_what_is_new(here, counted):
    function, calls = counted
    first = here(function, {"x": [1, 2]})
    pd.testing.assert_frame_equal(here(function, {"x": [1, 2]}), first)
    assert calls() == 2
    assert here(function, {"x": [0, 1, 2]}).square.tolist() == [0, 1, 4]
    assert calls() == 3


def test_points_that_differ_in_type_or_content_only_are_different_runs(here):
    def kind(value):
        return {"kind": type(value).__name__, "total": float(np.sum(value))}

    table = here(kind, [{"value": v} for v in (1, 1.0, True, np.array([1, 0]), np.array([0, 2]))])
    assert table.kind.tolist() == ["int", "float", "bool", "ndarray", "ndarray"]
    assert table.total.tolist() == [1.0, 1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def run(x): return {'y': x + 1}", "def run(x): return {'y': x + 2}"),
        ("def run(x, by=1): return {'y': x + by}", "def run(x, by=2): return {'y': x + by}"),
        ("BY = 1\ndef run(x): return {'y': x + BY}", "BY = 2\ndef run(x): return {'y': x + BY}"),
        (
            "def more(x): return x + 1\ndef run(x): return {'y': more(x)}",
            "def more(x): return x + 2\ndef run(x): return {'y': more(x)}",
        ),
        (
            "class More:\n    by = 1\ndef run(x): return {'y': x + More.by}",
            "class More:\n    by = 2\ndef run(x): return {'y': x + More.by}",
        ),
        (
            "def make(by):\n    def run(x): return {'y': x + by}\n    return run\nrun = make(1)",
            "def make(by):\n    def run(x): return {'y': x + by}\n    return run\nrun = make(2)",
        ),
        (
            "class More:\n    def run(self, x): return {'y': x + self.by}\nmore = More()\nmore.by = 1\nrun = more.run",
            "class More:\n    def run(self, x): return {'y': x + self.by}\nmore = More()\nmore.by = 2\nrun = more.run",
        ),
        (
            "class More:\n    def __call__(self, x): return {'y': x + 1}\nrun = More()",
            "class More:\n    def __call__(self, x): return {'y': x + 2}\nrun = More()",
        ),
        (
            "from functools import cache\n@cache\ndef more(x): return x + 1\ndef run(x): return {'y': more(x)}",
            "from functools import cache\n@cache\ndef more(x): return x + 2\ndef run(x): return {'y': more(x)}",
        ),
        (
            "from functools import partial\nrun = partial(lambda x, by: {'y': x + by}, by=1)",
            "from functools import partial\nrun = partial(lambda x, by: {'y': x + by}, by=2)",
        ),
        (
            "import numpy as np\nBY = np.array([1, 0])\ndef run(x): return {'y': x + [BY.sum() for _ in '1'][0]}",
            "import numpy as np\nBY = np.array([1, 1])\ndef run(x): return {'y': x + [BY.sum() for _ in '1'][0]}",
        ),
    ],
    ids=[
        "body",
        "default",
        "global",
        "helper",
        "class",
        "closure",
        "method",
        "callable",
        "decorated",
        "partial",
        "array inside a comprehension",
    ],
)
def test_changing_the_code_or_what_it_uses_runs_it_again(here, tmp_path, before, after):
    results = []
    for number, source in enumerate((before, before, after)):
        path = tmp_path / f"version{number}.py"
        path.write_text(source)
        namespace = {"__name__": "study"}
        exec(compile(source, str(path), "exec"), namespace)
        results.append(here(namespace["run"], {"x": [1]}).y[0])
    assert results == [2, 2, 3]
    assert len(list((tmp_path / "cache").glob("*.json"))) == 2


def test_a_global_that_shares_its_name_with_an_attribute_is_not_part_of_the_key(here, tmp_path):
    source = "class Table:\n    rows = 2\n\ndef run(x):\n    return {'y': x * Table().rows}\n"
    for rows in (5, 6):
        namespace = {"__name__": "study", "rows": rows}
        path = tmp_path / "study.py"
        path.write_text(source)
        exec(compile(source, str(path), "exec"), namespace)
        assert here(namespace["run"], {"x": [1]}).y[0] == 2
    assert len(list((tmp_path / "cache").glob("*.json"))) == 1


def test_functions_can_be_values_of_the_grid(here):
    def plus(x):
        return x + 1

    def times(x):
        return 5 * x

    def apply(f, x):
        return {"y": f(x)}

    assert here(apply, {"f": [plus, times], "x": [2, 3]}).y.tolist() == [3, 4, 10, 15]


def test_the_source_of_the_package_is_part_of_the_key(here, counted, monkeypatch):
    function, calls = counted
    here(function, {"x": [1]})
    monkeypatch.setattr("mogp.experiments.fingerprint.package_key", lambda: "another version")
    here(function, {"x": [1]})
    assert calls() == 2


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"result": 3}', b'{"result": {"square": {"no": 1}}, "seconds": 1}']
)
def test_a_corrupt_record_is_ignored_and_replaced(here, counted, tmp_path, damage):
    function, calls = counted
    here(function, {"x": [3]})
    (record,) = (tmp_path / "cache").iterdir()
    sound = json.loads(record.read_text())["result"]
    record.write_bytes(damage)
    assert here(function, {"x": [3]}).square.tolist() == [9]
    assert calls() == 2
    assert json.loads(record.read_text())["result"] == sound


def test_a_cache_that_cannot_be_written_is_reported_before_anything_runs(counted, tmp_path):
    function, calls = counted
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(OSError, match=r"cache=FOLDER"):
        sweep(function, {"x": [1]}, workers=0, cache=tmp_path / "cache" / "deeper")
    assert calls() == 0


def test_results_go_to_the_build_folder_under_the_name_of_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setenv("MOGP_BUILD", str(tmp_path))
    sweep(product, {"x": [1], "y": [2]}, workers=0)
    sweep(product, {"x": [1], "y": [2]}, workers=0, name="a study / two")
    assert sorted(folder.name for folder in (tmp_path / "sweeps").iterdir()) == ["a_study_two", "product"]


def test_a_value_without_hashable_content_is_refused_by_name(here):
    with pytest.raises(ValueError, match=r"grid value 'x' is a _thread\.lock"):
        here(lambda x: {}, {"x": [__import__("threading").Lock()]})


# ------------------------------------------------------------------------------------------------------- the results


def test_results_of_every_kind_survive_the_cache_bit_for_bit(here):
    values = {
        "float": 0.1 + 0.2,
        "not a number": float("nan"),
        "infinite": -np.inf,
        "scalar": np.float32(0.1),
        "none": None,
        "text": "été",
        "matrix": np.array([[0.1, np.nan], [np.inf, 1e-300]]),
        "counts": np.arange(3, dtype=np.int16),
        "empty": np.empty((0,)),
        "mask": np.array([True, False]),
        "nested": [1, [2.5, "a"]],
    }
    fresh, cached = (here(lambda x: values, {"x": [1]}).iloc[0] for _ in range(2))
    for table in (fresh, cached):
        for name in ("matrix", "counts", "empty", "mask"):
            np.testing.assert_array_equal(table[name], values[name])
            assert table[name].dtype == values[name].dtype
        assert table["float"] == 0.1 + 0.2
        assert np.isnan(table["not a number"])
        assert table["infinite"] == -np.inf
        assert table["scalar"] == float(np.float32(0.1))
        assert table["none"] is None
        assert (table["text"], table["nested"]) == ("été", [1, [2.5, "a"]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 3.0, "must return a dict of named results, not a float"),
        (lambda x: None, "not a NoneType"),
        (lambda x: {"model": object()}, "result 'model' is a object; a run returns numbers"),
        (lambda x: {"names": np.array(["a"])}, "result 'names' is an array of 1 values of type <U1"),
        (lambda x: {"draws": np.zeros(1_000_001)}, "at most 1000000 numbers"),
        (lambda x: {1: 2}, "1 is a int"),
        (lambda x: {"x": 1}, "result 'x' has the name of another column"),
        (lambda x: {"seconds": 1}, "result 'seconds' has the name of another column"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_its_run_with_the_reason(here, function, message):
    with pytest.raises(SweepError, match=message):
        here(function, {"x": [1]})


def test_failures_are_reported_with_point_and_traceback_after_the_others_finished(here, tmp_path):
    def picky(x):
        if x == 1:
            raise ZeroDivisionError("one is not to be had")
        return {"y": x}

    with pytest.raises(SweepError) as caught:
        here(picky, {"x": [0, 1, 2]})
    message = str(caught.value)
    assert "1 of 3 runs failed" in message
    assert "{'x': 1}" in message
    assert "ZeroDivisionError: one is not to be had" in message
    assert [failure.point for failure in caught.value.failures] == [{"x": 1}]
    assert caught.value.table.y.tolist() == [0, 2]
    assert len(list((tmp_path / "cache").glob("*.json"))) == 2


# --------------------------------------------------------------------------------------------------------- processes


def test_a_run_whose_worker_dies_is_run_again_and_one_that_always_kills_is_reported(tmp_path, monkeypatch):
    """One cluster start for: retry, report, order, thread settings, and an environment left as it was."""

    def deadly(x):
        if x == 2 and not (tmp_path / "died once").exists():
            (tmp_path / "died once").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_CPP_MIN_LOG_LEVEL")
        return {
            "y": 10 * x,
            "pid": os.getpid(),
            "settings": [os.environ.get(name) for name in names],
            "loaded": "tensorflow" in sys.modules,
        }

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    before = dict(os.environ)
    with pytest.raises(SweepError, match=r"worker died each time") as caught:
        sweep(deadly, {"x": [4, 3, 2, 1]}, cache=tmp_path / "cache", workers=2, retries=1)
    assert dict(os.environ) == before
    assert [failure.point for failure in caught.value.failures] == [{"x": 3}]
    table = caught.value.table
    assert table.x.tolist() == [4, 2, 1]
    assert table.y.tolist() == [40, 20, 10]
    assert table.settings.tolist() == [["1", "1", "1", "2"]] * 3
    assert not table.loaded.any()
    assert os.getpid() not in set(table.pid)


def test_a_killed_sweep_resumes_to_the_table_of_an_undisturbed_one(tmp_path):
    """The script has no main guard, and its function lives in it: both must work."""
    path = script(
        tmp_path,
        """
        import os, sys, time
        from pathlib import Path
        from mogp.experiments import fingerprint, sweep

        fingerprint.package_key = lambda: "the package does not change meanwhile"

        def slow(x, folder):
            (Path(folder) / f"{x}-{os.getpid()}").touch()
            time.sleep(0.3)
            return {"root": x ** 0.5}

        cache, calls = sys.argv[1:]
        table = sweep(slow, {"x": list(range(8)), "folder": [calls]}, cache=cache, workers=2)
        print(table[["x", "root"]].to_json())
        """,
    )
    calls = tmp_path / "calls"
    calls.mkdir()
    cache = tmp_path / "cache"
    process = start(path, cache, calls)
    deadline = time.monotonic() + 60
    while len(list(cache.glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    kept = [int(json.loads(file.read_text())["point"]["x"]) for file in cache.glob("*.json")]
    assert 3 <= len(kept) < 8
    orphans = {int(call.name.split("-")[1]) for call in calls.iterdir()}
    while any(Path(f"/proc/{pid}").exists() for pid in orphans) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert time.monotonic() < deadline, "workers outlived the sweep that started them"
    resumed = start(path, cache, calls)
    output = resumed.communicate(timeout=90)[0]
    assert resumed.returncode == 0
    expected = pd.DataFrame({"x": range(8), "root": [x**0.5 for x in range(8)]})
    assert json.loads(output) == json.loads(expected.to_json())
    assert [len(list(calls.glob(f"{x}-*"))) for x in kept] == [1] * len(kept)


def test_a_worker_keeps_its_process_and_traces_models_of_one_form_once(tmp_path):
    def fitted(seed):
        import mogp
        from mogp import MultiOutputData, compiling
        from mogp.likelihoods import Gaussian
        from mogp.models import hetmogp_lmc

        traced, graph = [], compiling._Graph.__init__
        compiling._Graph.__init__ = lambda self, *given: (traced.append(1), graph(self, *given))[1]
        x = np.random.default_rng(seed).uniform(size=60)
        data = MultiOutputData.from_arrays(x, np.sin(6 * x))
        model = hetmogp_lmc(data, [Gaussian()], inducing=5, seed=seed)
        mogp.fit(model, data, steps=3, batch_size=10, seed=seed, progress=False)
        compiling._Graph.__init__ = graph
        return {"traced": len(traced), "process": os.getpid()}

    table = sweep(fitted, {"seed": [0, 1, 2, 3]}, cache=tmp_path, workers=1, progress=False)
    assert table.process.nunique() == 1
    assert sorted(table.traced) == [0, 0, 0, 1]


def test_runs_go_to_the_scheduler_whose_address_is_given(tmp_path, monkeypatch):
    from dask.distributed import LocalCluster

    options = {"n_workers": 1, "processes": False, "dashboard_address": None, "host": "127.0.0.1", "protocol": "tcp://"}
    with LocalCluster(**options) as cluster:
        table = sweep(product, {"x": [2], "y": [3]}, cache=tmp_path, cluster=cluster.scheduler_address)
        monkeypatch.setenv("MOGP_CLUSTER", cluster.scheduler_address)
        more = sweep(product, {"x": [2], "y": [3, 4]}, cache=tmp_path)
    assert table["product"].tolist() == [6]
    assert more["product"].tolist() == [6, 8]


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("mogp.experiments.workers.CONNECT_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        sweep(product, {"x": [2], "y": [3]}, cache=tmp_path, cluster="tcp://127.0.0.1:9")


def test_a_sweep_runs_inside_a_notebook(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "from mogp.experiments import sweep\nOFFSET = 5\ndef shifted(x): return {'y': x + OFFSET}",
        f"table = sweep(shifted, {{'x': [1, 2]}}, cache={str(tmp_path)!r}, workers=1)\nprint(table.y.tolist())",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    kernel = {"PYTHONPATH": os.pathsep.join(sys.path), "MOGP_CHAPTER_OUT": str(tmp_path)}
    NotebookClient(notebook, timeout=90).execute(env={**os.environ, **kernel})
    (output,) = notebook.cells[1].outputs
    assert output["text"] == "[6, 7]\n"


def test_importing_experiments_imports_neither_dask_nor_tensorflow():
    code = "import sys, mogp.experiments; sys.exit('tensorflow' in sys.modules or 'distributed' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_no_scratch_folder_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    sweep(product, {"x": [1], "y": [2]}, cache=tmp_path / "cache", workers=1)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [Path(file).suffix for file in os.listdir(tmp_path / "cache")] == [".json"]
