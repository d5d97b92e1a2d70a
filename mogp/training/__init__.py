"""`fit` trains any model and says how it went."""

from mogp.training.diagnosis import Diagnosis, diagnose
from mogp.training.fitting import fit, start
from mogp.training.history import History, StageRecord

__all__ = ["Diagnosis", "History", "StageRecord", "diagnose", "fit", "start"]
