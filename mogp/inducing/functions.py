"""Inducing points on the functions themselves, where a prior smooths latent GPs."""

from __future__ import annotations

import numpy.typing as npt
import tensorflow as tf

from mogp.inducing.points import InducingPoints
from mogp.kernels import ConvolvedStack, KernelStack


class FunctionPoints(InducingPoints):
    r"""Values $\check u_j = f_j(Z_j)$ of the functions of a convolution process, `Z [J, M, P]`.

    Args:
        Z: a set of inputs for each function.
        joint: one block of $JM$ variables with the full covariance between functions. Otherwise every function has a
            block of its own, and covariances between functions are never used (as published).
    """

    def __init__(self, Z: npt.ArrayLike, joint: bool = False) -> None:
        super().__init__(Z)
        if self.Z.shape.rank != 3:
            raise ValueError(
                f"inducing inputs have shape {tuple(self.Z.shape)}; expected [J, M, P], a set for each function."
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
        stack, Z = self._stack(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, Z)
        return tf.reshape(stack.between_functions(Z, Z), [1, self.num_inducing, self.num_inducing])

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """`[J, M, N]`; or `[1, J M, J N]`, all functions at `X`, one after the other."""
        stack, Z = self._stack(kernels), self.inputs
        if not self.joint:
            return stack.of_functions(Z, X)
        return tf.reshape(stack.between_functions(Z, X), [1, self.num_inducing, -1])

    def _stack(self, kernels: KernelStack) -> ConvolvedStack:
        if not isinstance(kernels, ConvolvedStack):
            raise TypeError("inducing points on functions need a convolution process; give the model the prior CPM.")
        return kernels
