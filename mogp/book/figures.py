"""Figures of chapters as files, with a note on the face of those made from a stand-in."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["render", "say_below"]

_DPI = 160
_FACE: dict[str, Any] = {
    "ha": "center",
    "va": "top",
    "fontsize": 11,
    "fontweight": "bold",
    "color": "#8A4B00",
    "bbox": {"facecolor": "#FFF3DC", "edgecolor": "#E69F00", "boxstyle": "round,pad=0.35"},
}


def say_below(figure: Figure, words: str) -> None:
    """Put words under a figure, legends included."""
    # A legend below the axes moves down with the lower edge unless it is pinned to the figure.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
    bottom = figure.get_tightbbox().y0 / figure.get_figheight()
    figure.text(0.5, min(bottom, 0.0) - 0.01, words, **_FACE)


def render(figure: Figure, kind: str) -> bytes:
    """The figure as bytes that depend on nothing but what was drawn."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "mogp"}):
        figure.savefig(buffer, format=kind, dpi=_DPI, bbox_inches="tight", metadata=metadata)
    return buffer.getvalue()
