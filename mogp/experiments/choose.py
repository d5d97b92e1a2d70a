"""Help in choosing sizes: how many latent GPs, how many inducing points, for any model."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mogp.experiments.sweep import sweep

if TYPE_CHECKING:
    from mogp.data import MultiOutputData
    from mogp.optimizers import Optimizer


@dataclass(frozen=True)
class Choice:
    """Held-out scores of the candidates and the one to take; `str()` says why.

    Attributes:
        best: the settings recommended, as keyword arguments of the model's constructor.
        scores: a row a candidate: its settings, `nlpd` (mean over folds), its standard error `se`,
            `elbo`, `seconds`.

    >>> import pandas as pd
    >>> from mogp.experiments import Choice
    >>> columns = ["latents", "nlpd", "se", "seconds"]
    >>> scores = pd.DataFrame([[1, 0.5, 0.1, 2.0], [2, 0.9, 0.1, 3.0]], columns=columns)
    >>> print(Choice({"latents": 1}, scores))
    Take latents=1: held-out NLPD 0.5 a point, 2.0 s a fit. No candidate predicts better.
    """

    best: dict[str, Any]
    scores: pd.DataFrame

    def __str__(self) -> str:
        lowest = self.scores.iloc[int(self.scores["nlpd"].argmin())]
        taken = self.scores.loc[
            (self.scores[list(self.best)] == pd.Series(self.best)).all(axis=1)
        ].iloc[0]
        settings = ", ".join(f"{k}={v}" for k, v in self.best.items())
        first = (
            f"Take {settings}: held-out NLPD {taken['nlpd']:.4g} a point, {taken['seconds']:.1f} s"
            " a fit."
        )
        if taken.name == lowest.name:
            return f"{first} No candidate predicts better."
        other = ", ".join(f"{k}={lowest[k]}" for k in self.best)
        return (
            f"{first} The lowest is {lowest['nlpd']:.4g} ({other}), no more than one standard error"
            f" ({lowest['se']:.2g}) away; the smaller model is taken."
        )


def choose(
    build: Callable[..., Any],
    data: MultiOutputData,
    grid: Mapping[str, Sequence[Any]],
    *,
    steps: int | None = None,
    batch_size: Any = "auto",
    optimizer: Optimizer | None = None,
    folds: int = 3,
    test: float = 0.2,
    seed: int = 0,
    workers: int = 0,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Choice:
    """Fit every candidate on random training parts of the data and score it on the rest.

    The recommendation is the one-standard-error rule: among the candidates whose mean held-out NLPD
    lies within one standard error (over the folds) of the lowest, the one that comes first in the
    grid. List each setting from small to large.

    Args:
        build: called as `build(training_data, **settings)`, returns a model, e.g. a function that
            calls `hetmogp_lmc`.
        data: all the data.
        grid: the candidates, e.g. `{"latents": [1, 2, 4], "inducing": [20, 50]}`.
        steps, batch_size, optimizer: of each fit; see `mogp.fit`.
        folds: random splits for each candidate; at least two.
        test: share of rows held out.
        seed: of the splits; every candidate sees the same ones.
        workers: processes; 0 fits one after the other in this one.
        cache: folder that keeps finished fits, so that an interrupted call goes on where it was.
        progress: show a bar.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.experiments import choose
    >>> from mogp.models import hetmogp_lmc
    >>> from mogp.likelihoods import Gaussian
    >>> x = np.linspace(0, 1, 12)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(6 * x), np.cos(6 * x)]))
    >>> def build(data, latents):
    ...     return hetmogp_lmc(data, [Gaussian(), Gaussian()], latents=latents, inducing=4)
    >>> found = choose(build, data, {"latents": [1, 2]}, steps=2, folds=2, progress=False)
    >>> sorted(found.scores["latents"])
    [1, 2]
    """
    if folds < 2:
        raise ValueError(f"folds={folds}; at least two are needed for a standard error.")
    if not grid or any(len(values) == 0 for values in grid.values()):
        raise ValueError(
            f"the grid {dict(grid)} has no candidates; name at least one value for each setting."
        )

    def run(fold: int, **settings: Any) -> dict[str, float]:
        from mogp.training import fit

        train, held_out = data.split(test, seed=seed + fold)
        model = build(train, **settings)
        history = fit(
            model,
            train,
            steps=steps,
            batch_size=batch_size,
            optimizer=optimizer,
            seed=seed + fold,
            progress=False,
        )
        densities = [np.asarray(d) for d in model.predict_log_density(held_out).values()]
        return {
            "nlpd": float(-np.mean(np.concatenate(densities))),
            "elbo": float(np.mean(history.elbo[-20:])),
        }

    with tempfile.TemporaryDirectory() as temporary:
        folder = (
            Path(temporary)
            if cache is None
            else Path(cache) / _digest(data, (steps, batch_size, _options(optimizer), test, seed))
        )
        points = {**grid, "fold": list(range(folds))}
        runs = sweep(run, points, cache=folder, workers=workers, progress=progress, name="choose")
    names = list(grid)
    scores = (
        runs.groupby(names, sort=False)
        .agg(
            nlpd=("nlpd", "mean"),
            se=("nlpd", "sem"),
            elbo=("elbo", "mean"),
            seconds=("seconds", "mean"),
        )
        .reset_index()
    )
    lowest = scores.iloc[int(scores["nlpd"].argmin())]
    taken = scores[scores["nlpd"] <= lowest["nlpd"] + lowest["se"]].iloc[0]
    return Choice({name: taken[name] for name in names}, scores)


def _options(optimizer: Any) -> Any:
    """An optimiser as its class and options, those of the ones inside it too."""
    from mogp.optimizers import Optimizer

    if not isinstance(optimizer, Optimizer):
        return optimizer
    own = {name: _options(value) for name, value in vars(optimizer).items() if name[0] != "_"}
    return type(optimizer).__name__, sorted(own.items())


def _digest(data: MultiOutputData, settings: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(repr(settings).encode())
    for array in [data.X, *(part for o in data.outputs for part in (o.rows, o.Y, o.observed))]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
