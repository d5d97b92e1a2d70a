"""One built site for all tests: the real guide pages around two small chapters, one of them with results."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mogp.project import book_root

RAN = """# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Gaussian processes, a small chapter
#
# The quokka is a word that stands nowhere else. The bound is
#
# $$\\mathcal L=\\sum_{d=1}^D\\sum_{n=1}^{N_d}
# \\mathbb E_{q(f_d(\\mathbf x_n))}\\log p(y_d(\\mathbf x_n)\\mid f_d(\\mathbf x_n))
# -\\sum_{q=1}^Q\\mathrm{KL}(q(\\mathbf u_q)\\,\\Vert\\,p(\\mathbf u_q))\\le\\log p(\\mathbf y_1,\\dots,\\mathbf y_D),$$
#
# with $u_q\\sim\\mathcal{GP}(0,k_q)$.

# %% tags=["parameters"]
profile = "smoke"
seed = 0

# %%
from mogp.book import Chapter

chapter = Chapter("ma/2", profile=profile, seed=seed)

# %% [markdown]
# ## A figure and two verdicts

# %%
with chapter.figure("ma-fig-2-2", figsize=(5, 3)) as ax:
    ax.plot([0, 1, 2], [0, 1, 0])
chapter.claim("ma-2-c1", holds=True, measured="largest gap 0.02")
chapter.claim("ma-2-c2", holds=False, measured="ratio 1.1")

# %%
import pandas as pd

print(pd.DataFrame([range(40)]).to_string())

# %% [markdown]
# ## Exercises

# %% [markdown] tags=["exercise"]
# Draw three functions.

# %% tags=["solution"]
draws = 3
"""

NOT_RUN = """# %% [markdown]
# # Sparse posteriors, not run yet
#
# Text.

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
1 + 1
"""


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the real pages and two chapters of its own."""
    real, root = book_root(), tmp_path_factory.mktemp("book")
    for name in ("_config.yml", "_toc.yml", "intro.md", "references.bib"):
        shutil.copy(real / name, root / name)
    for name in ("_static", "chapters/guide", "data"):
        shutil.copytree(real / name, root / name, ignore=shutil.ignore_patterns("results"))
    for name, text in (("ma/2-gaussian-processes", RAN), ("panos/2-sparse-posteriors", NOT_RUN)):
        path = root / "chapters" / f"{name}.py"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="session")
def build(book: Path) -> Path:
    """A build folder in which one of the two chapters has been run."""
    from mogp.book.runner import run

    folder = book / "_build"
    with _inside(book):
        run(["ma/2"], profile="smoke", build=folder)
    assert (folder / "chapters" / "ma-2" / "notebook.ipynb").is_file()
    return folder


@pytest.fixture(scope="session")
def site(book: Path, build: Path) -> Path:
    from mogp.book.site import build_site

    with _inside(book):
        return build_site(build).parent


@pytest.fixture(autouse=True)
def inside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of the small book are in it; the next test of the worker, which may be of another folder, is not."""
    if "build" not in request.fixturenames:
        yield
        return
    with _inside(request.getfixturevalue("book")):
        yield


@contextmanager
def _inside(book: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOGP_BOOK", str(book))
        patch.setenv("MOGP_BUILD", str(book / "_build"))
        yield


@pytest.fixture
def small_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two pages and no API reference, which builds in seconds; its build folder is `_build`."""
    real = book_root()
    shutil.copy(real / "_config.yml", tmp_path / "_config.yml")
    shutil.copy(real / "references.bib", tmp_path / "references.bib")
    shutil.copytree(real / "_static", tmp_path / "_static")
    (tmp_path / "chapters" / "guide").mkdir(parents=True)
    (tmp_path / "intro.md").write_text("# A small book\n\n$e^x$, {{ claims }} claims.\n", encoding="utf-8")
    (tmp_path / "chapters" / "guide" / "read.md").write_text("# Read\n\nText.\n", encoding="utf-8")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: intro\nparts:\n"
        "- caption: Guide\n  chapters: [{file: chapters/guide/read}, {file: chapters/ma/2-later}]\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("MOGP_BOOK", str(tmp_path))
    monkeypatch.setenv("MOGP_BUILD", str(tmp_path / "_build"))
    return tmp_path
