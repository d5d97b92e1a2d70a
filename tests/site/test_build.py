"""How the site is put together: what is rewritten, what survives a failure, what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from mogp.book import site as site_module
from mogp.book.runner import run
from mogp.book.site import SiteError, assemble, build_site

CHAPTER = "# %% [markdown]\n# # Title\n\n# %%\n{code}\n"


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def add_chapter(book: Path, code: str = "x = 1") -> Path:
    path = book / "chapters" / "ma" / "2-later.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(CHAPTER.format(code=code), encoding="utf-8")
    return path


def test_assembling_again_rewrites_nothing(small_book: Path) -> None:
    add_chapter(small_book)
    before = times(assemble(small_book / "_build"))
    assert times(assemble(small_book / "_build")) == before


def test_a_page_that_is_gone_leaves_the_source_tree(small_book: Path) -> None:
    chapter = add_chapter(small_book)
    source = assemble(small_book / "_build")
    assert (source / "chapters" / "ma" / "2-later.ipynb").is_file()
    chapter.unlink()
    assemble(small_book / "_build")
    assert not (source / "chapters" / "ma").exists()
    assert "2-later" not in (source / "_toc.yml").read_text(encoding="utf-8")


def test_a_failed_build_says_where_and_keeps_the_last_good_site(small_book: Path) -> None:
    build, page = small_book / "_build", small_book / "chapters" / "guide" / "read.md"
    index = build_site(build)
    before = times(index.parent)
    page.write_text("# Read\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    with pytest.raises(SiteError, match=r"read\.md:3.*nowhere"):
        build_site(build)
    assert times(index.parent) == before
    page.write_text("# Read\n\nMended.\n", encoding="utf-8")
    assert "Mended." in (build_site(build).parent / "chapters" / "guide" / "read.html").read_text(encoding="utf-8")


def test_a_swap_cut_off_between_its_renames_is_undone(small_book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = small_book / "_build" / "site"
    old = site.with_name("site.old")
    old.mkdir(parents=True)
    (old / "index.html").write_text("the last good one", encoding="utf-8")
    monkeypatch.setattr(site_module, "assemble", lambda build: (_ for _ in ()).throw(SiteError("stop")))
    with pytest.raises(SiteError, match="stop"):
        build_site(small_book / "_build")
    assert (site / "index.html").read_text(encoding="utf-8") == "the last good one"


def test_a_chapter_that_the_contents_forget_is_an_error(small_book: Path) -> None:
    shutil.copy(add_chapter(small_book), small_book / "chapters" / "ma" / "3-forgotten.py")
    with pytest.raises(SiteError, match=r"chapters/ma/3-forgotten.*_toc\.yml|_toc\.yml.*chapters/ma/3-forgotten"):
        assemble(small_book / "_build")


def test_a_name_that_no_page_value_has_is_an_error(small_book: Path) -> None:
    (small_book / "intro.md").write_text("# Book\n\n{{ clams }}\n", encoding="utf-8")
    with pytest.raises(Exception, match="clams"):
        assemble(small_book / "_build")


def test_results_of_earlier_code_are_marked(small_book: Path) -> None:
    build = small_book / "_build"
    chapter = add_chapter(small_book, "from mogp.book import Chapter\nChapter('ma/2', profile='smoke')")
    chapter.write_text(
        '# %% [markdown]\n# # Title\n\n# %% tags=["parameters"]\nprofile = "smoke"\nseed = 0\n\n# %%\n1 + 1\n',
        encoding="utf-8",
    )
    run(["ma/2"], profile="smoke", build=build)
    page = assemble(build) / "chapters" / "ma" / "2-later.ipynb"
    assert "has changed since this run" not in nbformat.read(page, as_version=4).cells[0].source
    chapter.write_text(chapter.read_text(encoding="utf-8").replace("1 + 1", "1 + 2"), encoding="utf-8")
    assemble(build)
    assert "has changed since this run" in nbformat.read(page, as_version=4).cells[0].source


def test_a_chapter_without_a_title_is_refused(small_book: Path) -> None:
    add_chapter(small_book).write_text("# %%\nx = 1\n", encoding="utf-8")
    with pytest.raises(SiteError, match=r"2-later\.py has no title"):
        assemble(small_book / "_build")


def test_serving_without_a_site_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mogp book"):
        site_module.serve(tmp_path)


def test_missing_mathjax_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from sphinx.errors import ExtensionError

    from mogp.book.sphinx_ext import offline

    monkeypatch.setattr(offline, "_DISTRIBUTION", "no-such-distribution")
    with pytest.raises(ExtensionError, match="pip install"):
        offline.mathjax_folder()


def test_two_builds_at_once_both_end_with_a_whole_site(small_book: Path) -> None:
    script = "import pathlib, sys; from mogp.book.site import build_site; print(build_site(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", script, str(small_book / "_build")]
    builds = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [build.communicate(timeout=120)[0].strip() for build in builds]
    assert [build.returncode for build in builds] == [0, 0]
    assert outputs == [str(small_book / "_build" / "site" / "index.html")] * 2
    assert (small_book / "_build" / "site" / "chapters" / "guide" / "read.html").is_file()
