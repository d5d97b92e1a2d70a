"""`KernelStack`: several GPflow kernels evaluated together, as one batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import gpflow
import tensorflow as tf
from gpflow.kernels import Combination, IsotropicStationary, Kernel, Linear, Product, Sum
from gpflow.utilities import parameter_dict

from mogp.kernels.hierarchy import SameNode
from mogp.kernels.products import inner, is_sparse, num_rows, square_norms, weighted_square_distance
from mogp.modules import with_tensors

Key: TypeAlias = tuple[Any, ...]
"""References to parameters that are stacked together: see `key`."""

# Which parameters are read together is known only where a stack of kernels is evaluated, deep below
# the objective: what has been read is kept here rather than handed down through every formula.
_VALUES: ContextVar[dict[Key, tf.Tensor] | None] = ContextVar("values", default=None)


@contextmanager
def parameters_read_once(values: Mapping[Key, tf.Tensor] | None = None) -> Iterator[None]:
    """Inside, the parameters of stacked kernels are read and transformed at their first use only.

    Args:
        values: tensors by `key`, to be used in place of the parameters' values; None for none.

    >>> import tensorflow as tf
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import KernelStack, parameters_read_once
    >>> stack = KernelStack([SquaredExponential(variance=2.0), SquaredExponential()])
    >>> X = tf.zeros([1, 1], tf.float64)
    >>> with parameters_read_once():
    ...     total = stack.K(X)[:, 0, 0] + stack.K_diag(X)[:, 0]
    >>> total.numpy().tolist()
    [4.0, 2.0]
    """
    token = _VALUES.set({} if values is None else dict(values))
    try:
        yield
    finally:
        _VALUES.reset(token)


def made_once(name: Hashable, make: Callable[[], Any]) -> Any:
    """What `make` returns: inside `parameters_read_once`, from its first call under that name."""
    memo: dict[Any, Any] | None = _VALUES.get()
    if memo is None:
        return make()
    if name not in memo:
        memo[name] = make()
    return memo[name]


class KernelStack(gpflow.Module):
    """Kernels `k_1 … k_G` whose matrices come out as one tensor `[G, N, N']`.

    Kernels of the same form (isotropic stationary ones, linear ones, nodes of a tree, and their
    sums and products) are evaluated in one batched pass with their parameters stacked; any other
    GPflow kernel is evaluated by itself. The Python loop over forms runs when the graph is traced,
    not when it runs.

    Args:
        kernels: one GPflow kernel, or several.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from gpflow.kernels import Linear, SquaredExponential
    >>> from mogp.kernels import KernelStack
    >>> stack = KernelStack([SquaredExponential(), Linear(), SquaredExponential(variance=3.0)])
    >>> X = tf.constant([[0.0], [2.0]], tf.float64)
    >>> np.round(stack.K(X)[:, 1], 2).tolist()
    [[0.14, 1.0], [0.0, 4.0], [0.41, 3.0]]
    """

    def __init__(self, kernels: Kernel | Sequence[Kernel]) -> None:
        super().__init__()
        self.kernels: tuple[Kernel, ...] = (
            (kernels,) if isinstance(kernels, Kernel) else tuple(kernels)
        )
        if not self.kernels:
            raise ValueError("no kernels were given; give at least one GPflow kernel.")
        wrong = [type(k).__name__ for k in self.kernels if not isinstance(k, Kernel)]
        if wrong:
            raise TypeError(f"expected gpflow kernels, got {', '.join(wrong)}.")

    def __len__(self) -> int:
        return len(self.kernels)

    def K(self, X: tf.Tensor, X2: tf.Tensor | tf.SparseTensor | None = None) -> tf.Tensor:
        """Covariances `[G, N, N']` of all kernels.

        A single kernel takes any number of sets of points, `[S, N, P]` to `[S, N, N']`.

        Args:
            X: `[N, P]` or `[G, N, P]`.
            X2: `[N', P]` or `[G, N', P]`; X itself if None. It may be a `tf.SparseTensor` `[N', P]`
                for stationary and linear kernels of all inputs, and their sums and products.
        """
        check_sparse(self.kernels, X, X2)
        return self._by_form(_K, X, X2)

    def K_diag(self, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
        """Variances `[G, N]` of all kernels at `X [N, P]` or `[G, N, P]`."""
        if is_sparse(X):
            _reads_sparse(self.kernels)
        return self._by_form(_K_diag, X)

    @property
    def isotropic(self) -> bool:
        """Whether all kernels read inputs through inner products, without weights on inputs."""
        return all(_isotropic(kernel) for kernel in self.kernels)

    def from_products(self, products: tf.Tensor, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, N, N']` of isotropic kernels from inner products.

        Args:
            products: `[N, N']` inner products.
            left: `[N]` square lengths of the rows.
            right: `[N']` square lengths of the columns.
        """
        if not self.isotropic:
            raise ValueError(
                "kernels with weights on single inputs need the inputs, not their inner products."
            )
        return self._by_form(lambda kernels: _from_products(kernels, products, left, right))

    def _by_form(self, evaluate: Any, *points: tf.Tensor | None) -> tf.Tensor:
        # One evaluation for each form; the parts are then put back into the order of the kernels.
        groups: dict[Any, list[int]] = {}
        for g, kernel in enumerate(self.kernels):
            groups.setdefault(form_of(kernel), []).append(g)
        parts = []
        for members in groups.values():
            own = [
                p if p is None or p.shape.rank == 2 or len(groups) == 1 else tf.gather(p, members)
                for p in points
            ]
            parts.append(evaluate([self.kernels[g] for g in members], *own))
        if len(parts) == 1:
            return parts[0]
        order = [g for members in groups.values() for g in members]
        return tf.gather(tf.concat(parts, 0), [order.index(g) for g in range(len(order))])


def form_of(kernel: Kernel) -> Any:
    """Kernels with equal forms can be stacked."""
    dims = kernel.active_dims
    where = (
        (dims.start, dims.stop, dims.step)
        if isinstance(dims, slice)
        else tuple(int(i) for i in dims)
    )
    if type(kernel) in (Sum, Product):
        return (type(kernel), tuple(form_of(k) for k in kernel.kernels))
    if isinstance(kernel, IsotropicStationary) or type(kernel) is Linear:
        return (type(kernel), where)
    if isinstance(kernel, SameNode):
        return (SameNode, where, kernel.nodes)
    # A kernel that we do not know how to stack is alone in its form.
    return id(kernel)


def _K(kernels: Sequence[Kernel], X: tf.Tensor, X2: tf.Tensor | None) -> tf.Tensor:
    kind = kernels[0]
    other = X if X2 is None else X2
    if isinstance(kind, Combination) and type(kind) in (Sum, Product):
        parts = [
            _K(list(members), X, X2) for members in zip(*(k.kernels for k in kernels), strict=True)
        ]
        return _combine(kind, parts)
    if isinstance(kind, IsotropicStationary):
        lengthscales = rows([k.lengthscales for k in kernels])
        return proxy(kernels, rank=2).K_r2(scaled_square_distance(kind, X, X2, lengthscales))
    if type(kind) is Linear:
        weighted = _active(kind, X) * rows([k.variance for k in kernels])
        return inner(weighted, _active(kind, other))
    if isinstance(kind, SameNode):
        same = kind.K(_active(kind, X), _active(kind, other))
        return tf.broadcast_to(same, tf.concat([[len(kernels)], tf.shape(same)[-2:]], 0))
    x, x2 = (
        [p] * len(kernels) if p is None or p.shape.rank == 2 else tf.unstack(p) for p in (X, X2)
    )
    return tf.stack([k(a, b) for k, a, b in zip(kernels, x, x2, strict=True)])


def _K_diag(kernels: Sequence[Kernel], X: tf.Tensor) -> tf.Tensor:
    kind = kernels[0]
    if isinstance(kind, Combination) and type(kind) in (Sum, Product):
        parts = [
            _K_diag(list(members), X) for members in zip(*(k.kernels for k in kernels), strict=True)
        ]
        return _combine(kind, parts)
    if isinstance(kind, IsotropicStationary):
        return tf.broadcast_to(
            stacked([k.variance for k in kernels])[:, None], [len(kernels), num_rows(X)]
        )
    if type(kind) is Linear:
        return square_norms(_active(kind, X), rows([k.variance for k in kernels]))
    if isinstance(kind, SameNode):
        return tf.ones([len(kernels), tf.shape(X)[-2]], X.dtype)
    x = [X] * len(kernels) if X.shape.rank == 2 else tf.unstack(X)
    return tf.stack([k(p, full_cov=False) for k, p in zip(kernels, x, strict=True)])


def _from_products(
    kernels: Sequence[Kernel], products: tf.Tensor, left: tf.Tensor, right: tf.Tensor
) -> tf.Tensor:
    kind = kernels[0]
    if isinstance(kind, Combination):
        members = zip(*(k.kernels for k in kernels), strict=True)
        return _combine(kind, [_from_products(list(own), products, left, right) for own in members])
    if type(kind) is Linear:
        return rows([k.variance for k in kernels]) * products
    distance = left[:, None] + right - 2 * products
    return proxy(kernels, rank=2).K_r2(
        distance / tf.square(rows([k.lengthscales for k in kernels]))
    )


def _isotropic(kernel: Kernel) -> bool:
    if type(kernel) in (Sum, Product):
        return all(_isotropic(k) for k in kernel.kernels)
    if not (
        _reads_all(kernel) and (isinstance(kernel, IsotropicStationary) or type(kernel) is Linear)
    ):
        return False
    scale = kernel.variance if type(kernel) is Linear else kernel.lengthscales
    return bool(scale.shape.rank == 0)


def check_sparse(
    kernels: Sequence[Kernel],
    X: tf.Tensor | tf.SparseTensor,
    X2: tf.Tensor | tf.SparseTensor | None,
) -> None:
    """Raise where rows are sparse and the kernels cannot have them so: see `KernelStack.K`."""
    if is_sparse(X):
        raise ValueError(
            "covariances between sparse rows are dense, N x N; make the rows that you need dense."
        )
    if is_sparse(X2):
        _reads_sparse(kernels)


def scaled_square_distance(
    kernel: Kernel,
    X: tf.Tensor,
    X2: tf.Tensor | tf.SparseTensor | None,
    lengthscales: tf.Tensor,
) -> tf.Tensor:
    """Square distances `[G, N, N']` of the columns that a kernel reads, in units of lengthscales
    `[G, 1, P or 1]`: for `X` and `X2` see `KernelStack.K`.
    """
    other = None if X2 is None or X2 is X else _active(kernel, X2)
    return weighted_square_distance(_active(kernel, X), other, 1 / tf.square(lengthscales))


def _reads_sparse(kernels: Sequence[Kernel]) -> None:
    for kernel in kernels:
        if type(kernel) in (Sum, Product):
            _reads_sparse(kernel.kernels)
        elif not _reads_all(kernel) or not (
            isinstance(kernel, IsotropicStationary) or type(kernel) is Linear
        ):
            raise ValueError(
                f"the kernel {type(kernel).__name__} (active_dims={kernel.active_dims}) does not"
                " read sparse inputs; use stationary or linear kernels of all inputs, or make the"
                " inputs dense."
            )


def _reads_all(kernel: Kernel) -> bool:
    return isinstance(kernel.active_dims, slice) and kernel.active_dims == slice(None)


def _active(kernel: Kernel, X: tf.Tensor) -> tf.Tensor:
    """The columns that the kernel reads."""
    return X if _reads_all(kernel) else kernel.slice(X)[0]


def _combine(kind: Combination, parts: Sequence[tf.Tensor]) -> tf.Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part if isinstance(kind, Sum) else total * part
    return total


def rows(parameters: Sequence[gpflow.Parameter | tf.Tensor]) -> tf.Tensor:
    """Scalars or `[P]` vectors, one for each kernel, as `[G, 1, P or 1]`."""
    if len({tuple(p.shape) for p in parameters}) == 1:
        return tf.reshape(stacked(parameters), [len(parameters), 1, -1])
    vectors = [tf.reshape(p, [-1]) for p in parameters]
    width = max(int(v.shape[0]) for v in vectors)
    return tf.stack([tf.broadcast_to(v, [width]) for v in vectors])[:, None, :]


def proxy(kernels: Sequence[Kernel], rank: int) -> Any:
    """A kernel of the common class whose scalar parameters are stacked, `[G, 1, …]`.

    So its own formula serves all kernels at once. Lengthscales are left out: the distances that the
    formula is given are scaled already.
    """
    # Any subclass that computes `K_r2` from its scalar parameters is served without a case.
    together = {
        f".{name}": tf.reshape(stacked([getattr(k, name) for k in kernels]), [-1] + [1] * rank)
        for name, value in vars(kernels[0]).items()
        if isinstance(value, gpflow.Parameter | tf.Tensor)
        and value.shape.rank == 0
        and name != "lengthscales"
    }
    return with_tensors(kernels[0], together)


def read_once(kernel: Kernel) -> Any:
    """The kernel with the values of its parameters in their place, to be used several times."""
    read = {path: tf.convert_to_tensor(p) for path, p in parameter_dict(kernel).items()}
    return with_tensors(kernel, read)


def stacked(parameters: Sequence[gpflow.Parameter | tf.Tensor]) -> tf.Tensor:
    """Values of equal shapes, stacked: with one transformation for all where they have the same."""
    memo, name = _VALUES.get(), key(parameters)
    if memo is not None and name in memo:
        return memo[name]
    first = parameters[0]
    if all(p is first for p in parameters):
        values = tf.stack([tf.convert_to_tensor(first)] * len(parameters))
    elif all(
        isinstance(p, gpflow.Parameter) and p.transform == parameters[0].transform
        for p in parameters
    ):
        # One transformation of the stack: `G` small ones would fill the graph.
        values = first.transform.forward(tf.stack([p.unconstrained_variable for p in parameters]))
    else:
        values = tf.stack([tf.convert_to_tensor(p) for p in parameters])
    if memo is not None:
        memo[name] = values
    return values


def key(parameters: Sequence[gpflow.Parameter | tf.Tensor]) -> Key:
    """The name of these parameters among those read once: TensorFlow's references to them."""
    return tuple(
        (p.unconstrained_variable if isinstance(p, gpflow.Parameter) else p).ref()
        for p in parameters
    )
