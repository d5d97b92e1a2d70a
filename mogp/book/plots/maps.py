"""Quantities on the cells of a grid as heat maps that can be compared: one colour scale, its unit,
a colour bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize, PowerNorm
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike, NDArray

NO_DATA = "#D9D9D9"
Scale = Literal["linear", "sqrt", "log"]


def cell_map(
    ax: Axes,
    values: ArrayLike,
    *,
    limits: tuple[float, float] | None = None,
    scale: Scale = "linear",
    cmap: str = "viridis",
    unit: str | None = None,
    outline: ArrayLike | None = None,
) -> AxesImage:
    """Draw a quantity on the cells of a grid, [rows, columns], the first row on top; grey where it
    is NaN.

    Args:
        ax: where.
        values: one value a cell.
        limits: of the colour scale; by default those of the values. Give the same to maps that are
            to be compared.
        scale: "linear", "sqrt" (counts of which few are large) or "log" (cells at or below the
            lower limit are drawn as that limit).
        cmap: a perceptually uniform colour map ("viridis" and "cividis" read in grey and by the
            colour-blind).
        unit: label of a colour bar beside this map; None for no bar.
        outline: cells [rows, columns] to frame, as a mask.

    Returns:
        The image, for a colour bar that several maps share.
    """
    cells = _grid(values)
    norm = _norm(scale, *(_range([cells]) if limits is None else limits))
    shown = np.clip(cells, norm.vmin, None) if scale == "log" else cells
    image = ax.imshow(shown, cmap=cmap, norm=norm, interpolation="nearest")
    ax.set_facecolor(NO_DATA)
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    if outline is not None:
        _frame(ax, np.asarray(outline, bool), cells.shape)
    if unit is not None:
        _label(ax.figure.colorbar(image, cax=ax.inset_axes((1.05, 0.0, 0.07, 1.0))), unit)
    return image


def cell_maps(
    axes: Sequence[Axes] | NDArray[np.object_],
    maps: Mapping[str, ArrayLike],
    unit: str,
    *,
    limits: tuple[float, float] | None = None,
    scale: Scale = "linear",
    cmap: str = "viridis",
    outline: ArrayLike | None = None,
) -> list[AxesImage]:
    """Draw several quantities of one unit on a grid, `title -> [rows, columns]`, with one colour
    scale and one bar.

    The scale runs over `limits`, by default from the smallest to the largest value of all maps.
    Other options are those of `cell_map`; returns the images.
    """
    places = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(places) != len(maps):
        raise ValueError(f"{len(places)} axes for {len(maps)} maps; give one for each.")
    shared = _range([_grid(values) for values in maps.values()]) if limits is None else limits
    images = []
    for ax, (title, values) in zip(places, maps.items(), strict=True):
        images.append(cell_map(ax, values, limits=shared, scale=scale, cmap=cmap, outline=outline))
        ax.set_title(title)
    _label(places[-1].figure.colorbar(images[-1], ax=places, shrink=0.9, pad=0.02), unit)
    return images


def _grid(values: ArrayLike) -> NDArray[np.float64]:
    cells = np.where(np.isfinite(values), np.asarray(values, dtype=float), np.nan)
    if cells.ndim != 2 or 0 in cells.shape:
        raise ValueError(f"the map has shape {cells.shape}; expected [rows, columns] of the grid.")
    return cells


def _range(maps: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    every = np.concatenate([cells[np.isfinite(cells)] for cells in maps])
    if not every.size:
        raise ValueError("no cell has a finite value; there is nothing to draw.")
    return float(every.min()), float(every.max())


def _norm(scale: Scale, low: float, high: float) -> Normalize:
    if not low <= high:
        raise ValueError(f"limits=({low}, {high}); the lower one comes first.")
    high = high if high > low else low + 1.0
    if scale == "linear":
        return Normalize(low, high)
    if scale == "sqrt":
        return PowerNorm(0.5, low, high)
    if scale == "log":
        if low <= 0:
            raise ValueError(
                f"limits=({low}, {high}); a logarithmic scale begins above zero: give limits."
            )
        return LogNorm(low, high)
    raise ValueError(f'scale={scale!r}; expected "linear", "sqrt" or "log".')


def _frame(ax: Axes, inside: NDArray[np.bool_], shape: tuple[int, ...]) -> None:
    """Lines between cells that are inside and cells that are not."""
    if inside.shape != shape:
        raise ValueError(f"outline has shape {inside.shape}, the map {shape}; they must agree.")
    padded = np.pad(inside, 1)
    above, beside = padded[1:] != padded[:-1], padded[:, 1:] != padded[:, :-1]
    segments = [((c - 1.5, r - 0.5), (c - 0.5, r - 0.5)) for r, c in np.argwhere(above)]
    segments += [((c - 0.5, r - 1.5), (c - 0.5, r - 0.5)) for r, c in np.argwhere(beside)]
    ax.add_collection(LineCollection(segments, colors="white", linewidths=1.4), autolim=False)


def _label(bar: Colorbar, unit: str) -> None:
    bar.outline.set_visible(False)
    bar.set_label(unit)
