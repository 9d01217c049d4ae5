#!/usr/bin/env bash
# Benchmarks of the parts whose cost is counted in nanoseconds, compared with the figures in
# docs/bench by benchstat. With --update these are replaced.
#   scripts/bench-stat.sh BENCHSTAT [--update] [NAME...]    names: allocator eviction objects framing
set -euo pipefail
cd "$(dirname "$0")/.."
benchstat=$1
shift
update=
if [ "${1-}" = --update ]; then
  update=yes
  shift
fi
[ $# -gt 0 ] || set -- allocator eviction objects framing
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# run TIME PATTERN PACKAGE...
run() {
  local time=$1 pattern=$2
  shift 2
  go test -run '^$' -bench "$pattern" -benchmem -count=6 -benchtime="$time" -timeout 10m "$@"
}
measure() {
  case $1 in
  allocator) run 200ms '^BenchmarkArena$/^pages' ./plugins/alloc-arena ;;
  eviction) run 200ms '/^objects=1000$' ./plugins/evict-{lru,prefix,s3fifo,sieve} ;;
  objects) run 200ms '/^objects=1000$' ./core/master/objects ;;
  framing)
    run 200ms '^BenchmarkCall$' ./core/api/lean
    run 50ms '^BenchmarkCodec$/./(Request|Response)/^here$' ./core/api/mastercodec
    ;;
  *)
    echo "there is no benchmark $1; there are allocator, eviction, objects and framing" >&2
    exit 2
    ;;
  esac
}

for name in "$@"; do
  file=docs/bench/$name.txt
  echo "measuring $name" >&2
  # Of what go test prints the file keeps what benchstat reads.
  measure "$name" | grep -E '^(goos|goarch|pkg|cpu|Benchmark)' >"$new/$name.txt"
  if [ -f "$file" ]; then
    # Another processor is no reason to compare nothing: allocations are the same on each.
    (cd docs/bench && "$benchstat" -ignore cpu "$name.txt" "now=$new/$name.txt")
    cmp -s <(grep ^cpu: "$file") <(grep ^cpu: "$new/$name.txt") || echo "$name: the times are of different processors" >&2
  fi
  if [ -n "$update" ]; then
    mkdir -p docs/bench
    cp "$new/$name.txt" "$file"
  fi
done
