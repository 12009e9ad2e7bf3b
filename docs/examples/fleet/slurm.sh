#!/bin/sh
#SBATCH --job-name=@NAME@
#SBATCH --array=1-@SHARDS@
#SBATCH --cpus-per-task=1
#SBATCH --mem=@MEMORY@
#SBATCH --requeue
# A sweep of @COUNT@ jobs as an array of Slurm: each task does its share, with one job at a time.
#
#   sbatch slurm.sh        in the folder where the plan was made, which all nodes share
#
# A task whose node is lost is run again (--requeue), and goes on where it was. A site that wants a
# time for the whole task gets it by sbatch --time; @SECONDS@ seconds are a job's.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
# A job ends at its own limit before Slurm ends the task: 128 MiB are for the run itself.
memory=@MEMORY@
[ -z "${SLURM_MEM_PER_NODE:-}" ] || memory=$((SLURM_MEM_PER_NODE - 128))M
exec extant sweep run @JOBS@ @DIRECTORY@ --shard "$SLURM_ARRAY_TASK_ID/@SHARDS@" \
  --workers 1 --memory "$memory" --time @SECONDS@
