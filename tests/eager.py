"""Models trained for a step or two without tracing, which takes longer than the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tensorflow as tf

from mogp import compiling


class Called:
    """In place of a graph, the function that it would have been traced from."""

    accounted, size = False, 0

    def __init__(self, function: Callable[..., Any], *how: Any, **more: Any) -> None:
        self.function = function

    def bound(self, leaves: Any) -> Callable[..., Any]:
        return self.function


@contextmanager
def eagerly() -> Iterator[None]:
    """Functions are called, not compiled: those of TensorFlow and those of `mogp.compiling`."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiling, "_Graph", Called)
            yield
    finally:
        tf.config.run_functions_eagerly(before)
