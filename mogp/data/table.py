"""`MultiOutputData`: observations of several outputs over one matrix of inputs, validated once, at
the door.

The data are a long table. Row `n` of output `d` says: target `Y[n]` was observed at row `rows[n]`
of the input matrix `X`. Outputs measured at the same inputs share rows of `X`; outputs with inputs
of their own have rows of their own. A missing target is a missing row, never a NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from mogp.data.batches import Batch, BatchSource

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Output:
    """One output: its name and its observations.

    Attributes:
        name: how the output is called in errors, tables and figures.
        rows: `[N_d]` rows of the input matrix at which the output was observed.
        Y: `[N_d, T_d]` targets; finite everywhere (entries that were not observed hold a harmless
            value).
        observed: `[N_d, T_d]` whether each target was observed; every row has at least one.
        replica: `[N_d]` replica number of each row, or None.
    """

    name: str
    rows: Array
    Y: Array
    observed: Array
    replica: Array | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class MultiOutputData:
    """Inputs `X [N, P]` and the outputs observed on them.

    Build it with `from_arrays` (one column of targets an output), `from_list` (each output its own
    inputs), `from_table` (a wide data frame) or `from_long` (a long data frame with a column that
    names the output).

    >>> data = MultiOutputData.from_arrays(np.zeros((3, 2)), np.array([[1.0, 0.0], [2.0, np.nan],
    [3.0, 1.0]]))
    >>> data.sizes
    (3, 2)
    """

    X: Array
    outputs: tuple[Output, ...]

    @classmethod
    def from_arrays(
        cls,
        X: npt.ArrayLike,
        Y: npt.ArrayLike,
        names: Sequence[str] | None = None,
        mask: npt.ArrayLike | None = None,
        replica: npt.ArrayLike | None = None,
    ) -> MultiOutputData:
        """All outputs at the same inputs.

        Args:
            X: `[N, P]` (or `[N]`) inputs.
            Y: `[N, D]` (or `[N]`) targets, a column an output; NaN where a target is missing.
            names: `D` names; "output 0", "output 1", … by default.
            mask: `[N, D]`, False where a target is missing.
            replica: `[N]` replica of each row. Whole numbers stay what they are, so that parts of
                the data agree on them; other labels are numbered 0, 1, … in their order, all
                outputs together.
        """
        inputs = _matrix(X, "X", "inputs", finite=True)
        targets = _matrix(Y, "Y", "targets", finite=False)
        _same_length(len(inputs), len(targets), "X", "Y")
        asked = np.ones(targets.shape, bool) if mask is None else _mask(mask, targets.shape, "mask")
        observed = _observed(targets, asked, "Y")
        replicas = _replicas(replica, len(inputs), "replica")
        outputs = []
        for d, name in enumerate(_names(names, targets.shape[1])):
            rows = np.flatnonzero(observed[:, d])
            outputs.append(_output(name, rows, targets[rows, d : d + 1], None, replicas))
        return cls._checked(inputs, outputs)

    @classmethod
    def from_list(
        cls,
        pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        names: Sequence[str] | None = None,
        masks: Sequence[npt.ArrayLike | None] | None = None,
        replicas: Sequence[npt.ArrayLike | None] | None = None,
    ) -> MultiOutputData:
        """Each output its own inputs: `pairs[d] = (X_d [N_d, P], Y_d [N_d] or [N_d, T_d])`.

        A target with several columns (annotators of one output, say) keeps them together; a row is
        kept when at least one of its columns was observed. Outputs given the very same inputs share
        them.
        """
        if len(pairs) == 0:
            raise ValueError("from_list needs at least one (X, Y) pair, got an empty list.")
        given = _names(names, len(pairs))
        for what, values in (("masks", masks), ("replicas", replicas)):
            if values is not None and len(values) != len(pairs):
                raise ValueError(
                    f"{len(values)} {what} for {len(pairs)} outputs; give one an output (None for"
                    " none)."
                )
        blocks: list[Array] = []
        starts: dict[bytes, int] = {}
        outputs: list[Output] = []
        rows = 0
        for d, (pair, name) in enumerate(zip(pairs, given, strict=True)):
            if len(pair) != 2:
                raise ValueError(f"pairs[{d}] has {len(pair)} elements; expected (X, Y).")
            x = _matrix(pair[0], f"X of {name!r}", "inputs", finite=True)
            y = _matrix(pair[1], f"Y of {name!r}", "targets", finite=False)
            _same_length(len(x), len(y), f"X of {name!r}", f"Y of {name!r}")
            if blocks and x.shape[1] != blocks[0].shape[1]:
                raise ValueError(
                    f"inputs of {name!r} have {x.shape[1]} columns, those of {given[0]!r} have"
                    f" {blocks[0].shape[1]}; all outputs live on one input space: give every output"
                    " the same input columns."
                )
            mask = None if masks is None else masks[d]
            asked = (
                np.ones(y.shape, bool)
                if mask is None
                else _mask(mask, y.shape, f"mask of {name!r}")
            )
            observed = _observed(y, asked, f"Y of {name!r}")
            replica = _replicas(
                None if replicas is None else replicas[d], len(x), f"replica of {name!r}"
            )
            content = x.tobytes()
            if content not in starts:
                starts[content] = rows
                blocks.append(x)
                rows += len(x)
            start = starts[content]
            kept = np.flatnonzero(observed.any(axis=1))
            output = _output(name, kept, y[kept], observed[kept], replica)
            outputs.append(
                Output(output.name, output.rows + start, output.Y, output.observed, output.replica)
            )
        return cls._checked(np.concatenate(blocks), outputs)

    @classmethod
    def from_table(
        cls,
        frame: pd.DataFrame,
        inputs: str | Sequence[str],
        targets: str | Sequence[str],
        replica: str | None = None,
    ) -> MultiOutputData:
        """A wide table: one row a point, `inputs` columns and one column a target; empty cells are
        missing.
        """
        inputs, targets = _list_of(inputs), _list_of(targets)
        _columns(frame, [*inputs, *targets, *([replica] if replica else [])])
        return cls.from_arrays(
            _numbers(frame, inputs),
            _numbers(frame, targets),
            names=list(targets),
            replica=None if replica is None else frame[replica].to_numpy(),
        )

    @classmethod
    def from_long(
        cls,
        frame: pd.DataFrame,
        inputs: str | Sequence[str],
        output: str = "output",
        target: str = "target",
        replica: str | None = None,
    ) -> MultiOutputData:
        """A long table: one row an observation, with a column that names its output.

        Rows with equal inputs share a row of the input matrix. Outputs come in order of first
        appearance.
        """
        inputs = _list_of(inputs)
        _columns(frame, [*inputs, output, target, *([replica] if replica else [])])
        if len(frame) == 0:
            raise ValueError("the table has no rows.")
        unnamed = int(frame[output].isna().sum())
        if unnamed:
            raise ValueError(
                f"column {output!r} is empty in {unnamed} rows; every observation must name its"
                " output."
            )
        x = _matrix(_numbers(frame, inputs), "the input columns", "inputs", finite=True)
        unique, where = np.unique(x, axis=0, return_inverse=True)
        where = where.reshape(-1)
        y = _numbers(frame, [target])
        _observed(y, np.ones(y.shape, bool), f"column {target!r}")
        replicas = _replicas(
            None if replica is None else frame[replica].to_numpy(),
            len(frame),
            f"column {replica!r}",
        )
        present = np.flatnonzero(~np.isnan(y[:, 0]))
        codes, names = pd.factorize(frame[output])
        order = present[np.argsort(codes[present], kind="stable")]
        ends = np.cumsum(np.bincount(codes[present], minlength=len(names)))
        outputs = []
        for name, kept in zip(names, np.split(order, ends[:-1]), strict=True):
            own = _output(str(name), kept, y[kept], None, replicas)
            outputs.append(Output(own.name, where[kept], own.Y, own.observed, own.replica))
        return cls._checked(unique, outputs)

    @classmethod
    def _checked(cls, X: Array, outputs: Sequence[Output]) -> MultiOutputData:
        names = [o.name for o in outputs]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise ValueError(
                f"output names must differ; given twice: {', '.join(map(repr, twice))}."
            )
        for o in outputs:
            if len(o) == 0:
                raise ValueError(
                    f"output {o.name!r} has no observed targets. Drop the output, or check for"
                    " missing values."
                )
        return cls(X, _numbered(outputs))

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
    def shares_inputs(self) -> bool:
        """Whether outputs share rows of the input matrix, each row at most once an output.

        Mini-batches are then drawn over input rows, so that one pass over the latent GPs serves all
        outputs.
        """
        once = all(len(np.unique(o.rows)) == len(o) for o in self.outputs)
        return once and sum(self.sizes) > len(self.X)

    def __iter__(self) -> Iterator[Output]:
        return iter(self.outputs)

    def __getitem__(self, output: int | str) -> Output:
        return self.outputs[self.index(output)]

    def index(self, output: int | str) -> int:
        """Position of an output given by name or position."""
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

    def inputs(self, output: int | str) -> Array:
        """Inputs `[N_d, P]` of one output, row by row with its targets."""
        return self.X[self[output].rows]

    def take(self, rows: Mapping[str, npt.ArrayLike]) -> MultiOutputData:
        """The observations at positions `rows[name]` of each named output; other outputs whole."""
        picked = {
            self.names[self.index(name)]: _positions(positions) for name, positions in rows.items()
        }
        outputs = []
        for o in self.outputs:
            p = picked.get(o.name, np.arange(len(o)))
            replica = None if o.replica is None else o.replica[p]
            outputs.append(Output(o.name, o.rows[p], o.Y[p], o.observed[p], replica))
        used, where = np.unique(np.concatenate([o.rows for o in outputs]), return_inverse=True)
        bounds = np.cumsum([0, *(len(o) for o in outputs)])
        moved = [
            Output(o.name, where[start:stop], o.Y, o.observed, o.replica)
            for o, start, stop in zip(outputs, bounds[:-1], bounds[1:], strict=True)
        ]
        return self._checked(self.X[used], moved)

    def split(self, test: float = 0.25, seed: int = 0) -> tuple[MultiOutputData, MultiOutputData]:
        """Random train and test parts; a share `test` of the rows of each output is held out.

        Outputs that share inputs are split over input rows, so that a held-out point is held out of
        all of them.
        """
        if not 0 < test < 1:
            raise ValueError(f"test={test} is not a share between 0 and 1.")
        rng = np.random.default_rng(seed)
        held = np.zeros(len(self.X), bool)
        if self.shares_inputs:
            held[rng.permutation(len(self.X))[: round(test * len(self.X))]] = True
            parts = {o.name: held[o.rows] for o in self.outputs}
        else:
            parts = {o.name: rng.permutation(len(o)) < round(test * len(o)) for o in self.outputs}
        for o in self.outputs:
            if parts[o.name].all() or not parts[o.name].any():
                raise ValueError(
                    f"output {o.name!r} has {len(o)} rows: a test share of {test} leaves one side"
                    " empty; use another share."
                )
        train = self.take({n: np.flatnonzero(~h) for n, h in parts.items()})
        return train, self.take({n: np.flatnonzero(h) for n, h in parts.items()})

    def frame(self) -> pd.DataFrame:
        """The data as a long table: input columns, `output`, `target` (and `replica`); the inverse
        of `from_long`.
        """
        parts = []
        for o in self.outputs:
            part = pd.DataFrame(self.X[o.rows], columns=[f"x{i}" for i in range(self.input_dim)])
            part["output"] = o.name
            for t in range(o.Y.shape[1]):
                column = "target" if o.Y.shape[1] == 1 else f"target{t}"
                part[column] = np.where(o.observed[:, t], o.Y[:, t], np.nan)
            if o.replica is not None:
                part["replica"] = o.replica
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def full(self) -> Batch:
        """All the data as one batch."""
        from mogp.data.batches import full_batch

        return full_batch(self)

    def batches(
        self, size: int | Mapping[str, int] | Sequence[int] | None = None, seed: int = 0
    ) -> BatchSource:
        """Mini-batches drawn inside the compiled graph; see `mogp.data.batches.BatchSource`."""
        from mogp.data.batches import BatchSource

        return BatchSource(self, size, seed)

    def __repr__(self) -> str:
        outputs = ", ".join(f"{o.name!r}: {len(o)}" for o in self.outputs[:6]) + (
            ", …" if self.num_outputs > 6 else ""
        )
        size = f"{self.num_outputs} outputs over {len(self.X)} inputs of dimension {self.input_dim}"
        return f"MultiOutputData({size}; {outputs})"


def _output(
    name: str, rows: Array, Y: Array, observed: Array | None, replica: Array | None
) -> Output:
    seen = np.ones(Y.shape, bool) if observed is None else observed
    filled = Y
    if not seen.all():
        first = np.array(
            [
                column[np.argmax(s)] if s.any() else 0.0
                for column, s in zip(Y.T, seen.T, strict=True)
            ]
        )
        filled = np.where(seen, Y, first)
    return Output(name, rows, filled, seen, None if replica is None else replica[rows])


def _matrix(values: npt.ArrayLike, name: str, what: str, *, finite: bool) -> Array:
    try:
        if np.iscomplexobj(values):
            raise TypeError("complex values")
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)  # type: ignore[no-untyped-call]
        matrix = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} holds values that are not numbers ({error}); encode categories as numbers"
            " first (pandas.factorize gives class labels 0, 1, …)."
        ) from error
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(f"{name} has shape {matrix.shape}; expected [N, columns] or [N].")
    if 0 in matrix.shape:
        raise ValueError(
            f"{name} is empty (shape {matrix.shape}); there must be at least one row and one"
            " column."
        )
    if finite and not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(
            f"{name} has {int((~np.isfinite(matrix)).sum())} values that are not finite, first at"
            f" row {row}, column {column} ({matrix[row, column]}); missing {what} cannot be used:"
            " drop or impute those rows."
        )
    return matrix


def _observed(targets: Array, asked: Array, name: str) -> Array:
    """Where targets were asked for and are not NaN; none of those may be infinite."""
    bad = np.isinf(targets) & asked
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} has {int(bad.sum())} infinite targets, first at row {row}, column {column}; "
            "use NaN (or the mask) for missing targets."
        )
    observed: Array = np.isfinite(targets) & asked
    if not observed.any():
        raise ValueError(f"{name} has no observed target: every entry is NaN or masked.")
    return observed


def _positions(positions: npt.ArrayLike) -> Array:
    values = np.asarray(positions)
    return values if values.size else np.empty(0, np.int64)


def _same_length(a: int, b: int, first: str, second: str) -> None:
    if a != b:
        raise ValueError(
            f"{first} has {a} rows and {second} has {b}; they must have the same number."
        )


def _mask(mask: npt.ArrayLike | None, shape: tuple[int, ...], name: str) -> Array:
    values = np.asarray(mask)
    if values.ndim == 1 and shape[1] == 1:
        values = values[:, None]
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; the targets have shape {shape}.")
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans (True where the target was observed).")
    return values.astype(bool)


def _replicas(replica: npt.ArrayLike | None, rows: int, name: str) -> Array | None:
    if replica is None:
        return None
    values = np.asarray(replica)
    if values.shape != (rows,):
        raise ValueError(
            f"{name} has shape {values.shape}; expected one replica number a row, ({rows},)."
        )
    missing = int(pd.isna(values).sum())
    if missing:
        raise ValueError(
            f"{name} is missing in {missing} rows; give every row a replica number, or leave"
            " replica out."
        )
    labels: Array = np.asarray(values.tolist())
    return labels


def _numbered(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """Replica labels as numbers: whole numbers as they are, others by their place among the labels
    of all outputs.
    """
    labels = [o.replica for o in outputs if o.replica is not None]
    if not labels:
        return tuple(outputs)
    every = np.concatenate(labels)
    whole = every.dtype.kind in "biuf" and bool(
        np.all((every >= 0) & (every == np.floor(every.astype(float))))
    )
    known = np.unique(every)

    def numbers(own: Array) -> Array:
        given = own.astype(np.int64) if whole else np.searchsorted(known, own.astype(every.dtype))
        return np.asarray(given, np.int64)

    return tuple(
        o if o.replica is None else replace(o, replica=numbers(o.replica)) for o in outputs
    )


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        return [f"output {d}" for d in range(count)]
    if len(names) != count:
        raise ValueError(f"{len(names)} names for {count} outputs; give one name an output.")
    return [str(name) for name in names]


def _list_of(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _columns(frame: pd.DataFrame, wanted: Sequence[str]) -> None:
    if len(frame.columns) != len(set(frame.columns)):
        raise ValueError(
            f"columns of the table have the same name: {', '.join(map(repr, frame.columns))}."
        )
    missing = [c for c in wanted if c not in frame.columns]
    if missing:
        there = ", ".join(map(repr, frame.columns))
        raise ValueError(
            f"the table has no column {', '.join(map(repr, missing))}; its columns are {there}."
        )


def _numbers(frame: pd.DataFrame, columns: Sequence[str]) -> Array:
    if len(columns) == 0:
        raise ValueError("no columns were named; name at least one.")
    for column in columns:
        if not (
            pd.api.types.is_numeric_dtype(frame[column])
            or pd.api.types.is_bool_dtype(frame[column])
        ):
            raise ValueError(
                f"column {column!r} holds {frame[column].dtype} values, not numbers; encode"
                " categories as numbers first (pandas.factorize gives class labels 0, 1, …)."
            )
    return frame[list(columns)].to_numpy(dtype=np.float64, na_value=np.nan)
