"""Is a set of standardised places standard normal? Two tests, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2, norm

from calibration.drawn import Array
from mogp.training.calibration import LEVELS, binomial_interval

BINS = 20
FALSE_ALARMS = 0.01
"""With this probability some calibrated family of the whole table fails."""

Verdict = Literal["calibrated", "too narrow", "too wide", "uneven"]


@dataclass(frozen=True)
class Checked:
    """Standardised places z of drawn functions under posteriors, `n` data sets.

    Attributes:
        n: data sets.
        ratio: how large errors are, where the posterior says 1: the root mean square of z.
        low, high: a 95 % interval of it, as if z were normal.
        coverage: share of functions inside 50, 80 and 95 % intervals.
        inside: a 95 % interval of each share.
        p_bins: of the chi-square test that the ranks fall evenly into 20 bins.
        p_spread: of the chi-square test, on both sides, that the sum of z² is that of normal numbers.
    """

    n: int
    ratio: float
    low: float
    high: float
    coverage: tuple[float, ...]
    inside: tuple[tuple[float, float], ...]
    p_bins: float
    p_spread: float

    def verdict(self, tests: int) -> Verdict:
        """At the level that makes `FALSE_ALARMS` of all tests together (Bonferroni), two for each of these.

        Args:
            tests: how many tests there are in all.
        """
        level = FALSE_ALARMS / tests
        if self.p_spread < level:
            return "too narrow" if self.ratio > 1 else "too wide"
        return "uneven" if self.p_bins < level else "calibrated"


def check(z: Array) -> Checked:
    """Test the places of one quantity, one from each data set.

    Args:
        z: `[n]`, independent; standard normal if posteriors are calibrated.
    """
    z = np.asarray(z, float)
    n, total = len(z), float(np.sum(z**2))
    counts = np.bincount(np.minimum((norm.cdf(z) * BINS).astype(int), BINS - 1), minlength=BINS)
    uneven = float(np.sum((counts - n / BINS) ** 2) / (n / BINS))
    within = [int(np.sum(np.abs(z) < norm.ppf(0.5 + level / 2))) for level in LEVELS]
    below = float(chi2.cdf(total, n))
    low, high = (float(np.sqrt(total / chi2.ppf(share, n))) for share in (0.975, 0.025))
    return Checked(
        n,
        float(np.sqrt(total / n)),
        low,
        high,
        tuple(count / n for count in within),
        tuple(binomial_interval(count, n) for count in within),
        float(chi2.sf(uneven, BINS - 1)),
        2 * min(below, float(chi2.sf(total, n))),
    )
