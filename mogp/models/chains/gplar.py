"""Named chains: GPLAR, bi-directional, additive, and the independent and deep GPs they are compared
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gpflow import set_trainable
from gpflow.kernels import Kernel, Linear, RationalQuadratic, SquaredExponential

from mogp.data import Array, MultiOutputData
from mogp.kernels import LayerKernels
from mogp.models.chains.chain import Component, LatentChain
from mogp.models.chains.start import (
    Likelihoods,
    Order,
    Setting,
    Start,
    adopt_gpars,
    begin,
    closed_rows,
    set_up,
    start_means,
)

Strategy = Literal["A", "B", "C"]
NEAR_ZERO = 1e-4


def gplar(
    data: MultiOutputData,
    kernels: LayerKernels | None = None,
    likelihoods: Likelihoods | None = None,
    *,
    strategy: Strategy = "C",
    inducing: int | npt.ArrayLike = 100,
    start: Start = "gpar",
    adopt: bool = False,
    order: Order = None,
    noise: float = 0.01,
    seed: int = 0,
    **how: Any,
) -> LatentChain:
    """Each output reads the inputs and the latent values of the outputs before it (Xia, chapters 2
    and 3).

    components  a GP for each latent function, which reads the inputs and the functions before it:
                `kernels`
    inducing    "A": rows of the observations; "B": a grid or k-means with the means of `start` for
                the other columns, fixed; "C": tied to the means of the GPs before, and trained (by
                Adam: a natural gradient takes them to stay where they are)
    posterior   full, from the means of `start` with standard deviations near zero
    likelihood  one for each output; Gaussian if None

    Args:
        data: observations; outputs need not share inputs.
        kernels: of the layers; linear and nonlinear terms over the outputs if None.
        likelihoods: see above. Targets of Gaussian outputs are standardised inside the model.
        strategy: see above.
        inducing: how many inducing inputs, or the inputs themselves, `[M, P]`.
        start: "gpar" (fits a GPAR first), "zero", means `[M, J]` by function, or a fitted GPAR with
            the same order.
        adopt: take over the kernels of that GPAR too, and its noise variances where they exceed
            `noise`, and start the posterior of Gaussian outputs at its optimum for them. (The
            thesis takes the means alone: training is longer by far.)
        order: the outputs, by name or position, in the order of the chain; that of the data if
            None. Outputs whose gaps matter most should come last.
        noise: start value of the noise variance (of standardised targets), where `likelihoods` is
            None.
        seed: of inducing inputs and of the draws in training.
        how: `whiten`, `inner`, `samples`, `importance` of `LatentChain`.
    """
    setting = set_up(data, kernels, likelihoods, inducing, order, noise, seed)
    first = begin(data, setting, start)
    components, sets, means, shared = _forward(data, setting, strategy, first, seed)
    functions = _single(setting.order)
    model = _chain(data, setting, components, functions, sets, shared, seed, how)
    if adopt:
        adopt_gpars(model, [first], [setting.order], noise)
    model.start_at(means, NEAR_ZERO)
    if adopt:
        model.regress(data)
    _fix(model.inducing)
    return model


def bi_gplar(
    data: MultiOutputData,
    kernels: LayerKernels | None = None,
    likelihoods: Likelihoods | None = None,
    *,
    combine: Literal["mean", "sum"] = "mean",
    light: bool = False,
    strategy: Strategy = "B",
    inducing: int | npt.ArrayLike = 100,
    start: Start | tuple[Start, Start] = "gpar",
    adopt: bool = False,
    order: Order = None,
    noise: float = 0.01,
    seed: int = 0,
    **how: Any,
) -> LatentChain:
    """Two chains in opposite orders whose functions are averaged or added (Xia, section 3.2).

    components  those of `gplar`, and as many again that read the outputs after theirs; `light`: the
                chain back has one column a layer, the function after it, and squared-exponential
                kernels
    inducing    as `gplar`, for each direction; `light`: free on the way back
    posterior   as `gplar`: GPAR forward and GPAR backward (halves of them if they are added);
                `light`: zero on the way back
    likelihood  one for each output, on (h + h') / 2, or h + h'

    Args:
        data, kernels, likelihoods, strategy, inducing, adopt, order, noise, seed, how: see `gplar`.
        combine: "mean" or "sum".
        light: see above.
        start: see `gplar`; or a pair of them, for the order and for its reverse.
    """
    if combine not in ("mean", "sum"):
        raise ValueError(f'combine={combine!r}; expected "mean" or "sum".')
    setting = set_up(data, kernels, likelihoods, inducing, order, noise, seed)
    back = setting._replace(order=setting.order[::-1])
    first, second = start if isinstance(start, tuple) else (start, start)
    first = begin(data, setting, first)
    components, sets, means, shared = _forward(data, setting, strategy, first, seed)
    J = len(components)
    if light:
        more = [Component(setting.kernels.layer(0))]
        more += [
            Component(_one_column(setting.kernels, "nonlinear"), ((J + p - 1,),), inputs=False)
            for p in range(1, J)
        ]
        by_function = _by_function(setting, means)
        Z = setting.Z[: len(means[0])]
        free: list[Array | None] = [Z, *(by_function[:, [j]] for j in back.order[:-1])]
        zero = [np.zeros(len(means[0]))] * J
        components, sets, means = components + more, sets + free, means + zero
    else:
        second = begin(data, back, second)
        again, own, other, _ = _forward(data, back, strategy, second, seed)
        moved = [c._replace(arguments=tuple((a + J,) for (a,) in c.arguments)) for c in again]
        components, sets, means = components + moved, sets + own, means + other
        if combine == "sum":
            means = [0.5 * m for m in means]
    weight = 1.0 if combine == "sum" else 0.5
    places = {j: (p, J + back.order.index(j)) for p, j in enumerate(setting.order)}
    functions = [dict.fromkeys(places[j], weight) for j in range(J)]
    model = _chain(data, setting, components, functions, sets, shared, seed, how)
    if adopt:
        directions = 1 if light else 2
        adopt_gpars(
            model, [first, second][:directions], [setting.order, back.order][:directions], noise
        )
    model.start_at(means, NEAR_ZERO)
    if adopt and combine == "mean" and not light:
        model.regress(data)
    _fix(model.inducing[:J] if light else model.inducing)
    return model


def additive_gplar(
    data: MultiOutputData,
    kernels: LayerKernels | None = None,
    likelihoods: Likelihoods | None = None,
    *,
    fully: bool = False,
    bidirectional: bool = False,
    inducing: int | npt.ArrayLike = 50,
    start: Start = "gpar",
    order: Order = None,
    noise: float = 0.01,
    seed: int = 0,
    **how: Any,
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
        data, kernels, likelihoods, inducing, start, order, noise, seed, how: see `gplar`. GPs of
            one column have the terms that the kind of `kernels` names.
        fully: see above.
        bidirectional: see above.
    """
    setting = set_up(data, kernels, likelihoods, inducing, order, noise, seed)
    J = len(setting.order)
    by_function = start_means(setting, begin(data, setting, start))
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
        kernel = _one_column(setting.kernels, setting.kernels.kind)
        components.append(Component(kernel, (tuple(read),), inputs=False))
        sets.append(np.sum([means[c] for c in read], axis=0)[:, None])
        means.append(np.zeros(len(setting.Z)))
    model = _chain(data, setting, components, functions, sets, None, seed, how)
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


def dgp(
    data: MultiOutputData,
    likelihoods: Likelihoods | None = None,
    *,
    width: int = 5,
    depth: int = 2,
    lengthscale: float | None = None,
    inducing: int | npt.ArrayLike = 100,
    noise: float = 0.01,
    seed: int = 0,
    **how: Any,
) -> LatentChain:
    """A deep GP with the inputs fed to every layer (Damianou & Lawrence 2013; Salimbeni &
    Deisenroth 2017).

    components  `depth` layers: `width` GPs in each hidden one, a GP for each latent function in the
                last; the GPs of a layer share a squared-exponential kernel and inducing inputs, and
                read the inputs and the layer before
    inducing    a grid or k-means, the hidden columns at random; trained
    posterior   full, from the prior
    likelihood  one for each output; missing targets are masked in the last layer

    Args:
        data, likelihoods, inducing, noise, seed, how: see `gplar`.
        width: GPs of a hidden layer.
        depth: layers.
        lengthscale: start value over the inputs; a tenth of their range if None.
    """
    if width < 1 or depth < 1:
        raise ValueError(f"width={width}, depth={depth}; both must be at least one.")
    setting = set_up(data, None, likelihoods, inducing, None, noise, seed)
    rng, D, J = np.random.default_rng(seed), data.input_dim, len(setting.order)
    over_x = setting.kernels.input_lengthscale if lengthscale is None else [lengthscale] * D
    components, sets = [], []
    for layer in range(depth):
        hidden = width if layer else 0
        before = range((layer - 1) * width, (layer - 1) * width + hidden)
        kernel = SquaredExponential(lengthscales=[*np.broadcast_to(over_x, (D,)), *[1.0] * hidden])
        copies = J if layer == depth - 1 else width
        components.append(Component(kernel, tuple((c,) for c in before), copies=copies))
        sets.append(np.hstack([setting.Z, 2 * rng.standard_normal((len(setting.Z), hidden))]))
    functions = [{(depth - 1) * width + j: 1.0} for j in range(J)]
    return _chain(data, setting, components, functions, sets, None, seed, how)


def igp(
    data: MultiOutputData,
    kernels: LayerKernels | None = None,
    likelihoods: Likelihoods | None = None,
    *,
    inducing: int | npt.ArrayLike = 100,
    noise: float = 0.01,
    seed: int = 0,
    **how: Any,
) -> LatentChain:
    """Independent GPs: no function reads another, and the bound is the sum of those of single
    outputs.

    components  a GP for each latent function, over the inputs: the first layer of `kernels`
    inducing    a grid or k-means for each, trained
    posterior   full, from the prior
    likelihood  one for each output

    Args:
        data, kernels, likelihoods, inducing, noise, seed, how: see `gplar`.
    """
    setting = set_up(data, kernels, likelihoods, inducing, None, noise, seed)
    J = len(setting.order)
    components = [Component(setting.kernels.layer(0)) for _ in range(J)]
    functions = [{j: 1.0} for j in range(J)]
    return _chain(data, setting, components, functions, [setting.Z] * J, None, seed, how)


def _forward(
    data: MultiOutputData, setting: Setting, strategy: str, start: Start, seed: int
) -> tuple[list[Component], list[Array | None], list[Array], Array | None]:
    """Components of a chain in the order of the setting, their inducing inputs and means, and the
    shared inputs.
    """
    J = len(setting.order)
    components = [
        Component(setting.kernels.layer(p), tuple((i,) for i in range(p))) for p in range(J)
    ]
    if strategy == "A":
        sets, means = zip(*closed_rows(setting, len(setting.Z), data.X, seed), strict=True)
        return components, list(sets), list(means), None
    if strategy not in ("B", "C"):
        raise ValueError(f'strategy={strategy!r}; expected "A", "B" or "C".')
    by_function = start_means(setting, start)
    columns = by_function[:, list(setting.order)]
    tied: list[Array | None] = [None] * J
    fixed: list[Array | None] = [np.hstack([setting.Z, columns[:, :p]]) for p in range(J)]
    return (
        components,
        tied if strategy == "C" else fixed,
        list(columns.T),
        setting.Z if strategy == "C" else None,
    )


def _fix(sets: Sequence[Any]) -> None:
    """Inducing inputs that are not tied stay where they are."""
    for Z in sets:
        if Z is not None:
            set_trainable(Z, False)


def _single(order: Sequence[int]) -> list[dict[int, float]]:
    """Function `order[p]` is the GP at position `p`."""
    return [{position: 1.0} for _, position in sorted((j, p) for p, j in enumerate(order))]


def _by_function(setting: Setting, means: Sequence[Array]) -> Array:
    columns = np.empty((len(means[0]), len(setting.order)))
    columns[:, list(setting.order)] = np.transpose(means)
    return columns


def _one_column(kernels: LayerKernels, kind: str) -> Kernel:
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


def _chain(
    data: MultiOutputData,
    setting: Setting,
    components: Sequence[Component],
    functions: Sequence[dict[int, float]],
    sets: Sequence[Any],
    shared: Array | None,
    seed: int,
    how: dict[str, Any],
) -> LatentChain:
    return LatentChain(
        components,
        functions,
        setting.likelihood,
        sets,
        shared,
        input_dim=data.input_dim,
        names=data.schema,
        location=setting.location,
        scale=setting.scale,
        seed=seed,
        **how,
    )
