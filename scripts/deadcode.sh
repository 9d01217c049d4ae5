#!/usr/bin/env bash
# Fails for functions that neither a program nor a test reaches. DEADCODE names the program.
#
# It does not see calls from C, which enter at cmd/libmooncake and go on to core/bindings, nor those
# of plugins elsewhere, which sdk/ is for. test/fakeverbs is called from C as well.
set -euo pipefail
cd "$(dirname "$0")/.."
# The modules are looked at together: the bench module reaches functions of the core.
export GOWORK
GOWORK=$(mktemp -d)/go.work
trap 'rm -rf "$(dirname "$GOWORK")"' EXIT
go work init . sdk bench
dead=$("${DEADCODE:-.tools/deadcode}" -test ./... ./bench/... | grep -vE '^(cmd/libmooncake|core/bindings|sdk|test/fakeverbs)/' || true)
[ -z "$dead" ] || {
  echo "$dead"
  echo "deadcode: delete these functions, or call them"
  exit 1
}
