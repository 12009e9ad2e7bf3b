"""Many jobs from a matrix, on the processors of this machine or on the workers of a Dask cluster.

    matrix    a matrix becomes jobs
    jobs      what goes in and what comes out: jobs, results, failures
    command   the command `extant`, as a process
    sweep     `sweep()`, and what it returns
    pool      on this machine: `extant sweep run`
    process   one `extant sweep worker`, with the limits of its jobs
    on_dask   on a cluster: batches, as the client sees them
    batch     a batch, as a worker of the cluster sees it
    store     directories and images that fsspec reads and writes
    errors    what the command says, as an exception
"""

from __future__ import annotations

from .jobs import SweepFailure, SweepJob, SweepResult
from .sweep import Sweep, sweep

__all__ = ["Sweep", "SweepFailure", "SweepJob", "SweepResult", "sweep"]
