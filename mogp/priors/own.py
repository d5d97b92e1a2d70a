"""`SharedAndOwn`: an LMC in which every function has a latent GP for itself, too."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp

from mogp.priors.mixing import Kernels, MixingPrior, kernel_count


class SharedAndOwn(MixingPrior):
    r"""Functions that share latent GPs, each with one more that no other function reads.

    $$f_j = \sum_{q=1}^Q W_{jq}\, u_q + s_j\, o_j + b_j,\qquad
      u_q \sim GP(0, k_q),\ o_j \sim GP(0, k_{Q+j}).$$

    Without own parts an LMC of few latent GPs must take what one function does alone for noise, or
    for something that all of them do: where a function is not observed, the others then tell it
    more than they can know, and bands are too narrow.

    `W [J, Q + J]` holds the weights of all latent GPs; its last columns are the diagonal matrix of
    $s$, and only what is not always zero is trained.

    Args:
        kernels: those of the shared latent GPs, then one for each function: `Q + J`.
        functions: number of functions `J`.
        W: `[J, Q]` start values of the shared weights.
        own: `[J]` start values of $s$.
        bias: start value(s) of a trainable offset for each function; None for none.

    >>> from gpflow.kernels import Matern32
    >>> from mogp.priors import SharedAndOwn
    >>> prior = SharedAndOwn([Matern32() for _ in range(3)], 2, W=[[1.0], [-2.0]], own=[0.5, 0.1])
    >>> prior.W.numpy().tolist()
    [[1.0, 0.5, 0.0], [-2.0, 0.0, 0.1]]
    >>> prior.shared
    1
    """

    def __init__(
        self,
        kernels: Kernels,
        functions: int,
        W: npt.ArrayLike,
        own: npt.ArrayLike,
        bias: npt.ArrayLike | None = None,
    ) -> None:
        dtype = gpflow.default_float()
        weights, scales = np.asarray(W, dtype=dtype), np.asarray(own, dtype=dtype)
        shared = kernel_count(kernels) - functions
        if weights.shape != (functions, shared) or scales.shape != (functions,) or shared < 0:
            raise ValueError(
                f"{kernel_count(kernels)} kernels for {functions} functions, W of shape"
                f" {weights.shape} and own of shape {scales.shape}; expected Q + J kernels, W"
                " [J, Q] and own [J] for J functions that share Q latent GPs."
            )
        both = np.concatenate([weights, np.diag(scales)], axis=1)
        transform = _Diagonal(functions, shared)
        super().__init__(
            kernels, functions, copies=1, W=gpflow.Parameter(both, transform=transform), bias=bias
        )
        self.shared = shared


class _Diagonal(tfp.bijectors.Bijector):  # type: ignore[misc, unused-ignore]
    """`[J (Q + 1)]` numbers as a matrix `[J, Q + J]` whose last columns are diagonal."""

    def __init__(self, functions: int, shared: int) -> None:
        super().__init__(
            forward_min_event_ndims=1,
            inverse_min_event_ndims=2,
            is_constant_jacobian=True,
            parameters={"functions": functions, "shared": shared},
            name="diagonal",
        )
        self._J, self._Q = functions, shared

    def _forward(self, x: Any) -> tf.Tensor:
        rows = tf.reshape(x, [self._J, self._Q + 1])
        return tf.concat([rows[:, :-1], tf.linalg.diag(rows[:, -1])], 1)

    def _inverse(self, y: Any) -> tf.Tensor:
        scales = tf.linalg.diag_part(y[:, self._Q :])
        return tf.reshape(tf.concat([y[:, : self._Q], scales[:, None]], 1), [-1])

    def _forward_log_det_jacobian(self, x: Any) -> tf.Tensor:
        return tf.zeros([], x.dtype)

    def _forward_event_shape(self, input_shape: Any) -> tf.TensorShape:
        return tf.TensorShape([self._J, self._Q + self._J])

    def _forward_event_shape_tensor(self, input_shape: Any) -> tf.Tensor:
        return tf.constant([self._J, self._Q + self._J])

    def _inverse_event_shape(self, output_shape: Any) -> tf.TensorShape:
        return tf.TensorShape([self._J * (self._Q + 1)])

    def _inverse_event_shape_tensor(self, output_shape: Any) -> tf.Tensor:
        return tf.constant([self._J * (self._Q + 1)])
