"""One run of one optimiser on one model with outputs of several types.

It is what Giraldo's chapters 3 to 5 sweep over.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.data import Array, MultiOutputData

if TYPE_CHECKING:
    from mogp.models import SparseMOGP
    from mogp.optimizers import Optimizer

MODELS = ("CGP", "CCGP", "ACCGP", "LMC", "CPM-f", "CPM-u", "CPM-f joint")
OPTIMISERS = ("SGD", "Adam", "ADAD", "HYB", "FNG")


def _study(data: str, latents: int, inducing: int, batch_size: int, **options: str) -> Any:
    sizes = {"latents": latents, "inducing": inducing, "batch_size": batch_size}
    return {"data": data, **({"options": options} if options else {}), **sizes}


STUDIES: dict[str, dict[str, Any]] = {
    "T1": _study("giraldo-toy", latents=3, inducing=80, batch_size=50, variant="T1"),
    "T2": _study("giraldo-toy", latents=3, inducing=80, batch_size=50, variant="T2"),
    "T3": _study("giraldo-toy", latents=3, inducing=80, batch_size=50, variant="T3"),
    "HUMAN": _study("human", latents=5, inducing=80, batch_size=50),
    "LONDON": _study("london", latents=3, inducing=80, batch_size=50),
    "NAVAL": _study("naval", latents=4, inducing=80, batch_size=50),
    "SARCOS": _study("sarcos", latents=3, inducing=80, batch_size=200, part="test"),
    "MOCAP7": _study("mocap-7", latents=3, inducing=20, batch_size=5),
    "MOCAP9": _study("mocap-9", latents=3, inducing=20, batch_size=5, layout="channels"),
    "TRAFFIC": _study("traffic", latents=4, inducing=80, batch_size=50),
}
"""The comparisons of chapters 4 and 5: data, Q, M, rows a mini-batch.

The published SARCOS has another file.
"""

AUTHOR: dict[str, dict[str, float]] = {
    "LONDON": {
        "start": 1e3,
        "penalty": 50,
        "width": 0.1,
        "cpm_penalty": 0.1,
        "cpm_width": 0.01,
        "smoothing": 0.1,
    },
    "HUMAN": {"start": 1e4, "penalty": 0.1, "width": 0.1, "cpm_width": 0.01, "smoothing": 0.1},
    "NAVAL": {"start": 10, "penalty": 0.1, "width": 1, "cpm_width": 1, "smoothing": 1},
    "SARCOS": {"start": 10, "penalty": 50, "width": 0.1, "cpm_width": 0.01, "smoothing": 0.01},
    "MOCAP7": {"start": 1e4, "penalty": 1e-8, "width": 1, "cpm_width": 0.1, "smoothing": 0.1},
    "MOCAP9": {"start": 1e4, "penalty": 1e-8, "width": 1, "cpm_width": 0.1, "smoothing": 0.01},
    "TRAFFIC": {"start": 1e3, "penalty": 50, "width": 0.1, "cpm_width": 0.1, "smoothing": 0.1},
}
"""Constants of the author's released code (specification, §5.3).

`start` and `penalty` are s_0 and lambda_1 of FNG. Initial lengthscales (`width`) and `smoothing`
widths are in units of the square root of the number of inputs, each times uniform draws.
"""
_START_BY_INPUTS = {1: 1e4, 2: 1e3, 3: 500.0, 4: 100.0, 5: 50.0}


def author_constants(study: str, inputs: int, model: str = "LMC") -> dict[str, float]:
    """`start`, `penalty`, `width` and `smoothing` of the author's code for a study."""
    start = _START_BY_INPUTS.get(inputs, 10.0)
    general = {"start": start, "penalty": 1.0, "width": 1.0, "cpm_width": 0.1}
    own = AUTHOR.get(study, general)
    cpm = model.startswith("CPM")
    return {
        "start": own["start"],
        "penalty": own.get("cpm_penalty", own["penalty"]) if cpm else own["penalty"],
        "width": own["cpm_width"] if cpm else own["width"],
        "smoothing": own.get("smoothing", 0.1),
    }


def optimiser(
    name: str,
    *,
    rate: float = 0.005,
    start: float = 1000.0,
    penalty: float = 1.0,
    rule: Any = "vadam",
    seed: int = 0,
) -> Optimizer:
    """One of `OPTIMISERS` as the released code runs it: step sizes, momenta (§5.3, §5.4)."""
    from gpflow.keras import tf_keras

    from mogp.optimizers import FNG, Adam, Keras, hyb

    if name == "SGD":
        return Keras(tf_keras.optimizers.SGD(1e-15))
    if name == "Adam":
        return Adam(rate)
    if name == "ADAD":
        return Keras(tf_keras.optimizers.Adadelta(rate, rho=0.9, epsilon=1e-4))
    if name == "HYB":
        return hyb(rate, rate)
    if name == "FNG":
        return FNG(rule, learning_rate=rate, gamma=rate, start=start, penalty=penalty, seed=seed)
    raise ValueError(f"no optimiser {name!r}; there are {', '.join(OPTIMISERS)}.")


def heterogeneous_model(
    model: str,
    train: MultiOutputData,
    likelihoods: Any,
    *,
    latents: int,
    inducing: int,
    seed: int = 0,
) -> SparseMOGP:
    """One of `MODELS`, un-whitened as in the thesis."""
    from mogp.models import accgp, ccgp, cgp, hetmogp_cpm, hetmogp_lmc

    if model == "CGP":
        return cgp(
            train,
            likelihoods[0],
            inducing=inducing,
            whiten=False,
            seed=seed,
            scaling=None,
            start="plain",
        )
    options: dict[str, Any] = {
        "latents": latents,
        "inducing": inducing,
        "whiten": False,
        "seed": seed,
        "scaling": None,
    }
    if model in ("CCGP", "ACCGP"):
        return (ccgp if model == "CCGP" else accgp)(train, likelihoods[0], start="plain", **options)
    if model == "LMC":
        return hetmogp_lmc(train, likelihoods, start="plain", **options)
    on: Any = {"CPM-f": "functions", "CPM-u": "latents", "CPM-f joint": "joint"}.get(model)
    if on is None:
        raise ValueError(f"no model {model!r}; there are {', '.join(MODELS)}.")
    return hetmogp_cpm(train, likelihoods, on=on, **options)


def author_start(
    model: SparseMOGP, X: Array, *, width: float, smoothing: float = 0.1, seed: int = 0
) -> None:
    r"""Set a model to the start values of the author's code (§7.1, §7.2 of the specification).

    Lengthscales $\text{width}\sqrt P(U + 0.001)$ and smoothing widths
    $\text{smoothing}\sqrt P\,UU'$ with uniform draws for each input; weights $N(0, 1)$; inducing
    inputs on a grid from the smallest to the largest input, its columns permuted independently, the
    same for all; $\mathbf m = 0.2\epsilon + 0.2\epsilon'\mathbf 1$, $\mathbf V = \mathbf I$
    ($9\mathbf I$ on functions of the CPM).
    """
    from mogp.inducing import FunctionPoints
    from mogp.priors import CPM

    rng = np.random.default_rng(seed)
    P, prior = X.shape[1], model.prior
    for kernel in prior.kernels.kernels:
        kernel.variance.assign(1.0)
        kernel.lengthscales.assign(width * np.sqrt(P) * (rng.uniform(size=P) + 1e-3))
    if isinstance(prior, CPM):
        shape = prior.kernels.smoothing.shape
        draws = np.maximum(rng.uniform(size=shape) * rng.uniform(size=shape), 1e-3)
        prior.kernels.smoothing.assign(smoothing * np.sqrt(P) * draws)
        prior.kernels.S.assign(rng.standard_normal(prior.kernels.S.shape))
    elif getattr(prior, "W", None) is not None:
        prior.W.assign(rng.standard_normal(prior.W.shape))
    Z = model.inducing.Z
    grid = np.linspace(X.min(0), X.max(0), int(Z.shape[-2]))
    for column in range(1, P):
        grid[:, column] = rng.permutation(grid[:, column])
    Z.assign(np.broadcast_to(grid, Z.shape))
    q_mu, q_sqrt = model.posterior.q_mu, model.posterior.q_sqrt
    q_mu.assign(0.2 * rng.standard_normal(q_mu.shape) + 0.2 * rng.standard_normal(q_mu.shape[1]))
    scale = 3.0 if isinstance(model.inducing, FunctionPoints) else 1.0
    q_sqrt.assign(np.broadcast_to(scale * np.eye(q_sqrt.shape[-1]), q_sqrt.shape))


def heterogeneous_run(
    study: str,
    source: str,
    optimizer: str,
    *,
    data: str,
    model: str = "LMC",
    latents: int = 3,
    inducing: int = 80,
    batch_size: int = 50,
    steps: int = 1000,
    every: int = 100,
    restarts: Sequence[int] = (0,),
    split: int = 0,
    test: float = 0.25,
    rate: float = 0.005,
    rule: str = "vadam",
    most_rows: int = 1000,
    averaged: int = 0,
    options: dict[str, Any] | None = None,
    constants: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Train one model with one optimiser from several starts, and follow objective and test NLPD.

    Args:
        study: decides the author's constants; any name for the general ones.
        source: where the data come from: "stand-in" forces the stand-in, anything else forbids it.
        optimizer: one of `OPTIMISERS`.
        data: name of the data set.
        model: one of `MODELS`.
        latents: Q.
        inducing: M.
        batch_size: rows of a mini-batch.
        steps: of the optimiser.
        every: steps between two evaluations.
        restarts: numbers of the start values, and seeds of the mini-batches; all optimisers get the
            same ones.
        split: number of the split into training and test data.
        test: share of the rows to test on.
        rate: step size, of all but SGD.
        rule: of FNG.
        most_rows: rows on which the objective and the NLPD are evaluated, at most.
        averaged: draws of the exploratory distribution of FNG over which predictions are averaged
            at the end.
        options: of the loader.
        constants: in place of the author's: `start`, `penalty`, `width`, `smoothing`.

    Returns:
        `outputs`; `step` `[T]`; for each of `R` restarts `nelbo` `[R, T]` on the same training rows
        each time, at the mean of FNG's exploratory distribution, `nlpd` of test data `[R, T, D]` by
        quadrature, `train_nlpd` `[R, D]` at the end, `status`, `seconds_per_step`; of FNG the
        largest `variance` of the exploratory distribution and, with `averaged`, `averaged_nlpd`
        `[R, D]`. A run that fails keeps its last values.
    """
    from mogp import datasets
    from mogp.models import AugmentedMOGP
    from mogp.optimizers import FNG
    from mogp.training import fit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        stand_in: Any = "only" if source == "stand-in" else "forbid"
        whole = datasets.load(data, stand_in=stand_in, **(options or {}))
    train, held_out = whole.data.split(test=test, seed=split)
    names = (
        whole.likelihoods if len(whole.likelihoods) > 1 else whole.likelihoods * train.num_outputs
    )
    chosen = author_constants(study, train.input_dim, model) | (constants or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = heterogeneous_model(
            model, train, [_likelihood(name) for name in names], latents=latents, inducing=inducing
        )
    draw = (
        fitted.batches(train, most_rows, 1)
        if isinstance(fitted, AugmentedMOGP)
        else train.batches(most_rows, 1)
    )
    rows = draw(0)
    scored = {"train": _some(train, most_rows), "test": _some(held_out, most_rows)}

    def nlpd(part: str) -> list[float]:
        found = fitted.predict_log_density(scored[part])
        return [float(-np.mean(found[name])) for name in fitted.names]

    def monitor() -> dict[str, Any]:
        return {"nelbo": float(fitted.training_loss(rows)), "nlpd": nlpd("test")}

    results: dict[str, list[Any]] = {"variance": [], "averaged_nlpd": []}
    for restart in restarts:
        author_start(
            fitted, train.X, width=chosen["width"], smoothing=chosen["smoothing"], seed=restart
        )
        moves = optimiser(
            optimizer,
            rate=rate,
            start=chosen["start"],
            penalty=chosen["penalty"],
            rule=rule,
            seed=restart,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            history = fit(
                fitted,
                train,
                steps=steps,
                optimizer=moves,
                batch_size=batch_size,
                seed=restart,
                progress=False,
                monitor=monitor,
                every=every,
            )
        looks = _whole(history.monitored, [*range(0, steps, every), steps])
        for name, value in {
            "nelbo": [look["nelbo"] for look in looks],
            "nlpd": [look["nlpd"] for look in looks],
            "train_nlpd": nlpd("train"),
            "status": history.status,
            "seconds_per_step": history.seconds / max(history.steps, 1),
        }.items():
            results.setdefault(name, []).append(value)
        if isinstance(moves, FNG):
            results["variance"].append(float(np.max(moves.rest.deviation) ** 2))
            if averaged:
                each = [
                    {
                        k: np.asarray(v)
                        for k, v in fitted.predict_log_density(scored["test"]).items()
                    }
                    for _ in moves.draws(averaged)
                ]
                mixed = [
                    np.logaddexp.reduce([one[name] for one in each]) - np.log(averaged)
                    for name in fitted.names
                ]
                results["averaged_nlpd"].append([float(-np.mean(one)) for one in mixed])
    return {"outputs": list(fitted.names), "step": [look["step"] for look in looks], **results}


def _whole(looks: list[dict[str, Any]], steps: list[int]) -> list[dict[str, Any]]:
    """What was monitored, with the last values repeated where a run ended early."""
    known = {look["step"]: look for look in looks}
    filled: list[dict[str, Any]] = []
    for step in steps:
        last = known.get(step, filled[-1] if filled else looks[0])
        filled.append({**last, "step": step})
    return filled


def _likelihood(name: str) -> Any:
    import mogp.likelihoods as known

    return known.Gaussian(0.01, trainable=False) if name == "Gaussian" else getattr(known, name)()


def _some(data: MultiOutputData, most: int) -> MultiOutputData:
    """At most so many rows of each output, the same for outputs that share inputs."""
    rng = np.random.default_rng(0)
    if data.shares_inputs or data.num_outputs == 1:
        kept = np.zeros(len(data.X), bool)
        kept[rng.permutation(len(data.X))[:most]] = True
        return data.take({own.name: np.flatnonzero(kept[own.rows]) for own in data.outputs})
    return data.take({own.name: np.sort(rng.permutation(len(own))[:most]) for own in data.outputs})
