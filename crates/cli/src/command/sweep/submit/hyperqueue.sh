#!/bin/sh
# A sweep of extant as an array of HyperQueue: @COUNT@ jobs in @SHARDS@ tasks.
#
#   hq server start &       once, and on each machine: hq worker start &
#   sh this-file            hands it over and waits; again after a failure, what is done stays
set -eu
# Its words are given with the task, so that blanks in names are none of the shell's business.
exec hq submit --name @NAME@ --array 1-@SHARDS@ --cpus 1 --time-limit @SECONDS@s \
    --crash-limit 5 --wait -- \
    sh -c 'exec extant sweep run "$1" "$2" --workers 1 --shard "$HQ_TASK_ID/$3"' \
    sh @JOBS@ @DIRECTORY@ @SHARDS@
