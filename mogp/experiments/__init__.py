"""Many independent runs: `sweep(function, grid)` on local processes or a Dask cluster, cached and resumable."""

from mogp.experiments.sweep import Failure, SweepError, sweep

__all__ = ["Failure", "SweepError", "sweep"]
