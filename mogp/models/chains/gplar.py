"""Named chains: GPLAR in one direction and in both, independent and deep GPs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gpflow import set_trainable
from gpflow.kernels import SquaredExponential

from mogp.data import Array, MultiOutputData
from mogp.kernels import LayerKernels
from mogp.models.chains.additive import one_column
from mogp.models.chains.chain import LatentChain
from mogp.models.chains.start import (
    NEAR_ZERO,
    Given,
    Likelihoods,
    Order,
    Setting,
    Start,
    adopt_gpars,
    adopts,
    begin,
    closed_rows,
    set_up,
    start_means,
    takes_training,
    with_start,
)
from mogp.models.chains.structure import Component
from mogp.models.choices import ScalingChoice, in_units

Strategy = Literal["A", "B", "C"]


def gplar(
    data: MultiOutputData,
    likelihood: Likelihoods | None = None,
    *,
    kernel: LayerKernels | None = None,
    strategy: Strategy = "C",
    inducing: int | npt.ArrayLike = 100,
    start: Start = "gpar",
    adopt: bool | None = None,
    order: Order = None,
    noise: float = 0.01,
    whiten: bool = True,
    inner: float = 1e-5,
    samples: int = 1,
    importance: bool = False,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LatentChain:
    """Each output reads the inputs and the latent values of the outputs before it (Xia, chapters 2
    and 3).

    components  a GP for each latent function, which reads the inputs and the functions before it:
                `kernel`
    inducing    "A": rows of the observations; "B": a grid or k-means with the means of `start` for
                the other columns, fixed; "C": tied to the means of the GPs before, and trained (by
                Adam: a natural gradient takes them to stay where they are)
    posterior   full, from the means of `start` with standard deviations near zero
    likelihood  one for each output; Gaussian if None

    Args:
        data: observations; outputs need not share inputs.
        likelihood: one for each output, in order or by name; Gaussian if None. Targets of Gaussian
            outputs are standardised inside the model.
        kernel: of the layers; if None linear and nonlinear terms over the outputs, and lengthscales
            of a tenth of the range of each input column.
        strategy: see above.
        inducing: how many inducing inputs, or the inputs themselves, `[M, P]`.
        start: "gpar", "zero", means `[M, J]` by function, or a fitted GPAR with the same order.
            "gpar" fits a GPAR before the first step of `mogp.fit`, or when
            `mogp.training.start(model, data)` is called; until then the model is that of "zero",
            and values set by hand before that are lost.
        adopt: take over the kernels of that GPAR too, and its noise variances where they exceed
            `noise`, and start the posterior of Gaussian outputs at its optimum for them; if None
            wherever there is a GPAR. (The thesis takes the means alone: training is longer by far.)
        order: the outputs, by name or position, in the order of the chain; that of the data if
            None. Outputs whose gaps matter most should come last.
        noise: start value of the noise variance (of standardised targets), where `likelihood` is
            None.
        whiten: see `LatentChain`, and so are `inner`, `samples` and `importance`.
        inner: start value of the inner noise variances.
        samples: paths a row in training.
        importance: whether the paths of a row are weighted.
        scaling: "standard" to read input columns of mean 0 and standard deviation 1, which is what
            `kernel` is of; None for the units of the data. Targets are standardised either way.
        seed: of inducing inputs and of the draws in training.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, float("nan")]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["first", "second"])
    >>> model = gplar(data, inducing=3, start="zero")
    >>> [component.arguments for component in model.components]
    [(), ((0,),)]
    >>> mogp.fit(model, data, steps=2, progress=False).steps
    2
    >>> model.predict_y([[1.0], [1.5]], "second")[0].shape
    TensorShape([2, 1])
    """
    adopt = adopts(adopt, [start])
    data = in_units(scaling, data)
    given = Given.checked(
        data, likelihood, kernel, inducing, order, noise, seed, whiten=whiten, inner=inner,
        samples=samples, importance=importance,
    )  # fmt: skip
    build = partial(_gplar, given=given, strategy=strategy, start=start, adopt=adopt)
    return with_start(build, data, [start] if adopt or strategy != "A" else [])


def _gplar(
    data: MultiOutputData,
    *,
    given: Given,
    strategy: Strategy,
    start: Start,
    adopt: bool,
    train: bool,
) -> LatentChain:
    adopt = adopt and (train or not takes_training(start))
    setting = set_up(data, given)
    first = begin(data, setting, start, train)
    components, sets, means, shared = _forward(data, setting, strategy, first)
    model = setting.chain(data, components, _single(setting.order), sets, shared)
    if adopt:
        adopt_gpars(model, [first], [setting.order], given.noise)
    model.start_at(means, NEAR_ZERO)
    if adopt:
        model.regress(data)
    _fix(model.inducing)
    return model


def bi_gplar(
    data: MultiOutputData,
    likelihood: Likelihoods | None = None,
    *,
    kernel: LayerKernels | None = None,
    combine: Literal["mean", "sum"] = "mean",
    light: bool = False,
    strategy: Strategy = "B",
    inducing: int | npt.ArrayLike = 100,
    start: Start | tuple[Start, Start] = "gpar",
    adopt: bool | None = None,
    order: Order = None,
    noise: float = 0.01,
    whiten: bool = True,
    inner: float = 1e-5,
    samples: int = 1,
    importance: bool = False,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
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
        data, likelihood, kernel, strategy, inducing, adopt, order, noise: see `gplar`.
        combine: "mean" or "sum".
        light: see above.
        start: see `gplar`; or a pair of them, for the order and for its reverse.
        whiten, inner, samples, importance, scaling, seed: see `gplar`.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, float("nan")]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["first", "second"])
    >>> model = bi_gplar(data, inducing=3, start="zero")
    >>> [component.arguments for component in model.components]
    [(), ((0,),), (), ((2,),)]
    >>> [dict(weights) for weights in model.functions]
    [{0: 0.5, 3: 0.5}, {1: 0.5, 2: 0.5}]
    """
    if combine not in ("mean", "sum"):
        raise ValueError(f'combine={combine!r}; expected "mean" or "sum".')
    starts = start if isinstance(start, tuple) else (start, start)
    used = starts[:1] if light else starts
    adopt = adopts(adopt, used)
    data = in_units(scaling, data)
    given = Given.checked(
        data, likelihood, kernel, inducing, order, noise, seed, whiten=whiten, inner=inner,
        samples=samples, importance=importance,
    )  # fmt: skip
    build = partial(
        _bi_gplar,
        given=given,
        combine=combine,
        light=light,
        strategy=strategy,
        starts=starts,
        adopt=adopt,
    )
    return with_start(build, data, used if adopt or strategy != "A" else [])


def _bi_gplar(
    data: MultiOutputData,
    *,
    given: Given,
    combine: str,
    light: bool,
    strategy: Strategy,
    starts: tuple[Start, Start],
    adopt: bool,
    train: bool,
) -> LatentChain:
    adopt = adopt and (train or not any(takes_training(one) for one in starts))
    setting = set_up(data, given)
    back = setting._replace(order=setting.order[::-1])
    first, second = begin(data, setting, starts[0], train), starts[1]
    components, sets, means, shared = _forward(data, setting, strategy, first)
    J = len(components)
    if light:
        more = [Component(setting.kernels.layer(0))]
        more += [
            Component(one_column(setting.kernels, "nonlinear"), ((J + p - 1,),), inputs=False)
            for p in range(1, J)
        ]
        by_function = _by_function(setting, means)
        Z = setting.Z[: len(means[0])]
        free: list[Array | None] = [Z, *(by_function[:, [j]] for j in back.order[:-1])]
        zero = [np.zeros(len(means[0]))] * J
        components, sets, means = components + more, sets + free, means + zero
    else:
        second = begin(data, back, second, train)
        again, own, other, _ = _forward(data, back, strategy, second)
        moved = [c._replace(arguments=tuple((a + J,) for (a,) in c.arguments)) for c in again]
        components, sets, means = components + moved, sets + own, means + other
        if combine == "sum":
            means = [0.5 * m for m in means]
    weight = 1.0 if combine == "sum" else 0.5
    places = {j: (p, J + back.order.index(j)) for p, j in enumerate(setting.order)}
    functions = [dict.fromkeys(places[j], weight) for j in range(J)]
    model = setting.chain(data, components, functions, sets, shared)
    if adopt:
        directions = 1 if light else 2
        adopt_gpars(
            model,
            [first, second][:directions],
            [setting.order, back.order][:directions],
            given.noise,
        )
    model.start_at(means, NEAR_ZERO)
    if adopt and combine == "mean" and not light:
        model.regress(data)
    _fix(model.inducing[:J] if light else model.inducing)
    return model


def dgp(
    data: MultiOutputData,
    likelihood: Likelihoods | None = None,
    *,
    width: int = 5,
    depth: int = 2,
    lengthscale: float | None = None,
    inducing: int | npt.ArrayLike = 100,
    noise: float = 0.01,
    whiten: bool = True,
    inner: float = 1e-5,
    samples: int = 1,
    importance: bool = False,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
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
        data, likelihood, inducing, noise: see `gplar`.
        width: GPs of a hidden layer.
        depth: layers.
        lengthscale: start value over the inputs; a tenth of their range if None.
        whiten, inner, samples, importance, scaling, seed: see `gplar`.

    >>> import mogp
    >>> data = mogp.MultiOutputData.from_arrays([[0.0], [0.5], [1.0]], [0.0, 0.4, 0.9], names=["y"])
    >>> model = dgp(data, width=2, depth=3, inducing=3)
    >>> [component.copies for component in model.components]
    [2, 2, 1]
    """
    if width < 1 or depth < 1:
        raise ValueError(f"width={width}, depth={depth}; both must be at least one.")
    data = in_units(scaling, data)
    given = Given.checked(
        data, likelihood, None, inducing, None, noise, seed, whiten=whiten, inner=inner,
        samples=samples, importance=importance,
    )  # fmt: skip
    setting = set_up(data, given)
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
    return setting.chain(data, components, functions, sets)


def igp(
    data: MultiOutputData,
    likelihood: Likelihoods | None = None,
    *,
    kernel: LayerKernels | None = None,
    inducing: int | npt.ArrayLike = 100,
    noise: float = 0.01,
    whiten: bool = True,
    inner: float = 1e-5,
    samples: int = 1,
    importance: bool = False,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LatentChain:
    """Independent GPs: no function reads another, and the bound is the sum of those of single
    outputs.

    components  a GP for each latent function, over the inputs: the first layer of `kernel`
    inducing    a grid or k-means for each, trained
    posterior   full, from the prior
    likelihood  one for each output

    Args:
        data, likelihood, kernel, inducing, noise: see `gplar`.
        whiten, inner, samples, importance, scaling, seed: see `gplar`.

    >>> import mogp
    >>> data = mogp.MultiOutputData.from_arrays([[0.0], [0.5], [1.0]], [0.0, 0.4, 0.9], names=["y"])
    >>> model = igp(data, inducing=3)
    >>> model.num_gps, model.num_inducing
    (1, 3)
    """
    data = in_units(scaling, data)
    given = Given.checked(
        data, likelihood, kernel, inducing, None, noise, seed, whiten=whiten, inner=inner,
        samples=samples, importance=importance,
    )  # fmt: skip
    setting = set_up(data, given)
    J = len(setting.order)
    components = [Component(setting.kernels.layer(0)) for _ in range(J)]
    functions = [{j: 1.0} for j in range(J)]
    return setting.chain(data, components, functions, [setting.Z] * J)


def _forward(
    data: MultiOutputData, setting: Setting, strategy: str, start: Start
) -> tuple[list[Component], list[Array | None], list[Array], Array | None]:
    """Components of a chain in the order of the setting, their inducing inputs and means, and the
    shared inputs.
    """
    J = len(setting.order)
    components = [
        Component(setting.kernels.layer(p), tuple((i,) for i in range(p))) for p in range(J)
    ]
    if strategy == "A":
        sets, means = zip(*closed_rows(setting, data.X), strict=True)
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
