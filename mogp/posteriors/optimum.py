"""The best Gaussian over whitened variables where targets are Gaussian, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, cholesky, solve_triangular

Array = npt.NDArray[np.float64]
_TIMES = 200
_SETTLED = 1e-10


class Best(NamedTuple):
    r"""The best Gaussian, $N(m, T T^\top)$.

    Attributes:
        mean: $m$, `[n]`.
        root: $T$, `[n, n]`, lower triangular.
    """

    mean: Array
    root: Array


class Told:
    r"""What targets with Gaussian noise tell of variables $v_l \sim N(0, I)$ `[M]`, $l = 1 … L$.

    Where row $n$ reads $a_{ln}^\top v_l$ for every $l$, and its expected log density is
    $-\tfrac12 z^\top \Lambda_n z + b_n^\top z$ of these, the best $q(v)$ is
    $N(P^{-1} r, P^{-1})$ with

    $$P_{ll'} = \mathbb 1[l = l'] I + \sum_n \Lambda_{n,ll'}\, a_{ln} a_{l'n}^\top, \qquad
      r_l = \sum_n b_{nl}\, a_{ln}.$$

    The eigenvalues of $P$ are one or more. Sums are in double precision, over rows in pieces.

    Args:
        latents: $L$.
        inducing: $M$.

    >>> import numpy as np
    >>> from mogp.posteriors.optimum import Told
    >>> told = Told(latents=1, inducing=1)
    >>> told.add(np.ones((1, 1, 3)), np.full((3, 1, 1), 2.0), np.full((3, 1), 4.0))
    >>> best = told.best()
    >>> round(float(best.mean[0]), 4), round(float(best.root[0, 0] ** -2), 4)
    (1.7143, 7.0)
    """

    def __init__(self, latents: int, inducing: int) -> None:
        self._L, self._M = latents, inducing
        self._P = np.zeros((latents, inducing, latents, inducing))
        self._r = np.zeros((latents, inducing))
        diagonal = np.arange(latents)[:, None], np.arange(inducing)
        self._P[(*diagonal, *diagonal)] = 1.0

    def add(self, A: npt.ArrayLike, precision: Array, pull: Array) -> None:
        r"""Add rows.

        Args:
            A: $a_{ln}$, `[G, M, n]`; latent `l` has that of `l % G`.
            precision: $\Lambda_n$, `[n, L, L]`.
            pull: $b_n$, `[n, L]`.
        """
        each = np.asarray(A, float)
        own = [each[number % len(each)] for number in range(self._L)]
        alike, products = len(pull) > 0 and bool((precision == precision[:1]).all()), {}
        for k in range(self._L):
            self._r[k] += own[k] @ pull[:, k]
            for j in range(k + 1):
                weight = precision[:, k, j]
                if not weight.any():
                    continue
                if alike:
                    pair = (k % len(each), j % len(each))
                    if pair not in products:
                        products[pair] = own[k] @ own[j].T
                    self._P[k, :, j] += weight[0] * products[pair]
                else:
                    self._P[k, :, j] += (own[k] * weight) @ own[j].T

    def precision(self) -> Array:
        """$P$, `[L M, L M]`."""
        size = self._L * self._M
        lower = np.tril(self._P.reshape(size, size))
        whole: Array = lower + np.tril(lower, -1).T
        return whole

    def best(self) -> Best:
        """The best $q(v)$ of all Gaussians."""
        root = inverse_root(self.precision())
        return Best(root @ (root.T @ self._r.reshape(-1)), root)

    def excess(self, mean: Array, trace: float, log_det: float, best: Best) -> float:
        r"""$\mathrm{KL}[N(m, S) \| q]$ with the best $q$: what the bound with $N(m, S)$ lacks.

        Args:
            mean: $m$, `[L M]`.
            trace: $\mathrm{tr}(P S)$.
            log_det: $\log|S|$.
            best: what `best` found.
        """
        apart = mean - best.mean
        away = float(apart @ (self.precision() @ apart))
        return 0.5 * (away + trace - len(mean) - log_det + log_determinant(best.root))

    def trace(self, root: Array) -> float:
        r"""$\mathrm{tr}(P T T^\top)$ for a lower triangular `T [L M, L M]`, or for those of each
        latent `[L, M, M]`.
        """
        if root.ndim == 3:
            blocks = (np.tril(self._P[k, :, k]) for k in range(self._L))
            both = (low + np.tril(low, -1).T for low in blocks)
            return float(sum(np.sum((P @ T) * T) for P, T in zip(both, root, strict=True)))
        product = blas.dtrmm(1.0, np.asfortranarray(root), self.precision(), side=1, lower=1)
        return float(np.sum(product * root))


def inverse_root(P: Array) -> Array:
    r"""Lower triangular $T$ with $T T^\top = P^{-1}$, without an inverse of $P$.

    With the order of the variables reversed $P$ has the factor $C C^\top$, and $C^{-\top}$, whose
    order is put back, is lower triangular.

    Args:
        P: `[n, n]`, positive definite.

    >>> import numpy as np
    >>> from mogp.posteriors.optimum import inverse_root
    >>> T = inverse_root(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> np.round(3 * T @ T.T, 6).tolist()
    [[2.0, -1.0], [-1.0, 2.0]]
    """
    C = cholesky(P[::-1, ::-1], lower=True)
    inverse = solve_triangular(C, np.eye(len(P)), lower=True)
    return np.ascontiguousarray(np.tril(inverse.T[::-1, ::-1]))


def log_determinant(root: Array) -> float:
    r"""$\log|T T^\top|$ of triangular `T [..., M, M]`, summed.

    >>> log_determinant(np.eye(3))
    0.0
    """
    return float(np.sum(np.log(np.square(np.diagonal(root, axis1=-2, axis2=-1)))))


def best_factorised(mean: Array, root: Array, inducing: int) -> tuple[Array, Array]:
    r"""Means `[L, M]` and roots `[L, M, M]` of the $\prod_l q(v_l)$ that is closest to a Gaussian.

    With $P = (T T^\top)^{-1}$ the covariances are $(P_{ll})^{-1}$, and the mean is the same.

    Args:
        mean: `[L M]`.
        root: $T$, `[L M, L M]`.
        inducing: $M$.

    >>> best_factorised(np.zeros(2), np.array([[1.0, 0.0], [0.6, 0.8]]), 1)[1].round(6).tolist()
    [[[0.8]], [[0.8]]]
    """
    inverse = solve_triangular(np.asarray(root, float), np.eye(len(root)), lower=True)
    P = [part.T @ part for part in np.split(inverse, len(root) // inducing, axis=1)]
    roots = [inverse_root(one) for one in P]
    return np.asarray(mean, float).reshape(-1, inducing), np.stack(roots)


def best_kronecker(root: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
    r"""Roots $T_H$, $T_X$ of the covariance $T_H T_H^\top \otimes T_X T_X^\top$ that is closest to
    a Gaussian.

    With $P = (T T^\top)^{-1}$ in blocks `[M_H, M_X, M_H, M_X]` each factor is best given the other
    where $S_X^{-1} = \tfrac1{M_H}\sum_{ij} S_{H,ij} P_{ij}$, and the same for $S_H$; they take
    turns until neither moves.

    Args:
        root: $T$, `[M_H M_X, M_H M_X]`.
        sizes: $M_H$ and $M_X$.

    >>> T_h, T_x = best_kronecker(0.5 * np.eye(6), (2, 3))
    >>> np.kron(T_h, T_x).round(6).tolist() == (0.5 * np.eye(6)).tolist()
    True
    """
    M_h, M_x = sizes
    inverse = solve_triangular(np.asarray(root, float), np.eye(len(root)), lower=True)
    P = (inverse.T @ inverse).reshape(M_h, M_x, M_h, M_x)
    S_h, before = np.eye(M_h), np.inf
    for _ in range(_TIMES):
        T_x = inverse_root(np.einsum("ij,ixjy->xy", S_h, P, optimize=True) / M_h)
        T_h = inverse_root(np.einsum("xy,ixjy->ij", T_x @ T_x.T, P, optimize=True) / M_x)
        S_h = T_h @ T_h.T
        now = -M_x * log_determinant(T_h) - M_h * log_determinant(T_x)
        if before - now < _SETTLED * max(1.0, abs(now)):
            break
        before = now
    return T_h, T_x
