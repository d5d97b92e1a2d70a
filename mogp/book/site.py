"""The book as a site and as a PDF, by Jupyter Book.

`build_site` works in three steps, each of which leaves the last good site alone until the next has
succeeded:

1. assemble `<build>/site-source`: the guide pages with their generated tables filled in
   (`site_pages`), the executed notebook of every chapter in `_toc.yml` (or its source, with a
   notice, when it has not been run) and a page of reference for every public module. Only files
   that changed are written, so that Sphinx rebuilds only those;
2. run Jupyter Book there, with warnings as errors;
3. swap the result into `<build>/site`.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import yaml
from filelock import FileLock

from mogp.book import site_pages
from mogp.book.results import result_folder
from mogp.book.site_api import api_pages
from mogp.book.site_pages import SiteChapter
from mogp.book.sources import chapters
from mogp.project import book_root

__all__ = ["SiteError", "build_pdf", "build_site", "serve"]

_API, _DATA = "chapters/guide/api", "chapters/guide/data"
_JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
_CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

_NOT_FOR_READERS = (".buildinfo", ".doctrees", "*.map", "*webpack-macros.html")
_PDF_MARGIN: Any = {"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}


class SiteError(RuntimeError):
    """The book could not be built; the message lists what Jupyter Book reported."""


def build_site(build: Path, *, strict: bool = True) -> Path:
    """Build the site of the book from the chapter runs in `build`, and return its `index.html`.

    With `strict` every warning (a missing reference, a bad heading, a broken link between pages) is
    an error. A failed build raises `SiteError` and leaves the site that was there.
    """
    with _alone(build):
        _recover(build / "site")
        html = _jupyter_book(assemble(build), build / "site-stage", "html", strict=strict)
        return _swap_in(html, build / "site") / "index.html"


def build_pdf(build: Path) -> Path:
    """Print the whole book to `<build>/mogp-book.pdf`, typeset and paged by Chromium."""
    from playwright.sync_api import sync_playwright

    browser_path = chromium()
    pdf, part = build / "mogp-book.pdf", build / "mogp-book.pdf.part"
    with _alone(build):
        html = _jupyter_book(assemble(build), build / "pdf-stage", "singlehtml", strict=False)
    with _served(html) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=list(_CHROMIUM_FLAGS)
        )
        page = browser.new_page()
        page.goto(f"{address}/intro.html")
        page.evaluate("() => window.MathJax ? MathJax.startup.promise.then(() => true) : true")
        page.pdf(
            path=part,
            format="A4",
            print_background=True,
            outline=True,
            tagged=True,
            margin=_PDF_MARGIN,
        )
        browser.close()
    os.replace(part, pdf)
    return pdf


def serve(build: Path, port: int = 8000) -> None:
    """Show the built site at http://127.0.0.1:`port` until interrupted."""
    site = build / "site"
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"no site in {site}; build it first with: mogp book")
    with _server(site, port) as server:
        print(f"The book is at http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def chromium() -> str:
    """The browser to use: `MOGP_CHROMIUM`, or the first Chromium or Chrome on the path."""
    named = os.environ.get("MOGP_CHROMIUM")
    found = (
        [named]
        if named
        else [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    )
    for path in found:
        if path and Path(path).is_file():
            return path
    raise FileNotFoundError(
        f"no Chromium found (MOGP_CHROMIUM={named or 'unset'}); install it (Debian: apt install"
        " chromium) or set MOGP_CHROMIUM to its path."
    )


def assemble(build: Path) -> Path:
    """Write the source tree that Jupyter Book reads, and return its folder.

    Only what changed is touched.
    """
    root = book_root()
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    shown = _chapters(root, build, toc)
    tables = site_pages.context(build, shown)
    render = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )

    files: dict[str, bytes] = {}
    for name in ("_config.yml", "references.bib"):
        files[name] = (root / name).read_bytes()
    for asset in sorted((root / "_static").rglob("*")):
        if asset.is_file():
            files[asset.relative_to(root).as_posix()] = asset.read_bytes()
    if (figure := site_pages.hero_figure(shown)) is not None:
        files[f"_static/figures/{figure.name}"] = figure.read_bytes()
    for page in [root / "intro.md", *sorted((root / "chapters" / "guide").glob("*.md"))]:
        text = render.from_string(page.read_text(encoding="utf-8")).render(tables)
        files[page.relative_to(root).as_posix()] = text.encode()
    for chapter in shown:
        files[f"{chapter.file}.ipynb"] = _notebook_bytes(_chapter_page(chapter))
        files[f"notebooks/{chapter.source.slug}.ipynb"] = _notebook_bytes(chapter.source.notebook())
    modules = api_pages() if _API in _listed(toc) else {}
    files |= {f"{name}.md": text.encode() for name, text in modules.items()}
    cards = site_pages.data_pages(build, shown) if _DATA in _listed(toc) else {}
    files |= cards
    below = {
        _API: list(modules),
        _DATA: [name.removesuffix(".md") for name in cards if name.endswith(".md")],
    }
    contents = _toc(toc, {chapter.file for chapter in shown}, below)
    files["_toc.yml"] = yaml.safe_dump(contents, sort_keys=False).encode()

    return _sync(files, build / "site-source")


def _chapters(root: Path, build: Path, toc: dict[str, Any]) -> list[SiteChapter]:
    """The chapters of `_toc.yml` whose sources exist, in its order.

    A source that it does not list is an error.
    """
    sources = {
        source.path.relative_to(root).with_suffix("").as_posix(): source for source in chapters()
    }
    listed = _listed(toc)
    if unlisted := sorted(sources.keys() - set(listed)):
        raise SiteError(
            f"chapters that _toc.yml does not list: {', '.join(unlisted)}. Add them under their"
            " document."
        )
    return [
        SiteChapter(f, sources[f], result_folder(build, sources[f].key))
        for f in listed
        if f in sources
    ]


def _listed(toc: dict[str, Any]) -> list[str]:
    return [entry["file"] for part in toc["parts"] for entry in part["chapters"]]


def _toc(toc: dict[str, Any], chapters: set[str], below: dict[str, list[str]]) -> dict[str, Any]:
    """The table of contents with the chapters at hand only.

    Generated pages stand below those that list them.
    """
    parts = []
    for part in toc["parts"]:
        entries: list[dict[str, Any]] = []
        for entry in part["chapters"]:
            file = entry["file"]
            if file in below:
                entries.append({"file": file, "sections": [{"file": page} for page in below[file]]})
            elif "/guide/" in file or file in chapters:
                entries.append({"file": file})
        if entries:
            parts.append({"caption": part["caption"], "chapters": entries})
    return {"format": toc["format"], "root": toc["root"], "parts": parts}


def _chapter_page(chapter: SiteChapter) -> nbformat.NotebookNode:
    """The executed notebook as the site shows it.

    A line of facts stands under the title, and solutions are folded away.
    """
    source = chapter.source.notebook()
    notebook = nbformat.read(chapter.executed, as_version=4) if chapter.has_run else source
    if not chapter.has_run:
        notice = "This chapter has not been run in this build: its code is shown without results."
    elif _code(notebook) != _code(source):
        notice = (
            "The source of this chapter has changed since this run: some results below belong to"
            " the earlier code."
        )
    else:
        notice = ""

    shown = nbformat.from_dict(notebook)
    shown.metadata = nbformat.from_dict({"kernelspec": source.metadata["kernelspec"]})
    for cell in shown.cells:
        _fold_solution(cell)
    first = next(
        (
            cell
            for cell in shown.cells
            if cell.cell_type == "markdown" and cell.source.startswith("# ")
        ),
        None,
    )
    if first is None:
        raise SiteError(
            f"{chapter.source.path.name} has no title: its first markdown cell must start with '#"
            " Title'."
        )
    title, _, rest = first.source.partition("\n")
    first.source = f"{title}\n\n{site_pages.chapter_facts(chapter, notice)}\n{rest}"
    return shown


def _code(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        cell.source.strip()
        for cell in notebook.cells
        if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get("tags", [])
    ]


def _fold_solution(cell: nbformat.NotebookNode) -> None:
    tags = cell.metadata.get("tags", [])
    if "solution" not in tags:
        return
    if cell.cell_type == "code":
        cell.metadata["tags"] = [*tags, "hide-cell"]
        cell.metadata["mystnb"] = {
            "code_prompt_show": "Solution in code",
            "code_prompt_hide": "Solution in code",
        }
    elif not re.search(r"^#", cell.source, re.MULTILINE):
        cell.source = f"::::{{dropdown}} Solution\n{cell.source}\n::::"


def _notebook_bytes(notebook: nbformat.NotebookNode) -> bytes:
    return str(nbformat.writes(notebook)).encode() + b"\n"


@contextmanager
def _alone(build: Path) -> Iterator[None]:
    """Keep two builds of the same book from writing into each other's folders: the second waits."""
    build.mkdir(parents=True, exist_ok=True)
    with FileLock(build / ".site.lock"):
        yield


def _sync(files: dict[str, bytes], folder: Path) -> Path:
    """Make `folder` hold exactly `files`, leaving the modification times of unchanged ones."""
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in files:
            path.unlink()
    return folder


def _jupyter_book(source: Path, stage: Path, builder: str, *, strict: bool) -> Path:
    """Run Jupyter Book from `source` into `stage`, and return the folder of pages it made."""
    command = [
        sys.executable,
        "-c",
        _JUPYTER_BOOK,
        "build",
        str(source),
        "--path-output",
        str(stage),
    ]
    command += ["--builder", builder, "--quiet", *(("-W", "-n", "--keep-going") if strict else ())]
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "NO_COLOR": "1",
    }
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    html = stage / "_build" / builder
    if result.returncode or not (html / "index.html").is_file():
        shutil.rmtree(
            stage, ignore_errors=True
        )  # Sphinx would not report the warnings of cached pages again
        report = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
        wrong = re.compile(r"^(?!.*absl::).*(WARNING|ERROR|CRITICAL|Error\b)")
        lines = [line.strip() for line in report.splitlines() if wrong.match(line)]
        raise SiteError(
            "the book did not build:\n"
            + "\n".join(dict.fromkeys(lines or report.splitlines()[-20:]))
        )
    return html


def _recover(site: Path) -> None:
    """Undo a swap that was cut off between its two renames."""
    old = site.with_name("site.old")
    if old.exists() and not site.exists():
        old.rename(site)


def _swap_in(html: Path, site: Path) -> Path:
    """Put a copy of `html` in the place of `site`.

    Whoever reads the site meanwhile sees the old or the new one.
    """
    fresh, old = site.with_name("site.new"), site.with_name("site.old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(
        html,
        fresh,
        ignore=shutil.ignore_patterns(".buildinfo", ".doctrees", "*.map", "*webpack-macros.html"),
    )
    (fresh / ".nojekyll").touch()
    if site.exists():
        site.rename(old)
    fresh.rename(site)
    shutil.rmtree(old, ignore_errors=True)
    return site


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal shows the address only."""


def _server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    return http.server.ThreadingHTTPServer(
        ("127.0.0.1", port), functools.partial(_QuietHandler, directory=str(folder))
    )


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The address of `folder` on a free port of loopback, while the block runs."""
    with _server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
