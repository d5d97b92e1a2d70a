"""Chains with labels among their outputs: the heterogeneous comparisons of Xia, section 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from mogp.data import Array, MultiOutputData
from mogp.experiments.chains import load_rows, train_chain
from mogp.metrics import auc, smse

if TYPE_CHECKING:
    from mogp.models import LatentChain

LABEL_MODELS = ("IGP", "GPLAR, linear", "GPLAR, nonlinear")


def labels_run(
    dependence: str,
    models: Sequence[str],
    *,
    inducing: int = 60,
    steps: int = 200,
    rate: float = 0.005,
    gamma: float = 0.1,
    points: int = 200,
    samples: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """Two real and two binary outputs with a gap in the last one's labels (figure 4.14): probabilities on a grid.

    Args:
        dependence: of the draw, "linear" or "nonlinear".
        models: some of `LABEL_MODELS`; the kind is that of the kernels over outputs.
        inducing: inducing inputs of each GP, evenly spaced.
        steps, rate, gamma: see `train_chain`.
        points: of the grid.
        samples: paths of a prediction.
        seed: of the data and of the draws.

    Returns:
        `x`, the true probability `truth` and, for each model, `mean`, `lower` and `upper` (95 % of the paths) of the
        probability of the last output, `[K, points]`.
    """
    from mogp.kernels import LayerKernels
    from mogp.likelihoods import Bernoulli, Gaussian
    from mogp.models import gplar, igp

    whole = load_rows("xia-hetero", "synthetic", {"dependence": dependence, "seed": seed})
    train, every = whole.train.data, max(1, len(whole.extras["x"]) // points)
    x, truth = whole.extras["x"][::every], expit(whole.extras["truth"][::every, -1])
    found: dict[str, list[Array]] = {"mean": [], "lower": [], "upper": []}
    for name in models:
        kinds = {o: Gaussian(0.01) if d < 2 else Bernoulli() for d, o in enumerate(train.names)}
        if name == "IGP":
            model = igp(train, LayerKernels(1, input_lengthscale=0.03), kinds, inducing=inducing, seed=seed)
        else:
            kind: Any = name.removeprefix("GPLAR, ")
            recipe = LayerKernels(1, kind, input_lengthscale=0.05, linear_variance=1.0)
            model = gplar(train, recipe, kinds, strategy="B", inducing=inducing, seed=seed, whiten=False)
        train_chain(model, train, steps, rate, gamma)
        p = expit(np.asarray(model.paths(x, samples, seed).draws)[..., -1])
        found["mean"].append(p.mean(0))
        for side, q in (("lower", 0.025), ("upper", 0.975)):
            found[side].append(np.quantile(p, q, axis=0))
    return {"x": x[:, 0], "truth": truth, **{name: np.array(values) for name, values in found.items()}}


def landmine_run(
    source: str,
    size: int,
    trial: int,
    models: Sequence[str] = ("IGP", "GPLAR"),
    *,
    tasks: int = 10,
    inducing: int = 60,
    steps: int = 150,
    rate: float = 0.01,
    gamma: float = 0.05,
    samples: int = 50,
) -> dict[str, Any]:
    """Ten mine fields as binary outputs, each with `size` points of its own to train on (figure 4.15).

    Args:
        source: "stand-in" forces the stand-in, anything else forbids it.
        size: training points of a field, drawn without replacement; the others are for testing.
        trial: seed of that draw.
        models: "IGP" and "GPLAR".
        tasks: the first so many fields.
        inducing: inducing inputs of each GP (k-means).
        steps, rate, gamma: see `train_chain`.
        samples: paths of a prediction.

    Returns:
        `auc` `[K, tasks]`, and `folded`: max(AUC, 1 - AUC), as the author's notebook records it.
    """
    from gpflow.likelihoods import Bernoulli

    from mogp.kernels import LayerKernels
    from mogp.models import gplar, igp

    fields = load_rows("landmine", source, {"tasks": range(1, tasks + 1)})
    rng, parts = np.random.default_rng([trial, size]), []
    for task in range(tasks):
        rows = np.flatnonzero(fields.output == task)
        labels = fields.Y[rows, 0]
        picked = rng.permutation(len(rows))[:size]
        if len(np.unique(labels[picked])) < 2:
            picked[0] = rng.choice(np.flatnonzero(labels == 1))
        parts.append((rows[picked], np.setdiff1d(rows, rows[picked])))
    data = MultiOutputData.from_list([(fields.X[rows], fields.Y[rows, 0]) for rows, _ in parts], names=fields.outputs)
    recipe = LayerKernels(data.input_dim, input_lengthscale=2.0, linear_variance=1.0)
    scores = np.empty((len(models), tasks))
    for k, name in enumerate(models):
        kinds = {task: Bernoulli() for task in data.names}
        if name == "IGP":
            model = igp(data, recipe, kinds, inducing=inducing, seed=trial)
        else:
            model = gplar(data, recipe, kinds, inducing=inducing, start="zero", seed=trial)
        train_chain(model, data, steps, rate, gamma)
        for task, (_, held) in enumerate(parts):
            chance = np.asarray(model.predict_y(fields.X[held], task, samples)[0])[:, 0]
            scores[k, task] = auc(fields.Y[held, 0], chance)
    return {"auc": scores, "folded": np.maximum(scores, 1 - scores)}


def london_run(
    source: str,
    model: str,
    *,
    data: str = "london",
    rows: int = 2000,
    test_rows: int = 1000,
    inducing: int = 100,
    steps: int = 400,
    batch: int = 500,
    rate: float = 0.01,
    gamma: float = 0.05,
    side: int = 60,
    samples: int = 100,
    seed: int = 0,
) -> dict[str, Any]:
    """The type of a property (shared robust-max over its classes), then the logarithm of its price (section 4.4.3).

    Args:
        source: "stand-in" forces the stand-in, anything else forbids it.
        model: "IGP" or "GPLAR" (strategy C, from GPAR).
        data: "london" (two types) or "london-3types".
        rows, test_rows: drawn at random.
        inducing: inducing inputs of each GP (k-means).
        steps, batch, rate, gamma: mini-batches; natural gradients of size `gamma`, Adam for the rest.
        side: of the grid of the maps.
        samples: paths of a prediction.
        seed: of rows and draws.

    Returns:
        `accuracy`, `type_hll` (per point, of the class probabilities), `type_published` (the mean expected log density
        of robust-max over paths), `smse` and `price_hll` (per point, in log price) on test rows; `Z` before and after
        training with the winning class at each; on the grid `share` of paths for each class and the mean `price`.
    """
    from mogp.kernels import LayerKernels
    from mogp.likelihoods import Gaussian, RobustMax
    from mogp.models import gplar, igp
    from mogp.optimizers import Adam, Natural
    from mogp.training import fit

    table = property_table(data, source, rows + test_rows, seed)
    classes = int(table["kind"].max()) + 1
    train, test = ({k: v[part] for k, v in table.items()} for part in (slice(0, rows), slice(rows, None)))
    observed = _types_and_prices(train)
    kinds = {"type": RobustMax(classes), "price": Gaussian(0.1)}
    recipe = LayerKernels(2, "linear+nonlinear", input_lengthscale=0.1, linear_variance=1.0)
    chain: LatentChain = (
        igp(observed, recipe, kinds, inducing=inducing, seed=seed)
        if model == "IGP"
        else gplar(observed, recipe, kinds, strategy="C", inducing=inducing, seed=seed)
    )
    before = _winners(chain, classes)
    optimizer = Natural(Adam(rate), gamma) if gamma else Adam(rate)
    fit(chain, observed, steps=steps, batch_size=batch, optimizer=optimizer, seed=seed, progress=False)
    paths = chain.paths(test["X"], samples, seed)
    winners = np.asarray(paths.draws)[..., :classes].argmax(-1)
    share = np.stack([(winners == c).mean(0) for c in range(classes)], -1)
    epsilon = float(np.asarray(kinds["type"].invlink.epsilon))
    log_p = {
        name: np.asarray(v) for name, v in chain.predict_log_density(_types_and_prices(test), samples, seed).items()
    }
    right = (winners == test["kind"]).mean()
    mean = np.asarray(chain.predict_y(test["X"], "price", samples, seed)[0])[:, 0]
    axes = [np.linspace(*np.quantile(table["X"][:, i], [0.005, 0.995]), side) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    on_grid = np.asarray(chain.paths(grid, samples, seed).draws)[..., :classes].argmax(-1)
    return {
        "accuracy": float((share.argmax(-1) == test["kind"]).mean()),
        "type_hll": float(log_p["type"].mean()),
        "type_published": float(right * np.log(1 - epsilon) + (1 - right) * np.log(epsilon / (classes - 1))),
        "smse": smse(test["price"], mean),
        "price_hll": float(log_p["price"].mean()),
        "before": before,
        "after": _winners(chain, classes),
        "grid": grid,
        "share": np.stack([(on_grid == c).mean(0) for c in range(classes)], -1),
        "price": np.asarray(chain.predict_y(grid, "price", samples, seed)[0])[:, 0],
    }


def property_table(data: str, source: str, rows: int, seed: int = 0) -> Mapping[str, Array]:
    """`X [N, 2]`, `kind [N]` (0, 1, …; flats first) and `price [N]` (logarithm) of some homes, in random order."""
    whole = load_rows(data, source)
    kind, price = (whole.Y[:, whole.outputs.index(name)] for name in _columns_of(whole.outputs))
    flats_first = 1 - kind if data == "london" else kind
    picked = np.random.default_rng(seed).permutation(len(whole.X))[:rows]
    return {"X": whole.X[picked], "kind": flats_first[picked].astype(int), "price": price[picked]}


def _columns_of(outputs: Sequence[str]) -> tuple[str, str]:
    kind = next(name for name in outputs if "type" in name)
    return kind, next(name for name in outputs if "price" in name)


def _types_and_prices(table: Mapping[str, Array]) -> MultiOutputData:
    return MultiOutputData.from_arrays(table["X"], np.column_stack([table["kind"], table["price"]]), ["type", "price"])


def _winners(chain: LatentChain, classes: int) -> Array:
    """`[M, 3]`: the inducing inputs of the first class, and which class has the largest inducing value at each."""
    layers = chain.layers()[:classes]
    means = np.column_stack([np.asarray(layer.mean[0]) for layer in layers])
    return np.column_stack([np.asarray(layers[0].Z), means.argmax(1)])
