#!/usr/bin/env bash
# Fails for functions that neither a program nor a test reaches. DEADCODE names the program.
#
# It does not see calls from C, which enter at cmd/libmooncake and go on to core/bindings, nor those
# of plugins elsewhere, which sdk/ is for. test/fakeverbs is called from C as well.
set -euo pipefail
cd "$(dirname "$0")/.."
dead=$("${DEADCODE:-.tools/deadcode}" -test ./... | grep -vE '^(cmd/libmooncake|core/bindings|sdk|test/fakeverbs)/' || true)
[ -z "$dead" ] || {
  echo "$dead"
  echo "deadcode: delete these functions, or call them"
  exit 1
}
