"""The house style of the figures, and the few kinds of drawing the book repeats.

Every drawing function takes an `Axes` first, draws on it and returns it, so that calls compose with
plain matplotlib.
"""

from mogp.plotting.calibration import calibration
from mogp.plotting.curves import bands, draws, trace
from mogp.plotting.matrices import coregionalisation, hinton
from mogp.plotting.predictions import predictions
from mogp.plotting.reliability import reliability
from mogp.plotting.replicas import MODEL_COLOURS, latent_map, replica_panels, score_bars
from mogp.plotting.style import COLOURS, use_style

__all__ = [
    "COLOURS",
    "MODEL_COLOURS",
    "bands",
    "calibration",
    "coregionalisation",
    "draws",
    "hinton",
    "latent_map",
    "predictions",
    "reliability",
    "replica_panels",
    "score_bars",
    "trace",
    "use_style",
]
