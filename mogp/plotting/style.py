"""One look for every figure: safe for the colour-blind, legible at book and at phone width."""

from __future__ import annotations

from typing import Final

COLOURS: Final[dict[str, str]] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "brown": "#8C564B",
    "grey": "#6E6E6E",
}
"""The palette, by name: Okabe and Ito's, without yellow (pale on white) and black (like text)."""

INK: Final = "#1A1A1A"


def use_style() -> None:
    """Make the house style matplotlib's and seaborn's default for this process.

    Figures keep an opaque white ground, so they read on a light and on a dark page alike. The
    identifiers inside SVG files are salted with a fixed word: saved with `metadata={"Date": None}`,
    the same figure is the same file.

    >>> import matplotlib as mpl
    >>> from mogp.plotting import use_style
    >>> with mpl.rc_context():
    ...     use_style()
    ...     mpl.rcParams["svg.hashsalt"]
    'mogp'
    """
    import seaborn as sns

    sns.set_theme(context="notebook", style="ticks", palette=list(COLOURS.values()), rc=_RC)


_RC: Final[dict[str, object]] = {
    "figure.figsize": (7.2, 3.6),
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "savefig.dpi": 160,
    "savefig.facecolor": "white",
    "svg.hashsalt": "mogp",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 12.0,
    "axes.titlesize": 12.5,
    "axes.labelsize": 12.0,
    "xtick.labelsize": 11.0,
    "ytick.labelsize": 11.0,
    "legend.fontsize": 11.0,
    "figure.titlesize": 14.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#4D4D4D",
    "axes.linewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.9,
    "ytick.major.width": 0.9,
    "xtick.major.size": 4.0,
    "ytick.major.size": 4.0,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "mathtext.fontset": "dejavusans",
}
