"""One run of one model on outputs with replicas: what the chapters on HMOGP-LV sweep over."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

MODELS = ("HMOGP-LV", "HGP", "HGPInd", "HGPInd, as published", "DHGP", "LMC", "LVMOGP", "NN")
ALL = ("HMOGP-LV", "HGP", "HGPInd", "DHGP", "LMC", "LVMOGP", "NN")
MISSING_REPLICA = ("HMOGP-LV", "HGPInd", "HGPInd, as published", "DHGP", "LMC", "LVMOGP", "NN")


def _study(
    data: str, inducing: int, latent_inducing: int, models: tuple[str, ...], **options: str
) -> dict[str, Any]:
    sizes = {"inducing": inducing, "latent_inducing": latent_inducing, "models": models}
    return {"data": data, **({"options": options} if options else {}), **sizes}


STUDIES: dict[str, dict[str, Any]] = {
    "synthetic 1": _study("hmogp-synth-1", 3, 5, ALL),
    "synthetic 2": _study("hmogp-synth-2", 6, 5, MISSING_REPLICA),
    "genes": _study("kalinka", 14, 2, ALL, protocol="points"),
    "genes, missing replica": _study("kalinka", 25, 2, MISSING_REPLICA, protocol="replica"),
    "MOCAP-8": _study("mocap-8", 6, 2, MISSING_REPLICA),
    "MOCAP-9": _study("mocap-9", 5, 5, MISSING_REPLICA),
    "MOCAP-64": _study("mocap-64", 5, 5, MISSING_REPLICA),
    "MOCAP-118": _study("mocap-118", 6, 3, MISSING_REPLICA),
}
"""The comparisons of the HMOGP-LV documents: data, M_X for each output, M_H, models.

Half of the 46 to 52 training rows of a gene with a missing replica are 23 to 26 inducing inputs.
"""


def study(
    name: str, source: str, *, repetitions: int, models: Any = None, **sizes: Any
) -> list[dict[str, Any]]:
    """The runs of one of the `STUDIES`: points for `sweep(replica_run, …)`.

    Args:
        name: which.
        source: of the data on this machine.
        repetitions: splits, from the first.
        models: some of the study's models; all if None.
        sizes: further arguments of `replica_run` (`steps`, `rate`, `epochs`, `most_rows`, `grid`,
            …).
    """
    chosen = dict(STUDIES[name])
    own = chosen.pop("models")
    unknown = [m for m in models or () if m not in own]
    if unknown:
        raise ValueError(f"{name} has no {', '.join(unknown)}; its models are {', '.join(own)}.")
    return [
        {**chosen, "source": source, "model": m, "repetition": i, **sizes}
        for m in models or own
        for i in range(repetitions)
    ]


def replica_run(
    data: str,
    source: str,
    model: str,
    *,
    repetition: int = 0,
    steps: int = 1000,
    rate: float = 0.01,
    iterations: int = 200,
    inducing: int = 3,
    latent_inducing: int = 5,
    latent_dim: int = 2,
    start: str = "pca",
    epochs: int = 1000,
    most_rows: int | None = 1500,
    grid: int = 0,
    seed: int = 0,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train a model on the training part of a data set with replicas, and score it on the rest.

    Args:
        data: name of the data set.
        source: where it comes from: "stand-in" forces the stand-in, anything else forbids it.
        model: one of `MODELS`. "HGPInd, as published" takes the rows of all outputs for those of
            one, as the authors' code does where a replica is missing.
        repetition: which split.
        steps: of Adam (sparse models).
        rate: of Adam.
        iterations: of L-BFGS at most (HGP, DHGP).
        inducing: rows of each output that become inducing inputs (the documents' M_X).
        latent_inducing: M_H.
        latent_dim: Q_H.
        start: of HMOGP-LV and LVMOGP: "pca", "gplvm" or "random".
        epochs: of the neural networks.
        most_rows: rows that DHGP keeps of more.
        grid: points of the range of the inputs at which every replica of every output is predicted;
            0 for none.
        seed: of start values.
        options: further ones of the loader, such as {"protocol": "replica"}.

    Returns:
        `nmse` and `nlpd` over all test points, `nmse_by_output`, `nlpd_by_output` `[D]`; `coverage`
        of mean ± 2 sd; `trained` steps, the final `objective`; columns `test_…` of the test points,
        in the order of the data; `latent` means and `latent_var` `[D, Q_H]` where there are any;
        with `grid`, `grid_x` `[G]`, `grid_mean` and `grid_sd` `[D, R, G]`.
    """
    from scipy.stats import norm

    from mogp import datasets, metrics

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        stand_in: Any = "only" if source == "stand-in" else "forbid"
        whole = datasets.load(data, stand_in=stand_in, repetition=repetition, **(options or {}))
    train, test = whole.train.data, whole.test.data
    fitted, objective = _fitted(
        train,
        model,
        steps,
        rate,
        iterations,
        inducing,
        latent_inducing,
        latent_dim,
        start,
        epochs,
        most_rows,
        seed,
    )
    table = fitted.predictions(test, quantiles=())
    table["nlpd"] = -norm.logpdf(table["observed"], table["mean"], table["sd"])
    by_output = [part for _, part in table.groupby("output", sort=False)]
    inside = np.abs(table["observed"] - table["mean"]) <= 2 * table["sd"]
    position = {name: d for d, name in enumerate(train.names)}
    result = {
        "nmse": metrics.nmse(table["observed"], table["mean"]),
        "nlpd": float(table["nlpd"].mean()),
        "coverage": float(inside.mean()),
        "nmse_by_output": np.array([metrics.nmse(p["observed"], p["mean"]) for p in by_output]),
        "nlpd_by_output": np.array([p["nlpd"].mean() for p in by_output]),
        "trained": len(objective),
        "objective": float(objective[-1]) if len(objective) else float("nan"),
        "test_output": table["output"].map(position).to_numpy(),
        "test_replica": table["replica"].to_numpy(),
        "test_x": table["x"].to_numpy(),
        "test_target": table["observed"].to_numpy(),
        "test_mean": table["mean"].to_numpy(),
        "test_sd": table["sd"].to_numpy(),
    }
    if model in ("HMOGP-LV", "LVMOGP"):
        result |= {"latent": fitted.latent_mean.numpy(), "latent_var": fitted.latent_var.numpy()}
    if grid:
        result |= _on_grid(fitted, whole, grid)
    return result


def _fitted(
    train: Any,
    model: str,
    steps: int,
    rate: float,
    iterations: int,
    inducing: int,
    latent_inducing: int,
    latent_dim: int,
    start: str,
    epochs: int,
    most_rows: int | None,
    seed: int,
) -> tuple[Any, Any]:
    """The model, trained, and the objective at every step."""
    from mogp import fit
    from mogp.book.baselines.networks import Networks
    from mogp.inducing import replica_points
    from mogp.models import DHGP, HGP, hgp_ind, hmogp_lv, lmc_stacked, lvmogp
    from mogp.optimizers import LBFGS, Adam

    optimizer: Any = LBFGS() if model in ("HGP", "DHGP") else Adam(rate)
    latent: Any = {
        "inducing": inducing,
        "latent_inducing": latent_inducing,
        "latent_dim": latent_dim,
        "start": start,
    }
    built: Any
    if model == "NN":
        return Networks(epochs=epochs, seed=seed).fit(train), ()
    if model == "HMOGP-LV":
        built = hmogp_lv(train, **latent, seed=seed, scaling=None)
    elif model == "LVMOGP":
        built = lvmogp(train, **latent, seed=seed, scaling=None)
    elif model == "HGP":
        built = HGP(train, scaling=None)
    elif model == "DHGP":
        built = DHGP(train, most_rows=most_rows, scaling=None)
    elif model == "HGPInd":
        built = hgp_ind(train, inducing=inducing, scaling=None)
    elif model == "HGPInd, as published":
        train = stacked(train)
        built = AsOne(hgp_ind(train, inducing=inducing * 4, scaling=None))
    elif model == "LMC":
        built = lmc_stacked(
            train, inducing=replica_points(train, inducing), seed=seed, scaling=None
        )
    else:
        raise ValueError(f"model={model!r}; choose one of {', '.join(map(repr, MODELS))}.")
    trained = built.model if isinstance(built, AsOne) else built
    steps = iterations if model in ("HGP", "DHGP") else steps
    history = fit(trained, train, steps=steps, optimizer=optimizer, progress=False)
    if history.status == "failed":
        raise RuntimeError(f"{model}: {history.message}")
    return built, history.elbo


def stacked(data: Any) -> Any:
    """The rows of all outputs as those of a single one."""
    from mogp import MultiOutputData

    X = np.concatenate([data.inputs(d) for d in range(data.num_outputs)])
    Y = np.concatenate([o.Y for o in data.outputs])
    replica = np.concatenate([o.replica for o in data.outputs])
    return MultiOutputData.from_list([(X, Y)], names=["all outputs"], replicas=[replica])


class AsOne:
    """A model of stacked outputs, asked for any of them."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predictions(self, data: Any, quantiles: Sequence[float] = ()) -> Any:
        """As `MOGP.predictions`."""
        table = self.model.predictions(stacked(data), quantiles=quantiles)
        return table.assign(output=np.repeat(data.names, data.sizes))

    def predict_y(self, Xnew: Any, output: Any = None, *, replica: Any = None) -> Any:
        """As `MOGP.predict_y`."""
        return self.model.predict_y(Xnew, 0, replica=replica)


def _on_grid(fitted: Any, whole: Any, points: int) -> dict[str, Any]:
    x = np.linspace(whole.X.min(), whole.X.max(), points)
    replicas = range(int(whole.replica.max()) + 1)
    mean, sd = np.empty((2, len(whole.outputs), len(replicas), points))
    for r in replicas:
        m, v = fitted.predict_y(x[:, None], replica=r)
        mean[:, r], sd[:, r] = np.asarray(m).T, np.sqrt(np.asarray(v)).T
    return {"grid_x": x, "grid_mean": mean, "grid_sd": sd}
