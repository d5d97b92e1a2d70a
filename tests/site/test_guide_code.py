"""The Python of the guide runs, and the names in its table of notation exist."""

from __future__ import annotations

import csv
import inspect
import re
import warnings
from typing import Any

import pytest

from mogp.project import book_root


def blocks(page: str) -> str:
    text = (book_root() / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def test_the_examples_of_the_guide_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import mogp.training

    fit = mogp.training.fit
    monkeypatch.setattr(mogp.training, "fit", lambda model, data: fit(model, data, steps=5, progress=False))
    names: dict[str, Any] = {}
    exec(blocks("intro.md"), names)
    assert "finished after 5 steps" in capsys.readouterr().out
    exec(blocks("chapters/guide/models.md"), names)
    assert float(names["model"].elbo(names["data"])) < 0


def test_the_examples_of_the_data_page_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exec(blocks("chapters/guide/data.md"), names)
    assert names["model_data"].num_outputs == 7
    assert capsys.readouterr().out.split() == ["1600", "400"] * 5


def test_three_calls_answer_whether_a_fit_can_be_trusted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    exec(blocks("chapters/guide/trust.md"), names)
    said = capsys.readouterr().out
    assert names["history"].diagnosis.useful is True
    assert "left out" in said
    assert "held out" in said
    assert names["found"].table["gain"].min() > 0.2
    assert len(names["figure"].axes) == 1


def test_the_names_in_the_notation_table_exist() -> None:
    import numpy as np
    from gpflow.kernels import SquaredExponential

    from mogp import MultiOutputData, fit, posteriors
    from mogp.inducing import kmeans_points
    from mogp.kernels import ConvolvedStack
    from mogp.likelihoods import AugmentReduce, Gaussian, HeteroscedasticGaussian, Softmax
    from mogp.models import SparseMOGP, lvmogp
    from mogp.priors import LMC

    data = MultiOutputData.from_arrays(np.arange(4.0), np.arange(4.0))
    kernel, likelihood = SquaredExponential(), HeteroscedasticGaussian()
    prior = LMC(kernel, functions=2, bias=0.0)
    model = SparseMOGP(prior, kmeans_points(data, 2), likelihood)
    known = {
        "data": [data],
        "Output": [data.outputs[0]],
        "prior": [prior],
        "inducing": [model.inducing],
        "posterior": [model.posterior],
        "likelihood": [likelihood, Gaussian()],
        "kernel": [kernel],
        "model": [model],
        "posteriors": [posteriors],
        "ConvolvedStack": [ConvolvedStack(1, 1, 1)],
        "AugmentReduce": [AugmentReduce(3)],
        "LatentMOGP": [lvmogp(data, inducing=2, latent_inducing=1, scaling=None)],
    }
    arguments = {*inspect.signature(fit).parameters, *inspect.signature(Softmax).parameters}
    with (book_root() / "data" / "notation.csv").open(newline="", encoding="utf-8") as file:
        names = [name.removesuffix("()") for row in csv.DictReader(file) for name in re.findall("`(.+?)`", row["code"])]
    assert len(names) > 20
    for name in names:
        owner, _, attribute = name.partition(".")
        if attribute:
            assert any(hasattr(candidate, attribute) for candidate in known[owner]), name
        else:
            assert name in arguments, name
