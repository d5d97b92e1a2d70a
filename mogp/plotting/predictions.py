"""`predictions`: what a fitted model says, output by output, beside the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mogp.data import LabelData, MultiOutputData
from mogp.data.inputs import give_back
from mogp.plotting.curves import bands
from mogp.plotting.style import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def predictions(
    model: Any,
    data: MultiOutputData | LabelData,
    outputs: Sequence[str] | None = None,
    points: int = 200,
    samples: int = 500,
) -> Figure:
    """A panel for each output: predictive mean, central 95 % band (noise included) and data.

    With one input column, against that input; with more, predicted against observed targets.
    Classes get a line each, or with several input columns (and for labels) a histogram of the
    probabilities of those that were observed.

    Args:
        model: any fitted model of `mogp`.
        data: what to show.
        outputs: only these.
        points: of the grid over a single input.
        samples: draws behind the band.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.models import ExactLMC
    >>> from mogp.plotting import predictions
    >>> len(predictions(ExactLMC(data), data, points=5, samples=10).axes)
    2
    """
    import matplotlib.pyplot as plt

    names = list(data.names if outputs is None else outputs)
    figure, axes = plt.subplots(
        len(names), 1, figsize=(7.2, 2.4 * len(names) + 0.4), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes[:, 0], names, strict=True):
        if isinstance(data, MultiOutputData) and data.input_dim == 1:
            _against_input(ax, model, data, name, points, samples)
        else:
            _against_observed(ax, model, data, name, samples)
        ax.set_title(name)
    return figure


def _against_input(
    ax: Any, model: Any, data: MultiOutputData, name: str, points: int, samples: int
) -> None:
    x = np.linspace(data.X.min(), data.X.max(), points)
    frame = model.predict(x, output=name, samples=samples)
    shown = _as_given(x, data)
    targets = list(dict.fromkeys(frame["target"]))
    for position, target in enumerate(targets):
        part = frame[frame["target"] == target]
        color = list(COLOURS.values())[position % len(COLOURS)]
        if len(targets) > 1:
            ax.plot(shown, part["mean"], color=color, label=f"p({target})")
        else:
            bands(
                ax,
                shown,
                part["mean"],
                lower=part["q0.025"],
                upper=part["q0.975"],
                color=color,
                label="mean",
                band_label="95 %",
            )
    _draw_data(ax, data, name, len(targets))
    if data.columns[0].date:
        _short_dates(ax)
    ax.set(xlabel=data.input_names[0], ylabel=name)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)


def _short_dates(ax: Any) -> None:
    """Labels of dates that do not run into each other."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _draw_data(ax: Any, data: MultiOutputData, name: str, targets: int) -> None:
    """Targets as points; classes as points below their probabilities, in the colours of these."""
    own = data[name]
    style: dict[str, Any] = {"ls": "", "marker": ".", "markersize": 4}
    if targets > 1:
        at = _as_given(data.inputs(name)[:, 0], data)
        for position in range(targets):
            seen = own.Y[:, 0] == position
            color = list(COLOURS.values())[position % len(COLOURS)]
            ax.plot(at[seen], np.full(int(seen.sum()), -0.06), color=color, **style)
        return
    for column in range(own.Y.shape[1]):
        seen = own.observed[:, column]
        at = _as_given(data.inputs(name)[seen, 0], data)
        label = "data" if column == 0 else None
        ax.plot(at, own.Y[seen, column], color=INK, alpha=0.7, label=label, **style)


def _as_given(x: Any, data: MultiOutputData) -> Any:
    """Values of the one input column as the user gave them: dates as dates."""
    return give_back(x, data.columns[0])


def _against_observed(
    ax: Any, model: Any, data: MultiOutputData | LabelData, name: str, samples: int
) -> None:
    if isinstance(data, MultiOutputData):
        if not len(data[name]):
            return
        data = replace(data, outputs=(data[name],))
    frame = model.predictions(data, samples=samples)
    if frame["target"].nunique() > 1:
        seen = frame.loc[frame["observed"] == 1, "mean"]
        ax.hist(seen, bins=20, range=(0, 1), color=COLOURS["blue"])
        ax.set(xlabel="predicted probability of what was observed", ylabel="rows")
        return
    error = np.stack([frame["mean"] - frame["q0.025"], frame["q0.975"] - frame["mean"]])
    ax.errorbar(
        frame["observed"],
        frame["mean"],
        yerr=np.maximum(error, 0),
        fmt=".",
        color=COLOURS["blue"],
        ecolor=COLOURS["sky"],
        elinewidth=0.6,
        label="mean, 95 %",
    )
    ends = [frame["observed"].min(), frame["observed"].max()]
    ax.plot(ends, ends, color=COLOURS["grey"], lw=1, label="equal")
    ax.set(xlabel="observed", ylabel="predicted")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
