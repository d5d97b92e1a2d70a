"""Functions of many rows, evaluated and differentiated a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf


def by_pieces(
    function: Callable[..., tf.Tensor], X: tf.Tensor, parameters: Sequence[tf.Tensor], size: int
) -> tf.Tensor:
    """Evaluate `function(X, *parameters) […, N]` on at most `size` rows of `X [N, …]` at a time.

    The gradient with respect to the parameters evaluates each piece again: no tensor is larger than
    a piece needs.
    """
    if X.shape[0] is not None and X.shape[0] <= size:
        return function(X, *parameters)
    N = tf.shape(X)[0]
    pieces = (N + size - 1) // size
    each = (N + pieces - 1) // tf.maximum(pieces, 1)
    padding = [[0, pieces * each - N], *[[0, 0]] * (X.shape.rank - 1)]
    cut = tf.reshape(tf.pad(X, padding), tf.concat([[pieces, each], tf.shape(X)[1:]], 0))

    @tf.custom_gradient
    def evaluate(
        *parameters: tf.Tensor,
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        values = tf.TensorArray(parameters[0].dtype, size=pieces)
        _, values = tf.while_loop(
            lambda i, _: i < pieces,
            lambda i, v: (i + 1, v.write(i, function(cut[i], *parameters))),
            (0, values),
            parallel_iterations=1,
        )
        joined = _last_but_one(values.stack())

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            end = [[0, 0]] * (upstream.shape.rank - 1) + [[0, pieces * each - N]]
            shape = tf.concat([tf.shape(upstream)[:-1], [pieces, each]], 0)
            by_piece = tf.reshape(tf.pad(upstream, end), shape)

            def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(parameters)
                    value = function(cut[i], *parameters)
                own = tape.gradient(
                    value, parameters, by_piece[..., i, :], unconnected_gradients="zero"
                )
                return i + 1, total + _flat(own)

            # One vector: sums of three tensors in a nested loop break TensorFlow's optimiser.
            start = (0, _flat([tf.zeros_like(p) for p in parameters]))
            total = tf.while_loop(lambda i, _: i < pieces, add, start, parallel_iterations=1)[1]
            parts = tf.split(total, [tf.size(p) for p in parameters])
            return [
                tf.reshape(part, tf.shape(p)) for part, p in zip(parts, parameters, strict=True)
            ]

        return joined[..., :N], gradient

    return evaluate(*parameters)


def _flat(values: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(value, [-1]) for value in values], 0)


def _last_but_one(values: tf.Tensor) -> tf.Tensor:
    """`[pieces, …, each]` as `[…, pieces x each]`."""
    order = [*range(1, values.shape.rank - 1), 0, values.shape.rank - 1]
    moved = tf.transpose(values, order)
    return tf.reshape(moved, tf.concat([tf.shape(moved)[:-2], [-1]], 0))
