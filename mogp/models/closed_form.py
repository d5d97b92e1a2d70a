r"""The best Gaussian over inducing variables in closed form: for models whose targets are Gaussian.

The bound is quadratic in the functions at the rows, so that the best $q(u)$ of all Gaussians
follows from sums over rows (`mogp.posteriors.Told`). It is joint: inducing variables of different
latent GPs, or of different places of a grid, depend on each other. What is trained, a factorised
posterior, is the closest to it (in KL from the factorised one). Where outputs were not observed
that is too narrow, as what is not known there is a difference of latent GPs whose sums are known:
intervals that are meant to hold 95 % of the targets may hold half of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import sparse

from mogp.data import Array
from mogp.data.batches import Batch, gather_rows
from mogp.errors import UnsupportedError
from mogp.kernels import parameters_read_once
from mogp.models.answers import is_gaussian
from mogp.models.latent_likelihood import noise_of
from mogp.models.row_shapes import dense
from mogp.posteriors import Factors, Full, Joint, JointGrid, Kronecker
from mogp.posteriors.joint import check_size
from mogp.posteriors.optimum import Best, Told, log_determinant
from mogp.priors import MixingPrior

if TYPE_CHECKING:
    from mogp.models.latent import LatentMOGP
    from mogp.models.sparse import SparseMOGP

_AT_ONCE = 1 << 22
"""Numbers in a piece of the covariances with inducing variables."""


def told(model: SparseMOGP | LatentMOGP, data: Any) -> str:
    """Put in the best posterior, if there is one in closed form, and say so; else "".

    Args:
        model: of Gaussian targets, or of any.
        data: that it was trained on, or a function that makes batches.
    """
    if callable(data) or getattr(model.posterior, "replaces", True) is None:
        return ""
    try:
        rise = model.joint_posterior(data)
    except UnsupportedError:
        return ""
    said = "Closed form of q(u): "
    return said + (
        f"the bound rose by {rise:.1f} nats."
        if rise > 0
        else "left out, as the posterior is at its optimum to rounding."
    )


def of_sparse(model: SparseMOGP, data: Any) -> float:
    """See `SparseMOGP.joint_posterior`."""
    check_sparse(model)
    prior, old = model.prior, model.posterior
    with parameters_read_once():
        factors = model.factors()
        rows = model._row_terms(model._batch(data))
        apart = isinstance(old, Full) and _without_mixing(prior)
        L, M = prior.num_latents, model.inducing.num_inducing
        told = [Told(1, M) for _ in range(L)] if apart else [Told(L, M)]
        for X, precision, pull in rows:
            A = _whitened(model, factors, X)
            if not apart:
                told[0].add(A, precision, pull)
                continue
            for number, one in enumerate(told):
                own = slice(number, number + 1)
                one.add(A[number % len(A)][None], precision[:, own, own], pull[:, own])
    best = [one.best() for one in told]
    mean = np.concatenate([one.mean for one in best])
    if apart:
        new: Joint | Full = Full(old.whiten)
        roots = np.stack([one.root for one in best])
    else:
        new = Joint(replaces=old.whiten if isinstance(old, Full) else old.replaces)
        roots = best[0].root[None]
    new.build(L // prior.copies, prior.copies, M)
    _assign(new, factors, mean, roots)
    before, after = (_short_of(q, factors, told, best) for q in (old, new))
    rise = model.kl_weight * (before - after)
    if rise > 0:
        model.posterior = new
    return rise


def check_sparse(model: SparseMOGP) -> None:
    """Raise unless the best posterior of a model has a closed form that is affordable.

    Args:
        model: any.
    """
    others = {type(one).__name__ for one in model.likelihood.likelihoods if not is_gaussian(one)}
    if others:
        raise model.unsupported(
            f"has no closed form of q(u): {', '.join(sorted(others))} targets are not Gaussian",
            "Train it with fit.",
        )
    prior, old = model.prior, model.posterior
    if not isinstance(prior, MixingPrior) or not isinstance(old, Full | Joint):
        raise model.unsupported(
            f"has no closed form of q(u) with the prior {type(prior).__name__} and the posterior"
            f" {type(old).__name__}: latent GPs must be mixed (LMC, ICM, Independent), and the"
            " posterior Full or Joint",
            "Train it with fit.",
        )
    if not model.kl_weight > 0:
        raise model.unsupported("has kl_weight=0, and no best q(u)", "Use kl_weight=1.")
    if not _without_mixing(prior):
        check_size(prior.num_latents * model.inducing.num_inducing)


def _without_mixing(prior: MixingPrior) -> bool:
    """Whether latent GPs stay independent of each other, whatever is observed."""
    return prior.W is None or prior.num_latents == 1


def row_terms(
    model: SparseMOGP, batch: Batch
) -> Iterator[tuple[tf.Tensor | tf.SparseTensor, Array, Array]]:
    r"""Rows in pieces: inputs, and $\Lambda_n$ `[n, L, L]` and $b_n$ `[n, L]` of the latent GPs
    there (`mogp.posteriors.Told`), divided by the weight of the KL.

    Args:
        model: of targets with independent Gaussian noise.
        batch: all rows.
    """
    W, bias = mixture(model)
    N = int(batch.X.shape[0])
    each = []
    for d, own in enumerate(batch.outputs):
        j = model.likelihood.functions(d).start
        at = np.arange(N) if own.rows is None else np.asarray(own.rows)
        where = None if own.rows is None else own.rows
        counts = in_double(own.weight) / noise_at(model, d, batch.X, where)
        y = in_double(own.Y)[:, 0] - bias[j]
        each.append((at, np.full(len(at), j), counts, counts * y))
    row, function, counts, pulls = (np.concatenate(same) for same in zip(*each, strict=True))
    shape = (N, len(W))
    precision, pull = (
        sparse.csr_array((values / model.kl_weight, (row, function)), shape=shape)
        for values in (counts, pulls)
    )
    pairs = (W[:, :, None] * W[:, None]).reshape(len(W), -1)
    for piece in pieces(N, model.inducing.num_inducing * len(model.prior.kernels)):
        told = (precision[piece] @ pairs).reshape(-1, W.shape[1], W.shape[1])
        yield rows_of(batch.X, piece), told, pull[piece] @ W


def mixture(model: SparseMOGP) -> tuple[Array, Array]:
    """Weights `[J, L]` and offsets `[J]` of the functions of a mixing prior.

    Args:
        model: whose prior is a `MixingPrior`.
    """
    prior = model.prior
    J = prior.num_functions
    W = np.eye(J) if prior.W is None else in_double(prior.W)
    return W, np.zeros(J) if prior.bias is None else in_double(prior.bias)


def in_double(values: Any) -> Array:
    """Values in double precision.

    Args:
        values: a parameter, a tensor or an array.

    >>> in_double(tf.constant([1.0, 2.0], tf.float32)).dtype
    dtype('float64')
    """
    return np.asarray(values).astype(np.float64, copy=False)


def noise_at(model: SparseMOGP, output: int, X: Any, rows: tf.Tensor | None) -> Array:
    """Noise variances of a Gaussian output at some rows of the inputs.

    Args:
        model: with the likelihoods.
        output: which.
        X: inputs `[N, P]`.
        rows: `[n]`; all if None.
    """
    likelihood = model.likelihood.likelihoods[output]
    if likelihood.parameters and all(p.shape.rank == 0 for p in likelihood.parameters):
        return in_double(likelihood.variance_at(np.zeros((1, 0)))[:, 0])
    found = likelihood.variance_at(dense(X) if rows is None else tf.gather(dense(X), rows))
    return in_double(found[:, 0])


def pieces(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows, of about as many as go into memory with `width` numbers each.

    >>> list(pieces(5, 1 << 21))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, _AT_ONCE // width)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def rows_of(X: tf.Tensor | tf.SparseTensor, piece: slice) -> tf.Tensor | tf.SparseTensor:
    """Some rows of the inputs.

    Args:
        X: `[N, P]`, dense or sparse.
        piece: which.
    """
    if not isinstance(X, tf.SparseTensor):
        return X[piece]
    return gather_rows(X, tf.range(piece.start, piece.stop, dtype=tf.int64))


def of_grid(model: LatentMOGP, data: Any) -> float:
    """See `LatentMOGP.joint_posterior`."""
    check_grid(model)
    old = model.posterior
    M_x, M_h = (int(n) for n in old.q_mu.shape)
    with parameters_read_once():
        batch = model._batch(data)
        factors, told = model.factors(), Told(M_h, M_x)
        latents, likelihood = model._of(batch.outputs)
        noise = in_double(noise_of(likelihood, batch.outputs))[:, None]
        root = in_double(factors.root)
        Phi = root @ in_double(latents.matrices(latents.phi())) @ root.T
        Psi = in_double(latents.psi()) @ root.T
        D, U = len(Psi), int(batch.X.shape[0])
        Y = in_double(batch.Y)
        weight = np.ones_like(Y) if batch.weight is None else in_double(batch.weight)
        at = np.broadcast_to(np.arange(U), Y.shape) if batch.rows is None else batch.rows
        places = (np.asarray(at).reshape(-1), np.repeat(np.arange(D), Y.shape[1]))
        precision, pull = (
            sparse.csr_array((values.reshape(-1), places), shape=(U, D))
            for values in (weight / noise, weight * Y / noise)
        )
        for piece in pieces(U, M_x):
            Kuf = model.inducing.Kuf(model.kernels, batch.X[piece])[0]
            A = tf.linalg.triangular_solve(factors.L_x, Kuf)
            Lambda = (precision[piece] @ Phi.reshape(D, -1)).reshape(-1, M_h, M_h)
            told.add(A[None], Lambda, pull[piece] @ Psi)
    best = told.best()
    new = JointGrid(replaces=True)
    new.build(inputs=M_x, latents=M_h)
    new.q_mu.assign(best.mean.reshape(M_h, M_x).T)
    new.q_sqrt.assign(best.root)
    before, after = (
        told.excess(in_double(q.q_mu).T.reshape(-1), *_spread_of(q, told), best) for q in (old, new)
    )
    if before > after:
        model.posterior = new
    return before - after


def check_grid(model: LatentMOGP) -> None:
    """Raise unless the best posterior of a model has a closed form that is affordable.

    Args:
        model: any.
    """
    if not is_gaussian(model.likelihood):
        raise model.unsupported(
            f"has no closed form of q(U): {type(model.likelihood).__name__} targets are not"
            " Gaussian",
            "Train it with fit.",
        )
    check_size(model.inducing.num_inducing * int(model.latent_inducing.shape[0]))


def _spread_of(q: Kronecker | JointGrid, told: Told) -> tuple[float, float]:
    """Trace with the best precision, and log determinant, of the covariance of a grid."""
    if isinstance(q, JointGrid):
        root = in_double(q.q_sqrt)
        return told.trace(root), log_determinant(root)
    T_h, T_x = in_double(q.q_sqrt_h), in_double(q.q_sqrt_x)
    M_h, M_x = len(T_h), len(T_x)
    P = told.precision().reshape(M_h, M_x, M_h, M_x)
    trace = np.einsum("ixjy,ij,xy->", P, T_h @ T_h.T, T_x @ T_x.T, optimize=True)
    return float(trace), M_x * log_determinant(T_h) + M_h * log_determinant(T_x)


def _whitened(model: SparseMOGP, factors: Factors, X: tf.Tensor | tf.SparseTensor) -> Array:
    """`A = L_u⁻¹ k(Z, X)`, `[G, M, n]`."""
    Kuf = model.inducing.Kuf(model.prior.kernels, X)
    return in_double(tf.linalg.triangular_solve(factors.cholesky, Kuf))


def _assign(q: Full | Joint, factors: Factors, mean: Array, roots: Array) -> None:
    """Give a posterior the moments of whitened variables."""
    if isinstance(q, Joint):
        q.q_mu.assign(mean[:, None])
    else:
        m = mean.reshape(len(roots), -1)
        if not q.whiten:
            L = _each(factors, len(roots))
            m, roots = np.einsum("lmn,ln->lm", L, m), L @ roots
        q.q_mu.assign(m.T)
    q.q_sqrt.assign(roots)


def _short_of(q: Full | Joint, factors: Factors, told: list[Told], best: list[Best]) -> float:
    """By how much the bound with a posterior is below that of the best."""
    m, roots = in_double(q.q_mu).T, in_double(q.q_sqrt)
    if isinstance(q, Full) and not q.whiten:
        L = _each(factors, len(roots))
        m = np.linalg.solve(L, m[..., None])[..., 0]
        roots = np.linalg.solve(L, roots)
    parts = zip(told, best, [m.reshape(-1)] if len(told) == 1 else m, strict=True)
    found = 0.0
    for number, (one, its, mean) in enumerate(parts):
        own = roots if len(told) == 1 else roots[number : number + 1]
        root: npt.NDArray[Any] = own[0] if isinstance(q, Joint) else own
        found += one.excess(mean, one.trace(root), log_determinant(own), its)
    return found


def _each(factors: Factors, latents: int) -> Array:
    """The factor of every latent GP, `[L, M, M]`."""
    own = in_double(factors.cholesky)
    each: Array = own[np.arange(latents) % len(own)]
    return each
