"""The reference pages of the site, from the source of the library: nothing is imported."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from mogp import project
from mogp.book.markdown import markdown_table

__all__ = ["PACKAGE", "api_index", "api_pages", "public_names"]

PACKAGE = Path(project.__file__).parent


def api_pages() -> dict[str, str]:
    """A page of reference for every public module, by file name; autodoc fills them."""
    return {f"chapters/guide/api/{module.name}": _api_page(module) for module in _modules()}


def _api_page(module: _Module) -> str:
    imported = ["   :imported-members:"] if module.package else []
    lines = [
        f"# `{module.name}`",
        "",
        "```{eval-rst}",
        f".. automodule:: {module.name}",
        "   :members:",
        *imported,
        "   :show-inheritance:",
        "```",
    ]
    return "\n".join(lines) + "\n"


def api_index() -> str:
    """Every public module with its first line and its names."""
    rows = [
        [
            f"[`{module.name}`](api/{module.name})",
            module.summary,
            ", ".join(f"`{name}`" for name in module.names),
        ]
        for module in _modules()
    ]
    table = markdown_table(["module", "what it is for", "public names"], rows)
    return f":::{{div}} mogp-scroll mogp-wide\n{table}\n:::"


@dataclass(frozen=True)
class _Module:
    name: str
    summary: str
    names: tuple[str, ...]
    package: bool


def _modules() -> list[_Module]:
    """The modules a user imports from: those directly in `mogp`, and its packages."""
    sources = [
        path
        for path in sorted(PACKAGE.glob("*.py"))
        if path.stem not in ("__init__", "cli", "files", "project")
    ]
    sources += sorted(PACKAGE.glob("*/__init__.py"))
    modules = []
    for path in sources:
        names = public_names(path)
        package = path.stem == "__init__"
        if names and (package or not path.stem.startswith("_")):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            summary = re.split(r"\n\s*\n", docstring)[0].replace("\n", " ")
            name = f"mogp.{path.parent.name if package else path.stem}"
            modules.append(_Module(name, summary, tuple(names), package))
    return sorted(modules, key=lambda module: module.name)


def public_names(path: Path) -> list[str]:
    """The names in `__all__` of a source file, or its public functions and classes."""
    if not path.is_file():
        return []
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    defined = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [name for name in defined if not name.startswith("_")]
