#!/usr/bin/env bash
# Runs every fuzz target of the repository for the given time, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time="${1:-60s}"
count=0
for module in . sdk bench; do
  while IFS=: read -r file target; do
    package="./$(dirname "$file")"
    echo "fuzz $module/${package#./} $target"
    (cd "$module" && go test -run '^$' -fuzz "^${target}\$" -fuzztime "$time" "$package" | tail -2)
    count=$((count + 1))
  done < <(cd "$module" && git ls-files '*_test.go' | if [ "$module" = . ]; then grep -vE '^(sdk|bench)/'; else cat; fi |
    xargs grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //')
done
echo "fuzzed $count targets for $time each"
