"""What a training step must cost at least: its kernels, counted by hand, at the speeds that they have on this machine.

A floor counts what the algorithm needs (products, triangular solves, Cholesky factors with their gradients, passes over
arrays) and leaves out what an implementation adds: reshapes, transposes, temporaries, launches of small kernels. Each
kernel is measured in place, at its own shape, with TensorFlow's own kernels in float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

COPIES, LAPS = 4, 5
_WHOLE = 1 << 18


class Product(NamedTuple):
    """`count` products `[batch, m, k] [batch, k, n]`."""

    count: float
    batch: int
    m: int
    k: int
    n: int

    def seconds(self) -> float:
        return self.count * _product(self.batch, self.m, self.k, self.n)


class Solve(NamedTuple):
    """`count` triangular solves `[batch, m, m]⁻¹ [batch, m, n]`."""

    count: float
    batch: int
    m: int
    n: int

    def seconds(self) -> float:
        return self.count * _solve(self.batch, self.m, self.n)


class Cholesky(NamedTuple):
    """`count` factors of `[batch, m, m]`, with their gradients or without."""

    count: float
    batch: int
    m: int
    gradient: bool = True

    def seconds(self) -> float:
        return self.count * _cholesky(self.batch, self.m, self.gradient)


class Passes(NamedTuple):
    """`count` passes over `numbers`: two read, one written; `exponentials` of them are exponentials."""

    count: float
    numbers: int
    exponentials: float = 0

    def seconds(self) -> float:
        exponentials = self.exponentials * _exponentials(self.numbers) if self.exponentials else 0.0
        return self.count * _sums(self.numbers) + exponentials


Count = Product | Solve | Cholesky | Passes


def floor(counts: Sequence[Count]) -> float:
    """Seconds that the counted kernels take here."""
    return sum(count.seconds() for count in counts)


def sparse(latents: int, inducing: int, rows: int, columns: int) -> list[Count]:
    """Counts of a step of `latents` sparse GPs of `columns` inputs, each with a `Kuu` and a full posterior.

    Forward a product for distances, a solve for `A = L⁻¹ Kuf`, a product for `TᵀA`, and sums of squares of both; back
    a solve, two products for `TᵀA`, one for `L`, two for distances.
    """
    L, M, B = latents, inducing, rows
    return [
        Product(3, L, M, B, M),
        Product(1, L, M, M, B),
        Product(3, L, M, columns + 2, B),
        Product(3, L, M, columns + 2, M),
        Solve(2, L, M, B),
        Cholesky(1, L, M),
        # Kuf and its gradient: 3 and an exponential; squares of A and TᵀA: 2; their gradients: 2 and the sum of both.
        Passes(8, L * M * B, 1),
        # Kuu the same; the KL of T, the gradients of T and L, Adam's three moments.
        Passes(8, L * M * M, 1),
    ]


def launch() -> float:
    """Seconds to run a kernel that does next to nothing."""
    numbers = [tf.constant(float(i)) for i in range(200)]

    def chain() -> tf.Tensor:
        total = numbers[0]
        for number in numbers[1:]:
            total = tf.sin(total + number)
        return total

    return _timed(chain) / (2 * len(numbers))


def _product(batch: int, m: int, k: int, n: int) -> float:
    return _each(tf.linalg.matmul, (batch, m, k), (batch, k, n))


def _solve(batch: int, m: int, n: int) -> float:
    # Random triangles are badly conditioned, and overflow is slow: a scaled identity is added.
    return _each(lambda a, b: tf.linalg.triangular_solve(a, b), (batch, m, m), (batch, m, n), ridge=3.0 * m)


def _cholesky(batch: int, m: int, gradient: bool) -> float:
    def both(a: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(a)
            factor = tf.linalg.cholesky(a)
        return tape.gradient(factor, a, output_gradients=by)

    square = np.random.default_rng(0).normal(size=(COPIES, batch, m, m))
    good = square @ np.swapaxes(square, -1, -2) + m * np.eye(m)
    kernel = both if gradient else lambda a, _: tf.linalg.cholesky(a)
    return _of(kernel, tf.unstack(tf.constant(good)), tf.unstack(tf.constant(square)))


def _sums(numbers: int) -> float:
    part = min(numbers, _WHOLE)
    return _each(lambda a, b: a * b, (part,), (part,)) * numbers / part


def _exponentials(numbers: int) -> float:
    part = min(numbers, _WHOLE)
    return _each(lambda a, _: tf.exp(a), (part,), (1,)) * numbers / part


def _each(
    kernel: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], one: Sequence[int], other: Sequence[int], ridge: float = 0.0
) -> float:
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(COPIES, *shape)) for shape in (one, other))
    if ridge:
        first += ridge * np.eye(one[-1])
    return _of(kernel, tf.unstack(tf.constant(first)), tf.unstack(tf.constant(second)))


def _of(kernel: Callable[..., tf.Tensor], first: Sequence[tf.Tensor], second: Sequence[tf.Tensor]) -> float:
    """Seconds a call of a kernel inside a graph, over pairs of inputs."""
    work = list(zip(first, second, strict=True))
    nothing = _timed(lambda: [tf.identity(a[..., :1]) for a, _ in work])
    return max(_timed(lambda: [kernel(a, b) for a, b in work]) - nothing, 0.0) / len(work)


def _timed(build: Callable[[], object]) -> float:
    run = tf.function(build, autograph=False)
    run()
    laps = []
    for _ in range(LAPS):
        began = time.perf_counter()
        run()
        laps.append(time.perf_counter() - began)
    return float(np.median(laps))
