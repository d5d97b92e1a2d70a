"""Comparisons of chains on outputs with gaps: what Xia's chapter 4 runs again and again."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.book.runs.mixtures import Mixture, coverage_of
from mogp.data import Array, MultiOutputData
from mogp.metrics import smse

if TYPE_CHECKING:
    from mogp.datasets.dataset import Dataset
    from mogp.kernels import LayerKernels
    from mogp.models import GPAR, LatentChain

MODELS = (
    "IGP",
    "GPAR",
    "GPAR backward",
    "DGP",
    "GPLAR",
    "GPLAR, A",
    "GPLAR, C",
    "GPLAR, from zero",
    "GPLAR, frozen",
    "bi-GPLAR",
    "bi-GPLAR, light",
    "additive GPLAR",
)
"""The models that are compared.

GPLAR is that of strategy B. "from zero" starts its posterior means at zero inside gaps. "frozen" is
strategy C whose inducing inputs were put together once, as in the author's code: the first layer's
move, the others do not follow.
"""
SCORES = (
    "smse",
    "smse_train",
    "hll",
    "hll_published",
    "coverage90",
    "coverage95",
    "sd_held_out",
    "sd_elsewhere",
)


WARM_UP = 20
"""Steps over which natural gradients on chains grow to their size."""


def gap_kind(missing: Array, d: int) -> str:
    """How the gap of output `d` lies in the chain: `missing [N, D]`, in the order of the chain.

    "closed downwards" where all outputs before it are observed, "closed upwards" where all after it
    are, "between" where both are and it has outputs on both sides, "neither" else.
    """
    gap = missing[missing[:, d]]
    before, after = not gap[:, :d].any(), not gap[:, d + 1 :].any()
    if before and after and 0 < d < missing.shape[1] - 1:
        return "between"
    if before and d > 0:
        return "closed downwards"
    return "closed upwards" if after else "neither"


def load_rows(
    data: str, source: str, options: Mapping[str, Any] | None = None, thin: int = 1
) -> Dataset:
    """A data set, or its stand-in, with every `thin`-th row."""
    from mogp import datasets

    stand_in: Any = "only" if source == "stand-in" else "forbid"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        whole = datasets.load(data, stand_in=stand_in, **(options or {}))
    return whole.take(np.arange(0, len(whole), thin))


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warning that a layer of GPAR explains nothing: what is shown of it says so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the layer of .* explains nothing")
        yield


def train_chain(
    model: LatentChain, data: MultiOutputData, steps: int, rate: float, gamma: float
) -> float:
    """Train a chain on all rows by `mogp.fit`; its bound before the last step, of standardised
    targets.

    Natural gradients of size `gamma` move the posterior and Adam the rest; Adam moves everything if
    `gamma` is zero. A training that diverges is reported by `fit`, and the bound is that of its
    last good state (NaN if there was no step).
    """
    from mogp.optimizers import Adam, Natural
    from mogp.training import fit

    optimizer = Natural(Adam(rate), gamma, warm_up=WARM_UP) if gamma else Adam(rate)
    history = fit(model, data, steps=steps, optimizer=optimizer, progress=False)
    sizes = [len(output) for output in data.outputs]
    bound = history.elbo[-1] if history.steps else np.nan
    return float(bound + sizes @ np.log(model.scale))


def chain_run(
    data: str,
    source: str,
    models: Sequence[str],
    *,
    options: Mapping[str, Any] | None = None,
    test_options: Mapping[str, Any] | None = None,
    thin: int = 1,
    kernels: Mapping[str, Any] | None = None,
    grid: int = 0,
    samples: int = 100,
    seed: int = 0,
    **how: Any,
) -> dict[str, Any]:
    """Fit some of `MODELS` to a data set with real outputs, and score what was held out.

    Args:
        data: name of the data set.
        source: "stand-in" forces the stand-in, anything else forbids it.
        models: which.
        options: of the loader.
        test_options: of the loader, for another draw of the data to test on, where the data have no
            split.
        thin: keep every so many rows.
        kernels: of `LayerKernels`.
        grid: points of a grid on which curves are kept; at the rows of the data if zero.
        samples: paths of a prediction.
        seed: of draws.
        how: further arguments of `Fitter`.

    Returns:
        `outputs` that have held-out targets, as positions; `x`; and for the `K` models `scores`
        `[K, outputs, SCORES]`; `ranks` `[K, outputs, T]` of held-out targets (NaN where an output
        has fewer) at `test_x` `[outputs, T]`; `curves` `[K, 3, points, D]` with mean and 95 % band
        of all outputs; `bounds` and `times` `[K]`; `inducing_x` and `inducing_means` `[K, M, D]` of
        chains with a GP for each output (NaN for others); `variances` of the kernels of the last
        chain.
    """
    from mogp.kernels import LayerKernels

    whole = load_rows(data, source, options, thin)
    split = whole.held_out is not None
    train = (whole.train if split else whole).data
    other = {**(options or {}), **(test_options or {})}
    test = whole.test if split else load_rows(data, source, other, thin)
    recipe = LayerKernels(train.input_dim, **(kernels or {}))
    X = np.unique(whole.X, axis=0)
    if grid:
        X = np.linspace(whole.X.min(), whole.X.max(), grid)[:, None]
    held = [d for d in range(train.num_outputs) if np.isfinite(test.Y[:, d]).any()]
    most = max(int(np.isfinite(test.Y[:, d]).sum()) for d in held)
    fitter = Fitter(train, recipe, seed=seed, **how)
    M, D = len(fitter.Z), train.num_outputs
    found: dict[str, Any] = {
        "test_x": np.full((len(held), most), np.nan),
        "scores": np.empty((len(models), len(held), len(SCORES))),
        "ranks": np.full((len(models), len(held), most), np.nan),
        "curves": np.empty((len(models), 3, len(X), D)),
        "inducing_means": np.full((len(models), M, D), np.nan),
        "bounds": np.full(len(models), np.nan),
        "times": np.empty(len(models)),
    }
    for k, name in enumerate(models):
        began = time.perf_counter()
        model, found["bounds"][k] = fitter.fitted(name)
        found["times"][k] = time.perf_counter() - began
        everywhere = Mixture.of(model, np.vstack([test.X, train.X, X]), samples, seed)
        at_test, at_train, at_x = everywhere.split(len(test.X), len(train.X))
        for i, d in enumerate(held):
            here = np.isfinite(test.Y[:, d])
            y, y_train = test.Y[here, d], train.outputs[d].Y[:, 0]
            part = at_test.rows(here)
            rank, mean = part.rank(y, d), part.mean[..., d].mean(0)
            found["ranks"][k, i, : len(y)] = rank
            found["test_x"][i, : len(y)] = test.X[here, 0]
            found["scores"][k, i] = (
                smse(y, mean),
                smse(y, mean, reference="train", y_train=y_train),
                part.log_density(y, d).sum(),
                part.published_density(y, d).sum(),
                *coverage_of(rank, np.array([0.9, 0.95])),
                part.sd()[:, d].mean(),
                at_train.sd()[train.outputs[d].rows, d].mean(),
            )
        found["curves"][k] = at_x.mean.mean(0), *at_x.band()
        if name.startswith("GPLAR") and name != "GPLAR, A":
            means = np.column_stack([np.asarray(layer.mean[0]) for layer in model.layers()])
            found["inducing_means"][k] = model.location + model.scale * means
    learned = [] if name.startswith("GPAR") else model.kernels
    variances = {f"{i}": _variances(kernel) for i, kernel in enumerate(learned)}
    return {
        "outputs": held,
        "x": X[:, 0],
        "inducing_x": fitter.Z[:, 0],
        "variances": variances,
        **found,
    }


def _variances(kernel: Any) -> list[Any]:
    return [
        np.asarray(part.variance).reshape(-1).tolist()
        for part in getattr(kernel, "kernels", [kernel])
    ]


class Fitter:
    """Fits models to one data set; GPARs that several of them start from are fitted once.

    Args:
        data: with one real target column an output.
        recipe: kernels of the layers.
        inducing: inducing inputs of a chain; one at every input if None.
        steps: of training, for chains.
        gpar_steps: of L-BFGS for each layer of GPAR.
        rate, gamma: see `train_chain`; posteriors are not whitened, as in the thesis. A DGP, which
            starts from its prior, is whitened and trained by Adam with ten times the rate.
        adopt: see `gplar`.
        noise: start value of noise variances.
        seed: of draws.
    """

    def __init__(
        self,
        data: MultiOutputData,
        recipe: LayerKernels,
        *,
        inducing: int | None = None,
        steps: int = 200,
        gpar_steps: int = 200,
        rate: float = 1e-3,
        gamma: float = 0.0,
        adopt: bool = True,
        noise: float = 0.01,
        seed: int = 0,
    ) -> None:
        from mogp.models.chains.values import inducing_inputs

        self.data, self.recipe, self.steps, self.gpar_steps = data, recipe, steps, gpar_steps
        self.rate, self.gamma, self.adopt, self.noise, self.seed = rate, gamma, adopt, noise, seed
        self.Z = inducing_inputs(data, len(data.X) if inducing is None else inducing, seed)
        self._gpars: dict[tuple[str, ...], GPAR] = {}

    def fitted(self, name: str) -> tuple[Any, float]:
        """The model, and its bound (of standardised targets)."""
        if name in ("GPAR", "GPAR backward"):
            model = self.gpar(name == "GPAR backward")
            return model, model.elbo()
        chain = self.chain(name)
        rate, gamma = (10 * self.rate, 0.0) if name == "DGP" else (self.rate, self.gamma)
        return chain, train_chain(chain, self.data, self.steps, rate, gamma)

    def gpar(self, backward: bool = False) -> GPAR:
        """GPAR in the order of the data or backwards."""
        from mogp.models import GPAR
        from mogp.training import fit

        order = self.data.names[::-1] if backward else self.data.names
        if order not in self._gpars:
            model = GPAR(
                self.data, self.recipe, order=order, noise=self.noise, starts=1, scaling=None
            )
            with quietly():
                fit(model, self.data, steps=self.gpar_steps, progress=False)
            self._gpars[order] = model
        return self._gpars[order]

    def chain(self, name: str) -> LatentChain:
        """One of the chains of `MODELS`, not trained."""
        from gpflow import set_trainable

        from mogp.models import additive_gplar, bi_gplar, dgp, gplar, igp

        if name not in MODELS:
            raise ValueError(f"no model {name!r}; there are {', '.join(MODELS)}.")
        common: dict[str, Any] = {
            "kernel": self.recipe,
            "inducing": self.Z,
            "noise": self.noise,
            "whiten": False,
            "seed": self.seed,
            "scaling": None,
        }
        if name == "IGP":
            model = igp(self.data, **common)
            model.regress(self.data)
            return model
        if name == "DGP":
            widest = float(np.min(self.recipe.input_lengthscale))
            common.pop("kernel")
            return dgp(self.data, lengthscale=widest, **{**common, "whiten": True})
        forward = self.gpar()
        if name.startswith("bi-GPLAR"):
            light = name == "bi-GPLAR, light"
            starts = (forward, "zero" if light else self.gpar(True))
            return bi_gplar(self.data, light=light, start=starts, adopt=self.adopt, **common)
        if name == "additive GPLAR":
            return additive_gplar(self.data, start=forward, **common)
        strategy: Any = {"GPLAR, A": "A", "GPLAR, C": "C"}.get(name, "B")
        adopt = self.adopt and strategy != "A"
        model = gplar(self.data, strategy=strategy, start=forward, adopt=adopt, **common)
        if name == "GPLAR, from zero":
            model.posterior.q_mu.assign(np.where(self._in_gaps(), 0.0, model.posterior.q_mu))
        if name == "GPLAR, frozen":
            set_trainable(model.inducing[0], True)
        return model

    def _in_gaps(self) -> Array:
        """`[M, D]`: whether the input nearest to an inducing input lacks a target of an output."""
        nearest = np.argmin(np.square(self.Z[:, None] - self.data.X).sum(-1), 1)
        observed = np.zeros((len(self.data.X), self.data.num_outputs), bool)
        for d, own in enumerate(self.data.outputs):
            observed[own.rows, d] = True
        missing: Array = ~observed[nearest]
        return missing
