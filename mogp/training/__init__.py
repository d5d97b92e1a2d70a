"""`fit` trains any model and says how it went."""

from mogp.training.diagnosis import Diagnosis, diagnose
from mogp.training.fitting import fit
from mogp.training.history import History

__all__ = ["Diagnosis", "History", "diagnose", "fit"]
