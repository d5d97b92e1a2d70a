"""All families, by name."""

from __future__ import annotations

from calibration import chains, hierarchies, mixtures
from calibration.drawn import Family

FAMILIES: dict[str, Family] = {
    one.name: one for one in (*mixtures.families(), *hierarchies.families(), *chains.families())
}
NOT_TESTED = (
    "convolution processes (CPM, VIK) and images (MOCGPs-AR): slow to draw from densely",
    "robust-max: its likelihood is flat, and says little of functions",
    "DGP, Bayesian GPLVM, bi-directional and additive GPLAR: their posteriors have many modes, and a start at the truth"
    " would judge one of them",
    "the Monte-Carlo softmax (MG-M, G-M): its objective is random, and so is where training ends",
)
