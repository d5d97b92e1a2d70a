"""Posteriors that a chain starts from: near given means, or the best of sparse regressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow import likelihoods as stock

from mogp.data import MultiOutputData, Output
from mogp.kernels import KernelStack
from mogp.linalg import cholesky
from mogp.models.chains.structure import read_columns

if TYPE_CHECKING:
    from mogp.models.chains.chain import LatentChain


def start_at(
    chain: LatentChain, means: Sequence[npt.ArrayLike], spread: float | None = None
) -> None:
    """Set every `q(u_c)` to `N(means[c], spread² I)`, or without a spread to
    `N(means[c], K_c)`.

    `means [GPs][M]` are of the inducing values, whatever the parametrisation. Natural gradients
    move a posterior slowly that begins much narrower than it ends: its precision falls by a
    factor of 1 - gamma a step.
    """
    wanted = [tf.constant(np.asarray(m), gpflow.default_float()) for m in means]
    eye = tf.eye(chain.num_inducing, dtype=gpflow.default_float())
    q_mu: list[tf.Tensor] = []
    q_sqrt: list[tf.Tensor] = []
    for component, own in zip(chain.components, chain.inducing, strict=True):
        Z = chain._tied(component, wanted) if own is None else tf.convert_to_tensor(own)
        L = cholesky(KernelStack(component.kernel).K(Z), name="Kuu")[0]
        S = L if spread is None else spread * eye
        for m in wanted[len(q_mu) : len(q_mu) + component.copies]:
            both = tf.concat([m[:, None], S], 1)
            both = tf.linalg.triangular_solve(L, both) if chain.posterior.whiten else both
            q_mu.append(both[:, 0])
            q_sqrt.append(both[:, 1:])
    chain.posterior.q_mu.assign(tf.stack(q_mu, 1))
    chain.posterior.q_sqrt.assign(tf.stack(q_sqrt))


def regress(chain: LatentChain, data: MultiOutputData) -> None:
    r"""Set the `q(u_c)` of Gaussian outputs to their optimum, one after the other, with means
    sent down the chain.

    With $\mathbf A = \mathbf L_c^{-1}\mathbf K_{uf}$ at what GP $c$ reads where its output was
    observed, it is $\mathbf S_v = (\mathbf I + \sigma_y^{-2}\mathbf A\mathbf A^\top)^{-1}$ and
    $\mathbf m_v = \sigma_y^{-2}\mathbf S_v\mathbf A\mathbf y$: the optimum of a sparse
    regression on $\mathbf y$. GPs that read other GPs alone (no inputs) are left as they are.
    """
    X = tf.constant(data.X, gpflow.default_float())
    outputs = _regressed(chain)
    q_mu, q_sqrt = tf.unstack(chain.posterior.q_mu, axis=1), tf.unstack(chain.posterior.q_sqrt)
    values: list[tf.Tensor] = []
    means: list[tf.Tensor] = []
    for component, own in zip(chain.components, chain.inducing, strict=True):
        kernel = KernelStack(component.kernel)
        Z = chain._tied(component, means) if own is None else tf.convert_to_tensor(own)
        L = cholesky(kernel.K(Z), name="Kuu")[0]
        A = tf.linalg.triangular_solve(L, kernel.K(Z, read_columns(component, X, values))[0])
        for number in range(len(values), len(values) + component.copies):
            if number in outputs:
                m, S = _regression(chain, data.outputs[outputs[number]], outputs[number], A)
                white = chain.posterior.whiten
                q_mu[number], q_sqrt[number] = (
                    (m, S) if white else (tf.linalg.matvec(L, m), tf.linalg.matmul(L, S))
                )
            m = q_mu[number]
            m = m if chain.posterior.whiten else tf.linalg.triangular_solve(L, m[:, None])[:, 0]
            values.append(tf.linalg.matvec(A, m, transpose_a=True)[None])
            means.append(tf.linalg.matvec(L, m))
    chain.posterior.q_mu.assign(tf.stack(q_mu, 1))
    chain.posterior.q_sqrt.assign(tf.stack(q_sqrt))


def is_regressions(chain: LatentChain) -> bool:
    """Whether `regress` finds a posterior for every GP: all outputs are Gaussian, and each is a
    mean (with any weights) of GPs that read inputs.
    """
    gaussian = all(isinstance(one, stock.Gaussian) for one in chain.likelihood.likelihoods)
    means = all(np.isclose(sum(weights.values()), 1) for weights in chain.functions)
    return gaussian and means and len(_regressed(chain)) == chain.num_gps


def _regression(
    chain: LatentChain, own: Output, output: int, A: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and factor of the best whitened posterior of a regression on the targets of an
    output.
    """
    y = tf.constant((own.Y[:, 0] - chain.location[output]) / chain.scale[output], A.dtype)
    noise = tf.convert_to_tensor(chain.likelihood.likelihoods[output].variance)
    A = tf.gather(A, own.rows, axis=1)
    eye = tf.eye(chain.num_inducing, dtype=A.dtype)
    precision = eye + tf.linalg.matmul(A, A, transpose_b=True) / noise
    upper = tf.reverse(cholesky(tf.reverse(precision, [0, 1]), 0.0, "a precision"), [0, 1])
    root = tf.transpose(tf.linalg.triangular_solve(upper, eye, lower=False))
    mean = (
        tf.linalg.matvec(root, tf.linalg.matvec(root, tf.linalg.matvec(A, y), transpose_a=True))
        / noise
    )
    return mean, root


def _regressed(chain: LatentChain) -> dict[int, int]:
    """The GPs that read the inputs, with copies of one only, and their outputs where those are
    Gaussian.
    """
    found: dict[int, int] = {}
    for d, likelihood in enumerate(chain.likelihood.likelihoods):
        if isinstance(likelihood, stock.Gaussian):
            (function,) = chain.likelihood.functions(d)
            found |= dict.fromkeys(chain.functions[function], d)
    starts = np.cumsum([0, *(component.copies for component in chain.components)])
    reading = {
        int(n) for n, component in zip(starts, chain.components, strict=False) if component.inputs
    }
    return {number: d for number, d in sorted(found.items()) if number in reading}
