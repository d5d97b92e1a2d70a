"""Models trained for a step or two without tracing, which takes longer than the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mogp import compiling
from mogp.optimizers import base


@contextmanager
def eagerly() -> Iterator[None]:
    """Steps and predictions are called, not compiled. (A line search is compiled: it takes many steps.)"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "compiled", lambda function, *signature, **how: function)
        patch.setattr(compiling, "_TIMES_UNCOMPILED", math.inf)
        yield
