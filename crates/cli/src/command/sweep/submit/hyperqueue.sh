#!/bin/sh
# A sweep of @COUNT@ jobs as an array of HyperQueue: each of @SHARDS@ tasks does its share, one job
# after another.
#
#   hq server start &      once, where it is handed over
#   hq worker start &      on each node
#   sh THIS-FILE           in the folder where the plan was made, which all nodes share
#
# A task whose worker is lost is started again, and goes on where it was; so does the whole when it
# is handed over again.
set -eu
# shellcheck disable=SC2016  # HQ_TASK_ID is the task's own
exec hq submit --wait --name @NAME@ --array 1-@SHARDS@ --cpus 1 \
  --resource mem=@MEGABYTES@ -- \
  sh -c 'exec extant sweep run --shard "$HQ_TASK_ID/@SHARDS@" --workers 1 \
    --memory @JOB_MEGABYTES@M --time @SECONDS@ -- "$@"' sh @JOBS@ @DIRECTORY@
