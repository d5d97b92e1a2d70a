"""The Python on the landing page and on the model map runs."""

from __future__ import annotations

import re
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
