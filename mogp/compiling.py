"""`compiled`, `repeated`: functions of TensorFlow, traced once for all objects of one form.

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
from tensorflow.python.eager.record import could_possibly_record

from mogp.forms import Form, form_of, is_written

__all__ = ["compiled", "forget_compiled", "repeated"]

_MOST_KEPT = 64
_LARGEST_KEPT = 1 << 26
_MOST_BYTES_KEPT = 1 << 28
_TIMES_UNCOMPILED = 4
_MOST_COUNTED = 1024
_KEPT: OrderedDict[Hashable, _Graph] = OrderedDict()
_COUNTED: OrderedDict[int, int] = OrderedDict()


def compiled(
    function: Callable[..., Any], *signature: tf.TensorSpec, jit_compile: bool = False
) -> Callable[..., Any]:
    """A compiled function, whose graph serves all functions of the same form (`mogp.forms`).

    The last 64 graphs are kept. They hold on to the variables and data that they were traced with,
    so one that refers to more than 64 MB of them is not kept, and all together to 256 MB at most.
    After `tf.config.run_functions_eagerly(True)` the function itself is returned.

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
    if tf.config.functions_run_eagerly():
        return function
    form = None if tf.distribute.has_strategy() else form_of(function)
    if form is None:
        return _Graph(function, signature, jit_compile, Form((), (), 0)).bound(())
    return _graph(function, form, signature, jit_compile).bound(form.leaves)


def repeated(function: Callable[[], Any]) -> Any:
    """What a function returns: compiled from the fifth time on that one of its form is asked.

    Predictions and monitors are asked once or twice, when tracing would take longer than they do,
    or a hundred times. Inside a graph, and where a gradient may be asked for, it is just called.

    Args:
        function: of no argument, to tensors.

    >>> import tensorflow as tf
    >>> from mogp.compiling import repeated
    >>> def square(variable):
    ...     print("called")
    ...     return variable**2
    >>> for value in range(7):
    ...     x = tf.Variable(float(value))
    ...     found = repeated(lambda: square(x))
    called
    called
    called
    called
    called
    >>> float(found)
    36.0
    """
    # Not under a tape: it knows the variables of the first model of a form, not of the others.
    if not tf.executing_eagerly() or could_possibly_record() or tf.distribute.has_strategy():
        return function()
    if tf.config.functions_run_eagerly():
        return function()
    form = form_of(function)
    if form is None or form.size > _LARGEST_KEPT:
        return function()
    number = hash(form.key)
    times = _COUNTED[number] = _COUNTED.pop(number, 0) + 1
    if len(_COUNTED) > _MOST_COUNTED:
        _COUNTED.popitem(last=False)
    if times <= _TIMES_UNCOMPILED:
        return function()
    return _graph(function, form, (), False).bound(form.leaves)()


def forget_compiled() -> None:
    """Let go of all graphs, and of the variables and data that they were traced with."""
    _KEPT.clear()
    _COUNTED.clear()


def _graph(
    function: Callable[..., Any], form: Form, signature: tuple[tf.TensorSpec, ...], xla: bool
) -> _Graph:
    """The graph of a form: the one that is kept, or a new one."""
    key = (form.key, signature, xla)
    if (graph := _KEPT.get(key)) is not None:
        _KEPT.move_to_end(key)
        return graph
    graph = _Graph(function, signature, xla, form)
    if graph.accounted and form.size <= _LARGEST_KEPT:
        _KEPT[key] = graph
        while len(_KEPT) > _MOST_KEPT or sum(g.size for g in _KEPT.values()) > _MOST_BYTES_KEPT:
            _KEPT.popitem(last=False)
    return graph


class _Graph:
    """A traced function, and where among the leaves of its form what it refers to is.

    Attributes:
        accounted: whether all that it refers to was found there. If not, it serves no other.
        size: of what it holds on to, in bytes.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: tuple[tf.TensorSpec, ...],
        xla: bool,
        form: Form,
    ) -> None:
        # As it would be called: TensorFlow would make arguments of its defaults.
        called = tf.function(lambda *given: function(*given), jit_compile=xla, autograph=False)
        self._call = called.get_concrete_function(*signature)
        self.size = form.size
        place = {id(leaf): i for i, leaf in enumerate(form.leaves)}
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
