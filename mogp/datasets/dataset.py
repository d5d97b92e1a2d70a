"""`Dataset`: what every loader and every generator returns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from mogp.data import MultiOutputData

Source = Literal["real", "stand-in", "synthetic"]
"""Where numbers come from: published data, a replacement for data that could not be had, a generator of a document."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """N points of D outputs over P inputs, with what a figure must say about them.

    Attributes:
        name: the name it was loaded by.
        source: "real", "stand-in" (says so on every figure) or "synthetic" (meant to be generated).
        description: one sentence.
        licence: of the data.
        citation: who to cite.
        X: `[N, P]` inputs.
        Y: `[N, D]` targets; NaN where a target was not observed.
        inputs: P names.
        outputs: D names.
        likelihoods: D names of classes in `mogp.likelihoods` that suit the outputs.
        extras: further read-only arrays by name, such as a true function on a grid.
    """

    name: str
    source: Source
    description: str
    licence: str
    citation: str
    X: Array
    Y: Array
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    likelihoods: tuple[str, ...]
    extras: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        X, Y = _frozen(self.X), _frozen(self.Y)
        if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y):
            raise ValueError(f"{self.name}: X {X.shape} and Y {Y.shape} must be [N, P] and [N, D] with the same N.")
        widths = (len(self.inputs), len(self.outputs), len(self.likelihoods))
        if widths != (X.shape[1], Y.shape[1], Y.shape[1]):
            raise ValueError(
                f"{self.name}: {widths} names of inputs, outputs and likelihoods for X {X.shape} and Y {Y.shape}; "
                "every column needs one."
            )
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "Y", Y)
        object.__setattr__(self, "extras", {key: _frozen(value) for key, value in self.extras.items()})

    @cached_property
    def data(self) -> MultiOutputData:
        """The observations as `MultiOutputData`, ready for a model."""
        from mogp.data import MultiOutputData

        return MultiOutputData.from_arrays(self.X, self.Y, names=self.outputs)

    @property
    def frame(self) -> pd.DataFrame:
        """A wide table: a row a point, the inputs first, then the outputs."""
        import pandas as pd

        return pd.DataFrame(np.hstack([self.X, self.Y]), columns=[*self.inputs, *self.outputs])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the numbers: two data sets with the same digest hold the same X and Y."""
        digest = hashlib.sha256()
        for array in (self.X, self.Y):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        outputs = ", ".join(f"{o} ({likelihood})" for o, likelihood in zip(self.outputs, self.likelihoods, strict=True))
        return f"Dataset({self.name!r}, {self.source}: {len(self.X)} points, {len(self.inputs)} inputs; {outputs})"


def _frozen(values: Array) -> Array:
    array = np.array(values)
    array.setflags(write=False)
    return array
