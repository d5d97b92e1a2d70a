"""A picture of a data set at a glance, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mogp.plotting.style import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mogp.datasets import Dataset

_POINTS = 2000
_PANELS = 6


def picture(dataset: Dataset) -> Figure:
    """One figure of the data: images, labels, curves over one input, a map of two, classes, or
    histograms.

    Large sets are thinned to a few thousand points. A stand-in says so in the title.
    """
    if dataset.image_shape is not None:
        figure = _images(dataset)
    elif hasattr(dataset.Y, "indptr"):
        figure = _labels(dataset)
    elif dataset.X.shape[1] == 1:
        figure = _curves(dataset)
    elif dataset.X.shape[1] == 2 and dataset.output is None:
        figure = _maps(dataset)
    elif dataset.classes:
        figure = _classes(dataset)
    else:
        figure = _histograms(dataset)
    title = f"{dataset.name} (synthetic stand-in)" if dataset.source == "stand-in" else dataset.name
    figure.suptitle(title, color=COLOURS["red"] if dataset.source == "stand-in" else INK)
    return figure


def _panels(count: int, height: float = 2.0, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most three a row."""
    import matplotlib.pyplot as plt

    columns = min(count, 3)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(9.0, 0.5 + height * rows), squeeze=False, **options
    )
    for ax in axes.flat[count:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:count])


def _images(dataset: Dataset) -> Figure:
    figure, (ax,) = _panels(1, 3.6)
    assert dataset.image_shape is not None
    rows, columns, (height, width) = 4, 12, dataset.image_shape
    chosen = np.linspace(0, len(dataset) - 1, rows * columns).astype(int)
    X = np.asarray(dataset.X[chosen], float).reshape(rows, columns, height, width)
    framed = np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    ax.imshow(
        framed.transpose(0, 2, 1, 3).reshape(rows * (height + 2), -1),
        cmap="gray",
        interpolation="nearest",
    )
    ax.set_axis_off()
    return figure


def _labels(dataset: Dataset) -> Figure:
    figure, (left, right) = _panels(2, 3.0)
    Y: Any = dataset.Y
    frequency = np.sort(np.bincount(Y.indices, minlength=Y.shape[1]))[::-1]
    left.loglog(np.arange(1, len(frequency) + 1), np.maximum(frequency, 0.5), color=COLOURS["blue"])
    left.set(xlabel="label, by frequency", ylabel="points with the label")
    cardinality = np.diff(Y.indptr)
    counts = np.bincount(cardinality)
    right.bar(np.arange(len(counts)), counts, width=1.0, color=COLOURS["orange"], linewidth=0)
    right.set(xlabel=f"labels of a point (mean {cardinality.mean():.2f})", ylabel="points")
    return figure


def _curves(dataset: Dataset) -> Figure:
    every = np.arange(len(dataset))
    first = sorted(
        range(len(dataset.outputs)), key=lambda d: not _held_out(dataset, d, every).any()
    )
    shown = sorted(first[:_PANELS])
    figure, axes = _panels(len(shown), 2.0 if len(shown) > 3 else 2.8, sharex=True)
    for d, ax in zip(shown, axes, strict=True):
        x, y, rows = _observed(dataset, d)
        replica = np.zeros(len(rows), int) if dataset.replica is None else dataset.replica[rows]
        for r in np.unique(replica)[:8]:
            chosen = np.flatnonzero(replica == r)[:: max(1, len(rows) // _POINTS)]
            chosen = chosen[np.argsort(x[chosen, 0], kind="stable")]
            joined = len(chosen) <= 60 if dataset.replica is not None else _is_series(x[chosen, 0])
            ax.plot(
                x[chosen, 0],
                y[chosen],
                ".-" if joined else ".",
                ms=3 if len(x) > 100 else 6,
                lw=0.8,
            )
        held = _held_out(dataset, d, rows)
        if held.any() and dataset.replica is None:
            ax.plot(
                x[held, 0],
                y[held],
                ".",
                ms=3 if len(x) > 100 else 6,
                color=COLOURS["orange"],
                label="held out",
            )
            ax.legend(fontsize=9, handletextpad=0.2)
        ax.set_title(_short(dataset.outputs[d]), fontsize=11)
    for ax in axes[-3:]:
        ax.set_xlabel(dataset.inputs[0])
    return figure


def _is_series(x: NDArray[Any]) -> bool:
    """Whether sorted places are few and, but for gaps, equally spaced, so that a line between them
    means something.
    """
    steps = np.diff(x)
    return 10 < len(x) <= 600 and bool(
        np.median(steps) > 0 and np.mean(np.isclose(steps, np.median(steps))) > 0.7
    )


def _held_out(dataset: Dataset, d: int, rows: NDArray[Any]) -> NDArray[np.bool_]:
    if dataset.held_out is None:
        return np.zeros(len(rows), bool)
    held = (
        dataset.held_out
        if dataset.held_out.ndim == 1
        else dataset.held_out[:, 0 if dataset.output is not None else d]
    )
    return np.asarray(held[rows])


def _maps(dataset: Dataset) -> Figure:
    figure, axes = _panels(min(len(dataset.outputs), 3), 3.4)
    for d, ax in enumerate(axes):
        x, y, _ = _observed(dataset, d)
        every = slice(None, None, max(1, len(y) // (4 * _POINTS)))
        if dataset.outputs[d] in dataset.classes:
            _coloured_classes(ax, x[every], y[every], dataset.classes[dataset.outputs[d]])
        else:
            shown = ax.scatter(
                x[every, 0],
                x[every, 1],
                c=y[every],
                s=4,
                cmap="viridis",
                linewidths=0,
                rasterized=True,
            )
            figure.colorbar(shown, ax=ax, shrink=0.8)
        ax.set_title(_short(dataset.outputs[d]), fontsize=11)
        ax.set(
            xlabel=dataset.inputs[0], ylabel=dataset.inputs[-1] if len(dataset.inputs) > 1 else ""
        )
        wide, high = np.ptp(x, axis=0)
        if 1 / 3 < wide / high < 3:
            ax.set_aspect("equal")
    return figure


def _classes(dataset: Dataset) -> Figure:
    names = [output for output in dataset.outputs if output in dataset.classes][:3]
    figure, axes = _panels(len(names), 3.4)
    for output, ax in zip(names, axes, strict=True):
        x, y, _ = _observed(dataset, dataset.outputs.index(output))
        every = slice(None, None, max(1, len(y) // _POINTS))
        components = _principal(x[every])
        _coloured_classes(ax, components, y[every], dataset.classes[output])
        (left, low), (right, high) = np.quantile(components, (0.005, 0.995), axis=0)
        ax.set_xlim(left - 0.1 * (right - left), right + 0.1 * (right - left))
        ax.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        ax.set_title(_short(output), fontsize=11)
        ax.set(xlabel="first principal component", ylabel="second")
    return figure


def _coloured_classes(ax: Axes, x: NDArray[Any], y: NDArray[Any], classes: tuple[str, ...]) -> None:
    largest = np.argsort(-np.bincount(y.astype(int), minlength=len(classes)), kind="stable")[
        : len(COLOURS) - 1
    ]
    rest = ~np.isin(y, largest)
    if rest.any():
        label = f"{len(classes) - len(largest)} more"
        ax.scatter(
            x[rest, 0], x[rest, 1], s=4, color="#C8C8C8", linewidths=0, label=label, rasterized=True
        )
    for colour, c in zip(COLOURS.values(), sorted(largest), strict=False):
        at = y == c
        ax.scatter(
            x[at, 0],
            x[at, 1],
            s=5,
            color=colour,
            linewidths=0,
            label=_short(classes[c], 14),
            rasterized=True,
        )
    ax.legend(
        fontsize=8, markerscale=2.5, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2
    )


def _histograms(dataset: Dataset) -> Figure:
    count = min(len(dataset.outputs), _PANELS)
    figure, axes = _panels(count, 2.6 if count > 3 else 3.0)
    for d, ax in enumerate(axes):
        _, y, _ = _observed(dataset, d)
        values, counts = np.unique(y, return_counts=True)
        if len(values) > 60:
            ax.hist(y, bins=40, color=COLOURS["blue"])
        else:
            ax.vlines(values, 0, counts, color=COLOURS["blue"], lw=3)
            ax.set_ylim(bottom=0)
        ax.set_title(_short(dataset.outputs[d]), fontsize=11)
    axes[0].set_ylabel("points")
    return figure


def _observed(dataset: Dataset, d: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Inputs, targets and rows at which output `d` was observed."""
    column = dataset.Y[:, 0 if dataset.output is not None else d]
    mine = ~np.isnan(column) & (True if dataset.output is None else dataset.output == d)
    rows = np.flatnonzero(mine)
    return dataset.X[rows], np.asarray(column[rows]), rows


def _principal(X: Any) -> NDArray[Any]:
    """The first two principal components [N, 2] of the standardised columns of X [N, P]."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    dense = X.toarray() if hasattr(X, "toarray") else X
    return np.asarray(
        PCA(2, svd_solver="full").fit_transform(StandardScaler().fit_transform(dense))
    )


def _short(text: str, width: int = 28) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
