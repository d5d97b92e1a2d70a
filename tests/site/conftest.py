"""One built site for all tests: the real guide pages around two small chapters, one of them with results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from mogp.companion import chapter as chapter_module
from mogp.companion.files import write_json
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
from mogp.companion import Chapter

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
        shutil.copytree(real / name, root / name)
    for name, text in (("ma/2-gaussian-processes", RAN), ("panos/2-sparse-posteriors", NOT_RUN)):
        path = root / "chapters" / f"{name}.py"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="session")
def build(book: Path) -> Iterator[Path]:
    """A build folder in which one of the two chapters has been run."""
    folder = book / "_build"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOGP_BOOK", str(book))
        patch.setenv("MOGP_BUILD", str(folder))
        run_in_process(book / "chapters" / "ma" / "2-gaussian-processes.py", folder / "chapters" / "ma-2")
        yield folder


@pytest.fixture(scope="session")
def site(build: Path) -> Path:
    from mogp.companion.site import build_site

    return build_site(build).parent


def run_in_process(source: Path, out: Path) -> None:
    """Run a chapter without a kernel, and leave what the runner leaves: notebook, results, run.json."""
    notebook = jupytext.read(source)
    out.mkdir(parents=True)
    names: dict[str, Any] = {}
    shown: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "MOGP_CHAPTER_OUT", str(out))
        patch.setattr(chapter_module, "_show", shown.append)
        patch.setitem(names, "print", lambda text: shown.append(text))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shown.clear()
                exec(cell.source, names)
                cell["outputs"] = [output_of(item) for item in shown]
    nbformat.write(notebook, out / "notebook.ipynb")
    use = {"name": "toy-gp-1d", "source": "synthetic", "sha256": "0"}
    write_json(
        out / "run.json", {"profile": "smoke", "seconds": 1.5, "date": "2026-01-01T00:00:00+00:00", "data": [use]}
    )


def output_of(item: Any) -> nbformat.NotebookNode:
    if isinstance(item, str):
        return nbformat.v4.new_output("stream", name="stdout", text=item)
    return nbformat.v4.new_output("display_data", data=item._repr_mimebundle_())
