"""Curves against an input or a step: predictive bands, draws of a process, traces of objectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def bands(
    ax: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    sd: ArrayLike | None = None,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    width: float = 2.0,
    color: str | None = None,
    alpha: float = 0.22,
    label: str | None = None,
    band_label: str | None = None,
    **line: Any,
) -> Axes:
    """Draw a mean curve and the band around it: `mean ± width · sd`, or from `lower` to `upper`.

    Give either `sd` or both `lower` and `upper`.

    Args:
        ax: where.
        x: [N] or [N, 1] inputs, in any order.
        mean, sd, lower, upper: [N] or [N, 1].
        width: half the width of the band, in standard deviations.
        color: colour of both; the next of the palette if None.
        alpha: opacity of the band.
        label: name of the mean in the legend.
        band_label: name of the band in the legend.
        line: further keywords style the line of the mean.

    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from mogp.plotting import bands
    >>> x = np.linspace(0, 1, 50)
    >>> _, ax = plt.subplots()
    >>> ax = bands(ax, x, np.sin(x), sd=0.1 + x, label="mean")
    >>> len(ax.lines), len(ax.collections)
    (1, 1)
    """
    if (sd is None) == (lower is None and upper is None) or (lower is None) != (upper is None):
        raise ValueError("bands() takes either `sd`, or both `lower` and `upper`.")
    x_, mean_ = _column(x, "x"), _column(mean, "mean")
    if sd is not None:
        sd_ = _column(sd, "sd", len(x_))
        if (sd_ < 0).any():
            raise ValueError(
                f"sd has {(sd_ < 0).sum()} negative values; give standard deviations, not log or"
                " variance."
            )
        low, high = mean_ - width * sd_, mean_ + width * sd_
    else:
        low, high = _column(lower, "lower", len(x_)), _column(upper, "upper", len(x_))
    if len(mean_) != len(x_):
        raise ValueError(f"mean has {len(mean_)} values, x has {len(x_)}; they must agree.")
    order = np.argsort(x_, kind="stable")
    (curve,) = ax.plot(x_[order], mean_[order], color=color, label=label, **line)
    ax.fill_between(
        x_[order],
        low[order],
        high[order],
        color=curve.get_color(),
        alpha=alpha,
        linewidth=0,
        label=band_label,
    )
    return ax


def draws(
    ax: Axes,
    x: ArrayLike,
    samples: ArrayLike,
    *,
    color: str | None = None,
    alpha: float | None = None,
    linewidth: float = 1.2,
    label: str | None = None,
    **line: Any,
) -> Axes:
    """Draw S functions sampled at N inputs.

    Without a `color` each draw takes the next colour of the palette; with one they share it and,
    from four on, fade so that the crowd stays readable.

    Args:
        ax: where.
        x: [N] or [N, 1] inputs, in any order.
        samples: [S, N], or [N] for one.
        color: see above.
        alpha: opacity; chosen by the number of draws if None.
        linewidth: width of the lines.
        label: names all draws once in the legend.
        line: further keywords style the lines.

    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from mogp.plotting import draws
    >>> _, ax = plt.subplots()
    >>> ax = draws(ax, np.linspace(0, 1, 50), np.zeros((8, 50)), color="C0")
    >>> len(ax.lines)
    8
    """
    x_ = _column(x, "x")
    functions = np.atleast_2d(np.asarray(samples, dtype=float))
    if functions.ndim != 2 or functions.shape[1] != len(x_):
        raise ValueError(
            f"samples have shape {functions.shape}, expected [S, {len(x_)}]: one row a draw, as"
            " long as x."
        )
    if alpha is None:
        alpha = 0.9 if color is None else float(np.clip(3.0 / max(len(functions), 1), 0.2, 0.9))
    order = np.argsort(x_, kind="stable")
    for number, function in enumerate(functions):
        name = label if number == 0 else None
        ax.plot(
            x_[order],
            function[order],
            color=color,
            alpha=alpha,
            linewidth=linewidth,
            label=name,
            **line,
        )
    return ax


def trace(
    ax: Axes,
    runs: pd.DataFrame | Mapping[str, pd.DataFrame],
    *,
    x: str = "step",
    y: str = "elbo",
    smooth: int = 1,
    **line: Any,
) -> Axes:
    """Draw the objective against the step, for one run or for several by name.

    With `smooth > 1` the raw, noisy values stay as a pale line behind the centred running mean over
    that many rows: a mini-batch objective is noise around the curve one wants to see.

    Args:
        ax: where.
        runs: one history frame, or frames by name (a legend then tells them apart).
        x, y: columns of the frames.
        smooth: rows of the running mean.
        line: further keywords style the lines.

    >>> import matplotlib.pyplot as plt
    >>> import pandas as pd
    >>> from mogp.plotting import trace
    >>> run = pd.DataFrame({"step": [0, 10, 20], "elbo": [-9.0, -5.0, -4.0]})
    >>> _, ax = plt.subplots()
    >>> ax = trace(ax, {"Adam": run})
    >>> ax.lines[0].get_ydata().tolist()
    [-9.0, -5.0, -4.0]
    """
    if smooth < 1:
        raise ValueError(
            f"smooth is {smooth}; it counts rows of the running mean and must be at least 1."
        )
    named = {"": runs} if isinstance(runs, pd.DataFrame) else dict(runs)
    for name, frame in named.items():
        missing = [column for column in (x, y) if column not in frame.columns]
        if missing:
            raise ValueError(
                f"history {name!r} has no column {missing}; it has {list(frame.columns)}."
            )
        values = frame[y].rolling(smooth, min_periods=1, center=True).mean()
        (curve,) = ax.plot(frame[x], values, label=name or None, **line)
        if smooth > 1:
            ax.plot(
                frame[x],
                frame[y],
                color=curve.get_color(),
                alpha=0.25,
                linewidth=0.7,
                zorder=curve.zorder - 1,
            )
    ax.set(xlabel=x, ylabel=y.upper() if y == "elbo" else y)
    if any(named):
        ax.legend()
    return ax


def _column(values: ArrayLike | None, name: str, length: int | None = None) -> Floats:
    """Flatten [N] or [N, 1] to [N], dates left as they are; anything else is not one curve."""
    array: NDArray[Any] = np.asarray(values)
    array = array if array.dtype.kind == "M" else array.astype(float)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{name} has shape {array.shape}, expected [N] or [N, 1]: draw one output at a time."
        )
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} values, x has {length}; they must agree.")
    return array
