"""Multi-output Gaussian processes in TensorFlow and GPflow.

Four choices make a model: a prior (`mogp.priors`), inducing variables (`mogp.inducing`), a
posterior (`mogp.posteriors`) and likelihoods (`mogp.likelihoods`). `mogp.models` has the named
ones, `mogp.fit` trains them.
"""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

try:
    __version__ = version("mogp-companion")
except PackageNotFoundError:
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from mogp.citations import cite
    from mogp.config import use
    from mogp.data import MultiOutputData
    from mogp.data.labels import LabelData
    from mogp.estimators import MLGPFClassifier
    from mogp.models import SparseMOGP
    from mogp.saving import load, save
    from mogp.training import History, fit

_LAZY = {
    "History": "mogp.training",
    "LabelData": "mogp.data.labels",
    "MLGPFClassifier": "mogp.estimators",
    "MultiOutputData": "mogp.data",
    "SparseMOGP": "mogp.models",
    "cite": "mogp.citations",
    "fit": "mogp.training",
    "load": "mogp.saving",
    "save": "mogp.saving",
    "use": "mogp.config",
}
_MODULES = (
    "datasets",
    "experiments",
    "inducing",
    "kernels",
    "likelihoods",
    "metrics",
    "models",
    "optimizers",
    "plotting",
    "posteriors",
    "priors",
)

__all__ = [
    "History",
    "LabelData",
    "MLGPFClassifier",
    "MultiOutputData",
    "SparseMOGP",
    "__version__",
    "cite",
    "fit",
    "load",
    "save",
    "use",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that `import mogp` is quick."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"mogp.{name}")
    raise AttributeError(f"module 'mogp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
