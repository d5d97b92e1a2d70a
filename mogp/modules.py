"""This module with these tensors: copies of kernels, likelihoods, … that compute with other values.

A formula of GPflow reads its parameters as attributes. To have it compute with rows of a table,
with values stacked for many kernels, or with values that were read already, a copy of the module is
given tensors in place of parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar

import gpflow
import tensorflow as tf

__all__ = ["own_parameters", "with_tensors"]

_Module = TypeVar("_Module", bound=tf.Module)
_STEP = re.compile(r"\.(\w+)|\[(\w+)\]")


def with_tensors(module: _Module, tensors: Mapping[str, Any], **changed: Any) -> _Module:
    """A copy of a module in which tensors stand in place of some of its parameters.

    The module itself stays as it is, and shares with the copy whatever was not replaced. No
    variable is made, so it may be called inside a `tf.function`; gradients flow to the tensors.

    Args:
        module: a kernel, a likelihood, …; of any depth.
        tensors: by the path of the parameter, as `gpflow.utilities.parameter_dict` writes it:
            `.variance`, `.kernels[0].lengthscales`.
        changed: further attributes of the copy, by name.

    >>> import gpflow
    >>> import tensorflow as tf
    >>> from mogp.modules import with_tensors
    >>> kernel = gpflow.kernels.Linear() + gpflow.kernels.Constant(2.0)
    >>> other = with_tensors(kernel, {".kernels[1].variance": tf.constant(3.0, tf.float64)})
    >>> x = tf.zeros([1, 1], tf.float64)
    >>> float(other(x)), float(kernel(x))
    (3.0, 2.0)
    """
    made: _Module = _replaced(module, {_steps(path): value for path, value in tensors.items()}, "")
    if made is module:
        made = copy(module)
    # Not by `setattr`: TensorFlow would enter new values into lists that both copies share.
    vars(made).update(changed)
    return made


def own_parameters(module: tf.Module) -> dict[str, gpflow.Parameter]:
    """The parameters of a module by name, without those of modules inside it.

    >>> import gpflow
    >>> from mogp.modules import own_parameters
    >>> sorted(own_parameters(gpflow.kernels.SquaredExponential()))
    ['lengthscales', 'variance']
    """
    return {name: p for name, p in vars(module).items() if isinstance(p, gpflow.Parameter)}


def _steps(path: str) -> tuple[str, ...]:
    """`.kernels[0].variance` as `("kernels", "0", "variance")`."""
    if not re.fullmatch(rf"(?:{_STEP.pattern})+", path):
        raise ValueError(
            f"{path!r} is not the path of a parameter; expected one such as '.variance' or"
            " '.kernels[0].variance': gpflow.utilities.parameter_dict lists them."
        )
    return tuple(name or item for name, item in _STEP.findall(path))


def _replaced(value: Any, tensors: Mapping[tuple[str, ...], Any], path: str) -> Any:
    """A copy of a value with what lies at the paths below it replaced; itself if there are none."""
    if () in tensors:
        return tensors[()]
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    for (first, *rest), tensor in tensors.items():
        below.setdefault(first, {})[tuple(rest)] = tensor
    if not below:
        return value
    inside = isinstance(value, list | tuple)
    parts = dict(enumerate(value)) if inside else value if isinstance(value, dict) else vars(value)
    names = {str(name): name for name in parts}
    for first in below:
        if first not in names:
            raise ValueError(f"there is no {path}.{first} in a {type(value).__name__}.")
    new = {
        names[first]: _replaced(parts[names[first]], rest, f"{path}.{first}")
        for first, rest in below.items()
    }
    if inside:
        return tuple(new.get(i, part) for i, part in parts.items())
    if isinstance(value, dict):
        return {**value, **new}
    one = copy(value)
    vars(one).update(new)
    return one
