"""Second derivatives of a loss, for optimisers of few parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mogp.optimizers.base import Flat, Loss

__all__ = ["second_derivatives"]


def second_derivatives(
    loss: Loss, variables: Sequence[tf.Variable], flat: Flat, others: Sequence[tf.Variable] = ()
) -> tuple[tf.Tensor, list[Any], tf.Tensor, list[Any]]:
    """The loss, its gradients and Hessian `[n, n]` by the variables, and gradients by others."""
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape() as inner:
            value = loss()
        gradients = inner.gradient(value, [*variables, *others])
        g = flat.flatten(gradients[: len(variables)])
    blocks = outer.jacobian(g, variables)
    hessian = tf.concat(
        [
            (
                tf.zeros([flat.size, v.shape.num_elements()], flat.dtype)
                if block is None
                else tf.cast(tf.reshape(block, [flat.size, -1]), flat.dtype)
            )
            for v, block in zip(variables, blocks, strict=True)
        ],
        1,
    )
    return value, gradients[: len(variables)], hessian, gradients[len(variables) :]
