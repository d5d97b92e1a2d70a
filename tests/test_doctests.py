"""Every public class and function shows its use, and the examples run as they are pasted."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

MODULES = [
    "mogp",
    "mogp.errors",
    "mogp.estimators",
    "mogp.experiments",
    "mogp.inducing",
    "mogp.kernels",
    "mogp.likelihoods",
    "mogp.linalg",
    "mogp.metrics",
    "mogp.models",
    "mogp.modules",
    "mogp.optimizers",
    "mogp.plotting",
    "mogp.posteriors",
    "mogp.priors",
    "mogp.training",
]
# What is defined in these modules may lack an example, and its examples may lack their imports. To be emptied.
UNFINISHED: set[str] = set()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Iterator[tuple[str, Any]]:
    """Every exported class and function once, under the first name it is exported as; not constants and aliases."""
    seen: set[int] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        for leaf in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
            found = getattr(module, leaf)
            ours = (inspect.isclass(found) or inspect.isroutine(found)) and found.__module__.startswith("mogp")
            if ours and id(found) not in seen:
                seen.add(id(found))
                yield f"{name}.{leaf}", found


def unfinished(found: Any) -> bool:
    return any(f"{found.__module__}.".startswith(f"{module}.") for module in UNFINISHED)


def examples(name: str, found: Any) -> list[doctest.DocTest]:
    """The examples of a function, or of a class and its methods: a reader has imported it, and nothing else."""
    leaf = name.rpartition(".")[2]
    around = vars(importlib.import_module(found.__module__)) if unfinished(found) else {}
    # `module=False`: methods behind decorators count too.
    tests = doctest.DocTestFinder().find(found, leaf, module=False, globs={**around, leaf: found})
    return [test for test in tests if test.examples]


PUBLIC = dict(public())


@pytest.fixture
def plain_output() -> Iterator[None]:
    """Print options and figures as an interpreter that was just started has them."""
    plt.switch_backend("Agg")
    with mpl.rc_context(mpl.rcParamsDefault | {"backend": "Agg"}), np.printoptions():
        np.set_printoptions(precision=8, suppress=False, threshold=1000, linewidth=75)
        yield
    plt.close("all")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_an_example(name: str) -> None:
    found = PUBLIC[name]
    leaf = name.rpartition(".")[2]
    if any(test.name in (leaf, f"{leaf}.__init__") for test in examples(name, found)):
        return
    if unfinished(found):
        pytest.skip(f"{found.__module__} is unfinished")
    pytest.fail(f"the docstring of {name} has no example; add one that starts with >>>.")


@pytest.mark.parametrize("name", [name for name, found in PUBLIC.items() if examples(name, found)])
def test_examples_print_what_they_say(name: str, plain_output: None) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for test in examples(name, PUBLIC[name]):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
