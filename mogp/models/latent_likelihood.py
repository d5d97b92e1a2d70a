"""One likelihood for all outputs of a `LatentMOGP`, some of whose parameters differ by output.

A parameter that is a number is shared by all outputs. One with a value for each output, `[D]`, such
as the noise variances of `Gaussian(variance=[0.1, 0.2])`, differs by output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.functions import Function
from gpflow.likelihoods import Likelihood

from mogp.likelihoods import ReadsFunctions
from mogp.modules import own_parameters, with_tensors
from mogp.priors import Marginals


def check_one_function(likelihood: Likelihood, outputs: int) -> None:
    """Raise unless the likelihood reads one function, by itself, and its parameters fit."""
    kind = type(likelihood).__name__
    if isinstance(likelihood, ReadsFunctions) or (likelihood.latent_dim or 1) != 1:
        raise TypeError(f"{kind} reads several functions; give a likelihood of one function.")
    for name, value in vars(likelihood).items():
        if isinstance(value, Function):
            raise TypeError(
                f"the {name} of {kind} is a function of the inputs; give a number, or a value for"
                " each output."
            )
    for name, parameter in own_parameters(likelihood).items():
        if parameter.shape.rank and tuple(parameter.shape) != (outputs,):
            raise ValueError(
                f"the {name} of {kind} has the shape {tuple(parameter.shape)}; expected a number,"
                f" or a value for each of {outputs} outputs."
            )


def by_output(likelihood: Likelihood) -> dict[str, gpflow.Parameter]:
    """The parameters that have a value for each output, by name."""
    return {name: p for name, p in own_parameters(likelihood).items() if p.shape.rank == 1}


def of_outputs(likelihood: Likelihood, outputs: tf.Tensor) -> Any:
    """The likelihood of some outputs `[B]`: tensors `[B]` in place of parameters that differ."""
    taken = {f".{name}": rows_of(p, outputs) for name, p in by_output(likelihood).items()}
    return with_tensors(likelihood, taken)


def rows_of(parameter: gpflow.Parameter, outputs: tf.Tensor) -> tf.Tensor:
    """The rows of some outputs of a parameter with a row for each.

    Where they are not all of them, only they are read and have a gradient, so that the cost of a
    step does not grow with the number of outputs (see `Adam(lazy=True)`).
    """
    if outputs.shape[0] is None or outputs.shape[0] >= parameter.shape[0]:
        return tf.gather(parameter, outputs)
    return parameter.transform.forward(tf.gather(parameter.unconstrained_variable, outputs))


def noise_of(likelihood: Any, outputs: tf.Tensor) -> tf.Tensor | None:
    """The noise variances `[B]` of some outputs where targets are Gaussian; None for others.

    Args:
        likelihood: `of_outputs`.
        outputs: `[B]`.
    """
    if not isinstance(likelihood, gpflow.likelihoods.Gaussian):
        return None
    own = tf.square(likelihood.scale) if likelihood.variance is None else likelihood.variance
    return own if own.shape.rank else tf.broadcast_to(own, tf.shape(outputs))


def on_rows(likelihood: Any, rule: str, f: Marginals, *Y: tf.Tensor) -> Any:
    """A rule of a likelihood, which takes columns, on functions `[B, …]` of some outputs.

    Args:
        likelihood: `of_outputs`.
        rule: the name of the method.
        f: of any shape that begins with the outputs.
        Y: targets of that shape, if the rule reads them.
    """
    shape = tf.shape(f.mean)
    each = tf.reduce_prod(shape[1:])
    by_row = {
        f".{name}": tf.repeat(value, each)[:, None]
        for name, value in vars(likelihood).items()
        if isinstance(value, tf.Tensor) and value.shape.rank == 1
    }
    flat = [tf.reshape(a, [-1, 1]) for a in (*f, *Y)]
    no_inputs = tf.zeros([tf.shape(flat[0])[0], 0], flat[0].dtype)
    result = getattr(with_tensors(likelihood, by_row), rule)(no_inputs, *flat)
    return (
        tuple(tf.reshape(r, shape) for r in result)
        if isinstance(result, tuple)
        else tf.reshape(result, shape)
    )


def with_values(likelihood: Likelihood, values: Mapping[str, npt.ArrayLike]) -> Likelihood:
    """A copy whose parameters that differ by output have these values, of any number of outputs."""
    made = gpflow.utilities.deepcopy(likelihood)
    for name, new in values.items():
        old = getattr(likelihood, name)
        # A value at its bound, as may come from training, has no inverse.
        least = 1.001 * float(old.transform.forward(tf.constant(-np.inf, old.dtype)))
        own = np.maximum(np.asarray(new, float), least)
        setattr(made, name, gpflow.Parameter(own, transform=old.transform, trainable=old.trainable))
    return made
