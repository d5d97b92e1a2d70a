"""`compiled`: functions of TensorFlow, traced once for all objects of one form.

Tracing takes a second or more, longer than most steps of small models together. Twenty restarts,
the folds of a cross-validation or the points of a sweep train models that differ in the values of
variables and data only: the first of them is traced, the others are handed to the same graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import tensorflow as tf

from mogp.forms import form_of, is_written

__all__ = ["compiled", "forget_compiled"]

_MOST_KEPT = 64
_LARGEST_KEPT = 1 << 26
_KEPT: OrderedDict[Hashable, _Graph] = OrderedDict()


def compiled(
    function: Callable[..., Any], *signature: tf.TensorSpec, jit_compile: bool = False
) -> Callable[..., Any]:
    """A compiled function, whose graph serves all functions of the same form (`mogp.forms`).

    The last 64 graphs are kept. One that refers to more than 64 MB of variables and data is not: it
    would hold on to them.

    Args:
        function: of tensors, to tensors. It may change variables.
        signature: shapes and types of its arguments.
        jit_compile: by XLA.

    >>> import tensorflow as tf
    >>> from mogp.compiling import compiled
    >>> def counter(count):
    ...     def add(n):
    ...         print("traced")
    ...         return count.assign_add(n)
    ...     return compiled(add, tf.TensorSpec([], tf.int32))
    >>> first, second = tf.Variable(0), tf.Variable(10)
    >>> int(counter(first)(tf.constant(1))), int(counter(second)(tf.constant(5)))
    traced
    (1, 15)
    """
    form = form_of(function)
    if form is None or tf.distribute.has_strategy():
        return _Graph(function, signature, jit_compile, ()).bound(())
    key = (form.key, signature, jit_compile)
    graph = _KEPT.get(key)
    if graph is None:
        graph = _Graph(function, signature, jit_compile, form.leaves)
        if graph.accounted and form.size <= _LARGEST_KEPT:
            _KEPT[key] = graph
            if len(_KEPT) > _MOST_KEPT:
                _KEPT.popitem(last=False)
    else:
        _KEPT.move_to_end(key)
    return graph.bound(form.leaves)


def forget_compiled() -> None:
    """Let go of all graphs, and of the variables and data that they were traced with."""
    _KEPT.clear()


class _Graph:
    """A traced function, and where among the leaves of its form what it refers to is.

    Attributes:
        accounted: whether all that it refers to was found there. If not, it serves no other.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: tuple[tf.TensorSpec, ...],
        jit_compile: bool,
        leaves: tuple[tf.Tensor, ...],
    ) -> None:
        traced = tf.function(function, jit_compile=jit_compile, autograph=False)
        self._call = traced.get_concrete_function(*signature)
        place = {id(leaf): i for i, leaf in enumerate(leaves)}
        # Small tensors that the walk did not meet (a transform's, say) are constants of the graph.
        self._taken = [place.get(id(t), t) for t in self._call.captured_inputs]
        self.accounted = all(isinstance(t, int) or is_written(t) for t in self._taken)
        self._lock = Lock()

    def bound(self, leaves: tuple[tf.Tensor, ...]) -> Callable[..., Any]:
        """The function, with these leaves in place of those that it was traced with."""
        run: Callable[..., Any] = self._call
        if not self.accounted:
            return run
        handed = [leaves[t] if isinstance(t, int) else t for t in self._taken]

        def call(*arguments: tf.Tensor) -> Any:
            with self._lock:
                self._call.set_external_captures(handed)
                try:
                    return run(*arguments)
                finally:
                    self._call.set_external_captures([])

        return call
