"""`reliability`: can bands and probabilities be trusted? `mogp.training.calibration` drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from mogp.plotting.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUPS = 10
_MOST = 8


def reliability(found: Any) -> Figure:
    """What bands and probabilities promise, against what targets do, an output a line.

    On the left, for outputs with bands: the share of targets inside the central band of each level,
    and in grey where 95 % of calibrated predictions of as many targets lie. On the right, for
    classes and labels: how often what was predicted came true, in ten groups of like probability,
    with 95 % intervals. Above the diagonal predictions are less sure than they could be, below it
    too sure. Outputs whose predictions had seen their targets have no bands to show.

    Args:
        found: what `mogp.training.calibration` returned.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ExactLMC
    >>> from mogp.plotting import reliability
    >>> from mogp.training import calibration
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.sin(6 * x))
    >>> len(reliability(calibration(ExactLMC(data), data)).axes)
    1
    """
    import matplotlib.pyplot as plt

    points = found.points
    judged = points[points["how"] != "seen"]
    parts = {
        "bands": judged[judged["rank"].notna()],
        "probabilities": points[points["probability"].notna()],
    }
    shown = [name for name, part in parts.items() if len(part)]
    if not shown:
        raise ValueError(
            "no output has bands or probabilities that can be judged: hold out rows, and call"
            " calibration(model, data, held_out=rows)."
        )
    figure, axes = plt.subplots(
        1, len(shown), figsize=(4.6 * len(shown), 5.4), squeeze=False, layout="constrained"
    )
    draw = {"bands": _bands, "probabilities": _probabilities}
    for ax, name in zip(axes[0], shown, strict=True):
        ax.plot([0, 1], [0, 1], color=COLOURS["grey"], lw=1, ls="--", zorder=1, label="calibrated")
        draw[name](ax, parts[name])
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=2, frameon=False, fontsize="small"
        )
    return figure


def _bands(ax: Axes, points: pd.DataFrame) -> None:
    levels = np.linspace(0, 1, 101)
    each = list(points.groupby("output", sort=False))
    fewest = min(len(part) for _, part in each)
    # Of n uniform ranks the k-th smallest distance from the middle is Beta(k, n + 1 - k).
    inside = np.arange(1, fewest + 1)
    low, high = beta.ppf([[0.025], [0.975]], inside, fewest + 1 - inside)
    share = inside / fewest
    ax.fill_betweenx(
        share,
        low,
        high,
        color=COLOURS["grey"],
        alpha=0.18,
        lw=0,
        zorder=0,
        label="calibrated, 95 %",
    )
    for (name, part), color in zip(each[:_MOST], COLOURS.values(), strict=False):
        covered = [np.mean(2 * np.abs(part["rank"] - 0.5) <= level) for level in levels]
        ax.plot(levels, covered, color=color, lw=1.6, label=f"{name} ({len(part)})")
    _more(ax, len(each))
    ax.set(xlabel="level of the band", ylabel="share of targets inside", title="Bands")


def _probabilities(ax: Axes, points: pd.DataFrame) -> None:
    each = list(points.groupby("output", sort=False))
    for (name, part), color in zip(each[:_MOST], COLOURS.values(), strict=False):
        p, happened = part["probability"].to_numpy(), part["happened"].to_numpy()
        groups = [g for g in np.array_split(np.argsort(p, kind="stable"), _GROUPS) if len(g)]
        mean = np.array([p[g].mean() for g in groups])
        true = np.array([happened[g].mean() for g in groups])
        counts = np.array([len(g) for g in groups])
        k = true * counts
        low = np.nan_to_num(beta.ppf(0.025, k, counts - k + 1), nan=0.0)
        high = np.nan_to_num(beta.ppf(0.975, k + 1, counts - k), nan=1.0)
        ends = np.maximum(np.stack([true - low, high - true]), 0)
        seen = ", seen" if (part["how"] == "seen").any() else ""
        ax.errorbar(
            mean,
            true,
            yerr=ends,
            fmt="o",
            ms=4,
            lw=1,
            color=color,
            label=f"{name} ({len(p)}{seen})",
        )
    _more(ax, len(each))
    ax.set(xlabel="predicted probability", ylabel="share that came true", title="Probabilities")


def _more(ax: Axes, outputs: int) -> None:
    if outputs > _MOST:
        ax.plot([], [], " ", label=f"and {outputs - _MOST} more outputs")
