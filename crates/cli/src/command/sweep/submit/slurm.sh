#!/bin/sh
#SBATCH --job-name=@NAME@
#SBATCH --array=1-@SHARDS@
#SBATCH --cpus-per-task=1
#SBATCH --mem=@MEGABYTES@M
#SBATCH --requeue
# A sweep of @COUNT@ jobs as an array of Slurm: each of @SHARDS@ tasks does its share, one job after
# another.
#
#   sbatch THIS-FILE     in the folder where the plan was made, which all nodes share
#
# A task whose node is lost is run again (--requeue), and goes on where it was; so does the whole
# when it is handed over again. Most sites allow 1,001 tasks (MaxArraySize). A site that wants a
# time for a task gets it by sbatch --time; the time below is that of a job.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
# A job ends at its own limit before Slurm ends the task.
exec extant sweep run --shard "$SLURM_ARRAY_TASK_ID/@SHARDS@" --workers 1 \
  --memory @JOB_MEGABYTES@M --time @SECONDS@ -- @JOBS@ @DIRECTORY@
