"""`greedy_order`: an order of the outputs for a chain, searched for by training layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt
import pandas as pd
from gpflow.likelihoods import Gaussian

from mogp.data import MultiOutputData
from mogp.kernels import LayerKernels
from mogp.models import GPAR
from mogp.models.chains.regression import LogSearch, Regression, logarithms
from mogp.models.chains.values import Targets, Values, inducing_inputs
from mogp.models.choices import ScalingChoice, in_units
from mogp.optimizers import LBFGS, Problem
from mogp.optimizers.quiet import minimise


@dataclass(frozen=True)
class Ordering:
    """Outputs in an order that was searched for.

    Attributes:
        order: names, from first to last.
        scores: a row for every layer that was tried: `position`, `output`, `evidence` given the
            outputs chosen before, and whether it was `chosen`.

    >>> import pandas as pd
    >>> scores = pd.DataFrame({"position": 0, "output": ["a"], "evidence": -1.5, "chosen": True})
    >>> Ordering(("a",), scores).evidence
    -1.5
    """

    order: tuple[str, ...]
    scores: pd.DataFrame

    @property
    def evidence(self) -> float:
        """The log evidence of the chain."""
        return float(self.scores.loc[self.scores["chosen"], "evidence"].sum())


def greedy_order(
    data: MultiOutputData,
    kernel: LayerKernels | None = None,
    *,
    steps: int = 1000,
    replace: bool = True,
    impute: bool = True,
    inducing: int | npt.ArrayLike | None = None,
    noise: float = 0.01,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> Ordering:
    """An order of the outputs for `GPAR`: at each position the one with the highest log evidence
    given those before.

    Every output left is tried at every position, $L(L+1)/2$ layers in all. Log evidences are of
    standardised targets and sums over observations, so that outputs with few of them are low in
    number, whatever they are worth.

    Args:
        data: as for `GPAR`, and so are the other arguments.
        kernel: of the layers.
        steps: of L-BFGS at most, for every layer tried.
        replace: see `GPAR`.
        impute: see `GPAR`.
        inducing: see `GPAR`.
        noise: see `GPAR`.
        scaling: see `GPAR`.
        seed: see `GPAR`.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, 1.6]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["a", "b"])
    >>> found = greedy_order(data, steps=1)
    >>> sorted(found.order), len(found.scores)
    (['a', 'b'], 3)
    """
    # The model checks what it is given.
    data = in_units(scaling, data)
    recipe = GPAR(data, kernel, inducing=inducing, noise=noise, scaling=None, seed=seed).recipe
    targets = {output.name: Targets.of(output) for output in data.outputs}
    values = Values(data.X, None if inducing is None else inducing_inputs(data, inducing, seed))
    order: list[str] = []
    tried = []
    for position in range(data.num_outputs):
        reads = recipe.reads(position)
        layers = {}
        for name in (n for n in data.names if n not in order):
            with logarithms():
                layer = Regression(
                    recipe.layer(position), Gaussian(noise, variance_lower_bound=0.0)
                )
            layer.observe(*values.seen_by(targets[name], reads))
            minimise(_problem(layer), LBFGS(), steps)
            layers[name] = layer
        evidence = {name: layer.evidence() for name, layer in layers.items()}
        best = max(evidence, key=lambda name: evidence[name])
        tried += [
            {"position": position, "output": n, "evidence": e, "chosen": n == best}
            for n, e in evidence.items()
        ]
        order.append(best)
        values = values.extended(layers[best], targets[best], reads, replace, impute)
    return Ordering(tuple(order), pd.DataFrame(tried))


def _problem(layer: Regression) -> Problem:
    return Problem(layer, lambda _: -layer.evidence(), lambda _: None, search=LogSearch(layer))
