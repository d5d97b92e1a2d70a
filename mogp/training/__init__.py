"""`fit` trains any model and says how it went."""

from mogp.training.diagnosis import Diagnosis, diagnose
from mogp.training.fitting import History, fit

__all__ = ["Diagnosis", "History", "diagnose", "fit"]
