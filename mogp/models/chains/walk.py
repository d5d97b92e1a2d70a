"""Down the chain of GPAR: what its layers say of new rows, and what they pass on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf

from mogp.models.chains.path_model import where_known
from mogp.models.chains.regression import Regression

Passes = Literal["means", "functions", "noisy"]
PASSED = {
    "means": "posterior means",
    "functions": "draws of functions, without noise",
    "noisy": "draws of targets, with noise",
}
"""What a layer can pass on, in words."""


class Seen(NamedTuple):
    """A layer at rows, along `S` paths (or `B = 1`, if all are alike).

    Attributes:
        mean: `[B, N]`, of $f$ given what is known of its output.
        var: `[B, N]`, likewise.
        f: `[S, N]`, a draw.
        log_density: `[B, N]`, or `[B, 1]` of all rows together, of what is known; 0 if nothing is.
    """

    mean: tf.Tensor
    var: tf.Tensor
    f: tf.Tensor
    log_density: tf.Tensor


Look = Callable[[Regression, tf.Tensor, tf.Tensor | None, tf.Tensor], Seen]
"""From a layer, what it reads `[B, N, P]`, what is known `[N]` and standard normal numbers
`[S, N]`."""


class Step(NamedTuple):
    """A layer on a walk down the chain, along `S` paths: `[S, N]`, or `[1, N]` if all are alike.

    Attributes:
        mean: of $f$, given all that the weight of a path rests on.
        var: likewise.
        y_mean: of the target, likewise.
        y_var: likewise.
        f: a draw of the function.
        y: a draw of the target, what is known in its place.
    """

    mean: tf.Tensor
    var: tf.Tensor
    y_mean: tf.Tensor
    y_var: tf.Tensor
    f: tf.Tensor
    y: tf.Tensor


def walk(
    layers: Sequence[Regression],
    reads: Callable[[int], range],
    X: tf.Tensor,
    normal: tf.Tensor,
    known: Mapping[int, tf.Tensor],
    passes: Passes,
    look: Look,
) -> tuple[list[Step], tf.Tensor]:
    """Send rows down the chain.

    Args:
        layers: of the chain.
        reads: columns of earlier outputs that a layer reads.
        X: `[N, D]`.
        normal: `[2, L, S, N]`, independent standard normal numbers: for functions and for noise.
        known: standardised values `[N]` by position in the chain, NaN where there is none.
        passes: what a layer passes on.
        look: at a layer: `row_by_row` or `together`.

    Returns:
        A step for each layer, and the log density of all that is known, `[B, N]` or `[B, 1]`.
    """
    path, steps, log_density = X[None], [], tf.zeros([1, 1], X.dtype)
    for position, layer in enumerate(layers):
        own = known.get(position)
        columns = path if reads(position) else X[None]
        seen = look(layer, columns, own, normal[0, position])
        y = where_known(own, seen.f + tf.sqrt(layer.noise) * normal[1, position])
        later = _known_after(known, position)
        passed = {"means": seen.mean, "functions": seen.f, "noisy": y}[passes]
        if passes == "means" and later is not None:
            # A mean cannot learn from a later output; draws, weighted by what that is, can.
            passed = tf.where(later, seen.f, seen.mean)
        path = _beside(path, passed)
        steps.append(_step(seen, y, layer.noise, own, later, noisy=passes == "noisy"))
        log_density += seen.log_density
    return steps, log_density


def _step(
    seen: Seen,
    y: tf.Tensor,
    noise: tf.Tensor,
    known: tf.Tensor | None,
    later: tf.Tensor | None,
    noisy: bool,
) -> Step:
    """Where a later output is known, weights rest on what was passed on: moments are given that."""
    mean, var = seen.mean, seen.var
    y_mean, y_var = mean, var + noise
    if later is not None and noisy:
        there = later if known is None else later & tf.math.is_nan(known)
        gain = var / (var + noise)
        mean, var = (
            tf.where(there, mean + gain * (y - mean), mean),
            tf.where(there, (1 - gain) * var, var),
        )
        y_mean, y_var = tf.where(later, y, y_mean), tf.where(later, tf.zeros_like(y_var), y_var)
    elif later is not None:
        mean, var = tf.where(later, seen.f, mean), tf.where(later, tf.zeros_like(var), var)
        y_mean, y_var = mean, var + noise
    return Step(mean, var, y_mean, y_var, seen.f, y)


def _known_after(known: Mapping[int, tf.Tensor], position: int) -> tf.Tensor | None:
    """Rows `[N]` at which an output after this one is known; None if there are none."""
    after = [~np.isnan(values) for other, values in known.items() if other > position]
    return tf.constant(np.any(after, 0)) if after else None


def _beside(path: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
    """`[B, N, P]` with one more column `[B, N]`; either may be the same for all paths, `B = 1`."""
    B = max(int(path.shape[0]), int(column.shape[0]))
    path = tf.broadcast_to(path, [B, *path.shape[1:]])
    return tf.concat([path, tf.broadcast_to(column, path.shape[:2])[..., None]], 2)


def row_by_row(layer: Regression, X: tf.Tensor, known: tf.Tensor | None, normal: tf.Tensor) -> Seen:
    r"""Each row by itself: $f \sim N(m, v)$ there, and $N(m + g(y - m), (1 - g)v)$ with
    $g = v / (v + \sigma^2)$ given $y = f + \epsilon$.
    """
    mean, var = layer.moments(X)
    log_density = tf.zeros([1, 1], mean.dtype)
    if known is not None:
        there, total = ~tf.math.is_nan(known), var + layer.noise
        gain = tf.where(there, var / total, tf.zeros_like(var))
        away = tf.where(there, known, tf.zeros_like(known)) - mean
        log_p = -0.5 * (tf.math.log(2 * np.pi * total) + tf.square(away) / total)
        log_density = tf.where(there, log_p, tf.zeros_like(log_p))
        mean, var = mean + gain * away, (1 - gain) * var
    return Seen(mean, var, mean + tf.sqrt(var) * normal, log_density)


def together(layer: Regression, X: tf.Tensor, known: tf.Tensor | None, normal: tf.Tensor) -> Seen:
    """All rows at once: a draw is one function, given all that is known at any of them."""
    mean, var, f, log_density = layer.draws(X, normal, known)
    return Seen(mean, var, f, log_density[:, None])


def checked_passes(passes: Passes | None, replace: bool) -> Passes:
    """What layers pass on; raise if it is not what they were trained on."""
    if passes is None:
        return "means" if replace else "noisy"
    if passes not in PASSED:
        raise ValueError(f"passes={passes!r}; expected one of {', '.join(map(repr, PASSED))}.")
    if replace == (passes == "noisy"):
        read, instead = (
            ("posterior means, without noise", "'means' or 'functions', or replace=False")
            if replace
            else ("observed targets, with noise", "'noisy', or replace=True")
        )
        raise ValueError(
            f"passes={passes!r} with replace={replace}: layers are trained on {read}, and must"
            f" read the like in predictions. Take {instead}."
        )
    return passes
