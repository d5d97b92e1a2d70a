"""A lower room never imports a higher one, in whatever form the import is written."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mogp"
LAYERS = [
    {"project", "files", "errors", "linalg", "modules", "forms", "compiling", "config"},
    {"data", "metrics"},
    {"kernels"},
    {"inducing"},
    {"priors"},
    {"posteriors"},
    {"likelihoods"},
    {"optimizers"},
    {"models"},
    {"citations"},
    {"training", "saving"},
    {"estimators"},
    {"datasets", "plotting"},
    {"experiments"},
    {"book"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in ("__init__.py", "_data"))


def imported(source: str, package: tuple[str, ...]) -> set[str]:
    """Rooms that a module imports when it is itself imported or run, type-checking blocks aside.

    Every form counts: `import mogp.x`, `from mogp.x import y`, `from mogp import x`, relative imports, and
    `importlib.import_module("mogp.x")` with the name written out.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    names: set[str] = set()
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            modules = [f"{base}.{a.name}" for a in node.names] if base == "mogp" else [base]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            modules = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        names |= {_room(m.split(".")[1]) for m in modules if m.startswith("mogp.")}
    return names - {""}


def _room(name: str) -> str:
    """The room of a name that `mogp` itself exports, or the room of that name."""
    if name in HEIGHT:
        return name
    import mogp

    return mogp._LAZY.get(name, "mogp.").split(".")[1]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import mogp.book.report", "book"),
        ("from mogp.book import Chapter", "book"),
        ("from mogp import book", "book"),
        ("from mogp import book as b", "book"),
        ("from mogp import fit", "training"),
        ("from ..book import Chapter", "book"),
        ("from .. import book", "book"),
        ("def f():\n    from mogp.book import Chapter", "book"),
        ("import importlib\nimportlib.import_module('mogp.book')", "book"),
    ],
)
def test_every_form_of_import_is_seen(line, found):
    assert imported(line, ("mogp", "models")) == {found}


def test_imports_for_type_checkers_do_not_count():
    assert imported("if TYPE_CHECKING:\n    from mogp.book import Chapter", ("mogp", "models")) == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_imports_from_a_higher_room(path):
    inside = path.relative_to(PACKAGE)
    own = inside.parts[0].removesuffix(".py")
    assert own in HEIGHT, f"{own} has no layer: add it to LAYERS"
    package = ("mogp", *inside.parts[:-1])
    above = {n for n in imported(path.read_text("utf-8"), package) if HEIGHT[n] > HEIGHT[own]}
    assert not above


def test_the_whole_package_has_layers():
    parts = {
        p.name.removesuffix(".py")
        for p in PACKAGE.iterdir()
        if not p.name.startswith(("_", ".")) and p.suffix in ("", ".py")
    }
    assert parts - {"py.typed"} == set(HEIGHT)


def test_all_that_a_user_needs_is_imported_without_the_book():
    code = (
        "import sys, mogp\n"
        "for name in dir(mogp): getattr(mogp, name)\n"
        "sys.exit(any(m.startswith('mogp.book') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_mapped_loops_in_the_training_path():
    rooms = (
        "data",
        "kernels",
        "inducing",
        "priors",
        "posteriors",
        "likelihoods",
        "models",
        "optimizers",
        "training",
    )
    for path in (p for room in rooms for p in (PACKAGE / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "map_fn" not in text, path
        assert "py_function" not in text, path
        assert "numpy_function" not in text, path
