"""The form of an object: what a graph that is traced from it has written into it.

A graph knows variables and large tensors by reference: they are handed to it when it runs. All
else that the code reads while it is traced becomes part of the graph: classes, functions, numbers,
names, arrays, small tensors, which attributes are the same object. Two objects that agree in these
have the same *form*; a graph traced from one computes the same for the other, when it is handed the
other's variables and tensors.
"""

from __future__ import annotations

import enum
import sys
import sysconfig
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

__all__ = ["Form", "form_of", "handed", "is_written"]

_WRITTEN = 128
"""TensorFlow writes eager tensors of up to this many numbers into a graph, as constants."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_NAMES = (enum.Enum, types.BuiltinFunctionType, np.ufunc, np.dtype, tf.DType)
_OF_TENSORFLOW = ("_name", "_name_scope", "_scope_name", "_obj_reference_counts_dict")


class Form(NamedTuple):
    """What a graph has written into it, and what it is handed.

    Attributes:
        key: equal for objects of the same form.
        leaves: the tensors that a graph refers to, in the order in which the walk met them: large
            ones, and the handles of variables.
        size: of what the leaves hold, in bytes.
    """

    key: Hashable
    leaves: tuple[tf.Tensor, ...]
    size: int


def form_of(value: Any) -> Form | None:
    """The form of a value; None if it has parts of which there is no telling.

    A function is its code, its defaults and what it closes over; if it is not of an installed
    package (but of a notebook, say), also the globals that it names, which may change. An object is
    its class and its attributes, but for those that its class lists in `_untraced`: what no graph
    reads.

    Args:
        value: a function, a model, a source of batches, …

    >>> import tensorflow as tf
    >>> from mogp.forms import form_of
    >>> def doubled(variable):
    ...     return lambda: 2 * variable
    >>> a, b, c = tf.Variable(1.0), tf.Variable(5.0), tf.Variable([1.0, 2.0])
    >>> form_of(doubled(a)).key == form_of(doubled(b)).key
    True
    >>> form_of(doubled(a)).key == form_of(doubled(c)).key
    False
    """
    walk = _Walk()
    try:
        walk.visit(gpflow.config.config())
        walk.visit(value)
    except _NoTellingError:
        return None
    return Form(tuple(walk.tokens), tuple(walk.leaves), walk.size)


def is_written(tensor: tf.Tensor) -> bool:
    """Whether TensorFlow writes an eager tensor into a graph, as a constant.

    >>> import tensorflow as tf
    >>> from mogp.forms import is_written
    >>> is_written(tf.zeros([2])), is_written(tf.zeros([1000]))
    (True, False)
    """
    handle = tensor.dtype in (tf.resource, tf.variant)
    return not handle and tensor.shape.num_elements() <= _WRITTEN


def handed(value: Any, dtype: tf.DType) -> tf.Tensor | tf.Variable:
    """Numbers that a graph is handed, however few: a tensor, or a variable in place of a small one.

    Written into a graph, each seed and each small data set would need a graph of its own. (Inside a
    graph there is no choice.)

    Args:
        value: numbers.
        dtype: of the tensor.

    >>> import tensorflow as tf
    >>> from mogp.forms import handed
    >>> int(handed(7, tf.int64))
    7
    """
    tensor = tf.constant(value, dtype)
    small = not tf.inside_function() and is_written(tensor)
    return tf.Variable(tensor, trainable=False) if small else tensor


class _NoTellingError(Exception):
    """A part of which there is no telling what a graph reads of it."""


class _Walk:
    """Goes through an object once, part by part."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.leaves: list[tf.Tensor] = []
        self.size = 0
        self._met: dict[int, int] = {}
        # What the walk itself makes must outlive it: numbers of objects that are gone are reused.
        self._made: list[Any] = []

    def visit(self, value: Any) -> None:
        """Add what a graph would know of a value."""
        if type(value) in _PLAIN:
            self.tokens += (type(value), value)
            return
        if isinstance(value, _NAMES):
            self.tokens.append(value)
            return
        if id(value) in self._met:
            self.tokens += ("again", self._met[id(value)])
            return
        self._met[id(value)] = len(self._met)
        self._made.append(value)
        for kinds, look in _LOOKS:
            if isinstance(value, kinds):
                look(self, value)
                return
        self._object(value)

    def _variable(self, variable: tf.Variable) -> None:
        self.tokens += ("variable", tuple(variable.shape), variable.dtype, variable.trainable)
        self._leaf(variable.handle, variable)

    def _tensor(self, tensor: tf.Tensor) -> None:
        if not hasattr(tensor, "numpy"):
            raise _NoTellingError  # of a graph that is being traced
        self.tokens += ("tensor", tuple(tensor.shape), tensor.dtype)
        if is_written(tensor):
            self.tokens.append(tensor.numpy().tobytes())
        else:
            self._leaf(tensor, tensor)

    def _leaf(self, tensor: tf.Tensor, holds: tf.Tensor | tf.Variable) -> None:
        self.leaves.append(tensor)
        self.size += (holds.shape.num_elements() or 0) * holds.dtype.size

    def _sparse(self, tensor: tf.SparseTensor) -> None:
        self._each("sparse", (tensor.indices, tensor.values, tensor.dense_shape))

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.hasobject:
            raise _NoTellingError
        content = sha256(np.ascontiguousarray(array).tobytes()).digest()
        self.tokens += ("array", array.shape, array.dtype.str, content)

    def _number(self, number: np.generic) -> None:
        self.tokens += (type(number), number.tobytes())

    def _sequence(self, values: Sequence[Any]) -> None:
        self._each(type(values), values)

    def _mapping(self, values: Mapping[Any, Any]) -> None:
        self._each("names", list(values))
        self._each("values", list(values.values()))

    def _slice(self, value: slice | range) -> None:
        self._each(type(value), (value.start, value.stop, value.step))

    def _parameter(self, parameter: gpflow.Parameter) -> None:
        what = (parameter.transform, parameter.prior, parameter.prior_on)
        self._each("parameter", (parameter.unconstrained_variable, *what))

    def _probability(self, value: Any) -> None:
        """A bijector or a distribution: its class and what it was made with."""
        made = {k: v for k, v in value.parameters.items() if k not in ("name", "self", "__class__")}
        self._each(type(value), [made])

    def _partial(self, value: partial[Any]) -> None:
        self._each("partial", (value.func, value.args, value.keywords))

    def _method(self, method: types.MethodType) -> None:
        self._each("method", (method.__func__, method.__self__))

    def _module(self, module: types.ModuleType) -> None:
        if not _installed(module.__name__):
            raise _NoTellingError  # It may be loaded again, with other functions.
        self.tokens.append(module)

    def _class(self, cls: type) -> None:
        self.tokens.append(cls)
        if not _installed(cls.__module__):
            own = (c for c in cls.__mro__ if not _installed(c.__module__))
            members = (m for c in own for m in vars(c).values())
            self._each("methods", [f for m in members for f in _functions_of(m)])

    def _function(self, function: types.FunctionType) -> None:
        found: Any = sys.modules.get(function.__module__ or "")
        installed = _installed(function.__module__) and function.__globals__ is getattr(
            found, "__dict__", None
        )
        if installed and getattr(found, function.__qualname__, None) is function:
            self.tokens.append(function)
            return
        self.tokens += ("function", function.__module__, function.__qualname__)
        self._code(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self._each("closure", [cells, function.__defaults__, function.__kwdefaults__])
        if not installed:
            known = function.__globals__
            names = sorted(set(_names_in(function.__code__)) & known.keys())
            self._mapping({name: known[name] for name in names})

    def _code(self, code: types.CodeType) -> None:
        """The instructions, without the lines and the file that they stand in."""
        self.tokens += (code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self.tokens += (type(constant), constant)

    def _object(self, value: Any) -> None:
        if not hasattr(value, "__dict__") or type(value).__module__ in ("builtins", "_weakref"):
            raise _NoTellingError
        untraced = {n for c in type(value).__mro__ for n in vars(c).get("_untraced", ())}
        untraced.update(_OF_TENSORFLOW)
        own = {
            name: part
            for name, part in sorted(vars(value).items())
            if not name.startswith(("_self_", "_tf_")) and name not in untraced
        }
        slots = [n for c in type(value).__mro__ for n in vars(c).get("__slots__", ())]
        if any(n not in ("__dict__", "__weakref__") for n in slots):
            raise _NoTellingError
        self.tokens.append(type(value))
        self._mapping(own)

    def _each(self, kind: Any, values: Sequence[Any]) -> None:
        self._made.append(values)
        self.tokens += (kind, len(values))
        for value in values:
            self.visit(value)

    def _refuse(self, value: Any) -> None:
        raise _NoTellingError


_LOOKS: tuple[tuple[Any, Callable[[_Walk, Any], None]], ...] = (
    (tf.Variable, _Walk._variable),
    (gpflow.Parameter, _Walk._parameter),
    (tf.SparseTensor, _Walk._sparse),
    (tf.Tensor, _Walk._tensor),
    (np.generic, _Walk._number),
    (np.ndarray, _Walk._array),
    ((tuple, list), _Walk._sequence),
    (Mapping, _Walk._mapping),
    ((slice, range), _Walk._slice),
    ((tfp.bijectors.Bijector, tfp.distributions.Distribution), _Walk._probability),
    (partial, _Walk._partial),
    (types.MethodType, _Walk._method),
    (types.FunctionType, _Walk._function),
    (types.ModuleType, _Walk._module),
    (type, _Walk._class),
    ((np.random.Generator, np.random.RandomState, set, frozenset), _Walk._refuse),
)


@cache
def _installed(module: str | None) -> bool:
    """Whether a module is part of Python, of an installed package or of this one: it stays."""
    top = (module or "__main__").partition(".")[0]
    if top in sys.stdlib_module_names or top == __name__.partition(".")[0]:
        return top != "__main__"
    where = getattr(sys.modules.get(top), "__file__", None)
    roots = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return where is not None and any(Path(where).is_relative_to(root) for root in roots)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """What code calls by name, and the code of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _functions_of(member: Any) -> Iterator[Any]:
    """The functions that an attribute of a class is made of."""
    if isinstance(member, types.FunctionType):
        yield member
    elif isinstance(member, classmethod | staticmethod):
        yield member.__func__
    elif isinstance(member, property):
        yield from (f for f in (member.fget, member.fset) if f is not None)
