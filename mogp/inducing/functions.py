"""Inducing variables of convolution processes: values of the functions, or of latent GPs smoothed
by a kernel.
"""

from __future__ import annotations

import gpflow
import numpy.typing as npt
import tensorflow as tf
from gpflow.utilities import positive

from mogp.inducing.points import InducingPoints
from mogp.kernels import ConvolvedStack, KernelStack
from mogp.kernels.convolved import widths


class FunctionPoints(InducingPoints):
    r"""Values $\check u_j = f_j(Z_j)$ of the functions of a convolution process, `Z [J, M, P]`.

    Args:
        Z: a set of inputs for each function.
        joint: one block of $JM$ variables with the full covariance between functions. Otherwise
            every function has a block of its own, and covariances between functions are never used
            (as published).
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
        """Blocks: one a function, or one."""
        return 1 if self.joint else int(self.Z.shape[0])

    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[J, M, M]`, or `[1, J M, J M]`."""
        stack, Z = _convolved(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, Z)
        return tf.reshape(stack.between_functions(Z, Z), [1, self.num_inducing, self.num_inducing])

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """`[J, M, N]`; or `[1, J M, J N]`, all functions at `X`, one after the other."""
        stack, Z = _convolved(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, X)
        return tf.reshape(stack.between_functions(Z, X), [1, self.num_inducing, -1])


class SmoothedPoints(InducingPoints):
    r"""Values $\iota_q(z) = W_q\int\mathcal E(z - r\mid t_q)\,u_q(r)\,dr$ of smoothed latent GPs,
    `Z [Q, M, P]`.

    The variational inducing kernels of Álvarez et al. (2010): with functions $f_j$ of a convolution
    process,

    $$\mathrm{cov}(\iota_q, \iota_q) = W_q^2\,\bar{\mathcal E}_q(\tau\mid L_q + 2t_q),\qquad
      \mathrm{cov}(f_j, \iota_q^i) = S^i_{jq}W_q\,\bar{\mathcal E}_q(\tau\mid\kappa_j + L_q +
        t_q).$$

    $t_q$ belongs to the approximation, not to the model: the prior of the functions does not change
      with it. Nothing
    depends on $W_q$, which is set so that $\iota_q$ has variance one.

    Args:
        Z: a set of inputs for each latent GP.
        width: start value(s) of $\sqrt{t_q}$: one for all, one a latent GP, or `[Q, P]`.
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

    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[Q, M, M]`."""
        return _convolved(kernels).smoothed(self.inputs, tf.square(self.width))

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """Not to be had: functions have covariances of their own with smoothed latent GPs, see
        `with_functions`.
        """
        raise TypeError(
            "inducing points on smoothed latent GPs need a convolution process; give the prior CPM."
        )

    def with_functions(self, kernels: ConvolvedStack, X: tf.Tensor) -> tf.Tensor:
        """See `InducingPoints.with_functions`."""
        return kernels.with_smoothed(self.inputs, tf.square(self.width), X)


def _convolved(kernels: KernelStack) -> ConvolvedStack:
    if not isinstance(kernels, ConvolvedStack):
        raise TypeError(
            "these inducing points need a convolution process; give the model the prior CPM."
        )
    return kernels
