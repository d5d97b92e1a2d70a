"""Matrices as pictures: Hinton diagrams and maps of coregionalisation matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from mogp.plotting.style import COLOURS


def hinton(
    ax: Axes,
    matrix: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    largest: float | None = None,
) -> Axes:
    """Draw each entry of a matrix as a square: area ∝ |entry|, blue if positive, red if negative.

    Args:
        ax: where.
        matrix: [R, C].
        rows: names of the rows, [R].
        columns: names of the columns, [C].
        largest: size of the entry that fills its cell, by default the largest in the matrix; pass
            the same value to compare several matrices.

    >>> import matplotlib.pyplot as plt
    >>> from mogp.plotting import hinton
    >>> _, ax = plt.subplots()
    >>> ax = hinton(ax, [[1.0, -0.5], [0.0, 2.0]], rows=["a", "b"])
    >>> len(ax.patches)
    4
    """
    entries = _matrix(matrix)
    scale = np.abs(entries).max(initial=0.0) if largest is None else largest
    ax.set_facecolor("#F0F0F0")
    for (row, column), entry in np.ndenumerate(entries):
        side = 0.94 * np.sqrt(min(abs(entry) / scale, 1.0)) if scale > 0 else 0.0
        colour = COLOURS["blue"] if entry > 0 else COLOURS["red"]
        ax.add_patch(
            Rectangle(
                (column - side / 2, row - side / 2), side, side, facecolor=colour, linewidth=0
            )
        )
    _cells(ax, entries.shape, rows, columns)
    return ax


def coregionalisation(
    ax: Axes,
    B: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    correlation: bool = False,
    colourbar: bool = True,
) -> Axes:
    r"""Draw a coregionalisation matrix as a heat map whose colours are symmetric about zero.

    Up to twelve outputs the values are written in the cells.

    Args:
        ax: where.
        B: [D, D].
        names: names of the outputs, [D].
        correlation: show $B_{ij} / \sqrt{B_{ii} B_{jj}}$, on the scale from -1 to 1.
        colourbar: whether to draw one.

    >>> import matplotlib.pyplot as plt
    >>> from mogp.plotting import coregionalisation
    >>> _, ax = plt.subplots()
    >>> ax = coregionalisation(ax, [[4.0, -2.0], [-2.0, 4.0]], correlation=True)
    >>> [text.get_text() for text in ax.texts]
    ['1.00', '-0.50', '-0.50', '1.00']
    """
    entries = _matrix(B)
    if entries.shape[0] != entries.shape[1]:
        raise ValueError(
            f"B has shape {entries.shape}, expected a square matrix, a row and a column for each"
            " output."
        )
    if correlation:
        variances = np.diag(entries)
        if (variances <= 0).any():
            raise ValueError(f"B has diagonal {variances}; a correlation needs positive variances.")
        entries = entries / np.sqrt(np.outer(variances, variances))
    bound = 1.0 if correlation else float(np.abs(entries).max(initial=0.0)) or 1.0
    image = ax.imshow(entries, cmap="RdBu", vmin=-bound, vmax=bound)
    if len(entries) <= 12:
        digits = ".2f" if bound < 10 else ".3g"
        for (row, column), entry in np.ndenumerate(entries):
            ink = "white" if abs(entry) > 0.6 * bound else "#1A1A1A"
            ax.text(
                column,
                row,
                f"{entry:{digits}}",
                ha="center",
                va="center",
                color=ink,
                fontsize="small",
            )
    if colourbar:
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03).outline.set_visible(False)
    _cells(ax, entries.shape, names, names)
    return ax


def _matrix(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float)
    if array.ndim != 2:
        raise ValueError(f"the matrix has shape {array.shape}, expected two dimensions.")
    if not np.isfinite(array).all():
        raise ValueError(
            f"the matrix has {(~np.isfinite(array)).sum()} entries that are not finite numbers."
        )
    return array


def _cells(
    ax: Axes, shape: tuple[int, ...], rows: Sequence[str] | None, columns: Sequence[str] | None
) -> None:
    """One square cell for each entry, the first row on top, labels where given."""
    for labels, length, what in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
        if labels is not None and len(labels) != length:
            raise ValueError(f"{len(labels)} labels for {length} {what}; they must agree.")
    ax.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5), aspect="equal")
    ax.set_yticks(range(shape[0]) if rows is not None else [], rows)
    ax.set_xticks(range(shape[1]) if columns is not None else [], columns)
    if max((len(label.strip("$")) for label in columns or ()), default=0) > 4:
        for tick in ax.get_xticklabels():
            tick.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
