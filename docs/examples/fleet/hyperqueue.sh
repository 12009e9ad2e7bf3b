#!/bin/sh
# A sweep of @COUNT@ jobs on HyperQueue: a task for each of @SHARDS@ shares, each with one job at a
# time.
#
#   hq server start &      once, where jobs are submitted
#   hq worker start &      on each node
#   sh hyperqueue.sh       in the folder where the plan was made, which all nodes share
#
# A task whose worker is lost is started again, and goes on where it was.
set -eu
memory=$(numfmt --from=iec --to-unit=1048576 @MEMORY@)
# shellcheck disable=SC2016  # HQ_TASK_ID is the task's own
hq submit --wait --name @NAME@ --array 1-@SHARDS@ --cpus 1 --resource "mem=$memory" -- \
  sh -c 'exec extant sweep run @JOBS@ @DIRECTORY@ --shard "$HQ_TASK_ID/@SHARDS@" \
    --workers 1 --memory @MEMORY@ --time @SECONDS@'
