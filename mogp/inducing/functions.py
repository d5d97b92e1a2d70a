"""Inducing variables of convolution processes: values of functions or of smoothed latent GPs."""

from __future__ import annotations

import gpflow
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.utilities import positive

from mogp.inducing.points import InducingPoints
from mogp.kernels import ConvolvedStack, KernelStack
from mogp.kernels.convolved import widths


class FunctionPoints(InducingPoints):
    r"""Values $\check u_j = f_j(Z_j)$ of the functions of a convolution process.

    Args:
        Z: `[J, M, P]`, a set of inputs for each function.
        joint: one block of $JM$ variables with the full covariance between functions. Otherwise
            every function has a separate block, and covariances between functions are never used
            (as published).

    >>> import numpy as np
    >>> from mogp.inducing import FunctionPoints
    >>> from mogp.kernels import ConvolvedStack
    >>> kernels = ConvolvedStack(functions=3, latents=2, input_dim=1)
    >>> Z = np.zeros((3, 4, 1))
    >>> FunctionPoints(Z).Kuu(kernels).shape.as_list()
    [3, 4, 4]
    >>> FunctionPoints(Z, joint=True).Kuu(kernels).shape.as_list()
    [1, 12, 12]
    """

    def __init__(self, Z: npt.ArrayLike, joint: bool = False) -> None:
        super().__init__(Z)
        if self.Z.shape.rank != 3:
            raise ValueError(
                f"inducing inputs have shape {tuple(self.Z.shape)}; expected [J, M, P], a set for"
                " each function."
            )
        self.joint = joint

    @property
    def num_inducing(self) -> int:
        """Variables in a block: `M`, or `J M` for the joint one."""
        functions, points = self.Z.shape[:2]
        return int(functions * points if self.joint else points)

    @property
    def num_sets(self) -> int:
        """Blocks: one for each function, or a single joint one."""
        return 1 if self.joint else int(self.Z.shape[0])

    @inherit_check_shapes
    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """Covariances `[J, M, M]` of the functions' values, or `[1, JM, JM]` of the joint block."""
        stack, Z = _convolved(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, Z)
        return tf.reshape(stack.between_functions(Z, Z), [1, self.num_inducing, self.num_inducing])

    @check_shapes(
        "X: [N, P]", "return: [J, M, N] if not self.joint", "return: [1, JM, JN] if self.joint"
    )
    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances with the functions at `X [N, P]`: `[J, M, N]`, or `[1, JM, JN]`."""
        stack, Z = _convolved(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, X)
        return tf.reshape(stack.between_functions(Z, X), [1, self.num_inducing, -1])


class SmoothedPoints(InducingPoints):
    r"""Values of latent GPs after smoothing, as inducing variables of a convolution process.

    The variational inducing kernels of Álvarez et al. (2010):
    $\iota_q(z) = W_q\int\mathcal E(z - r\mid t_q)\,u_q(r)\,dr$, with

    $$\mathrm{cov}(\iota_q, \iota_q) = W_q^2\,\bar{\mathcal E}_q(\tau\mid L_q + 2t_q),\qquad
      \mathrm{cov}(f_j, \iota_q^i) = S^i_{jq}W_q\,\bar{\mathcal E}_q(\tau\mid\kappa_j + L_q + t_q)$$

    for the functions $f_j$. $t_q$ belongs to the approximation, not to the model: the prior of the
    functions does not change with it. Nothing depends on $W_q$, which is set so that $\iota_q$ has
    variance one.

    Args:
        Z: `[Q, M, P]`, a set of inputs for each latent GP.
        width: start value(s) of $\sqrt{t_q}$: one for all, one for each latent GP, or `[Q, P]`.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.inducing import SmoothedPoints
    >>> from mogp.kernels import ConvolvedStack
    >>> kernels = ConvolvedStack(functions=3, latents=2, input_dim=1)
    >>> points = SmoothedPoints(np.zeros((2, 4, 1)), width=0.5)
    >>> points.Kuu(kernels).shape.as_list()
    [2, 4, 4]
    >>> points.with_functions(kernels, tf.zeros([5, 1], tf.float64)).shape.as_list()
    [2, 4, 3, 5]
    """

    def __init__(self, Z: npt.ArrayLike, width: npt.ArrayLike = 0.1) -> None:
        super().__init__(Z)
        if self.Z.shape.rank != 3:
            raise ValueError(
                f"inducing inputs have shape {tuple(self.Z.shape)}; expected [Q, M, P], a set for"
                " each latent GP."
            )
        self.width = gpflow.Parameter(
            widths(width, self.Z.shape[0], self.Z.shape[2]), transform=positive()
        )

    @inherit_check_shapes
    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[Q, M, M]`."""
        return _convolved(kernels).smoothed(self.inputs, tf.square(self.width))

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """Raise a `TypeError`: each function needs a separate covariance, see `with_functions`."""
        raise TypeError(
            "inducing points on smoothed latent GPs need a convolution process; give the prior CPM."
        )

    @inherit_check_shapes
    def with_functions(self, kernels: ConvolvedStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[Q, M, J, N]`: see `InducingPoints.with_functions`."""
        return kernels.with_smoothed(self.inputs, tf.square(self.width), X)


def _convolved(kernels: KernelStack) -> ConvolvedStack:
    if not isinstance(kernels, ConvolvedStack):
        raise TypeError(
            "these inducing points need a convolution process; give the model the prior CPM."
        )
    return kernels
