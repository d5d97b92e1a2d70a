"""L-BFGS on all the data, by SciPy through GPflow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LBFGS:
    """`scipy.optimize.minimize(method="L-BFGS-B")` on every trainable parameter; deterministic, no
    mini-batches.

    Args:
        options: passed to SciPy (`maxls`, `ftol`, `gtol`, …); `fit` sets `maxiter` from its
            `steps`.
    """

    options: dict[str, Any] = field(default_factory=dict)
