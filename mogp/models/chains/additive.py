"""Additive chains: functions that are sums of GPs of one column each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np
import numpy.typing as npt
from gpflow.kernels import Kernel, Linear, RationalQuadratic, SquaredExponential

from mogp.data import MultiOutputData
from mogp.kernels import LayerKernels
from mogp.models.chains.chain import LatentChain
from mogp.models.chains.start import (
    NEAR_ZERO,
    Given,
    Likelihoods,
    Order,
    Start,
    begin,
    set_up,
    start_means,
    with_start,
)
from mogp.models.chains.structure import Component
from mogp.models.choices import ScalingChoice, in_units


def additive_gplar(
    data: MultiOutputData,
    likelihood: Likelihoods | None = None,
    *,
    kernel: LayerKernels | None = None,
    fully: bool = False,
    bidirectional: bool = False,
    inducing: int | npt.ArrayLike = 50,
    start: Start = "gpar",
    order: Order = None,
    noise: float = 0.01,
    whiten: bool = True,
    inner: float = 1e-5,
    samples: int = 1,
    importance: bool = False,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LatentChain:
    r"""Functions that are sums of GPs of one column each (Xia, section 3.3).

    components  $g_l(x)$ for each function, and GPs of one column: $h_{lj}(h_j)$ of each function
                before it, so that $h_l = g_l + \sum_{j<l} h_{lj}(h_j)$; `fully`: one for each path
                $l > j > \dots$, which reads the one of the path $j > \dots$; `bidirectional`: also
                those of the functions after it, with the same $g_l$
    inducing    free, for each component: those of a column at the means of what it reads
    posterior   full: $g_l$ from the means of `start`, the others from zero
    likelihood  one for each output

    Args:
        data, likelihood, inducing, start, order, noise: see `gplar`.
        kernel: see `gplar`. GPs of one column have the terms that its kind names.
        fully: see above.
        bidirectional: see above.
        whiten, inner, samples, importance, scaling, seed: see `gplar`.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, float("nan")]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["first", "second"])
    >>> model = additive_gplar(data, inducing=3, start="zero")
    >>> [(component.inputs, component.arguments) for component in model.components]
    [(True, ()), (True, ()), (False, ((0,),))]
    >>> [dict(weights) for weights in model.functions]
    [{0: 1.0}, {1: 1.0, 2: 1.0}]
    """
    data = in_units(scaling, data)
    given = Given.checked(
        data, likelihood, kernel, inducing, order, noise, seed, whiten=whiten, inner=inner,
        samples=samples, importance=importance,
    )  # fmt: skip
    build = partial(
        _additive_gplar, given=given, fully=fully, bidirectional=bidirectional, start=start
    )
    return with_start(build, data, [start])


def _additive_gplar(
    data: MultiOutputData,
    *,
    given: Given,
    fully: bool,
    bidirectional: bool,
    start: Start,
    train: bool,
) -> LatentChain:
    setting = set_up(data, given)
    J = len(setting.order)
    by_function = start_means(setting, begin(data, setting, start, train))
    paths = additive_paths(J, fully, bidirectional)
    number = {path: c for c, path in enumerate(paths)}
    components, sets, means, functions = [], [], [], [dict[int, float]() for _ in range(J)]
    for path in paths:
        position = path[0]
        functions[setting.order[position]][number[path]] = 1.0
        if len(path) == 1:
            components.append(Component(setting.kernels.layer(0)))
            sets.append(setting.Z)
            means.append(by_function[:, setting.order[position]])
            continue
        read = [number[path[1:]]] if fully else [number[p] for p in _aggregate(paths, path)]
        kernel = one_column(setting.kernels, setting.kernels.kind)
        components.append(Component(kernel, (tuple(read),), inputs=False))
        sets.append(np.sum([means[c] for c in read], axis=0)[:, None])
        means.append(np.zeros(len(setting.Z)))
    model = setting.chain(data, components, functions, sets)
    model.start_at(means, NEAR_ZERO)
    return model


def additive_paths(functions: int, fully: bool, bidirectional: bool) -> list[tuple[int, ...]]:
    """The components of an additive chain: `(l,)` is $g_l(x)$, `(l, j, ...)` reads that of
    `(j, ...)`.

    In an order in which each comes after what it reads.
    """
    alone = [(position,) for position in range(functions)]
    longest = functions if fully else 2
    down = [
        tuple(sorted(some, reverse=True))
        for size in range(2, longest + 1)
        for some in combinations(range(functions), size)
    ]
    up = [tuple(sorted(path)) for path in down] if bidirectional else []
    if fully:
        return alone + sorted(down + up, key=len)
    return alone + sorted(down) + sorted(up, reverse=True)


def _aggregate(paths: Sequence[tuple[int, ...]], path: tuple[int, ...]) -> list[tuple[int, ...]]:
    """What $h_{lj}$ of an additive chain reads: $g_j$ and all that adds up to the function $j$ in
    its direction.
    """
    reader, read = path
    same = [p for p in paths if len(p) == 2 and p[0] == read and (p[1] < p[0]) == (read < reader)]
    return [(read,), *same]


def one_column(kernels: LayerKernels, kind: str) -> Kernel:
    """A kernel over one column with the terms of a kind of layer."""
    terms: list[Kernel] = []
    if "nonlinear" in kind:
        shape = {"lengthscales": kernels.output_lengthscale}
        rq = kernels.nonlinear == "rq"
        terms.append(
            RationalQuadratic(alpha=kernels.alpha, **shape) if rq else SquaredExponential(**shape)
        )
    if kind.startswith("linear"):
        terms.append(Linear(variance=kernels.linear_variance))
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]
