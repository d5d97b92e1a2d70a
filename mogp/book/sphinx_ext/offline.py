"""Serve everything from the site itself: MathJax and its fonts are copied in, scripts of other
hosts are dropped.

Jupyter Book loads MathJax from a content-delivery network, and Thebe (live code, unused here)
announces one. A reader on a train sees neither equations nor the reason. MathJax comes from the
`sphinx-mathjax-offline` distribution: the `tex-chtml` component, its fonts and the TeX extensions
that it loads on demand, 1.9 MB of the 15 MB it holds.
"""

from __future__ import annotations

import re
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_DISTRIBUTION = "sphinx-mathjax-offline"
_COMPONENT = "tex-chtml.js"
_FOLDERS = ("output/chtml/fonts/woff-v2", "input/tex/extensions")
_FOREIGN = re.compile(r"https?://")


def connect(app: Sphinx) -> None:
    """Point Sphinx at the local MathJax and hook the copying and the filtering into the build."""
    app.connect(
        "config-inited",
        lambda app, config: setattr(config, "mathjax_path", f"mathjax/{_COMPONENT}"),
    )
    app.connect("builder-inited", _copy_mathjax)
    app.connect("html-page-context", _drop_foreign_scripts, priority=900)


def mathjax_folder() -> Path:
    """The folder of the installed distribution that holds the MathJax components."""
    try:
        found = [Path(str(f.locate())) for f in files(_DISTRIBUTION) or () if f.name == _COMPONENT]
    except PackageNotFoundError:
        found = []
    if not found:
        raise ExtensionError(
            f"the distribution {_DISTRIBUTION} with {_COMPONENT} is not installed, and the book"
            " needs it to show equations without a network. Install the book extra: pip install -e"
            " '.[book]'."
        )
    return found[0].parent


def _copy_mathjax(app: Sphinx) -> None:
    if app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    if (target / _COMPONENT).is_file():
        return
    for folder in _FOLDERS:
        shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)
    shutil.copyfile(source / _COMPONENT, target / _COMPONENT)


def _drop_foreign_scripts(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    for key in ("script_files", "css_files"):
        context[key] = [asset for asset in context.get(key, []) if not _is_foreign(asset)]


def _is_foreign(asset: Any) -> bool:
    """Whether a script or style names a host, in its address or in the inline text that Thebe
    adds.
    """
    attributes = getattr(asset, "attributes", {})
    return bool(
        _FOREIGN.match(str(getattr(asset, "filename", None) or asset))
        or "THEBE" in attributes.get("body", "")
    )
