#!/usr/bin/env bash
# Runs a command that downloads something, up to three times: networks fail now and then.
set -uo pipefail
for pause in 5 20 0; do
  rc=0
  "$@" || rc=$?
  [ $rc != 0 ] || exit 0
  [ $pause = 0 ] || { echo "retry: '$*' ended with $rc; again in $pause s" >&2; sleep $pause; }
done
exit $rc
