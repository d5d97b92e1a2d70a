"""Calibration: the share of targets that central intervals hold, against the share they promise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from mogp.plotting.style import COLOURS


def calibration(
    ax: Axes,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    colours: Mapping[str, str] | None = None,
    legend: bool = True,
) -> Axes:
    """Draw coverage against nominal level, a line for each name.

    Below the diagonal bands are too narrow, above it too wide.

    Args:
        ax: where.
        curves: for each name the levels and the coverage at each, [K], as
            `mogp.metrics.calibration_curve` gives them.
        colours: colours of the lines, by name; the palette's, in order, for names without one.
        legend: whether to name the lines.

    >>> import matplotlib.pyplot as plt
    >>> from mogp.plotting import calibration
    >>> _, ax = plt.subplots()
    >>> ax = calibration(ax, {"LMC": ([0.5, 0.9], [0.4, 0.8])})
    >>> [line.get_label() for line in ax.lines]
    ['calibrated', 'LMC']
    """
    if not curves:
        raise ValueError("calibration() was given no curves; give levels and coverages by name.")
    ax.plot([0, 1], [0, 1], color=COLOURS["grey"], lw=1, ls="--", label="calibrated")
    for number, (name, (levels, covered)) in enumerate(curves.items()):
        nominal, found = (np.asarray(a, float).reshape(-1) for a in (levels, covered))
        if nominal.shape != found.shape:
            raise ValueError(
                f"{name!r} has {len(nominal)} levels and {len(found)} coverages; they must agree."
            )
        colour = (colours or {}).get(name, list(COLOURS.values())[number % len(COLOURS)])
        ax.plot(nominal, found, ".-", ms=5, color=colour, label=name)
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="nominal level",
        ylabel="share of targets inside",
        aspect="equal",
    )
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    return ax
