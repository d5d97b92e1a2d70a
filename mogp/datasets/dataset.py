"""`Dataset`: what every loader and every generator returns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix

    from mogp.data import MultiOutputData

Source = Literal["real", "stand-in", "synthetic"]
"""Where numbers come from: published data, a replacement for data that could not be had, a
generator of a document.
"""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """N points of D outputs over P inputs, with what a figure must say about them.

    Wide, row n of `Y [N, D]` holds all outputs at input n. Long, when outputs have inputs of their
    own, row n observes the one output `output[n]`, and `Y` is `[N, 1]`. Both `X` and `Y` may be
    sparse (CSR), as with many labels.

    Attributes:
        name: the name it was loaded by.
        source: "real", "stand-in" (says so on every figure) or "synthetic" (meant to be generated).
        description: one sentence.
        licence: of the data.
        citation: who to cite.
        X: `[N, P]` inputs, dense or CSR.
        Y: `[N, D]` or `[N, 1]` targets, dense (NaN where a target was not observed) or CSR; classes
            are 0, 1, …
        inputs: P names, or a single one that stands for all P columns ("pixel").
        outputs: D names.
        likelihoods: names of classes in `mogp.likelihoods` that suit the outputs, D of them or one
            for all.
        output: `[N]` which output each row observes, for the long layout.
        replica: `[N]` replica of each row.
        held_out: `[N]` rows, or `[N, D]` single targets, that the published split keeps for
            testing.
        classes: the names of the classes of an output, by output, where its targets are class
            numbers.
        image_shape: height and width of the image that a row of `X` holds.
        per_row: further arrays with one entry a row, such as annotations `[N, R]`; they follow when
            rows are taken.
        extras: further arrays about the whole set, such as a true function on a grid.
        instead_of: the data set in whose place this one is shown, where real data stand in for
            others ("stand-in").
    """

    name: str
    source: Source
    description: str
    licence: str
    citation: str
    X: Array | csr_matrix
    Y: Array | csr_matrix
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    likelihoods: tuple[str, ...]
    output: Array | None = None
    replica: Array | None = None
    held_out: Array | None = None
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image_shape: tuple[int, int] | None = None
    per_row: Mapping[str, Array] = field(default_factory=dict)
    extras: Mapping[str, Array] = field(default_factory=dict)
    instead_of: str = ""

    def __post_init__(self) -> None:
        for name in ("X", "Y", "output", "replica", "held_out"):
            object.__setattr__(self, name, _read_only(getattr(self, name)))
        for name in ("per_row", "extras"):
            object.__setattr__(
                self, name, {key: _read_only(value) for key, value in getattr(self, name).items()}
            )
        self._check()

    def _check(self) -> None:
        X, Y, D = self.X, self.Y, len(self.outputs)
        if X.ndim != 2 or Y.ndim != 2 or X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"{self.name}: X {X.shape} and Y {Y.shape} must be [N, P] and [N, D] with the"
                " same N."
            )
        if Y.shape[1] != (D if self.output is None else 1):
            raise ValueError(
                f"{self.name}: Y {Y.shape} for {D} named outputs; every column needs one."
            )
        if len(self.inputs) not in {1, X.shape[1]} or len(self.likelihoods) not in {1, D}:
            raise ValueError(
                f"{self.name}: {len(self.inputs)} names of inputs and {len(self.likelihoods)} of"
                f" likelihoods for X {X.shape} and {D} outputs; every column needs one, or one"
                " stands for all."
            )
        rows: dict[str, Array | None] = {
            "output": self.output,
            "replica": self.replica,
            "held_out": self.held_out,
        }
        for name, values in {**rows, **self.per_row}.items():
            if values is not None and len(values) != X.shape[0]:
                raise ValueError(
                    f"{self.name}: {name} has {len(values)} entries for {X.shape[0]} rows."
                )
        if (
            self.output is not None
            and len(self)
            and not set(np.unique(self.output)) <= set(range(D))
        ):
            raise ValueError(f"{self.name}: output must hold numbers 0 to {D - 1}.")
        if self.held_out is not None and self.held_out.shape not in {Y.shape, Y.shape[:1]}:
            raise ValueError(
                f"{self.name}: held_out {self.held_out.shape} must be [N] or as Y {Y.shape}."
            )
        if self.image_shape is not None and np.prod(self.image_shape) != X.shape[1]:
            raise ValueError(
                f"{self.name}: images of {self.image_shape} pixels in {X.shape[1]} columns."
            )
        unknown = sorted(set(self.classes) - set(self.outputs))
        if unknown:
            raise ValueError(
                f"{self.name}: classes of {', '.join(map(repr, unknown))}, which is no output."
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def data(self) -> MultiOutputData:
        """The observations as `MultiOutputData`, ready for a model; sparse inputs stay sparse, and
        outputs without any observation are left out (long layout).
        """
        from mogp.data import MultiOutputData

        if _sparse(self.Y):
            raise ValueError(
                f"{self.name} is sparse ({_facts(self.X)}; {_facts(self.Y)}): call .dense() first"
                " if it fits in memory, or use its X and Y."
            )
        if self.output is None:
            return MultiOutputData.from_arrays(
                self.X, self.Y, names=self.outputs, replica=self.replica
            )
        rows = {name: np.flatnonzero(self.output == d) for d, name in enumerate(self.outputs)}
        rows = {name: own for name, own in rows.items() if len(own)}
        return MultiOutputData.from_list(
            [(self.X[r], self.Y[r]) for r in rows.values()],
            names=list(rows),
            replicas=None if self.replica is None else [self.replica[r] for r in rows.values()],
        )

    @cached_property
    def annotated(self) -> MultiOutputData:
        """What the annotators told, for a model: one output with a column for each, without rows
        nobody annotated.
        """
        from mogp.data import MultiOutputData

        if "annotations" not in self.per_row:
            raise ValueError(
                f'{self.name} has no annotations; load it with annotators="simulated", or use'
                " annotate_classes or annotate_values of mogp.datasets.annotate."
            )
        return MultiOutputData.from_list(
            [(self.dense().X, self.per_row["annotations"])], names=self.outputs
        )

    @property
    def train(self) -> Dataset:
        """What the published split trains on."""
        held_out = self._split()
        if held_out.ndim == 1:
            return self.take(~held_out)
        return replace(self, Y=np.where(held_out, np.nan, self.Y), held_out=None)

    @property
    def test(self) -> Dataset:
        """What the published split holds out; rows without a held-out target are left out."""
        held_out = self._split()
        if held_out.ndim == 1:
            return self.take(held_out)
        kept = held_out.any(axis=1)
        return replace(
            replace(self, held_out=None).take(kept), Y=np.where(held_out, self.Y, np.nan)[kept]
        )

    def _split(self) -> Array:
        if self.held_out is None:
            raise ValueError(
                f"{self.name} has no published split; use .split(test=0.25) or .folds(5)."
            )
        return self.held_out

    def split(self, test: float = 0.25, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Random train and test rows; a share `test` of the rows of each output is held out."""
        if not 0 < test < 1:
            raise ValueError(f"test={test} is not a share between 0 and 1.")
        held, rng = np.zeros(len(self), bool), np.random.default_rng(seed)
        for rows in self._strata():
            held[rng.permutation(rows)[: round(test * len(rows))]] = True
        return self.take(~held), self.take(held)

    def folds(self, k: int, seed: int = 0) -> Iterator[tuple[Dataset, Dataset]]:
        """Train and test parts of k-fold cross-validation, stratified by class (and by output in
        the long layout).
        """
        smallest = min((len(rows) for rows in self._strata()), default=0)
        if not 2 <= k <= smallest:
            raise ValueError(f"{k} folds for {smallest} rows; give 2 to {smallest}.")
        fold, rng, start = np.empty(len(self), np.int64), np.random.default_rng(seed), 0
        for rows in self._strata():
            labels = self._labels(rows)
            for label in np.unique(labels):
                shuffled = rng.permutation(rows[labels == label])
                fold[shuffled] = (start + np.arange(len(shuffled))) % k
                start += len(shuffled)
        for i in range(k):
            yield self.take(fold != i), self.take(fold == i)

    def _strata(self) -> list[Array]:
        if self.output is None:
            return [np.arange(len(self))]
        return [np.flatnonzero(self.output == d) for d in range(len(self.outputs))]

    def _labels(self, rows: Array) -> Array:
        if not self.classes or _sparse(self.Y) or self.Y.shape[1] > 1:
            return np.zeros(len(rows))
        return np.asarray(self.Y[rows, 0])

    def take(self, rows: Array) -> Dataset:
        """The rows at the positions, or where the mask, `rows`."""
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in ("X", "Y", "output", "replica", "held_out")
        }
        fields = {
            name: values if values is None else values[rows] for name, values in fields.items()
        }
        fields["per_row"] = {key: values[rows] for key, values in self.per_row.items()}
        return replace(self, **fields)

    def dense(self) -> Dataset:
        """The same data with dense X and Y."""
        X, Y = (array.toarray() if _sparse(array) else array for array in (self.X, self.Y))
        return replace(self, X=X, Y=Y)

    @property
    def frame(self) -> pd.DataFrame:
        """A table: a row a point, the inputs first, then the outputs (wide), or `output` and
        `target` (long).
        """
        import pandas as pd

        full, P = self.dense(), self.X.shape[1]
        names = self.inputs if len(self.inputs) == P else [f"{self.inputs[0]}{p}" for p in range(P)]
        table = pd.DataFrame(full.X, columns=list(names))
        if self.output is None:
            table[list(self.outputs)] = full.Y
        else:
            table["output"] = np.array(self.outputs)[self.output]
            table["target"] = full.Y[:, 0]
        if self.replica is not None:
            table["replica"] = self.replica
        return table

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the numbers: two data sets with the same digest hold the same X and Y, laid
        out the same way.
        """
        digest = hashlib.sha256()
        for array in (self.X, self.Y, self.output, self.replica, self.held_out):
            if array is not None:
                for part in (
                    (array.data, array.indices, array.indptr) if _sparse(array) else (array,)
                ):
                    digest.update(f"{part.dtype.str}{part.shape}".encode())
                    digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        every = self.likelihoods * (len(self.outputs) if len(self.likelihoods) == 1 else 1)
        outputs = ", ".join(
            f"{o} ({likelihood})" for o, likelihood in zip(self.outputs[:6], every, strict=False)
        )
        more = f", … ({len(self.outputs)} outputs)" if len(self.outputs) > 6 else ""
        return (
            f"Dataset({self.name!r}, {self.source}: {len(self)} points, {self.X.shape[1]} inputs;"
            f" {outputs}{more})"
        )


def _sparse(array: Array | csr_matrix) -> TypeGuard[csr_matrix]:
    return hasattr(array, "indptr")


def _facts(array: Array | csr_matrix) -> str:
    return (
        f"{array.shape[0]} x {array.shape[1]}, {array.shape[0] * array.shape[1] * 8 / 1e9:.1f} GB"
        " when dense"
    )


def _read_only(values: Array | csr_matrix | None) -> Array | csr_matrix | None:
    """The values behind a view that cannot be written; loaders own what they pass, so nothing is
    copied.
    """
    if values is None:
        return None
    if _sparse(values):
        return _locked(values)
    view = np.asarray(values).view()
    view.setflags(write=False)
    return view


def _locked(matrix: csr_matrix) -> csr_matrix:
    """The matrix, its columns in order and none twice: SciPy would otherwise put them in order when
    it needs them.
    """
    if matrix.format != "csr":
        raise ValueError(f"sparse arrays must be CSR, not {matrix.format}.")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix
