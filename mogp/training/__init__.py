"""`fit` trains any model and says how it went."""

from mogp.training.calibration import Calibration, calibration
from mogp.training.diagnosis import Diagnosis, diagnose
from mogp.training.fitting import fit, start
from mogp.training.history import History, StageRecord
from mogp.training.ordering import Ordering, greedy_order

__all__ = [
    "Calibration",
    "Diagnosis",
    "History",
    "Ordering",
    "StageRecord",
    "calibration",
    "diagnose",
    "fit",
    "greedy_order",
    "start",
]
