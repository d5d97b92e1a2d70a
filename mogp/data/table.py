"""`MultiOutputData`: observations of several outputs over one matrix of inputs, validated once, at
the door.

The data are a long table. Row `n` of output `d` says: target `Y[n]` was observed at row `rows[n]`
of the input matrix `X`. Outputs measured at the same inputs share rows of `X`; outputs with inputs
of their own have rows of their own. A missing target is a missing row, never a NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mogp.data import builders
from mogp.data.fingerprint import fingerprint
from mogp.data.inputs import InputColumn, column_names, input_frame
from mogp.data.matrices import Matrix, is_sparse, stored
from mogp.data.outputs import Output
from mogp.data.replicas import numbered, replica_numbers
from mogp.data.schema import Schema

if TYPE_CHECKING:
    from mogp.data.batches import Batch, BatchSource
    from mogp.data.scaling import Scaling

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class MultiOutputData:
    """Inputs `X [N, P]` and the outputs observed on them.

    Build it with `from_arrays` (one column of targets an output), `from_list` (each output its own
    inputs), `from_table` (a wide data frame) or `from_long` (a long data frame with a column that
    names the output).

    Args:
        X: `[N, P]` inputs, dense or CSR.
        outputs: what was observed at them; an output may be empty.
        columns: the `P` columns of `X`; without names by default.
        nested: whether replicas are nested in outputs (replica 0 of one output has nothing to do
            with replica 0 of another) or crossed with them (the same number is the same replica in
            every output). False where there are no replicas.
        scaled_by: the `Scaling` whose units the data are in; None for their own.

    >>> import numpy as np
    >>> Y = np.array([[1.0, 0.0], [2.0, np.nan], [3.0, 1.0]])
    >>> data = MultiOutputData.from_arrays(np.zeros((3, 2)), Y, names=["rain", "wind"])
    >>> data
    MultiOutputData(2 outputs over 3 inputs of dimension 2; 'rain': 3, 'wind': 2)
    >>> data.inputs("wind").shape, data["wind"].Y.shape
    ((2, 2), (2, 1))
    """

    X: Matrix
    outputs: tuple[Output, ...]
    columns: tuple[InputColumn, ...] = ()
    nested: bool = False
    scaled_by: Scaling | None = None

    def __post_init__(self) -> None:
        P = int(self.X.shape[1])
        columns = tuple(self.columns) or (InputColumn(),) * P
        if len(columns) != P:
            raise ValueError(f"{len(columns)} input columns are described, X has {P}.")
        object.__setattr__(self, "columns", columns)
        replicas = any(o.replica is not None for o in self.outputs)
        object.__setattr__(self, "nested", bool(self.nested) and replicas)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        names: Sequence[str] | None = None,
        mask: npt.ArrayLike | None = None,
        replica: npt.ArrayLike | None = None,
        nested: bool = False,
    ) -> MultiOutputData:
        """All outputs at the same inputs.

        Args:
            X: `[N, P]` (or `[N]`) inputs, numbers or dates; a data frame gives its columns' names,
                and a SciPy sparse matrix stays sparse, down to the batches.
            Y: `[N, D]` (or `[N]`) targets, a column an output; NaN where a target is missing.
                Strings, booleans and categoricals are classes.
            names: `D` names; by default those of the columns of a data frame, or "output 0",
                "output 1", ….
            mask: `[N, D]`, False where a target is missing.
            replica: `[N]` replica of each row. Whole numbers stay what they are, so that parts of
                the data agree on them; other labels are numbered 0, 1, … in their order, all
                outputs together (each output apart, if they are nested).
            nested: whether replicas are nested in outputs.

        >>> MultiOutputData.from_arrays([0.0, 1.0, 2.0], ["no", "yes", None])["output 0"].classes
        ('no', 'yes')
        """
        return cls._of(builders.of_arrays(X, Y, names, mask, replica), nested)

    @classmethod
    def from_list(
        cls,
        pairs: Sequence[tuple[Any, Any]],
        names: Sequence[str] | None = None,
        masks: Sequence[npt.ArrayLike | None] | None = None,
        replicas: Sequence[npt.ArrayLike | None] | None = None,
        nested: bool = False,
    ) -> MultiOutputData:
        """Each output its own inputs.

        A target with several columns (annotators of one output, say) keeps them together; a row is
        kept when at least one of its columns was observed. Equal rows of different outputs
        become one row of `X`, in order of first appearance; a row that an output repeats is kept as
        often as there.

        Args:
            pairs: `pairs[d] = (X_d [N_d, P], Y_d [N_d] or [N_d, T_d])`; `N_d` may be 0. Inputs are
                all dense or all sparse.
            names: `D` names; "output 0", "output 1", … by default.
            masks: for each output, `[N_d, T_d]` or None; False where a target is missing.
            replicas: for each output, `[N_d]` or None; see `from_arrays`.
            nested: whether replicas are nested in outputs.

        >>> data = MultiOutputData.from_list([([2.0, 1.0], [5, 6]), ([1.0, 3.0], [7, 8])])
        >>> data.X[:, 0], data[1].rows
        (array([2., 1., 3.]), array([1, 2]))
        """
        return cls._of(builders.of_list(pairs, names, masks, replicas), nested)

    @classmethod
    def from_table(
        cls,
        frame: pd.DataFrame,
        inputs: str | Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        replica: str | None = None,
        nested: bool = False,
        like: MultiOutputData | None = None,
    ) -> MultiOutputData:
        """A wide table: one row a point, `inputs` columns and one column a target; empty cells are
        missing.

        Args:
            frame: `N` rows.
            inputs: the `P` columns of numbers or dates that are the inputs.
            targets: the `D` columns that are the outputs.
            replica: the column of replica numbers or labels; see `from_arrays`.
            nested: whether replicas are nested in outputs.
            like: other data (a training set, say) to take the outputs, the input columns and the
                codes of classes from; `inputs` and `targets` may then be left out. Outputs that the
                table does not have are empty.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"hour": [0, 1], "rain": [0.5, None], "sky": ["blue", "grey"]})
        >>> data = MultiOutputData.from_table(table, "hour", ["rain", "sky"])
        >>> test = MultiOutputData.from_table(table.iloc[1:], like=data)
        >>> test.sizes, test["sky"].Y
        ((0, 1), array([[1.]]))
        """
        parts = builders.of_table(frame, inputs, targets, replica, like)
        return cls._of(parts, nested or (like is not None and like.nested))

    @classmethod
    def from_long(
        cls,
        frame: pd.DataFrame,
        inputs: str | Sequence[str] | None = None,
        output: str = "output",
        target: str = "target",
        replica: str | None = None,
        nested: bool = False,
        like: MultiOutputData | None = None,
    ) -> MultiOutputData:
        """A long table: one row an observation, with a column that names its output.

        Rows with equal inputs share a row of the input matrix. Outputs come in order of first
        appearance.

        Args:
            frame: a row for each observation.
            inputs: the `P` columns of numbers or dates that are the inputs.
            output: the column that names the output.
            target: the column of targets; the classes of each output are its own.
            replica: the column of replica numbers or labels; see `from_arrays`.
            nested: whether replicas are nested in outputs.
            like: see `from_table`.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": [1, 1], "output": ["b", "a"], "target": [3.0, 4.0]})
        >>> MultiOutputData.from_long(table, "x")
        MultiOutputData(2 outputs over 1 inputs of dimension 1; 'b': 1, 'a': 1)
        """
        parts = builders.of_long(frame, inputs, output, target, replica, like)
        return cls._of(parts, nested or (like is not None and like.nested))

    @classmethod
    def _of(cls, parts: builders.Parts, nested: bool) -> MultiOutputData:
        builders.check_names(parts.outputs)
        if not any(len(o) for o in parts.outputs):
            raise ValueError(
                "the data have no observed target: every entry is NaN or masked, or there are no"
                " rows. At least one output needs one."
            )
        return cls(parts.X, numbered(parts.outputs, nested), parts.columns, nested)

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs' names."""
        return tuple(o.name for o in self.outputs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Observed rows of each output, `N_d`."""
        return tuple(len(o) for o in self.outputs)

    @property
    def num_outputs(self) -> int:
        """Number of outputs, `D`."""
        return len(self.outputs)

    @property
    def input_dim(self) -> int:
        """Number of input columns, `P`."""
        return int(self.X.shape[1])

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns; "x", or "x0", "x1", …, where they have none."""
        return column_names(self.columns)

    @property
    def schema(self) -> Schema:
        """Names of outputs, input columns and classes: what a model remembers of its data."""
        classes = tuple(o.classes for o in self.outputs)
        return Schema(self.names, self.columns, classes, self.nested)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with anything the data say."""
        X = stored(self.X) if is_sparse(self.X) else (self.X,)
        parts: list[Any] = [*X, self.columns, self.nested]
        for o in self.outputs:
            replica = None if o.replica is None else o.replica.astype(np.int64)
            parts += [o.name, o.rows.astype(np.int64), o.Y, o.observed, replica, o.classes]
        return fingerprint(*parts)

    @property
    def shares_inputs(self) -> bool:
        """Whether outputs share rows of the input matrix, each row at most once an output.

        Mini-batches are then drawn over input rows, so that one pass over the latent GPs serves all
        outputs.
        """
        once = all(len(np.unique(o.rows)) == len(o) for o in self.outputs)
        return once and sum(self.sizes) > self.X.shape[0]

    def __iter__(self) -> Iterator[Output]:
        return iter(self.outputs)

    def __getitem__(self, output: int | str) -> Output:
        return self.outputs[self.index(output)]

    def index(self, output: int | str) -> int:
        """Position of an output.

        Args:
            output: its name, or its position (from the end if negative).

        >>> MultiOutputData.from_arrays([5.0], [[1.0, 2.0]], names=["a", "b"]).index("b")
        1
        """
        if isinstance(output, str):
            if output not in self.names:
                raise KeyError(
                    f"no output {output!r}; the outputs are {', '.join(map(repr, self.names))}."
                )
            return self.names.index(output)
        if not -self.num_outputs <= output < self.num_outputs:
            raise IndexError(
                f"no output {output}; there are {self.num_outputs} (0 to {self.num_outputs - 1})."
            )
        return output % self.num_outputs

    def inputs(self, output: int | str) -> Matrix:
        """Inputs `[N_d, P]` of one output, row by row with its targets.

        Args:
            output: its name or position.
        """
        return self.X[self[output].rows]

    def take(self, rows: Mapping[str, npt.ArrayLike]) -> MultiOutputData:
        """The observations at positions `rows[name]` of each named output; other outputs whole.

        Args:
            rows: positions, or a mask `[N_d]`, by name; an output may be left empty.

        >>> data = MultiOutputData.from_arrays([0.0, 1.0, 2.0], [5.0, 6.0, 7.0], names=["a"])
        >>> data.take({"a": [2, 0]})["a"].Y[:, 0]
        array([7., 5.])
        """
        picked = {
            self.names[self.index(name)]: _positions(positions) for name, positions in rows.items()
        }
        outputs = []
        for o in self.outputs:
            p = picked.get(o.name, np.arange(len(o)))
            replica = None if o.replica is None else o.replica[p]
            outputs.append(
                replace(o, rows=o.rows[p], Y=o.Y[p], observed=o.observed[p], replica=replica)
            )
        used, where = np.unique(np.concatenate([o.rows for o in outputs]), return_inverse=True)
        bounds = np.cumsum([0, *(len(o) for o in outputs)])
        moved = [
            replace(o, rows=where[start:stop])
            for o, start, stop in zip(outputs, bounds[:-1], bounds[1:], strict=True)
        ]
        part = self._of(builders.Parts(self.X[used], moved, self.columns), self.nested)
        return replace(part, scaled_by=self.scaled_by)

    def split(self, test: float = 0.25, seed: int = 0) -> tuple[MultiOutputData, MultiOutputData]:
        """Random train and test parts; a share `test` of the rows of each output is held out.

        Outputs that share inputs are split over input rows, so that a held-out point is held out of
        all of them. Empty outputs are empty in both parts.

        Args:
            test: share of the rows, between 0 and 1.
            seed: of the draw.

        >>> import numpy as np
        >>> data = MultiOutputData.from_arrays(np.arange(8.0), np.arange(8.0))
        >>> [part.sizes for part in data.split(test=0.25)]
        [(6,), (2,)]
        """
        if not 0 < test < 1:
            raise ValueError(f"test={test} is not a share between 0 and 1.")
        rng = np.random.default_rng(seed)
        held = np.zeros(self.X.shape[0], bool)
        if self.shares_inputs:
            held[rng.permutation(self.X.shape[0])[: round(test * self.X.shape[0])]] = True
            parts = {o.name: held[o.rows] for o in self.outputs}
        else:
            parts = {o.name: rng.permutation(len(o)) < round(test * len(o)) for o in self.outputs}
        for o in self.outputs:
            if len(o) and (parts[o.name].all() or not parts[o.name].any()):
                raise ValueError(
                    f"output {o.name!r} has {len(o)} rows: a test share of {test} leaves one side"
                    " empty; use another share."
                )
        train = self.take({n: np.flatnonzero(~h) for n, h in parts.items()})
        return train, self.take({n: np.flatnonzero(h) for n, h in parts.items()})

    def frame(
        self, output: str = "output", target: str = "target", replica: str = "replica"
    ) -> pd.DataFrame:
        """The data as a long table, a row an observation: the inverse of `from_long`.

        Input columns have their names, and dates are dates; classes have their names. Targets with
        several columns are `target0`, `target1`, ….

        Args:
            output: name of the column that names the output.
            target: name of the column of targets.
            replica: name of the column of replica numbers, where there are any.

        >>> MultiOutputData.from_arrays([0.5], ["yes"], names=["wet"]).frame()
             x output target
        0  0.5    wet    yes
        """
        most = max(o.Y.shape[1] for o in self.outputs)
        others = {output, target, replica, *(f"{target}{t}" for t in range(most) if most > 1)}
        taken = [name for name in self.input_names if name in others]
        if taken:
            raise ValueError(
                f"the input column {taken[0]!r} and another column of the long table have the same"
                " name; name the others with output=, target= and replica=."
            )
        parts = []
        for o in self.outputs:
            if len(o) == 0:
                continue
            part = input_frame(self.X[o.rows], self.columns)
            part[output] = o.name
            for t in range(o.Y.shape[1]):
                column = target if o.Y.shape[1] == 1 else f"{target}{t}"
                part[column] = _as_given(o, t)
            if o.replica is not None:
                part[replica] = o.replica
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def full(self) -> Batch:
        """All the data as one batch."""
        from mogp.data.batches import full_batch

        return full_batch(self)

    def batches(
        self, size: int | Mapping[str, int] | Sequence[int] | None = None, seed: int = 0
    ) -> BatchSource:
        """Mini-batches drawn inside the compiled graph; see `mogp.data.batches.BatchSource`.

        Args:
            size: rows a step, one number or one for each output; None for all.
            seed: of all draws.
        """
        from mogp.data.batches import BatchSource

        return BatchSource(self, size, seed)

    def __repr__(self) -> str:
        outputs = ", ".join(f"{o.name!r}: {len(o)}" for o in self.outputs[:6]) + (
            ", …" if self.num_outputs > 6 else ""
        )
        kind = "sparse inputs" if is_sparse(self.X) else "inputs"
        size = f"{self.num_outputs} outputs over {self.X.shape[0]} {kind} of dimension"
        size += f" {self.input_dim}"
        numbers = [
            replica_numbers(o.replica, d, self.num_outputs, self.nested)
            for d, o in enumerate(self.outputs)
            if o.replica is not None
        ]
        replicas = f"; {len(np.unique(np.concatenate(numbers)))} replicas" if numbers else ""
        nested = ", nested" if self.nested else ""
        return f"MultiOutputData({size}; {outputs}{replicas}{nested})"


def _as_given(output: Output, column: int) -> Array:
    """One column of targets as the user gave it: names of classes, or numbers; missing ones None or
    NaN.
    """
    values, observed = output.Y[:, column], output.observed[:, column]
    if output.classes is None:
        return np.where(observed, values, np.nan)
    names: Array = np.array(output.classes, object)[values.astype(np.int64)]
    names[~observed] = None
    return names


def _positions(positions: npt.ArrayLike) -> Array:
    values = np.asarray(positions)
    return values if values.size else np.empty(0, np.int64)
