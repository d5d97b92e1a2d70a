"""Many independent runs: `sweep` on local processes or a Dask cluster, and `choose`, which picks sizes with it."""

from mogp.experiments.choose import Choice, choose
from mogp.experiments.heterogeneous import heterogeneous_run
from mogp.experiments.hierarchies import replica_run, study
from mogp.experiments.sweep import Failure, SweepError, sweep

__all__ = ["Choice", "Failure", "SweepError", "choose", "heterogeneous_run", "replica_run", "study", "sweep"]
