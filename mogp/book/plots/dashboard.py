"""Annotators at a glance: how reliable each is and where, whom to trust, how much they told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from mogp.plotting.curves import bands
from mogp.plotting.style import COLOURS, INK

if TYPE_CHECKING:
    from mogp.data import MultiOutputData

__all__ = ["agreement", "annotator_dashboard", "most_trusted", "standing"]

Floats = NDArray[np.float64]

_BINS = 12
_POINTS = 200
_CLOSE = 0.1
_STYLES = ("-", "--", "-.", ":")


def annotator_dashboard(
    model: Any,
    data: MultiOutputData,
    gold: ArrayLike | None = None,
    *,
    axes: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    coordinate: ArrayLike | None = None,
    xlabel: str | None = None,
    points: int = _POINTS,
) -> NDArray[Any]:
    """Draw four panels about the annotators of a fitted model.

    1. Reliability over the input space, with bands of two standard deviations: the probability of
       knowing the class, or the standard deviation of the noise of a value. One input: against it.
       More: against the first principal component of the inputs, or the `coordinate`, averaged over
       twelve groups of as many rows.
    2. Agreement of every two annotators on the rows that both have told (`agreement`).
    3. Whom to trust where (`standing`): along the same axis, who is alone in front and who is close
       to the best.
    4. How many rows each has told; with `gold`, also how many of the labels are right, or the error
       of the values.

    Args:
        model: has `reliability(X)`, mean and variance `[N, R]`, and `annotators` with `num_classes`
            for classes.
        data: what the annotators told, one output with a column for each.
        gold: `[N]` true targets of the rows of the data, if they are known.
        axes: four to draw on; a figure of two by two if None.
        names: of the annotators; 1, 2, … if None.
        coordinate: `[N]` places of the rows of the data on the axis of panels 1 and 3, for more
            than one input.
        xlabel: of panels 1 and 3.
        points: of the grid over a single input.

    Returns:
        The four axes.
    """
    own = data.outputs[0]
    R = own.Y.shape[1]
    called = [str(r + 1) for r in range(R)] if names is None else list(names)
    if len(called) != R:
        raise ValueError(f"{len(called)} names for {R} annotators.")
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(2, 2, figsize=(10.4, 7.4), layout="constrained")[1]
    panels: NDArray[Any] = np.asarray(axes, dtype=object).reshape(-1)
    if len(panels) != 4:
        raise ValueError(f"{len(panels)} axes; the dashboard has four panels.")
    of_classes = _of_classes(model)
    x, mean, deviation, known_as = _along(model, data, coordinate, points, of_classes)
    label = known_as if xlabel is None else xlabel
    _reliabilities(panels[0], x, mean, deviation, called, of_classes, label)
    _agreement_map(panels[1], agreement(data, labels=of_classes), called, of_classes)
    _trust(panels[2], x, mean, called, of_classes, label)
    _amounts(panels[3], own.Y, own.observed, gold, called, of_classes)
    return panels


def agreement(data: MultiOutputData, *, labels: bool) -> Floats:
    """How far every two annotators agree on the rows that both have told, `[R, R]`.

    With `labels` the share of rows with equal labels, else the correlation of the values. NaN with
    fewer than two such rows, or where one's values do not vary.
    """
    own = data.outputs[0]
    R = own.Y.shape[1]
    found = np.full((R, R), np.nan)
    for r in range(R):
        for s in range(R):
            both = own.observed[:, r] & own.observed[:, s]
            a, b = own.Y[both, r], own.Y[both, s]
            if both.sum() >= 2 and labels:
                found[r, s] = np.mean(a == b)
            elif both.sum() >= 2 and a.std() > 0 and b.std() > 0:
                found[r, s] = np.corrcoef(a, b)[0, 1]
    return found


def most_trusted(reliability: ArrayLike, *, labels: bool) -> tuple[NDArray[np.int64], Floats]:
    """The best annotator at each of N places and the lead, from reliabilities `[N, R]`.

    With `labels` the largest probability is best; else the smallest standard deviation of the
    noise.
    """
    values = np.asarray(reliability, float)
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            f"reliability has shape {values.shape}; expected [N, R] for at least two annotators."
        )
    ranked = np.sort(values if labels else -values, axis=1)
    best = np.argmax(values if labels else -values, axis=1)
    return best, ranked[:, -1] - ranked[:, -2]


def standing(reliability: ArrayLike, *, labels: bool, close: float = _CLOSE) -> NDArray[np.int64]:
    """How each of R annotators stands at N places, `[N, R]`: 2 alone in front, 1 close, 0 behind.

    With `labels`, from probabilities of knowing the class: close is within `close` of the largest,
    and nobody is in front where all are below 1/2. Else from standard deviations of the noise:
    close is up to the share `close` above the smallest.
    """
    best, lead = most_trusted(reliability, labels=labels)
    values = np.asarray(reliability, float)
    top = np.take_along_axis(values, best[:, None], axis=1)
    near = values >= top - close if labels else values <= (1 + close) * top
    alone = lead > (close if labels else close * top[:, 0])
    found = near.astype(np.int64)
    found[np.arange(len(values))[alone], best[alone]] = 2
    if labels:
        found[top[:, 0] < 0.5] = 0
    return found


def _of_classes(model: Any) -> bool:
    return getattr(getattr(model, "annotators", model), "num_classes", None) is not None


def _along(
    model: Any, data: MultiOutputData, coordinate: ArrayLike | None, points: int, of_classes: bool
) -> tuple[Floats, Floats, Floats, str]:
    """Places `[G]`, reliabilities and their deviations `[G, R]`, and what the places are."""
    X = data.inputs(0)
    if data.input_dim == 1 and coordinate is None:
        x = np.linspace(X.min(), X.max(), points)
        return x, *_at(model, x[:, None], of_classes), "input x"
    along = _first_component(X) if coordinate is None else np.asarray(coordinate, float).reshape(-1)
    if len(along) != len(X):
        raise ValueError(f"coordinate has {len(along)} values for {len(X)} rows of annotations.")
    groups = np.array_split(np.argsort(along, kind="stable"), min(_BINS, len(along)))
    mean, deviation = _at(model, X, of_classes)
    known_as = "first principal component of the inputs" if coordinate is None else "coordinate"
    return (
        np.array([along[rows].mean() for rows in groups]),
        np.array([mean[rows].mean(0) for rows in groups]),
        np.array([deviation[rows].mean(0) for rows in groups]),
        known_as,
    )


def _at(model: Any, X: Floats, of_classes: bool) -> tuple[Floats, Floats]:
    """Reliabilities and their deviations.

    Noise variances become standard deviations, by the delta method.
    """
    mean, variance = (np.asarray(part, float) for part in model.reliability(X))
    if of_classes:
        return mean, np.sqrt(variance)
    return np.sqrt(mean), np.sqrt(variance) / (2 * np.sqrt(mean))


def _first_component(X: Floats) -> Floats:
    centred = X - X.mean(0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    scores: Floats = centred @ (direction * np.sign(direction[np.argmax(np.abs(direction))]))
    return scores


def _colour(r: int) -> str:
    return list(COLOURS.values())[r % len(COLOURS)]


def _reliabilities(
    ax: Axes,
    x: Floats,
    mean: Floats,
    deviation: Floats,
    names: Sequence[str],
    of_classes: bool,
    xlabel: str,
) -> None:
    for r, name in enumerate(names):
        low, high = mean[:, r] - 2 * deviation[:, r], mean[:, r] + 2 * deviation[:, r]
        bands(
            ax,
            x,
            mean[:, r],
            lower=np.maximum(low, 0.0),
            upper=np.minimum(high, 1.0) if of_classes else high,
            color=_colour(r),
            alpha=0.10,
            label=name,
            ls=_STYLES[(r // len(COLOURS)) % len(_STYLES)],
        )
    if of_classes:
        ax.axhline(0.5, color=INK, lw=0.8, ls=":")
        ax.set(ylim=(-0.03, 1.03))
    else:
        top = float(np.quantile(mean + 2 * deviation, 0.95))
        ax.set(ylim=(0.0, 1.1 * max(top, float(mean.max()) if mean.max() < 3 * top else top)))
    ax.set(
        title="How reliable? (mean ± 2 sd)",
        xlabel=xlabel,
        ylabel="probability of knowing the class" if of_classes else "sd of the noise",
    )
    ax.legend(
        title="annotator",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.03),
        fontsize=9.5,
        title_fontsize=10,
    )


def _agreement_map(ax: Axes, values: Floats, names: Sequence[str], of_classes: bool) -> None:
    low = 0.0 if of_classes else -1.0
    image = ax.imshow(values, cmap="viridis" if of_classes else "RdBu", vmin=low, vmax=1.0)
    if len(names) <= 12:
        for (row, column), value in np.ndenumerate(values):
            if row != column:
                dark = value < 0.55 if of_classes else abs(value) > 0.6
                text = "–" if np.isnan(value) else f"{value:.2f}"
                ax.text(
                    column,
                    row,
                    text,
                    ha="center",
                    va="center",
                    color="white" if dark else INK,
                    fontsize=9.5,
                )
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(
        title="Who agrees with whom?\n"
        + ("(share of common rows)" if of_classes else "(correlation on common rows)"),
        xlabel="annotator",
        ylabel="annotator",
    )
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    bar.outline.set_visible(False)


def _trust(
    ax: Axes, x: Floats, mean: Floats, names: Sequence[str], of_classes: bool, xlabel: str
) -> None:
    state = standing(mean, labels=of_classes)
    edges = np.concatenate([[x[0]], (x[1:] + x[:-1]) / 2, [x[-1]]])
    if 1 < len(x) <= _BINS:
        edges[0], edges[-1] = x[0] - (x[1] - x[0]) / 2, x[-1] + (x[-1] - x[-2]) / 2
    for r in range(len(names)):
        for value, alpha in ((1, 0.4), (2, 1.0)):
            runs = [
                (edges[first], edges[last] - edges[first])
                for first, last in _runs(state[:, r] == value)
            ]
            ax.broken_barh(runs, (r - 0.38, 0.76), facecolors=_colour(r), alpha=alpha, linewidth=0)
    ax.set_yticks(range(len(names)), names)
    close = (
        f"within {_CLOSE:g} of the best"
        if of_classes
        else f"sd within {_CLOSE:.0%} of the smallest"
    )
    ax.set(
        title=f"Whom to trust where?\n(dark: alone in front; pale: {close})",
        xlabel=xlabel,
        ylabel="annotator",
        xlim=(edges[0], edges[-1]),
        ylim=(len(names) - 0.5, -0.5),
    )
    ax.grid(False, axis="y")


def _runs(chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past the last position of every stretch of chosen ones."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return [(int(first), int(last)) for first, last in zip(turns[::2], turns[1::2], strict=True)]


def _amounts(
    ax: Axes,
    Y: Floats,
    observed: NDArray[np.bool_],
    gold: ArrayLike | None,
    names: Sequence[str],
    of_classes: bool,
) -> None:
    counts = observed.sum(0)
    places = np.arange(len(names))
    ax.bar(
        places,
        counts,
        color=[_colour(int(r)) for r in places],
        alpha=0.35 if gold is not None else 0.9,
    )
    title = "How much was told?"
    if gold is not None:
        truth = np.asarray(gold, float).reshape(-1)
        if len(truth) != len(Y):
            raise ValueError(f"gold has {len(truth)} values for {len(Y)} annotated rows.")
        if of_classes:
            right = (observed & (truth[:, None] == Y)).sum(0)
            ax.bar(places, right, color=[_colour(int(r)) for r in places])
            texts = [f"{n / max(c, 1):.0%}" for n, c in zip(right, counts, strict=True)]
            title += "\n(dark: right)"
        else:
            errors = [
                np.sqrt(np.mean((Y[observed[:, r], r] - truth[observed[:, r]]) ** 2))
                for r in places
            ]
            texts = [f"{error:.2g}" for error in errors]
            title += "\n(number: root mean square error)"
        for place, count, text in zip(places, counts, texts, strict=True):
            ax.text(place, count, text, ha="center", va="bottom", fontsize=9.5)
    ax.set_xticks(places, names)
    ax.set(
        title=title, xlabel="annotator", ylabel="rows", ylim=(0, 1.12 * max(int(counts.max()), 1))
    )
    ax.grid(False, axis="x")
