r"""The data term of a `LatentMOGP`: the expected log density of targets under $q(U)\,q(H)$.

Three forms of it, chosen in `data_term` by what the likelihood and the data offer. For Gaussian
targets the expectation is known, and where outputs have inputs in common the sum over them is taken
first (`common_term`, `table_term`); elsewhere it is a sum over rows. Any other likelihood has its
own rule, inside one over $q(h_d)$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from mogp.data.padded import PaddedBatch
from mogp.kernels.expected import paired
from mogp.models.latent_likelihood import noise_of, on_rows
from mogp.models.latent_moments import Latents, moments, over_latents
from mogp.posteriors import GridFactors, Projected

_MOST_EMPTY = 10

At: TypeAlias = Callable[[tf.Tensor], tuple[GridFactors, Projected]]
"""From inputs `[N, P + 1]` to what the posterior knows of them."""


def data_term(
    batch: PaddedBatch, at: At, latents: Latents, likelihood: Any, nodes: int
) -> tf.Tensor:
    """The expected log-likelihood of a batch, scaled to all the data, `[]`.

    Args:
        batch: some outputs, some rows of each.
        at: projects inputs.
        latents: of the outputs of the batch.
        likelihood: of the outputs of the batch (`of_outputs`).
        nodes: of the rule over each latent dimension.
    """
    noise = noise_of(likelihood, batch.outputs)
    if noise is None or not few_inputs(batch):
        return tf.reduce_sum(data_terms(batch, at, latents, likelihood, nodes))
    closed = common_term if batch.rows is None else table_term
    return closed(batch, *at(batch.X), latents, noise)


def data_terms(
    batch: PaddedBatch, at: At, latents: Latents, likelihood: Any, nodes: int
) -> tf.Tensor:
    """The same for each output of the batch, `[B]`, row by row."""
    factors, x = at_rows(at, batch)
    noise = noise_of(likelihood, batch.outputs)
    if noise is None:
        f, weights = over_latents(factors, x, latents, nodes)
        Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
        expected = on_rows(likelihood, "variational_expectations", f, Y)
        terms = tf.tensordot(weights, expected, [[0], [1]])
    else:
        noise = noise[:, None]
        squares = squared_errors(batch, factors, x, latents)
        terms = -0.5 * tf.math.log(2 * np.pi * noise) - squares / (2 * noise)
    return tf.reduce_sum(terms * (batch.scale if batch.weight is None else batch.weight), -1)


def squared_errors(
    batch: PaddedBatch, factors: GridFactors, x: Projected, latents: Latents
) -> tf.Tensor:
    r"""$\mathbb E_q (y_{dn} - f_{dn})^2$, `[B, n]`."""
    m, e = moments(factors, x, latents)
    return tf.square(batch.Y) - 2 * batch.Y * m + e


def at_rows(at: At, batch: PaddedBatch) -> tuple[GridFactors, Projected]:
    """What is known of each row `[B, n]` of a batch (`[1, n]` where outputs share them)."""
    if batch.rows is None:
        factors, x = at(batch.X)
        return factors, Projected(*(a[None] for a in x))
    elements = batch.rows.shape.num_elements()
    if elements is not None and elements < batch.X.shape[0]:
        factors, x = at(tf.gather(batch.X, tf.reshape(batch.rows, [-1])))
        shape = tf.shape(batch.rows)
        return factors, Projected(
            *(tf.reshape(a, tf.concat([shape, tf.shape(a)[1:]], 0)) for a in x)
        )
    factors, x = at(batch.X)
    return factors, Projected(*(tf.gather(a, batch.rows) for a in x))


def few_inputs(batch: PaddedBatch) -> bool:
    """Whether outputs have their inputs in common to a degree that a table of weights `[B, U]`
    pays.
    """
    if batch.rows is None:
        return True
    longest = batch.rows.shape[1]
    return longest is not None and bool(batch.X.shape[0] <= _MOST_EMPTY * longest)


def common_term(
    batch: PaddedBatch,
    factors: GridFactors,
    x: Projected,
    latents: Latents,
    noise: tf.Tensor,
) -> tf.Tensor:
    """The data term of Gaussian outputs that were all observed at all rows of `X`, without a
    number for each.
    """
    weight = batch.scale / noise
    Psi = latents.psi()
    pairs = tf.linalg.matvec(latents.phi(), weight, transpose_a=True)
    told = tf.linalg.matmul(x.E, x.E, transpose_a=True) - factors.prior * tf.reduce_sum(x.prior)
    spread = latents.kernel.variance * tf.reduce_sum(weight) * tf.reduce_sum(x.Kff)
    spread += tf.reduce_sum(pairs * (paired(told) + factors.total(x)))
    fitted = tf.reduce_sum(tf.reduce_sum(tf.linalg.matmul(batch.Y, x.E) * Psi, -1) * weight)
    squares = tf.reduce_sum(tf.reduce_sum(tf.square(batch.Y), -1) * weight)
    rows = tf.cast(tf.shape(batch.X)[0], batch.Y.dtype)
    logs = batch.scale * rows * tf.reduce_sum(tf.math.log(2 * np.pi * noise))
    return -0.5 * (logs + squares - 2 * fitted + spread)


def table_term(
    batch: PaddedBatch,
    factors: GridFactors,
    x: Projected,
    latents: Latents,
    noise: tf.Tensor,
) -> tf.Tensor:
    """The data term of Gaussian outputs that were observed at some rows of `X`.

    Sums over rows are products with a table of weights `[B, U]`.
    """
    W, WY = _tables(batch, batch.weight, batch.weight * batch.Y)
    Psi, pairs = latents.psi(), latents.phi()
    by_row = paired(x.E[:, :, None] * x.E[:, None, :])
    by_row += factors.by_row(x) - x.prior[:, None] * paired(factors.prior)
    spread = latents.kernel.variance * tf.linalg.matvec(W, x.Kff)
    spread += tf.reduce_sum(tf.linalg.matmul(W, by_row) * pairs, -1)
    fitted = tf.reduce_sum(tf.linalg.matmul(WY, x.E) * Psi, -1)
    squares = tf.reduce_sum(batch.weight * tf.square(batch.Y), -1)
    logs = tf.reduce_sum(batch.weight, -1) * tf.math.log(2 * np.pi * noise)
    return -0.5 * tf.reduce_sum(logs + (squares - 2 * fitted + spread) / noise)


def _tables(batch: PaddedBatch, *values: tf.Tensor) -> list[tf.Tensor]:
    """Values `[B, n]` as tables `[B, U]` over the distinct inputs; those of repeated rows are
    added.
    """
    rows = tf.convert_to_tensor(batch.rows)
    B, U = rows.shape[0], batch.X.shape[0]
    cells = tf.reshape(rows + U * tf.range(B, dtype=tf.int64)[:, None], [-1])
    return [
        tf.reshape(tf.math.unsorted_segment_sum(tf.reshape(v, [-1]), cells, B * U), [B, U])
        for v in values
    ]


def collapsed_term(
    Y: tf.Tensor,
    factors: GridFactors,
    A: tf.Tensor,
    diagonal: tf.Tensor,
    latents: Latents,
    noise: tf.Tensor,
) -> tf.Tensor:
    r"""The data term with the best $q(U)$, less its KL: see `LatentMOGP.collapsed_elbo`.

    Args:
        Y: `[D, N]` targets.
        factors: of the inducing variables.
        A: `[M_X, N]`, $L_X^{-1} k_X(Z^X, x_n)$.
        diagonal: `[N]`, $k_X(x_n, x_n)$.
        latents: of the outputs.
        noise: `[D]` variances.
    """
    Phi = latents.matrices(tf.linalg.matvec(latents.phi(), 1 / noise, transpose_a=True))
    values_h, V_h = tf.linalg.eigh(
        tf.linalg.matmul(tf.linalg.matmul(factors.root, Phi), factors.root, transpose_b=True)
    )
    values_x, V_x = tf.linalg.eigh(tf.linalg.matmul(A, A, transpose_b=True))
    Psi = tf.linalg.matmul(latents.psi() / noise[:, None], factors.root, transpose_b=True)
    inner = tf.linalg.matmul(tf.linalg.matmul(A, Y, transpose_b=True), Psi)
    T = tf.linalg.matmul(tf.linalg.matmul(V_x, inner, transpose_a=True), V_h)
    lam = tf.maximum(values_x, 0)[:, None] * tf.maximum(values_h, 0)
    second = tf.square(Y) + latents.kernel.variance * diagonal
    term = -0.5 * tf.reduce_sum(tf.math.log(2 * np.pi * noise[:, None]) + second / noise[:, None])
    best = 0.5 * tf.reduce_sum(tf.square(T) / (1 + lam) - tf.math.log1p(lam) + lam)
    return term + best
