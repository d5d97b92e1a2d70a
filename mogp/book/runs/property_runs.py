"""Types and prices of London's homes in one chain: the runs of Xia, section 4.4.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.book.runs.chains import load_rows, quietly
from mogp.data import Array, MultiOutputData
from mogp.metrics import smse

if TYPE_CHECKING:
    from mogp.models import GPAR, LatentChain

KILOMETRES = np.array([58.5, 45.1])
"""East-west and north-south extent of the box that "london" maps to the unit square."""
CENTRE = np.array([0.4537, 0.5433])
"""Charing Cross (0.1276 W, 51.5074 N) in that square."""


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
    """The type of a property (robust-max over its classes), then the logarithm of its price.

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
    from mogp.models.chains.values import inducing_inputs
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
        chain = igp(observed, kinds, kernel=recipe, inducing=Z, seed=seed, scaling=None)
    else:
        columns = np.column_stack([np.eye(classes)[train["kind"]], train["price"]])
        first = _gpar(train["X"], columns, Z, gpar_steps)
        means = columns.mean(0) + columns.std(0) * first.posterior_means(Z)
        shares = means[:, :classes]
        start = np.column_stack([Z, shares.argmax(1)])
        chain = gplar(
            observed,
            kinds,
            kernel=recipe,
            strategy="C",
            inducing=Z,
            start=first,
            adopt=False,
            seed=seed,
            scaling=None,
        )
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
    tenths = np.array_split(np.asarray(history.elbo), 10)
    bounds = [float(np.mean(part)) for part in tenths if len(part)]
    winning = _winning(chain, test["X"], classes, samples, seed)
    right = (winning == test["kind"]).mean()
    epsilon = float(np.asarray(kinds["type"].invlink.epsilon))
    published = right * np.log(1 - epsilon) + (1 - right) * np.log(epsilon / (classes - 1))
    log_p = {
        name: np.asarray(v)
        for name, v in chain.predict_log_density(_types_and_prices(test), samples, seed).items()
    }
    price = chain.predict_y(test["X"], "price", samples=samples, seed=seed)[0]
    low, high = np.quantile(table["X"], [0.005, 0.995], axis=0)
    axes = np.linspace(low, high, side).T
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    return {
        "accuracy": float((_shares(winning, classes).argmax(-1) == test["kind"]).mean()),
        "type_hll": float(log_p["type"].mean()),
        "type_published": float(published),
        "smse": smse(test["price"], np.asarray(price)[:, 0]),
        "price_hll": float(log_p["price"].mean()),
        "bounds": bounds,
        "before": before,
        "gpar": start,
        "after": winners(chain, classes),
        "grid": grid,
        "share": _shares(_winning(chain, grid, classes, samples, seed), classes),
        "price": np.asarray(chain.predict_y(grid, "price", samples=samples, seed=seed)[0])[:, 0],
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
    """Homes in random order: `X [N, 2]` in the unit square, `kind [N]` and `price [N]`.

    Kinds are 0, 1, …, flats first. Prices are logarithms; those of "london" are standardised.
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
    """The most frequent kind `[M]` among the homes `X [N, 2]` nearest to each of `at [M, 2]`."""
    from scipy.spatial import KDTree

    homes = KDTree(X * KILOMETRES)
    found = homes.query(at * KILOMETRES, min(neighbours, len(X)))[1]
    nearest = found.reshape(len(at), -1)
    counts = [(kind[nearest] == c).sum(1) for c in range(int(kind.max()) + 1)]
    majority: Array = np.argmax(counts, axis=0)
    return majority


def winners(chain: LatentChain, classes: int) -> Array:
    """`[M, 3]`: the inducing inputs of the first class, and the class that wins at each."""
    layers = chain.layers()[:classes]
    means = np.column_stack([np.asarray(layer.mean[0]) for layer in layers])
    return np.column_stack([np.asarray(layers[0].Z), means.argmax(1)])


def property_kernels() -> Any:
    """Kernels of the layers.

    Squared exponential over the place, linear and squared exponential over what is before.
    """
    from mogp.kernels import LayerKernels

    return LayerKernels(2, "linear+nonlinear", input_lengthscale=0.1, linear_variance=1.0)


def _gpar(X: Array, columns: Array, inducing: Any, steps: int, replace: bool = True) -> GPAR:
    from mogp.models import GPAR
    from mogp.training import fit

    names = [f"column {c}" for c in range(columns.shape[1])]
    data = MultiOutputData.from_arrays(X, columns, names=names)
    gpar = GPAR(
        data,
        property_kernels(),
        inducing=inducing,
        replace=replace,
        noise=0.1,
        starts=1,
        scaling=None,
    )
    with quietly():
        fit(gpar, data, steps=steps, progress=False)
    return gpar


def _types_and_prices(table: Mapping[str, Array]) -> MultiOutputData:
    columns = np.column_stack([table["kind"], table["price"]])
    return MultiOutputData.from_arrays(table["X"], columns, ["type", "price"])


def _winning(chain: LatentChain, X: Array, classes: int, samples: int, seed: int) -> Array:
    """The class whose function is largest, on each path: `[S, N]`."""
    largest: Array = np.asarray(chain.paths(X, samples, seed).draws)[..., :classes].argmax(-1)
    return largest


def _shares(winning: Array, classes: int) -> Array:
    """The share of paths that each class wins, `[N, classes]`."""
    return np.stack([(winning == c).mean(0) for c in range(classes)], -1)
