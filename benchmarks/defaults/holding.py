"""Ways to hold out: each takes data and a seed and gives what is left to train on, and what is tested.

They take training data as well as whole data, so that a validation set asks the question that the test set asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mogp import MultiOutputData

Hold = Callable[[Any, int], tuple[Any, Any]]


def rows(share: float = 0.25) -> Hold:
    """A share of the rows at random, for all outputs that were observed there."""
    return lambda data, seed: data.split(test=share, seed=seed)


def gaps(outputs: int, share: float, blocks: int = 1) -> Hold:
    """So many outputs, drawn at random, each lose a share of their targets, in blocks along the first input."""

    def hold(data: MultiOutputData, seed: int) -> tuple[MultiOutputData, MultiOutputData]:
        rng = np.random.default_rng(seed)
        chosen = set(rng.permutation(data.num_outputs)[:outputs].tolist())
        held = {name: np.zeros(size, bool) for name, size in zip(data.names, data.sizes, strict=True)}
        for d, name in enumerate(data.names):
            if d not in chosen:
                continue
            along = np.argsort(data.inputs(name)[:, 0], kind="stable")
            for part in np.array_split(along, blocks):
                length = round(share * len(part))
                start = rng.integers(0, len(part) - length + 1)
                held[name][part[start : start + length]] = True
        return _parted(data, held)

    return hold


def replicas() -> Hold:
    """One whole replica of every output, drawn at random."""

    def hold(data: MultiOutputData, seed: int) -> tuple[MultiOutputData, MultiOutputData]:
        rng = np.random.default_rng(seed)
        held = {o.name: o.replica == rng.choice(np.unique(o.replica)) for o in data.outputs}
        return _parted(data, held)

    return hold


def tails(share: float = 0.4) -> Hold:
    """The last share of the targets of every second replica (a random half) of each output, along the first input."""

    def hold(data: MultiOutputData, seed: int) -> tuple[MultiOutputData, MultiOutputData]:
        rng = np.random.default_rng(seed)
        held = {}
        for o in data.outputs:
            x, there = data.inputs(o.name)[:, 0], np.unique(o.replica)
            short = rng.permutation(there)[: len(there) // 2]
            held[o.name] = np.zeros(len(o), bool)
            for r in short:
                own = np.flatnonzero(o.replica == r)
                last = own[np.argsort(x[own], kind="stable")][len(own) - round(share * len(own)) :]
                held[o.name][last] = True
        return _parted(data, held)

    return hold


def _parted(data: MultiOutputData, held: dict[str, np.ndarray]) -> tuple[MultiOutputData, MultiOutputData]:
    train = data.take({name: np.flatnonzero(~h) for name, h in held.items()})
    return train, data.take({name: np.flatnonzero(h) for name, h in held.items()})
