"""Chains with labels among their outputs: the heterogeneous comparisons of Xia, section 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from mogp.book.runs.chains import load_rows, train_chain
from mogp.data import Array, MultiOutputData
from mogp.metrics import auc, smse

if TYPE_CHECKING:
    from mogp.models import GPAR, LatentChain

LABEL_MODELS = ("IGP", "GPLAR, linear", "GPLAR, nonlinear")
KILOMETRES = np.array([58.5, 45.1])
"""East-west and north-south extent of the box that the data set "london" maps to the unit square.
"""
CENTRE = np.array([0.4537, 0.5433])
"""Charing Cross (0.1276 W, 51.5074 N) in that square."""


def labels_run(
    dependence: str,
    models: Sequence[str],
    *,
    inducing: int = 100,
    steps: int = 400,
    rate: float = 0.03,
    gamma: float = 0.1,
    gpar_steps: int = 200,
    points: int = 200,
    samples: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """Two real and two binary outputs with a gap in the last one's labels (figure 4.14):
    probabilities on a grid.

    Args:
        dependence: of the draw, "linear" or "nonlinear".
        models: some of `LABEL_MODELS`; the kind is that of the kernels over outputs.
        inducing: inducing inputs of each GP, evenly spaced, which stay where they are.
        steps, rate, gamma: see `train_chain`.
        gpar_steps: of L-BFGS for each layer of the GPAR (on labels as numbers) that chains start
            from.
        points: of the grid.
        samples: paths of a prediction.
        seed: of the data and of the draws.

    Returns:
        `x`, the true probability `truth` and, for each model, `mean`, `lower` and `upper` (95 % of
        the paths) of the probability of the last output, `[K, points]`; `bounds`, after training,
        from 50 paths.
    """
    from gpflow import set_trainable

    from mogp.kernels import LayerKernels
    from mogp.likelihoods import Bernoulli, Gaussian
    from mogp.models import GPAR, gplar, igp

    whole = load_rows("xia-hetero", "synthetic", {"dependence": dependence, "seed": seed})
    train, every = whole.train.data, max(1, len(whole.extras["x"]) // points)
    x, truth = whole.extras["x"][::every], expit(whole.extras["truth"][::every, -1])
    noise = np.random.default_rng(seed).standard_normal((train.num_outputs, 50, len(train.X)))
    found: dict[str, list[Array]] = {"mean": [], "lower": [], "upper": []}
    bounds = []
    for name in models:
        kinds = {o: Gaussian(0.01) if d < 2 else Bernoulli() for d, o in enumerate(train.names)}
        if name == "IGP":
            model = igp(
                train, LayerKernels(1, input_lengthscale=0.03), kinds, inducing=inducing, seed=seed
            )
            model.regress(train)
            set_trainable(model.inducing, False)
        else:
            kind: Any = name.removeprefix("GPLAR, ")
            recipe = LayerKernels(1, kind, input_lengthscale=0.02, linear_variance=1.0)
            first = GPAR(train, recipe)
            first.fit(gpar_steps)
            model = gplar(
                train,
                recipe,
                kinds,
                strategy="B",
                start=first,
                inducing=inducing,
                seed=seed,
                whiten=False,
            )
        train_chain(model, train, steps, rate, gamma)
        bounds.append(float(model.elbo(train, noise)))
        p = expit(np.asarray(model.paths(x, samples, seed).draws)[..., -1])
        found["mean"].append(p.mean(0))
        for side, q in (("lower", 0.025), ("upper", 0.975)):
            found[side].append(np.quantile(p, q, axis=0))
    curves = {name: np.array(values) for name, values in found.items()}
    return {"x": x[:, 0], "truth": truth, "bounds": bounds, **curves}


def landmine_run(
    source: str,
    size: int,
    trial: int,
    models: Sequence[str] = ("IGP", "GPLAR"),
    *,
    tasks: int = 10,
    inducing: int = 60,
    steps: int = 150,
    gpar_steps: int = 50,
    rate: float = 0.01,
    gamma: float = 0.05,
    samples: int = 50,
) -> dict[str, Any]:
    """Ten mine fields as binary outputs, each with `size` points of its own to train on (figure
    4.15).

    Args:
        source: "stand-in" forces the stand-in, anything else forbids it.
        size: training points of a field, drawn without replacement; the others are for testing.
        trial: seed of that draw.
        models: "IGP" and "GPLAR" (strategy B: inducing columns are means of a GPAR on labels as
            numbers).
        tasks: the first so many fields.
        inducing: inducing inputs of each GP (k-means), which stay where they are.
        steps, rate, gamma: see `train_chain`.
        gpar_steps: of L-BFGS for each layer of that GPAR.
        samples: paths of a prediction.

    Returns:
        `auc` `[K, tasks]`, and `folded`: max(AUC, 1 - AUC), as the author's notebook records it.
    """
    from gpflow import set_trainable
    from gpflow.likelihoods import Bernoulli

    from mogp.kernels import LayerKernels
    from mogp.models import GPAR, gplar, igp

    data, held = mine_fields(source, size, trial, tasks)
    recipe = LayerKernels(data.input_dim, input_lengthscale=2.0, linear_variance=1.0)
    kinds = {task: Bernoulli() for task in data.names}
    scores = np.empty((len(models), tasks))
    for k, name in enumerate(models):
        if name == "IGP":
            model = igp(data, recipe, kinds, inducing=inducing, seed=trial)
            set_trainable(model.inducing, False)
        else:
            first = GPAR(data, recipe, noise=0.1)
            first.fit(gpar_steps)
            model = gplar(
                data,
                recipe,
                kinds,
                strategy="B",
                start=first,
                inducing=inducing,
                seed=trial,
                whiten=False,
            )
            _widen(model)
        train_chain(model, data, steps, rate, gamma)
        for task, (X, labels) in enumerate(held):
            scores[k, task] = auc(labels, np.asarray(model.predict_y(X, task, samples)[0])[:, 0])
    return {"auc": scores, "folded": np.maximum(scores, 1 - scores)}


def mine_fields(
    source: str, size: int, trial: int, tasks: int = 10
) -> tuple[MultiOutputData, list[tuple[Array, Array]]]:
    """`size` points of each of the first `tasks` fields, at least one of each label; and the
    others, `(X, labels)`.
    """
    fields = load_rows("landmine", source, {"tasks": range(1, tasks + 1)})
    rng, train, held = np.random.default_rng([trial, size]), [], []
    for task in range(tasks):
        own = fields.output == task
        X, labels = fields.X[own], fields.Y[own, 0]
        picked = rng.permutation(len(X))[:size]
        if len(np.unique(labels[picked])) < 2:
            picked[0] = rng.choice(np.flatnonzero(labels == 1))
        train.append((X[picked], labels[picked]))
        held.append((np.delete(X, picked, 0), np.delete(labels, picked)))
    return MultiOutputData.from_list(train, names=fields.outputs), held


def london_run(
    source: str,
    model: str,
    *,
    data: str = "london",
    rows: int = 2000,
    test_rows: int = 1000,
    inducing: int = 100,
    steps: int = 1500,
    gpar_steps: int = 100,
    batch: int = 500,
    rate: float = 0.01,
    side: int = 60,
    samples: int = 100,
    seed: int = 0,
) -> dict[str, Any]:
    """The type of a property (shared robust-max over its classes), then the logarithm of its price
    (section 4.4.3).

    Args:
        source: "stand-in" forces the stand-in, anything else forbids it.
        model: "IGP" or "GPLAR" (strategy C, from GPAR).
        data: "london" (two types) or "london-3types".
        rows, test_rows: drawn at random.
        inducing: inducing inputs of each GP (k-means).
        steps, batch, rate: mini-batches; Adam for everything, since inducing inputs move.
        gpar_steps: of L-BFGS for each layer of that GPAR.
        side: of the grid of the maps.
        samples: paths of a prediction.
        seed: of rows and draws.

    Returns:
        `accuracy`, `type_hll` (per point, of the class probabilities), `type_published` (the mean
        log density of robust-max over paths), `smse` and `price_hll` (per point) on test rows;
        `bounds`, the mean bound over tenths of the training; `before` and `after` training
        `[M, 3]`, the inducing inputs with the winning class at each (`gpar`: by the shares that
        GPAR predicts, where `before` has its standardised columns; none for "IGP"); on the `grid`
        the `share` of paths for each class and the mean `price`.
    """
    from mogp.likelihoods import Gaussian, RobustMax
    from mogp.models import gplar, igp
    from mogp.models.chains.gpar import inducing_inputs
    from mogp.optimizers import Adam
    from mogp.training import fit

    table = property_table(data, source, rows + test_rows, seed)
    classes = int(table["kind"].max()) + 1
    train, test = (
        {k: v[part] for k, v in table.items()} for part in (slice(0, rows), slice(rows, None))
    )
    observed = _types_and_prices(train)
    kinds: dict[str, Any] = {"type": RobustMax(classes), "price": Gaussian(0.1)}
    recipe = property_kernels()
    Z = inducing_inputs(observed, inducing, seed)
    chain: LatentChain
    start = np.empty((0, 3))
    if model == "IGP":
        chain = igp(observed, recipe, kinds, inducing=Z, seed=seed)
    else:
        columns = np.column_stack([np.eye(classes)[train["kind"]], train["price"]])
        first = _gpar(train["X"], columns, Z, gpar_steps)
        shares = (
            columns.mean(0)[:classes]
            + columns.std(0)[:classes] * first.posterior_means(Z)[:, :classes]
        )
        start = np.column_stack([Z, shares.argmax(1)])
        chain = gplar(observed, recipe, kinds, strategy="C", inducing=Z, start=first, seed=seed)
    before = winners(chain, classes)
    history = fit(
        chain,
        observed,
        steps=steps,
        batch_size=batch,
        optimizer=Adam(rate),
        seed=seed,
        progress=False,
    )
    bounds = [
        float(np.mean(part)) for part in np.array_split(np.asarray(history.elbo), 10) if len(part)
    ]
    winning = _winning(chain, test["X"], classes, samples, seed)
    right = (winning == test["kind"]).mean()
    epsilon = float(np.asarray(kinds["type"].invlink.epsilon))
    log_p = {
        name: np.asarray(v)
        for name, v in chain.predict_log_density(_types_and_prices(test), samples, seed).items()
    }
    low, high = np.quantile(table["X"], [0.005, 0.995], axis=0)
    axes = np.linspace(low, high, side).T
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    return {
        "accuracy": float((_shares(winning, classes).argmax(-1) == test["kind"]).mean()),
        "type_hll": float(log_p["type"].mean()),
        "type_published": float(
            right * np.log(1 - epsilon) + (1 - right) * np.log(epsilon / (classes - 1))
        ),
        "smse": smse(
            test["price"], np.asarray(chain.predict_y(test["X"], "price", samples, seed)[0])[:, 0]
        ),
        "price_hll": float(log_p["price"].mean()),
        "bounds": bounds,
        "before": before,
        "gpar": start,
        "after": winners(chain, classes),
        "grid": grid,
        "share": _shares(_winning(chain, grid, classes, samples, seed), classes),
        "price": np.asarray(chain.predict_y(grid, "price", samples, seed)[0])[:, 0],
    }


def types_run(
    source: str,
    data: str,
    replace: bool,
    *,
    rows: int = 500,
    inducing: int | None = None,
    steps: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """GPAR on the types as standardised indicator columns (table 4.4).

    Args:
        source: "stand-in" forces the stand-in, anything else forbids it.
        data: "london" (two types) or "london-3types".
        replace: whether a layer reads posterior means of earlier columns, as in the author's code,
            or the indicators.
        rows: drawn at random.
        inducing: inducing inputs; exact if None.
        steps: of L-BFGS for each layer.
        seed: of rows and inducing inputs.

    Returns:
        For each column: `input_variance`, `input_lengthscales` `[C, 2]`, `noise`; `linear` and
        `lengthscales` `[C, C - 1]` and `nonlinear` over earlier columns, NaN where there are none.
    """
    table = property_table(data, source, rows, seed)
    columns = np.eye(int(table["kind"].max()) + 1)[table["kind"]]
    return layer_values(_gpar(table["X"], columns, inducing, steps, replace=replace))


def layer_values(gpar: GPAR) -> dict[str, Any]:
    """What the layers of a GPAR with linear and nonlinear kernels have learned; see `types_run`."""
    C = len(gpar.order)
    over = np.full((2, C, C - 1), np.nan)
    found: dict[str, list[Any]] = {
        name: [] for name in ("input_variance", "input_lengthscales", "nonlinear", "noise")
    }
    for position, layer in enumerate(gpar.layers):
        inputs, *outputs = getattr(layer.kernel, "kernels", [layer.kernel])
        found["input_variance"].append(float(inputs.variance.numpy()))
        found["input_lengthscales"].append(inputs.lengthscales.numpy())
        found["noise"].append(float(layer.noise))
        found["nonlinear"].append(float(outputs[0].variance.numpy()) if outputs else np.nan)
        if outputs:
            over[0, position, :position], over[1, position, :position] = (
                outputs[1].variance,
                outputs[0].lengthscales,
            )
    return {
        **{name: np.array(values) for name, values in found.items()},
        "linear": over[0],
        "lengthscales": over[1],
    }


def property_table(data: str, source: str, rows: int, seed: int = 0) -> Mapping[str, Array]:
    """`X [N, 2]` in the unit square, `kind [N]` (0, 1, …; flats first) and `price [N]` (logarithm),
    in random order.

    The logarithm of "london" is standardised.
    """
    from mogp.datasets.london import BOX

    whole = load_rows(data, source)
    kind, price = (whole.Y[:, whole.outputs.index(name)] for name in ("type", "log price"))
    X, kind = (
        (whole.X, 1 - kind) if data == "london" else ((whole.X - BOX[0]) / (BOX[1] - BOX[0]), kind)
    )
    picked = np.random.default_rng(seed).permutation(len(X))[:rows]
    return {"X": X[picked], "kind": kind[picked].astype(int), "price": price[picked]}


def local_majority(X: Array, kind: Array, at: Array, neighbours: int = 25) -> Array:
    """The most frequent kind `[M]` among the nearest of the homes `X [N, 2]` to each of
    `at [M, 2]`, in kilometres.
    """
    from scipy.spatial import KDTree

    nearest = (
        KDTree(X * KILOMETRES)
        .query(at * KILOMETRES, min(neighbours, len(X)))[1]
        .reshape(len(at), -1)
    )
    counts = [(kind[nearest] == c).sum(1) for c in range(int(kind.max()) + 1)]
    majority: Array = np.argmax(counts, axis=0)
    return majority


def winners(chain: LatentChain, classes: int) -> Array:
    """`[M, 3]`: the inducing inputs of the first class, and which class has the largest inducing
    value at each.
    """
    layers = chain.layers()[:classes]
    means = np.column_stack([np.asarray(layer.mean[0]) for layer in layers])
    return np.column_stack([np.asarray(layers[0].Z), means.argmax(1)])


def property_kernels() -> Any:
    """Kernels of the layers: squared exponential over the place, linear and squared exponential
    over what is before.
    """
    from mogp.kernels import LayerKernels

    return LayerKernels(2, "linear+nonlinear", input_lengthscale=0.1, linear_variance=1.0)


def _widen(chain: LatentChain, spread: float = 0.1) -> None:
    """Keep the means and widen the start: natural gradients widen a posterior slowly.

    Not to the prior: with linear kernels over many outputs, draws of the prior grow from layer to
    layer.
    """
    chain.start_at([np.asarray(layer.mean[0]) for layer in chain.layers()], spread)


def _gpar(X: Array, columns: Array, inducing: Any, steps: int, replace: bool = True) -> GPAR:
    from mogp.models import GPAR

    data = MultiOutputData.from_arrays(
        X, columns, names=[f"column {c}" for c in range(columns.shape[1])]
    )
    gpar = GPAR(data, property_kernels(), inducing=inducing, replace=replace, noise=0.1)
    gpar.fit(steps)
    return gpar


def _types_and_prices(table: Mapping[str, Array]) -> MultiOutputData:
    return MultiOutputData.from_arrays(
        table["X"], np.column_stack([table["kind"], table["price"]]), ["type", "price"]
    )


def _winning(chain: LatentChain, X: Array, classes: int, samples: int, seed: int) -> Array:
    """The class whose function is largest, on each path: `[S, N]`."""
    largest: Array = np.asarray(chain.paths(X, samples, seed).draws)[..., :classes].argmax(-1)
    return largest


def _shares(winning: Array, classes: int) -> Array:
    """The share of paths that each class wins, `[N, classes]`."""
    return np.stack([(winning == c).mean(0) for c in range(classes)], -1)
