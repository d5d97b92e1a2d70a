"""Gaps in the outputs of a time series: which targets an experiment holds out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Gaps = Mapping[str, tuple[int, int]]
"""First and one past the last row that are held out, by output."""


def pattern_of(missing: str | Gaps | None, patterns: Mapping[str, Gaps]) -> Gaps:
    """The gaps of the experiment called `missing`, or those given."""
    if missing is None:
        return {}
    if not isinstance(missing, str):
        return missing
    if missing not in patterns:
        known = ", ".join(map(repr, patterns))
        raise ValueError(
            f"missing={missing!r}; choose one of {known}, None, or give gaps as {{output: (start,"
            " stop)}."
        )
    return patterns[missing]


def held_out(gaps: Gaps, outputs: Sequence[str], rows: int) -> NDArray[np.bool_] | None:
    """`[N, D]` targets inside a gap; None without gaps."""
    if not gaps:
        return None
    held = np.zeros((rows, len(outputs)), bool)
    for output, (start, stop) in gaps.items():
        if output not in outputs:
            raise ValueError(
                f"a gap in {output!r}, which is not among the chosen {', '.join(outputs)}."
            )
        if not 0 <= start < stop <= rows:
            raise ValueError(
                f"the gap of {output!r} is {start}:{stop}; expected 0 <= start < stop <= {rows}."
            )
        held[start:stop, list(outputs).index(output)] = True
    return held
