"""Scores of predictions, one definition each: arrays in, a float out.

Arrays of targets, means and log densities may have any shape; they are scored entry by entry.
Scores of several outputs are pooled by concatenating the arrays, or averaged by averaging the
scores. Rankings of labels (`precision_at` and the others that end in `_at`) are scored without a
dense table of labels.
"""

from mogp.metrics.constants import constant_log_density
from mogp.metrics.pareto import pareto_smoothed
from mogp.metrics.predictions import (
    auc,
    brier,
    calibration_curve,
    coverage,
    crps,
    hll,
    interval_coverage,
    nlpd,
    nmse,
    r2,
    rmse,
    smse,
    weighted_f1,
    weighted_precision,
    weighted_recall,
)
from mogp.metrics.rankings import ndcg_at, precision_at, propensities, psndcg_at, psp_at, top_labels

__all__ = [
    "auc",
    "brier",
    "calibration_curve",
    "constant_log_density",
    "coverage",
    "crps",
    "hll",
    "interval_coverage",
    "ndcg_at",
    "nlpd",
    "nmse",
    "pareto_smoothed",
    "precision_at",
    "propensities",
    "psndcg_at",
    "psp_at",
    "r2",
    "rmse",
    "smse",
    "top_labels",
    "weighted_f1",
    "weighted_precision",
    "weighted_recall",
]
