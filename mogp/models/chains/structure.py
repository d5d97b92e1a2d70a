"""What a chain is made of, and whether it makes sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel

from mogp.data import Array
from mogp.likelihoods import PerOutput, ReadsFunctions, Softmax
from mogp.posteriors import Factors


class Component(NamedTuple):
    """GPs of a chain that share a kernel, inducing inputs and what they read.

    A GP is numbered by its place in the chain, copies of a component one after the other.

    Attributes:
        kernel: over the columns `[x, arguments]`, or `[arguments]` alone.
        arguments: for each further column, the GPs before this component whose values add up to it.
        inputs: whether it reads `x`.
        copies: how many GPs.

    >>> from gpflow.kernels import SquaredExponential
    >>> first = Component(SquaredExponential())  # reads x
    >>> second = Component(SquaredExponential(lengthscales=[1.0, 1.0]), arguments=((0,),))
    >>> second.inputs, second.copies  # reads x and the value of GP 0
    (True, 1)
    """

    kernel: Kernel
    arguments: tuple[tuple[int, ...], ...] = ()
    inputs: bool = True
    copies: int = 1


class Layer(NamedTuple):
    """What all rows share of a component.

    Attributes:
        Z: `[M, columns]` inducing inputs.
        factors: of the covariance of its inducing values.
        mean: `[copies, M]` means of the inducing values themselves.
    """

    Z: tf.Tensor
    factors: Factors
    mean: tf.Tensor


def read_columns(component: Component, X: tf.Tensor, draws: Sequence[tf.Tensor]) -> tf.Tensor:
    """What the component reads, `[S N, columns]`; `[N, P]` if that is the inputs alone."""
    if not component.arguments:
        return X
    read = [tf.add_n([draws[c] for c in argument]) for argument in component.arguments]
    columns = tf.stack(read, -1)
    if component.inputs:
        tiled = tf.broadcast_to(X, tf.concat([tf.shape(columns)[:2], tf.shape(X)[1:]], 0))
        columns = tf.concat([tiled, columns], -1)
    width = len(component.arguments) + component.inputs * int(X.shape[1])
    return tf.reshape(columns, [-1, width])


def checked_points(Z: npt.ArrayLike) -> Array:
    """Inducing inputs as numbers `[M, columns]`."""
    points = np.asarray(Z, dtype=float)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or 0 in points.shape or not np.isfinite(points).all():
        raise ValueError(
            f"inducing inputs have shape {points.shape}; expected [M, columns], finite."
        )
    return points


def check_structure(
    components: Sequence[Component],
    functions: Sequence[Mapping[int, float]],
    likelihood: PerOutput,
) -> None:
    """Raise unless components read what is before them, and functions are sums of them."""
    before = 0
    for number, component in enumerate(components):
        if not component.inputs and not component.arguments:
            raise ValueError(f"component {number} reads neither inputs nor other GPs.")
        unknown = [c for argument in component.arguments for c in argument if not 0 <= c < before]
        if unknown:
            raise ValueError(
                f"component {number} reads GP {unknown[0]}; before it there are {before}, from 0."
            )
        before += component.copies
    if len(functions) != likelihood.num_functions:
        raise ValueError(
            f"the likelihoods read {likelihood.num_functions} latent functions, "
            f"the chain makes {len(functions)}."
        )
    unknown = [c for weights in functions for c in weights if not 0 <= c < before]
    if unknown or not all(functions):
        raise ValueError(
            f"functions are sums of GPs 0 to {before - 1}, at least one each; got {functions}."
        )
    for kind in likelihood.likelihoods:
        if isinstance(kind, ReadsFunctions) and not isinstance(kind, Softmax):
            raise TypeError(
                f"a chain cannot use the likelihood {type(kind).__name__}, which asks for"
                " the covariance of its functions; use Softmax(classes) for labels."
            )


def check_inducing(
    components: Sequence[Component],
    inducing: Sequence[Any],
    shared: Any | None,
    input_dim: int,
) -> None:
    """Raise unless there are inducing inputs for every component, as many and as wide as needed."""
    if len(inducing) != len(components):
        raise ValueError(
            f"{len(inducing)} sets of inducing inputs for {len(components)} components."
        )
    if shared is None and any(Z is None for Z in inducing):
        raise ValueError("tied inducing inputs (None) need the shared ones: give shared=Z.")
    sizes = {int(Z.shape[0]) for Z in (shared, *inducing) if Z is not None}
    if len(sizes) != 1:
        raise ValueError(f"sets of {sorted(sizes)} inducing inputs; all components need as many.")
    for number, (Z, component) in enumerate(zip(inducing, components, strict=True)):
        expected = component.inputs * input_dim + len(component.arguments)
        if Z is not None and Z.shape[1] != expected:
            raise ValueError(
                f"inducing inputs of component {number} have {Z.shape[1]} columns, it reads"
                f" {expected}."
            )
