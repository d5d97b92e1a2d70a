"""Outputs with replicas: panels of predictions, bars of scores by model, and maps of latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from mogp.plotting.curves import bands
from mogp.plotting.style import COLOURS, INK

if TYPE_CHECKING:
    from mogp.data import MultiOutputData

Floats = NDArray[np.float64]

MODEL_COLOURS: Final[Mapping[str, str]] = {
    "HMOGP-LV": COLOURS["blue"],
    "LVMOGP": COLOURS["sky"],
    "LMC": COLOURS["green"],
    "DHGP": COLOURS["orange"],
    "HGP": COLOURS["red"],
    "HGPInd": COLOURS["purple"],
    "HGPInd, as published": COLOURS["brown"],
    "NN": COLOURS["grey"],
}
"""The colour of a model in all figures of the book; models that are not named here are grey."""

_HELD_OUT = "#FFF6E5"
_SCORES: Final = {"nmse": "NMSE", "nlpd": "NLPD"}


def replica_panels(
    axes: ArrayLike,
    x: ArrayLike,
    mean: ArrayLike,
    sd: ArrayLike,
    train: MultiOutputData,
    test: MultiOutputData,
    outputs: Sequence[int],
    names: Sequence[str] | None = None,
    *,
    xlabel: str = "input",
    ylabel: str = "",
    legend: bool = True,
) -> NDArray[Any]:
    """Draw a row of panels for each output and a column for each replica, all on the same scales.

    Each panel has the predictive mean, the band mean ± 2 sd, training points in black and test
    points in red. Where an output has no training point in a replica, the panel is tinted and
    headed "(held out)". The limits hold all points and means and all but the widest bands.

    Args:
        axes: `[len(outputs), R]`.
        x: `[G]` grid of inputs.
        mean: `[D, R, G]` predictive means.
        sd: `[D, R, G]` predictive deviations of targets; NaN where a model has none.
        train: what the model was fitted to, the `D` outputs in the order of `mean`.
        test: what it was not; outputs are found by name, some may be absent.
        outputs: which outputs to show, numbered from 0, one in each row.
        names: headings of these rows; the outputs' names if None.
        xlabel: below all panels.
        ylabel: left of all panels.
        legend: whether to explain the signs below the panels.

    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from mogp.data import MultiOutputData
    >>> from mogp.plotting import replica_panels
    >>> x = np.linspace(0, 1, 5)
    >>> data = MultiOutputData.from_list([(x, x**2)], names=["gene"])
    >>> axes = plt.subplots(1, 1, squeeze=False)[1]
    >>> mean, sd = (x**2).reshape(1, 1, 5), np.full((1, 1, 5), 0.1)
    >>> panels = replica_panels(axes, x, mean, sd, data, data, outputs=[0], legend=False)
    >>> panels[0, 0].get_title(), panels[0, 0].get_ylabel()
    ('replica 1', 'gene')
    """
    grid, mu, dev = np.asarray(x, float).reshape(-1), np.asarray(mean, float), np.asarray(sd, float)
    panels = np.asarray(axes, dtype=object)
    if mu.ndim != 3 or mu.shape[2] != len(grid) or dev.shape != mu.shape:
        raise ValueError(
            f"mean {mu.shape} and sd {dev.shape} must both be [D, R, {len(grid)}], as x has"
            f" {len(grid)}."
        )
    if panels.shape != (len(outputs), mu.shape[1]):
        raise ValueError(
            f"axes have shape {panels.shape}; {len(outputs)} outputs in {mu.shape[1]} replicas need"
            f" ({len(outputs)}, {mu.shape[1]}): use plt.subplots({len(outputs)}, {mu.shape[1]},"
            " squeeze=False)."
        )
    headings = [train.names[d] for d in outputs] if names is None else list(names)
    if len(headings) != len(outputs):
        raise ValueError(f"{len(headings)} names for {len(outputs)} rows of panels.")
    crowded = len(outputs) > 6 or mu.shape[1] > 6
    seen = []
    for row, d in enumerate(outputs):
        for r in range(mu.shape[1]):
            ax, known, asked = (
                panels[row, r],
                _points(train, train.names[d], r),
                _points(test, train.names[d], r),
            )
            band = None if np.isnan(dev[d, r]).all() else dev[d, r]
            _curve(ax, grid, mu[d, r], band, 1.2 if crowded else 1.8)
            for points, colour in ((known, INK), (asked, COLOURS["red"])):
                many = len(points) > 40
                ax.plot(
                    *points.T,
                    ".",
                    color=colour,
                    ms=2.0 if many else (4.0 if crowded else 6.5),
                    zorder=3,
                )
            heading = [f"replica {r + 1}"] if row == 0 else []
            if not len(known):
                heading.append("(held out)")
                ax.set_facecolor(_HELD_OUT)
            ax.set_title("\n".join(heading), fontsize=9.5 if crowded else 11.5, pad=3)
            seen += [known[:, 1], asked[:, 1], mu[d, r]]
        panels[row, 0].set_ylabel(headings[row], fontsize=9.5 if crowded else 11.5)
    chosen = list(outputs)
    widest = np.nan_to_num(dev[chosen], nan=0.0)
    # A few very wide bands must not flatten all curves: quantiles, not extremes.
    low = min(np.min(np.concatenate(seen)), np.quantile(mu[chosen] - 2 * widest, 0.02))
    high = max(np.max(np.concatenate(seen)), np.quantile(mu[chosen] + 2 * widest, 0.98))
    for (row, r), ax in np.ndenumerate(panels):
        ax.set(
            xlim=(grid[0], grid[-1]), ylim=(low - 0.04 * (high - low), high + 0.04 * (high - low))
        )
        ax.xaxis.set_major_locator(MaxNLocator(2 if crowded else 4, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_locator(MaxNLocator(2 if crowded else 4, steps=[1, 2, 5, 10]))
        ax.tick_params(
            labelbottom=row == len(panels) - 1, labelleft=r == 0, labelsize=9 if crowded else 10.5
        )
    figure = panels.flat[0].figure
    if crowded and figure.get_layout_engine() is not None:
        figure.get_layout_engine().set(h_pad=0.02, w_pad=0.03, hspace=0.0, wspace=0.0)
    if ylabel:
        figure.supylabel(ylabel, fontsize=11.5)
    if legend:
        _explain(figure, panels.flat[0], xlabel, banded=not np.isnan(dev[chosen]).all())
    else:
        figure.supxlabel(xlabel, fontsize=11.5)
    return panels


def score_bars(
    axes: ArrayLike, table: pd.DataFrame, order: Sequence[str], reference: str | None = None
) -> NDArray[Any]:
    """Draw bars of the NMSE on the left and of the NLPD on the right, for each model.

    A bar is the mean over repetitions, with the sd as a line; the numbers are written beside it.
    Scores that span more than a decade are on a logarithmic scale (if some are negative, on one
    that is linear about zero). A model without an NLPD has an empty place on the right.

    Args:
        axes: two, side by side; or one, for the NMSE alone.
        table: columns `model`, `nmse` and `nlpd`, a row for each repetition.
        order: models from top to bottom; those that the table lacks are left out.
        reference: a model whose means are drawn as a line through all bars.

    >>> import matplotlib.pyplot as plt
    >>> import pandas as pd
    >>> from mogp.plotting import score_bars
    >>> table = pd.DataFrame({"model": ["LMC", "HGP"], "nmse": [0.2, 0.3], "nlpd": [1.0, 2.0]})
    >>> left, right = score_bars(plt.subplots(1, 2)[1], table, order=["HGP", "LMC"])
    >>> [round(bar.get_width(), 1) for bar in left.patches]
    [0.3, 0.2]
    """
    panels: NDArray[Any] = np.atleast_1d(np.asarray(axes, dtype=object)).reshape(-1)
    if len(panels) > 2:
        raise ValueError(f"{len(panels)} axes; NMSE and NLPD take two.")
    shown = [model for model in order if (table["model"] == model).any()]
    if not shown:
        raise ValueError(
            f"the table has none of {', '.join(order)}; it has"
            f" {', '.join(table['model'].unique())}."
        )
    for ax, score in zip(panels, _SCORES, strict=False):
        by_model = table.groupby("model")[score]
        means, sds = by_model.mean().reindex(shown), by_model.std(ddof=0).reindex(shown)
        left = _scale(ax, means, sds)
        for place, model in enumerate(shown):
            colour = MODEL_COLOURS.get(model, COLOURS["grey"])
            m, s = float(means[model]), float(sds[model])
            if np.isnan(m):
                _beside(ax, place, "–")
                continue
            ax.barh(place, m - left, left=left, height=0.66, color=colour, zorder=2)
            ax.plot(
                [max(m - s, left) if left else m - s, m + s],
                [place] * 2,
                color=INK,
                lw=1.6,
                zorder=3,
            )
            _beside(
                ax,
                place,
                f"{_number(m)} ± {_number(s)}" if by_model.count()[model] > 1 else _number(m),
            )
        if reference is not None and np.isfinite(means.get(reference, np.nan)):
            ax.axvline(means[reference], color=INK, lw=1.0, ls=":", zorder=4)
        ax.set(xlabel=_SCORES[score], ylim=(len(shown) - 0.5, -0.5))
        ax.set_yticks(range(len(shown)), shown if ax is panels[0] else [""] * len(shown))
        ax.grid(False, axis="y")
    return panels


def latent_map(
    ax: Axes,
    mean: ArrayLike,
    var: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    values: ArrayLike | None = None,
    label: str = "",
) -> Axes:
    """Draw outputs as points in their latent space, each with an ellipse of one standard deviation.

    With more than two latent dimensions, the two in which the means spread most are shown; a single
    one is drawn along the horizontal axis.

    Args:
        ax: where.
        mean: `[D, Q]` means of the latent variables.
        var: `[D, Q]` their variances.
        names: `[D]` written beside the points ("" for none).
        values: `[D]` numbers shown as colours.
        label: what the colours mean.

    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from mogp.plotting import latent_map
    >>> mean = np.array([[0.0, 0.0, 1.0], [5.0, 0.1, -3.0]])
    >>> _, ax = plt.subplots()
    >>> ax = latent_map(ax, mean, np.ones((2, 3)), names=["a", "b"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('latent dimension 1', 'latent dimension 3')
    """
    mu, s = np.atleast_2d(np.asarray(mean, float)), np.atleast_2d(np.asarray(var, float))
    if mu.shape != s.shape:
        raise ValueError(f"mean {mu.shape} and var {s.shape} must both be [D, Q].")
    if names is not None and len(names) != len(mu):
        raise ValueError(f"{len(names)} names for {len(mu)} outputs.")
    widest = np.sort(np.argsort(-mu.var(axis=0), kind="stable")[:2])
    flat = len(widest) == 1
    places = np.column_stack([mu[:, widest], np.zeros(len(mu))])[:, :2]
    sizes = np.column_stack([np.sqrt(s[:, widest]), np.zeros(len(mu))])[:, :2]
    for place, size in zip(places, sizes, strict=True):
        ax.add_patch(
            Ellipse(
                place,
                *(2 * size),
                facecolor=COLOURS["grey"],
                alpha=0.16,
                edgecolor="none",
                zorder=1,
            )
        )
    colour: Any = COLOURS["blue"] if values is None else np.asarray(values, float)
    x, y = places.T
    drawn = ax.scatter(
        x, y, c=colour, cmap=None if values is None else "viridis", s=34, zorder=3, linewidths=0
    )
    if values is not None:
        ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.85)
    for place, name in zip(places, names or (), strict=False):
        ax.annotate(name, place, xytext=(5, 5), textcoords="offset points", fontsize=10, zorder=4)
    reach = np.array([(places - sizes).min(0), (places + sizes).max(0)])
    margin = 0.06 * np.maximum(reach[1] - reach[0], 1e-3)
    ax.set(
        xlim=(reach[0, 0] - margin[0], reach[1, 0] + margin[0]),
        xlabel=f"latent dimension {widest[0] + 1}",
    )
    if flat:
        ax.set(ylim=(-1, 1))
        ax.yaxis.set_major_locator(NullLocator())
    else:
        ax.set(
            ylim=(reach[0, 1] - margin[1], reach[1, 1] + margin[1]),
            ylabel=f"latent dimension {widest[1] + 1}",
        )
    return ax


def _points(data: MultiOutputData, name: str, replica: int) -> Floats:
    """Inputs and targets `[n, 2]` of one output in one replica; none if it is not in the data."""
    if name not in data.names:
        return np.empty((0, 2))
    own = data[name]
    here = np.ones(len(own), bool) if own.replica is None else own.replica == replica
    return np.column_stack([data.inputs(name)[here, 0], own.Y[here, 0]])


def _curve(ax: Axes, x: Floats, mean: Floats, sd: Floats | None, width: float) -> None:
    if sd is None:
        ax.plot(x, mean, color=COLOURS["blue"], lw=width)
    else:
        bands(ax, x, mean, sd, color=COLOURS["blue"], lw=width)


def _explain(figure: Any, ax: Axes, xlabel: str, *, banded: bool) -> None:
    """The legend, headed by the label of the inputs.

    Constrained layout would put a legend and a label on top of each other.
    """
    signs: dict[str, Any] = {"mean": ax.plot([], [], color=COLOURS["blue"])[0]}
    if banded:
        signs["± 2 sd of a target"] = ax.fill_between(
            [], [], [], color=COLOURS["blue"], alpha=0.22, linewidth=0
        )
    signs["training"] = ax.plot([], [], ".", color=INK, ms=8)[0]
    signs["test"] = ax.plot([], [], ".", color=COLOURS["red"], ms=8)[0]
    figure.legend(
        signs.values(),
        signs.keys(),
        title=xlabel,
        title_fontsize=11.5,
        loc="outside lower center",
        ncols=4,
        columnspacing=1.4,
        borderpad=0.0,
    )


def _scale(ax: Axes, means: pd.Series[float], sds: pd.Series[float]) -> float:
    """Choose the scale of the scores; returns where the bars begin."""
    finite = means.dropna().to_numpy()
    sizes = np.abs(finite[finite != 0])
    wide = len(sizes) > 1 and sizes.max() > 10 * sizes.min()
    if not wide or not np.isfinite(finite).all():
        return 0.0
    if (finite > 0).all():
        left = float(finite.min() / 2)
        ax.set_xscale("log")
        ax.set_xlim(left, float((means + sds).max() * 1.3))
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        return left
    if sizes.max() > 10:
        ax.set_xscale("symlog", linthresh=1.0)
    return 0.0


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}"


def _beside(ax: Axes, place: int, text: str) -> None:
    ax.text(1.02, place, text, transform=ax.get_yaxis_transform(), va="center", fontsize=10)
