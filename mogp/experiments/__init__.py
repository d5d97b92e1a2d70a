"""Many independent runs: `sweep` on local processes or a Dask cluster, and `choose`, which picks
sizes with it.
"""

from mogp.experiments.choose import Choice, choose
from mogp.experiments.sweep import Failure, SweepError, sweep

__all__ = ["Choice", "Failure", "SweepError", "choose", "sweep"]
