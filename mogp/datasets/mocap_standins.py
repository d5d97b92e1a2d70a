"""Synthetic recordings in place of the CMU database's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mogp.datasets.draws import rounded
from mogp.datasets.formats.motion import Motion
from mogp.datasets.mocap_recordings import COUNTERPARTS, FRAME_TIME, check_format

FRAMES = {
    7: dict(enumerate((316, 329, 415, 449, 517, 417, 379, 362, 306, 301, 315, 263), start=1)),
    8: {2: 309, 3: 353, 8: 283, 9: 293},
    9: {1: 148, 2: 130, 3: 128, 5: 143, 6: 141, 11: 165},
    64: {3: 444, 4: 412, 5: 387, 7: 376, 8: 364, 9: 452},
    118: {3: 497, 4: 645, 11: 691, 17: 646},
}
"""Frames of the real recordings, by subject and trial."""
MANNER = {7: (2.2, 0.2), 8: (2.2, 0.2), 9: (1.6, 0.33), 64: (0.8, 0.14), 118: (0.9, 0.36)}
"""Periods of the motion in a trial, and how much trials differ."""
NOISY = {
    8: ("lhumerus.2", "rfemur.2"),
    9: ("lowerneck.0", "lowerneck.2", "upperneck.0", "head.0", "rfoot.1"),
    64: ("lwrist.0",),
}
"""Channels that the rule on noise leaves out of the recordings in BVH."""


def synthetic(subject: int, trials: Sequence[int], format: str) -> tuple[list[Motion], str]:
    """Mixtures of five periodic motions that all trials share, and the word for their format.

    Trials differ in pace and phase, and each has a little of its own.
    """
    check_format(format, subject)
    rng = np.random.default_rng(subject)
    C, L, harmonics = len(COUNTERPARTS), 5, np.arange(1, 4)
    periods, spread = MANNER[subject]
    mixing = rng.uniform(1.0, 20.0, (C, 1)) * rng.standard_normal((C, L))
    weights = rng.standard_normal((2, L, 3)) / harmonics
    still = [
        c
        for c, name in enumerate(COUNTERPARTS)
        if name.partition(".")[0][1:] in {"clavicle", "fingers"}
    ]
    noise = np.full(C, 0.015)
    noise[[list(COUNTERPARTS).index(channel) for channel in NOISY.get(subject, ())]] = 0.5
    noise *= np.sqrt((mixing**2).sum(axis=1))
    motions = []
    for trial in trials:
        T = 120 if format == "npz" else FRAMES[subject][trial]
        pace, phase = periods * rng.uniform(0.94, 1.06), spread * rng.standard_normal()
        angle = (2.0 * np.pi * pace * np.linspace(0.0, 1.0, T) + phase)[:, None] * harmonics
        own = weights + spread * rng.standard_normal(weights.shape) / harmonics
        shared = np.cos(angle) @ own[0].T + np.sin(angle) @ own[1].T
        frames = rounded(shared @ mixing.T + noise * rng.standard_normal((T, C)))
        frames[:, still] = 0.0
        motions.append(Motion(tuple(COUNTERPARTS), frames, FRAME_TIME))
    return motions, "synthetic"
