"""Rows of parameters that have a row for each latent GP, and kernels whose parameters are rows.

A model of a thousand classes whose step reads two of them must not read the other 998. What a class
owns is therefore a row of one variable; `tf.gather` on the variable itself reads those rows only,
and its gradient names them (`tf.IndexedSlices`), so that a lazy optimiser leaves the rest alone.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.kernels import IsotropicStationary, Kernel

from mogp.kernels.products import num_rows
from mogp.kernels.stack import KernelStack, check_sparse, scaled_square_distance
from mogp.modules import own_parameters, with_tensors

Module = TypeVar("Module", bound=gpflow.Module)


def take_rows(module: Module, rows: tf.Tensor, **changed: Any) -> Module:
    """A copy of a module whose parameters are tensors that hold the named rows, in that order.

    Parts of the module that are modules themselves stay what they are, unless given in `changed`.

    Args:
        module: its parameters have a row for each latent GP: the first axis of their unconstrained
            variables.
        rows: `[n]` whole numbers.
        changed: further attributes of the copy.

    >>> import gpflow
    >>> import tensorflow as tf
    >>> from mogp.kernels import take_rows
    >>> module = gpflow.Module()
    >>> module.W = gpflow.Parameter([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> take_rows(module, tf.constant([2, 0])).W.numpy().tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """
    # The gather is the only reading of the parameters, so that its gradient is sparse.
    taken = {
        f".{name}": p.transform.forward(tf.gather(p.unconstrained_variable, rows))
        for name, p in own_parameters(module).items()
    }
    return with_tensors(module, taken, **changed)


def kernels_of(stack: KernelStack, rows: tf.Tensor) -> KernelStack:
    """The kernels of some latent GPs.

    Args:
        stack: `KernelRows`, or a stack whose kernels are all one object.
        rows: `[n]` numbers of the latent GPs.

    >>> import tensorflow as tf
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import KernelRows, kernels_of
    >>> stack = KernelRows(SquaredExponential(), count=1000)
    >>> some = kernels_of(stack, tf.constant([3, 998]))
    >>> some.K(tf.zeros([5, 1], tf.float64)).shape.as_list()
    [2, 5, 5]
    """
    if isinstance(stack, KernelRows):
        return stack.take(rows)
    if any(kernel is not stack.kernels[0] for kernel in stack.kernels):
        raise ValueError(
            f"{len(stack)} kernels with separate variables cannot be picked from inside a"
            " compiled graph; use KernelRows(kernel, count), or one kernel for all."
        )
    return KernelStack(stack.kernels[: int(rows.shape[0])])


class KernelRows(KernelStack):
    """Isotropic stationary kernels of one form, whose parameters are rows of `[G, …]` variables.

    (`KernelStack` keeps a variable for each parameter of each kernel, which all have to be read.)

    Args:
        kernel: the form, and the start values of every row.
        count: number of kernels `G`.

    >>> import tensorflow as tf
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import KernelRows
    >>> stack = KernelRows(SquaredExponential(variance=2.0), count=3)
    >>> stack.form.lengthscales.shape.as_list()
    [3]
    >>> stack.K_diag(tf.zeros([2, 1], tf.float64)).numpy().tolist()
    [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(self, kernel: IsotropicStationary, count: int) -> None:
        gpflow.Module.__init__(self)
        if not isinstance(kernel, IsotropicStationary):
            raise TypeError(
                f"expected an isotropic stationary kernel of GPflow, got {type(kernel).__name__}."
            )
        if count < 1:
            raise ValueError(f"count={count}; at least one kernel is needed.")
        self.form = deepcopy(kernel)
        for name, value in own_parameters(kernel).items():
            rows = np.repeat(np.asarray(value)[None], count, axis=0)
            own = gpflow.Parameter(rows, transform=value.transform, trainable=value.trainable)
            setattr(self.form, name, own)

    def __len__(self) -> int:
        return int(self.form.variance.shape[0])

    @property
    def kernels(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        """The kernels one by one, as GPflow has them: copies of the present values."""
        each = []
        for g in range(len(self)):
            one = deepcopy(self.form)
            for name, value in own_parameters(self.form).items():
                setattr(one, name, gpflow.Parameter(value[g], transform=value.transform))
            each.append(one)
        return tuple(each)

    def take(self, rows: tf.Tensor) -> KernelRows:
        """The kernels with the numbers `rows`, `[n]`."""
        return take_rows(self, rows, form=take_rows(self.form, rows))

    def K(self, X: tf.Tensor, X2: tf.Tensor | tf.SparseTensor | None = None) -> tf.Tensor:
        """Covariances `[G, N, N']`: see `KernelStack.K`."""
        check_sparse([self.form], X, X2)
        lengthscales = tf.reshape(self.form.lengthscales, [len(self), 1, -1])
        return self._with_rows().K_r2(scaled_square_distance(self.form, X, X2, lengthscales))

    def K_diag(self, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
        """Variances `[G, N]`: see `KernelStack.K_diag`."""
        return tf.broadcast_to(
            tf.convert_to_tensor(self.form.variance)[:, None], [len(self), num_rows(X)]
        )

    def _with_rows(self) -> Any:
        """The kernel with scalars laid out as `[G, 1, 1]`, so that its formula serves all."""
        laid_out = {
            f".{name}": tf.reshape(value, [-1, 1, 1])
            for name, value in vars(self.form).items()
            if name != "lengthscales" and isinstance(value, gpflow.Parameter | tf.Tensor)
        }
        return with_tensors(self.form, laid_out)
