"""GPAR on the EEG split of Xia's table 4.2: a fit of 40 steps a layer, and 50 joint draws at the held-out times.

peers.py runs it beside PyPI's `gpar` (peer_gpar.py), which does the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Timing
from peer_gpar import DRAWS, LENGTHSCALE, NOISE, REPEATS, STEPS

from mogp import MultiOutputData
from mogp.datasets import load
from mogp.kernels import LayerKernels
from mogp.models import GPAR
from mogp.training import fit


class Contender:
    """Our GPAR on the data set, or its stand-in."""

    def __init__(self) -> None:
        eeg = load("eeg", stand_in="allow")
        self.X, self.Y = eeg.X, np.where(eeg.held_out, np.nan, eeg.Y)
        self.Xnew = eeg.X[eeg.held_out.any(axis=1)]
        self.data = MultiOutputData.from_arrays(self.X, self.Y)
        self.trained = self.model()
        self.objective = self.trained.elbo()
        fit(self.trained, self.data, steps=STEPS, progress=False)

    def model(self) -> GPAR:
        return GPAR(
            self.data, LayerKernels(1, "nonlinear", input_lengthscale=LENGTHSCALE), noise=NOISE, starts=1, scaling=None
        )

    def fit(self) -> Timing:
        return Timing.of(lambda: fit(self.model(), self.data, steps=STEPS, progress=False), REPEATS)

    def samples(self) -> Timing:
        return Timing.of(lambda: self.trained.predict_f_samples(self.Xnew, samples=DRAWS), REPEATS)

    def write(self, path: Path) -> None:
        """The arrays, for the peer."""
        np.savez(path, X=self.X, Y=self.Y, Xnew=self.Xnew)
