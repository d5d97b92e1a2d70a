"""Chains with labels among their outputs: two comparisons of Xia, section 4.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from mogp.book.runs.chains import load_rows, train_chain
from mogp.data import Array, MultiOutputData
from mogp.metrics import auc

if TYPE_CHECKING:
    from mogp.models import LatentChain

LABEL_MODELS = ("IGP", "GPLAR, linear", "GPLAR, nonlinear")


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
    """Probabilities of the last of two real and two binary outputs, with a gap (figure 4.14).

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
    from mogp.training import fit

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
                train,
                kinds,
                kernel=LayerKernels(1, input_lengthscale=0.03),
                inducing=inducing,
                seed=seed,
                scaling=None,
            )
            model.regress(train)
            set_trainable(model.inducing, False)
        else:
            kind: Any = name.removeprefix("GPLAR, ")
            recipe = LayerKernels(1, kind, input_lengthscale=0.02, linear_variance=1.0)
            first = GPAR(train, recipe, starts=1, scaling=None)
            fit(first, train, steps=gpar_steps, progress=False)
            model = gplar(
                train,
                kinds,
                kernel=recipe,
                strategy="B",
                start=first,
                adopt=False,
                inducing=inducing,
                seed=seed,
                whiten=False,
                scaling=None,
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
    """Ten mine fields as binary outputs, each with `size` training points (figure 4.15).

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
    from mogp.training import fit

    data, held = mine_fields(source, size, trial, tasks)
    recipe = LayerKernels(data.input_dim, input_lengthscale=2.0, linear_variance=1.0)
    kinds = {task: Bernoulli() for task in data.names}
    scores = np.empty((len(models), tasks))
    for k, name in enumerate(models):
        if name == "IGP":
            model = igp(data, kinds, kernel=recipe, inducing=inducing, seed=trial, scaling=None)
            set_trainable(model.inducing, False)
        else:
            first = GPAR(data, recipe, noise=0.1, starts=1, scaling=None)
            fit(first, data, steps=gpar_steps, progress=False)
            model = gplar(
                data,
                kinds,
                kernel=recipe,
                strategy="B",
                start=first,
                adopt=False,
                inducing=inducing,
                seed=trial,
                whiten=False,
                scaling=None,
            )
            _widen(model)
        train_chain(model, data, steps, rate, gamma)
        for task, (X, labels) in enumerate(held):
            scores[k, task] = auc(
                labels, np.asarray(model.predict_y(X, task, samples=samples)[0])[:, 0]
            )
    return {"auc": scores, "folded": np.maximum(scores, 1 - scores)}


def mine_fields(
    source: str, size: int, trial: int, tasks: int = 10
) -> tuple[MultiOutputData, list[tuple[Array, Array]]]:
    """`size` points of each of the first `tasks` fields, and the others, `(X, labels)`.

    Each field has at least one point of each label.
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


def _widen(chain: LatentChain, spread: float = 0.1) -> None:
    """Keep the means and widen the start: natural gradients widen a posterior slowly.

    Not to the prior: with linear kernels over many outputs, draws of the prior grow from layer to
    layer.
    """
    chain.start_at([np.asarray(layer.mean[0]) for layer in chain.layers()], spread)
