"""`Output`: the observations of one output of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Output:
    """One output: its name and its observations. It may have none, `N_d = 0`.

    Args:
        name: how the output is called in errors, tables and figures.
        rows: `[N_d]` rows of the input matrix at which the output was observed.
        Y: `[N_d, T_d]` targets; finite everywhere (entries that were not observed hold a harmless
            value).
        observed: `[N_d, T_d]` whether each target was observed; every row has at least one.
        replica: `[N_d]` replica number of each row, or None.
        classes: names of the classes 0 … C-1 that `Y` holds, or None if targets came as numbers.

    >>> import numpy as np
    >>> one = np.ones((2, 1))
    >>> len(Output("rain", np.arange(2), one, one > 0))
    2
    """

    name: str
    rows: Array
    Y: Array
    observed: Array
    replica: Array | None = None
    classes: tuple[str, ...] | None = None

    @classmethod
    def without_rows(cls, name: str) -> Output:
        """An output of which nothing was observed.

        Args:
            name: of the output.
        """
        return cls(name, np.empty(0, np.int64), np.empty((0, 1)), np.empty((0, 1), bool))

    def __len__(self) -> int:
        return len(self.rows)


def make_output(
    name: str,
    rows: Array,
    Y: Array,
    observed: Array | None,
    replica: Array | None,
    classes: tuple[str, ...] | None = None,
) -> Output:
    """An output from those of its rows that were observed.

    Targets that were not are filled with the first one of their column that was: a value that the
    likelihood can have.

    Args:
        name: of the output.
        rows: `[N_d]` rows of the inputs.
        Y: `[N_d, T_d]` targets at those rows.
        observed: `[N_d, T_d]`; None if all were.
        replica: `[N_d]` labels, or None.
        classes: names of classes.

    >>> import numpy as np
    >>> y = np.array([[1.0, np.nan], [3.0, 4.0]])
    >>> make_output("a", np.arange(2), y, np.isfinite(y), None).Y.tolist()
    [[1.0, 4.0], [3.0, 4.0]]
    """
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
    return Output(name, rows, filled, seen, replica, classes)
