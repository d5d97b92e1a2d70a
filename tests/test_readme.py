"""The code of the README and of the guide's page of examples runs as it is printed.

`python tests/test_readme.py` runs the README's example and keeps the picture that it draws.
"""

import os
import re
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
README, EXAMPLES = ROOT / "README.md", ROOT / "chapters" / "guide" / "examples.md"
PICTURE = ROOT / "_static" / "sensors.png"


def blocks(page: Path = EXAMPLES) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_readme_has_one_example_that_runs_as_pasted_and_draws_its_picture(tmp_path, monkeypatch, capsys):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    (example,) = blocks(README)
    assert len(example.strip().splitlines()) <= 18
    scope: dict[str, object] = {}
    with mpl.rc_context(mpl.rcParamsDefault | {"backend": "Agg"}):  # as in an interpreter that was just started
        exec(example, scope)
    assert "Converged." in capsys.readouterr().out
    drawn, kept = (mpl.image.imread(path) for path in (tmp_path / PICTURE.name, PICTURE))
    assert drawn.shape == kept.shape
    at = np.array([[5.5], [6.5], [7.0]])  # in the gap of the temperature
    predicted = scope["model"].predict(at, "temperature")
    assert (np.abs(predicted["mean"] - np.sin(at[:, 0])) < 0.3).all()


@pytest.mark.parametrize("page", [README, EXAMPLES], ids=lambda page: page.name)
def test_every_file_that_is_linked_is_there(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_quick_start_loads_fits_predicts_plots_and_saves_in_under_fifteen_lines(tmp_path, monkeypatch, capsys):
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 1, 120))
    temperature = np.sin(6 * time) + 0.1 * rng.normal(size=120)
    table = pd.DataFrame({"time": time, "temperature": temperature, "alarm": (temperature > 0.5).astype(int)})
    table.loc[5, "temperature"] = np.nan
    table.to_csv(tmp_path / "sensors.csv", index=False)
    monkeypatch.chdir(tmp_path)

    quick_start, choices = blocks()[:2]
    assert len(quick_start.strip().splitlines()) <= 15
    scope: dict[str, object] = {}
    exec(quick_start.replace("steps=1500", "steps=400"), scope)
    exec(choices, scope)

    assert (tmp_path / "sensors.png").stat().st_size > 5000
    said = capsys.readouterr().out
    assert "finished after 400 steps" in said
    history = scope["history"]
    assert history.elbo[-1] > history.elbo[0] + 50
    predicted = scope["mogp"].load(tmp_path / "sensors.mogp").predict([[0.5]])
    truth = np.sin(3.0)
    assert abs(predicted.query("output == 'temperature'")["mean"].item() - truth) < 0.3


def test_the_example_of_counts_and_annotators_runs_on_the_data_or_their_stand_ins():
    example = next(block for block in blocks() if "ccgpma" in block)
    for written, shorter in (("steps=500", "steps=3"), ("inducing=50", "inducing=10")):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    assert scope["zero"].shape == scope["rate"].shape == (16 * 8 * 24,)
    assert scope["genre"].shape == (300,)
    assert scope["trust"].shape == (300, 7)


def test_the_many_class_example_runs_on_the_data_or_their_stand_ins():
    example = next(block for block in blocks() if "mogps_ar" in block)
    for written, shorter in (
        ("steps=500", "steps=3"),
        ("inducing=50", "inducing=10"),
        ("negatives=1)", "negatives=1, inducing=5)"),
    ):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    test = scope["test"]
    assert scope["labels"].shape == (len(test[0]),)
    assert set(scope["labels"]) <= {0, 1, 2, 3}
    assert scope["coupling"].shape == (3, 3)
    assert scope["model"].prior.num_functions == 28


def test_the_many_label_example_runs_on_the_data_or_their_stand_in():
    example = next(block for block in blocks() if "mlgpf" in block)
    for written, shorter in (
        ("steps=1000", "steps=3"),
        ("inducing=100", "inducing=10"),
        ("subspace_dim=50, steps=500", "subspace_dim=5, steps=3, latents=3, inducing=10"),
    ):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    points, labels = scope["test"].num_points, scope["test"].num_labels
    assert scope["best"].shape == (points, 5)
    assert scope["scores"].shape == (10, labels)
    assert scope["predicted"].shape == (points, labels)


def test_the_replica_example_runs_on_the_data_or_their_stand_in():
    example = next(block for block in blocks() if "hmogp_lv" in block)
    for written, shorter in (("steps=1000", "steps=3"), ("inducing=14", "inducing=4")):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    assert len(scope["table"]) == sum(scope["test"].sizes)
    assert scope["mean"].shape == (2, 1)
    assert scope["wider"].names[-1] == "Osi12"


def test_the_example_of_optimisers_and_priors_runs():
    example = next(block for block in blocks() if "FNG" in block)
    for written, shorter in (("steps=500", "steps=5"), ("inducing=40", "inducing=8"), ("N=500", "N=80")):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    assert len(scope["nlpd"]) == 3
    assert len(scope["spread"]) == 10
    assert np.ptp([np.asarray(one).sum() for one in scope["spread"]]) > 0


def test_the_one_vs_each_example_learns_digits():
    example = next(block for block in blocks() if "ovse" in block)
    assert "steps=1000" in example
    scope: dict[str, object] = {}
    exec(example.replace("steps=1000", "steps=250"), scope)
    truth = scope["test"].outputs[0].Y[:, 0]
    assert np.mean(scope["labels"] != truth) < 0.2
    assert scope["log_bound"].shape == (len(truth), 10)
    assert (np.exp(scope["log_bound"]).sum(1) <= 1 + 1e-9).all()


def test_the_example_of_a_chain_runs_on_the_data_or_their_stand_in(capsys):
    example = next(block for block in blocks() if "GPAR" in block)
    for written, shorter in (
        ("fit(model, train)", "fit(model, train, steps=2, progress=False)"),
        ("steps=20", "steps=1"),
    ):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    assert scope["mean"].shape == scope["var"].shape == (100, 1)
    assert scope["curves"].shape == (50, 100, 7)
    assert "28 steps" in capsys.readouterr().out


def test_the_example_of_latent_chains_runs():
    example = next(block for block in blocks() if "bi_gplar" in block)
    for written, shorter in (("steps=300", "steps=2"), ("n=50", "n=20"), ("inducing=25", "inducing=6")):
        assert written in example
        example = example.replace(written, shorter)
    scope: dict[str, object] = {}
    exec(example, scope)
    rows = len(scope["functions"].test.X)
    assert len(scope["table"]) == rows
    assert scope["curves"].shape == (20, rows, 3)
    assert scope["both"].num_gps == 6


if __name__ == "__main__":
    mpl.use("Agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(blocks(README)[0])
        PICTURE.write_bytes(Path(PICTURE.name).read_bytes())
