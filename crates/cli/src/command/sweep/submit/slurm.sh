#!/bin/bash
# A sweep of extant as an array of Slurm: @COUNT@ jobs in @SHARDS@ tasks.
#
#   sbatch this-file        hand it over; again after a failure, what is done is not done again
#   extant sweep status DIR how far it is
#
#SBATCH --job-name=@NAME@
#SBATCH --array=1-@SHARDS@
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=@MEGABYTES@M
#SBATCH --time=@TIME@
#SBATCH --requeue
set -eu
exec extant sweep run @JOBS@ @DIRECTORY@ --workers 1 --shard "$SLURM_ARRAY_TASK_ID/@SHARDS@"
