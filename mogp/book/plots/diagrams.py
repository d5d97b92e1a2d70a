"""Small directed graphs, for graphical models and maps of models, with nothing but matplotlib."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.text import Text

from mogp.plotting.style import INK

Edge = tuple[str, str]

SHADE = "#D9D9D9"


def graph(
    ax: Axes,
    nodes: Mapping[str, tuple[float, float]],
    edges: Iterable[Edge] = (),
    *,
    labels: Mapping[str | Edge, str] | None = None,
    observed: Collection[str] = (),
    boxes: Collection[str] = (),
    plain: Collection[str] = (),
    dashed: Collection[Edge] = (),
    bend: Mapping[Edge, float] | None = None,
    colors: Mapping[str | Edge, str] | None = None,
    plates: Mapping[str, Collection[str]] | None = None,
    radius: float = 0.3,
    fontsize: float | str = "medium",
) -> Axes:
    """Draw a directed graph: `nodes` maps a name to its place (x, y), one unit apart being a good
    distance.

    labels      text of a node (its name otherwise) or of an edge (none otherwise); mathtext works
    observed    nodes drawn shaded
    boxes       nodes drawn as a rounded box around their text instead of a circle of the given
                `radius`
    plain       nodes drawn as bare text
    dashed      edges drawn dashed; they count as edges even if `edges` does not list them
    bend        curvature of an edge: 0 straight, positive to the right of the way from tail to head
    colors      colour of a node's outline or of an edge
    plates      caption of a plate, and the nodes it encloses
    """
    labels, bend, colors, plates = labels or {}, bend or {}, colors or {}, plates or {}
    arrows = list(dict.fromkeys([*edges, *dashed]))
    _check(nodes, arrows, [*observed, *boxes, *plain], [*labels, *bend, *colors], plates)

    for caption, members in plates.items():
        _plate(ax, caption, [nodes[name] for name in members], radius, fontsize)
    shapes: dict[str, Patch] = {}
    boxed: list[Text] = []
    for name, place in nodes.items():
        colour = colors.get(name, INK)
        style = {
            "facecolor": SHADE if name in observed else "white",
            "edgecolor": colour,
            "linewidth": 1.4,
        }
        text = ax.text(
            *place, labels.get(name, name), ha="center", va="center", fontsize=fontsize, zorder=4
        )
        if name in boxes or name in plain:
            bare = {"edgecolor": "none", "facecolor": "none"} if name in plain else {}
            text.set_bbox({"boxstyle": "round,pad=0.4", **style, **bare})
            text.set_zorder(1.9)  # drawn before its arrows, which read where its box ended up
            shapes[name] = cast(Patch, text.get_bbox_patch())
            boxed.append(text)
        else:
            shapes[name] = ax.add_patch(Circle(place, radius, zorder=3, **style))
    bends = [
        _middle(nodes[tail], nodes[head], curvature) for (tail, head), curvature in bend.items()
    ]
    _limits(ax, [*nodes.values(), *bends], boxed, (2.5 if plates else 1.3) * radius)
    for tail, head in arrows:
        edge = (tail, head)
        curvature = bend.get(edge, 0.0)
        ax.add_patch(
            FancyArrowPatch(
                nodes[tail],
                nodes[head],
                patchA=shapes[tail],
                patchB=shapes[head],
                shrinkA=1,
                shrinkB=1,
                connectionstyle=f"arc3,rad={curvature}",
                arrowstyle="-|>",
                mutation_scale=13,
                linewidth=1.3,
                linestyle="--" if edge in dashed else "-",
                color=colors.get(edge, INK),
                zorder=2,
            )
        )
        if edge in labels:
            halo = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
            place = _middle(nodes[tail], nodes[head], curvature)
            text = ax.text(
                *place,
                labels[edge],
                ha="center",
                va="center",
                fontsize=fontsize,
                bbox=halo,
                zorder=2.5,
            )
            text.set_color(colors.get(edge, INK))
    return ax


def _check(
    nodes: Mapping[str, tuple[float, float]],
    arrows: list[Edge],
    named: list[str],
    keyed: list[str | Edge],
    plates: Mapping[str, Collection[str]],
) -> None:
    wanted = (
        {name for edge in arrows for name in edge}
        | set(named)
        | {name for group in plates.values() for name in group}
    )
    wanted |= {key for key in keyed if isinstance(key, str)}
    unknown = sorted(wanted - set(nodes))
    if unknown:
        raise ValueError(f"the graph has no node {unknown}; its nodes are {list(nodes)}.")
    missing = [key for key in keyed if not isinstance(key, str) and key not in arrows]
    if missing:
        raise ValueError(f"the graph has no edge {missing}; its edges are {arrows}.")
    loops = [edge for edge in arrows if edge[0] == edge[1]]
    if loops:
        raise ValueError(
            f"edges {loops} lead from a node to itself; a directed graphical model has none."
        )
    empty = [caption for caption, members in plates.items() if not members]
    if empty:
        raise ValueError(f"plates {empty} enclose no node.")


def _plate(
    ax: Axes, caption: str, places: list[tuple[float, float]], radius: float, fontsize: float | str
) -> None:
    margin = 1.5 * radius
    (left, bottom), (right, top) = np.min(places, axis=0) - margin, np.max(places, axis=0) + margin
    bottom -= 0.8 * radius
    ax.add_patch(
        FancyBboxPatch(
            (left, bottom),
            right - left,
            top - bottom,
            boxstyle=f"round,pad=0,rounding_size={0.4 * radius}",
            facecolor="none",
            edgecolor="#8A8A8A",
            linewidth=1.1,
            zorder=1,
        )
    )
    ax.text(
        right - 0.3 * radius,
        bottom + 0.25 * radius,
        caption,
        ha="right",
        va="bottom",
        fontsize=fontsize,
    )


def _middle(
    tail: tuple[float, float], head: tuple[float, float], curvature: float
) -> tuple[float, float]:
    """The middle of an arrow: halfway, moved aside by half the bend times the distance."""
    (x0, y0), (x1, y1) = tail, head
    return (x0 + x1 + curvature * (y1 - y0)) / 2, (y0 + y1 - curvature * (x1 - x0)) / 2


def _limits(ax: Axes, places: list[tuple[float, float]], boxed: list[Text], margin: float) -> None:
    """Fit the graph: a margin in data units around every place, and the measured size of every box
    of text.
    """
    ax.set_aspect("equal", adjustable="datalim")
    ax.axis("off")
    if not places:
        return
    ax.margins(0)
    ax.update_datalim(np.vstack([np.asarray(places) - margin, np.asarray(places) + margin]))
    for _ in range(2):
        ax.autoscale_view()
        ax.apply_aspect()
        to_data = ax.transData.inverted()
        for text in boxed:
            ax.update_datalim(to_data.transform(text.get_window_extent().padded(15.0)))
    ax.autoscale_view()
