"""Why do bands of real data cover too little? Posteriors of one model beside each other.

python -m calibration.why                       what has no row yet: about ten CPU minutes
python -m calibration.why --data eeg --splits 0

For each split of a data set (those of `defaults.tasks`) a model is fitted as a user would. Then, with its
hyper-parameters as they are, the posterior is exchanged: factorised (or Kronecker), joint, and exact (dense formulas on
all rows). What coverage gains from one to the next is the approximation's; what the exact posterior lacks is the
model's, or its hyper-parameters'. So the exact model is trained on, alone and with a GP of its own for each output.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gpflow.utilities import parameter_dict
from scipy.stats import norm

import mogp
from calibration.dense import Dense, Moments, of_latent, of_lmc, trained
from calibration.drawn import Array
from calibration.mends import between_as_noise
from calibration.results import REAL, append, read
from mogp import MultiOutputData
from mogp.training.calibration import LEVELS

Predict = Callable[[int, Array, Array | None], Moments]
"""Mean and variance of targets of an output, in the units of the data."""


class Asked(NamedTuple):
    """A posterior: its name, the model whose parameters it has, what it predicts, and the bound or log evidence of the
    training data (NaN where it has others).
    """

    name: str
    model: Any
    predict: Predict
    bound: float


@dataclass(frozen=True)
class Case:
    """A model of a data set, and the posteriors to compare.

    Attributes:
        data: a task of `defaults.tasks`.
        model: what it is, in words.
        options: of the constructor, besides the ordinary ones.
        posteriors: names and predictions, from a fitted model and the data that it was fitted to.
        splits: how many.
    """

    data: str
    model: str
    options: dict[str, Any]
    posteriors: Callable[[Any, MultiOutputData], Iterator[Asked]]
    splits: int = 3


def lmc_posteriors(thin: int, steps: int) -> Callable[..., Iterator[Asked]]:
    """Of a sparse LMC.

    Args:
        thin: train exact models on every so many rows.
        steps: iterations for them; 0 to train none.
    """

    def posteriors(model: Any, train: MultiOutputData) -> Iterator[Asked]:
        whole = model.posterior
        yield _of(JOINT, model, train)
        model.posterior = whole.factorised(model.inducing.Kuu(model.prior.kernels))
        yield _of("factorised", model, train)
        between_as_noise(model, train)
        yield _of("joint, what lies between as noise", model, train)
        model.posterior = whole
        yield _dense("exact", of_lmc(model), model, train)
        if not steps:
            return
        some = train.take({o.name: np.flatnonzero(o.rows % thin == 0) for o in train.outputs})
        for name, own in (("exact, trained on", False), ("exact, trained on, own parts", True)):
            exact = trained(model, some, own, steps)
            yield _of(name, exact, some)._replace(**({} if thin == 1 else {"bound": np.nan}))

    return posteriors


def latent_posteriors(model: Any, train: MultiOutputData) -> Iterator[Asked]:
    """Of a hierarchy with latent variables."""
    whole = model.posterior
    yield _of(JOINT, model, train)
    model.posterior = whole.factorised()
    yield _of("Kronecker", model, train)
    model.posterior = whole
    yield _dense("exact, H at its mean", of_latent(model), model, train)


JOINT = "joint, as fitted"
CASES = (
    Case("mocap09", "HMOGP-LV, as constructed", {}, latent_posteriors),
    Case("mocap09", "HMOGP-LV, 3 inducing rows and 5 latent points", {"inducing": 3, "latent_inducing": 5},
         latent_posteriors),
    Case("mocap09", "HMOGP-LV, 12 inducing rows and 10 latent points", {"inducing": 12, "latent_inducing": 10},
         latent_posteriors),
    Case("eeg", "LMC with own parts, as constructed", {}, lmc_posteriors(thin=1, steps=0)),
    Case("eeg", "LMC", {"own": False}, lmc_posteriors(thin=1, steps=40)),
    Case("eeg", "LMC, 150 inducing inputs", {"inducing": 150, "own": False}, lmc_posteriors(thin=1, steps=0)),
    Case("exchange", "LMC with own parts, as constructed", {}, lmc_posteriors(thin=1, steps=0)),
    Case("exchange", "LMC", {"own": False}, lmc_posteriors(thin=2, steps=40)),
)  # fmt: skip


def _of(name: str, model: Any, train: MultiOutputData) -> Asked:
    """What a model itself answers."""

    def predict(output: int, X: Array, replica: Array | None) -> Moments:
        y = model.predict_y(X, output, replica=replica)
        return np.asarray(y.mean)[:, 0], np.asarray(y.var)[:, 0]

    return Asked(name, model, predict, float(model.elbo(train)))


def _dense(name: str, prior: Dense, model: Any, train: MultiOutputData) -> Asked:
    """The exact posterior with the hyper-parameters of a model."""
    whole = model.aligned(train)
    outputs = model.scaled(whole).outputs
    rows = [np.asarray(model.at(whole.inputs(d), own.replica)) for d, own in enumerate(outputs)]
    number = [np.full(len(own), d) for d, own in enumerate(outputs)]
    y = np.concatenate([own.Y[:, 0] for own in outputs])
    known = prior.condition(np.concatenate(rows), np.concatenate(number), y)
    m, s = model._affine()

    def predict(d: int, X: Array, replica: Array | None) -> Moments:
        mean, var = known.predict(np.asarray(model.at(X, replica)), d)
        return m[d] + s[d] * mean, s[d] ** 2 * var

    return Asked(name, model, predict, known.evidence - float(model.jacobian(train)))


def scores(predict: Predict, model: Any, test: MultiOutputData) -> dict[str, Any]:
    """Of held-out targets, in standard deviations of the training targets."""
    z, sd, error, truth = [], [], [], []
    s = model._affine()[1]
    for d, own in enumerate(model.aligned(test).outputs):
        if not len(own):
            continue
        mean, var = predict(d, test.inputs(own.name), own.replica)
        y = own.Y[:, 0]
        z.append((y - mean) / np.sqrt(var))
        sd.append(np.sqrt(var) / s[d])
        error.append((y - mean) / s[d])
        truth.append((y - y.mean()) / s[d])
    every, spread, off = (np.concatenate(a) for a in (z, sd, error))
    within = {f"inside{level * 100:.0f}": float(np.mean(np.abs(every) < norm.ppf(0.5 + level / 2))) for level in LEVELS}
    return within | {
        "nmse": float(np.mean([np.mean(e**2) / np.mean(t**2) for e, t in zip(error, truth, strict=True)])),
        "nlpd": float(np.mean(0.5 * every**2 + np.log(spread) + 0.5 * np.log(2 * np.pi))),
        "targets": len(every),
        "ratio": float(np.sqrt(np.mean(off**2) / np.mean(spread**2))),
        "sd": float(np.sqrt(np.mean(spread**2))),
    }


def about(model: Any) -> dict[str, Any]:
    """Medians of its noise sd and lengthscales, in scaled units."""
    named = {path: np.ravel(p.numpy()) for path, p in parameter_dict(model).items()}
    lengths = [v for path, v in named.items() if path.endswith(".lengthscales") and "latent_kernel" not in path]
    noise = [
        v for path, v in named.items() if path == ".noise" or ("likelihood" in path and path.endswith(".variance"))
    ]
    return {
        "noise_sd": float(np.sqrt(np.median(np.concatenate(noise)))),
        "lengthscale": float(np.median(np.concatenate(lengths))),
    }


def run(case: Case, split: int) -> Iterator[dict[str, Any]]:
    """The rows of one split."""
    from defaults.tasks import TASKS

    task = TASKS[case.data]
    parts = task.split(split)
    cpu = time.process_time()
    model = task.model(parts.train, **case.options)
    mogp.fit(model, parts.train, progress=False)
    for one in case.posteriors(model, parts.train):
        found = scores(one.predict, model, parts.test)
        spent, cpu = time.process_time() - cpu, time.process_time()
        yield {
            "data": case.data, "split": split, "model": case.model, "posterior": one.name, **found, **about(one.model),
            "bound": one.bound, "cpu_s": spent,
        }  # fmt: skip


def main() -> None:
    """Read the command line and run what has no row yet."""
    parser = argparse.ArgumentParser(description="Posteriors of one model beside each other, on real data.")
    parser.add_argument("--data", help="mocap09, eeg or exchange; all if left out")
    parser.add_argument("--splits", type=lambda text: [int(one) for one in text.split(",")], help="0,1,2")
    asked = parser.parse_args()
    done = set(read(REAL)[["model", "data", "split"]].itertuples(index=False, name=None))
    for split in range(max(case.splits for case in CASES)) if asked.splits is None else asked.splits:
        for case in CASES:
            if asked.data in (None, case.data) and (case.model, case.data, split) not in done:
                rows = list(run(case, split))
                append(REAL, rows)
                for row in rows:
                    print({name: row[name] for name in ("data", "split", "posterior", "nlpd", "inside95", "cpu_s")})


if __name__ == "__main__":
    main()
