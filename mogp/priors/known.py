"""Functions given targets that are known at some rows, and functions with an effect of each row."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import tensorflow as tf
from check_shapes import inherit_check_shapes

from mogp.linalg import cholesky
from mogp.priors.base import Conditional, FunctionWise, Marginals


class Known(NamedTuple):
    """Targets that are known, each a function with noise at a row.

    Attributes:
        functions: `[G]`, which function.
        rows: `[G]`, at which row.
        values: `[G]`.

    >>> import tensorflow as tf
    >>> from mogp.priors import Known
    >>> known = Known(tf.constant([0, 1, 0]), tf.constant([0, 0, 1]), tf.zeros(3))
    >>> known.noise(tf.constant([[2.0, 1.0], [1.0, 3.0]])).numpy().tolist()
    [[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]
    """

    functions: tf.Tensor
    rows: tf.Tensor
    values: tf.Tensor

    def noise(self, covariance: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, G]` of noise that is shared within a row and independent between rows.

        Args:
            covariance: `[J, J]`, of the noise of the functions at one row.
        """
        same = tf.cast(self.rows[:, None] == self.rows[None], covariance.dtype)
        return same * tf.gather(tf.gather(covariance, self.functions), self.functions, axis=1)


class Informed(FunctionWise):
    r"""Functions given $G$ targets $y_g = f_g + \epsilon_g$, $\epsilon \sim N(0, \Sigma)$.

    With $C_{gg} + \Sigma = L L^\top$ and $A = C_{\cdot g} L^{-\top}$ the mean moves by
    $A L^{-1}(y_g - m_g)$ and covariances shrink by $A A^\top$. Draws follow Matheron's rule: those
    of $f$ move by $A L^{-1}(y_g - f_g - \epsilon_g)$, with the $f_g$ of the draw.

    Args:
        apart: the functions at the inputs, row by row.
        joint: the same functions, conditioned with `full_cov`.
        known: the targets.
        noise: their noise covariance $\Sigma$ `[G, G]`.

    >>> import tensorflow as tf
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.inducing import given_points
    >>> from mogp.posteriors import Full
    >>> from mogp.priors import Independent, Informed, Known
    >>> prior, Z, q = Independent([SquaredExponential()]), given_points([[0.0]]), Full()
    >>> q.build(kernels=1, copies=1, inducing=1)
    >>> X, factors = tf.constant([[9.0]], tf.float64), q.factorise(Z.Kuu(prior.kernels))
    >>> apart, joint = (prior.condition(X, Z, q, factors, full) for full in (False, True))
    >>> known = Known(tf.constant([0]), tf.constant([0]), tf.constant([3.0], tf.float64))
    >>> told = Informed(apart, joint, known, noise=tf.constant([[0.5]], tf.float64))
    >>> [round(float(a), 4) for a in told.marginals(range(1))]
    [2.0, 0.3333]
    """

    def __init__(
        self, apart: Conditional, joint: Conditional, known: Known, noise: tf.Tensor
    ) -> None:
        self._apart, self._joint, self._known, self._full = apart, joint, known, False
        self._places = tf.stack([known.rows, known.functions], 1)
        C = joint.covariances(known.functions, known.rows)
        N, self._J, G = (int(n) for n in C.shape)
        self._noise = noise
        self._L = cholesky(
            tf.gather_nd(C, self._places) + noise,
            jitter=0.0,
            name="the covariance of the targets that are given",
        )
        solved = tf.linalg.triangular_solve(self._L, tf.transpose(tf.reshape(C, [N * self._J, G])))
        self._A = tf.reshape(tf.transpose(solved), [N, self._J, G])
        mean = apart.marginals(range(self._J)).mean
        self._pull = self._solved((known.values - tf.gather_nd(mean, self._places))[None])[0]

    def _solved(self, residuals: tf.Tensor) -> tf.Tensor:
        """`L⁻¹ r` for residuals `r [S, G]`, as rows."""
        return tf.transpose(tf.linalg.triangular_solve(self._L, tf.transpose(residuals)))

    def over_rows(self) -> Informed:
        """The same functions, whose marginals have covariances between rows."""
        joint = copy(self)
        joint._full = True
        return joint

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals given the targets; covariances `[J, N, N]` of `over_rows`."""
        A = _chosen(self._A if rows is None else tf.gather(self._A, rows), functions)
        if self._full:
            f = self._joint.marginals(functions, rows)
            var = f.var - tf.einsum("njg,mjg->jnm", A, A)
        else:
            f = self._apart.marginals(functions, rows, full_output_cov)
            var = (
                f.var - tf.linalg.matmul(A, A, transpose_b=True)
                if full_output_cov
                else tf.nn.relu(f.var - tf.reduce_sum(A * A, -1))
            )
        return Marginals(f.mean + tf.linalg.matvec(A, self._pull), var)

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws: see `Conditional.draws`."""
        F = self._joint.draws(range(self._J), samples, seed)
        root = cholesky(self._noise, jitter=0.0, name="the noise of the targets that are given")
        normal = tf.random.stateless_normal(
            [samples, self._noise.shape[0]], [seed, 1], dtype=F.dtype
        )
        noise = tf.linalg.matmul(normal, root, transpose_b=True)
        drawn = tf.transpose(tf.gather_nd(tf.transpose(F, [1, 2, 0]), self._places))
        pull = self._solved(self._known.values - drawn - noise)
        moved = F + tf.einsum("njg,sg->snj", self._A, pull)
        return moved[..., functions.start : functions.stop]

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Covariances over rows and functions: see `Conditional.covariances`."""
        own = tf.gather_nd(self._A, tf.stack([rows, functions], 1))
        return self._joint.covariances(functions, rows) - tf.einsum("njg,hg->njh", self._A, own)

    @property
    def num_functions(self) -> int:
        """The number of functions, `J`."""
        return self._J

    @property
    def num_rows(self) -> int | None:
        """The number of inputs, `N`."""
        return int(self._A.shape[0])


class RowEffects(FunctionWise):
    r"""Functions with an effect that they share at each row: $f(x_n) + r_n$, $r_n \sim N(0, B)$.

    Every row has an effect of its own, whatever its inputs.

    Args:
        functions: the functions $f$ at the inputs.
        weights: `[J, R]`, with $B = W W^\top$.

    >>> import tensorflow as tf
    >>> from mogp.priors import Marginals, RowEffects, independent_functions
    >>> f = independent_functions(Marginals(tf.zeros([1, 2]), tf.ones([1, 2])))
    >>> both = RowEffects(f, tf.constant([[1.0], [2.0]]))
    >>> both.marginals(range(2), full_output_cov=True).var.numpy().tolist()
    [[[2.0, 2.0], [2.0, 5.0]]]
    """

    def __init__(self, functions: Conditional, weights: tf.Tensor) -> None:
        self._f, self._W = functions, weights
        self._B = tf.linalg.matmul(weights, weights, transpose_b=True)

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals of the sums: see `Conditional.marginals`."""
        f = self._f.marginals(functions, rows, full_output_cov)
        W = _chosen(self._W[None], functions)
        if full_output_cov:
            return Marginals(f.mean, f.var + tf.linalg.matmul(W, W, transpose_b=True))
        own = tf.reduce_sum(W * W, -1)
        if f.var.shape.rank == 3:
            return Marginals(
                f.mean, tf.linalg.set_diag(f.var, tf.linalg.diag_part(f.var) + tf.transpose(own))
            )
        return Marginals(f.mean, f.var + own)

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws: see `Conditional.draws`."""
        F = self._f.draws(functions, samples, seed)
        normal = tf.random.stateless_normal(
            [samples, F.shape[1], self._W.shape[1]], [seed, 11], dtype=F.dtype
        )
        own = self._W[functions.start : functions.stop]
        return F + tf.linalg.matmul(normal, own, transpose_b=True)

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Covariances over rows and functions: see `Conditional.covariances`."""
        found = self._f.covariances(functions, rows)
        here = tf.one_hot(rows, found.shape[0], dtype=found.dtype)
        return found + tf.einsum("gn,gj->njg", here, tf.gather(self._B, functions))

    @property
    def num_functions(self) -> int:
        """The number of functions, `J`."""
        return int(self._W.shape[0])

    @property
    def num_rows(self) -> int | None:
        """The number of inputs, `N`."""
        return self._f.num_rows


def _chosen(values: tf.Tensor, functions: range | tf.Tensor) -> tf.Tensor:
    """`[N, S, …]` of values `[N or 1, J, …]`, for functions as in `Conditional.marginals`."""
    if isinstance(functions, range):
        return values[:, functions.start : functions.stop]
    if functions.shape.rank == 1:
        return tf.gather(values, functions, axis=1)
    if values.shape[0] == 1:
        return tf.gather(values[0], functions)
    return tf.gather(values, functions, batch_dims=1)
