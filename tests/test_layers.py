"""A lower folder never imports a higher one."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mogp"
LAYERS = [
    {"project", "files", "data", "labels", "batches", "class_batches", "padded", "metrics", "linalg", "minimise"},
    {"kernels"},
    {"inducing"},
    {"priors"},
    {"posteriors"},
    {"likelihoods"},
    {"models"},
    {"citations", "optimizers", "diagnostics"},
    {"training", "saving"},
    {"estimators"},
    {"datasets", "plotting"},
    {"experiments"},
    {"companion"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in ("__init__.py", "_data"))


def imported(path: Path) -> set[str]:
    """Parts of the package that a module imports when it is itself imported or run, type-checking blocks aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names = set()
    for node in ast.walk(tree):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        names |= {m.split(".")[1] for m in modules if m.startswith("mogp.")}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_imports_from_a_higher_layer(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert own in HEIGHT, f"{own} has no layer: add it to LAYERS"
    above = {name for name in imported(path) if HEIGHT[name] > HEIGHT[own]}
    allowed = {("data", "batches")} if own == "data" else set()
    assert not {name for name in above if (own, name) not in allowed}


def test_the_whole_package_has_layers():
    parts = {
        p.name.removesuffix(".py") for p in PACKAGE.iterdir() if not p.name.startswith("_") and p.suffix in ("", ".py")
    }
    assert parts - {"py.typed"} == set(HEIGHT)


def test_no_mapped_loops_in_the_training_path():
    folders = ("kernels", "inducing", "priors", "posteriors", "likelihoods", "models", "optimizers")
    sources = [p for f in folders for p in (PACKAGE / f).rglob("*.py")] + [
        PACKAGE / "training.py",
        PACKAGE / "batches.py",
        PACKAGE / "class_batches.py",
        PACKAGE / "padded.py",
    ]
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert "map_fn" not in text, path
        assert "py_function" not in text, path
        assert "numpy_function" not in text, path
