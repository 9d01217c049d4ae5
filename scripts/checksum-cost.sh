#!/usr/bin/env bash
# What the checksum costs: the demo with and without it in turn, medians of several rounds.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds="${1:-7}"
[ -x bin/mooncake ] || make build >&2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
figure() { awk -F'[:,]' -v k="\"$2\"" '$1 ~ k {gsub(/ /, "", $2); print $2}' "$1"; }
for i in $(seq "$rounds"); do
  for checksum in true false; do
    bin/mooncake demo -o json --checksum=$checksum >"$dir/out" 2>/dev/null
    for k in get_gbps put_gbps get_p50_us put_p50_us; do figure "$dir/out" $k >>"$dir/$checksum.$k"; done
  done
  echo "round $i of $rounds" >&2
done
median() { sort -g "$1" | awk '{v[NR]=$1} END {print (NR % 2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
printf '%-12s %12s %12s %8s\n' figure with without ratio
for k in get_gbps put_gbps get_p50_us put_p50_us; do
  a=$(median "$dir/true.$k")
  b=$(median "$dir/false.$k")
  awk -v k=$k -v a="$a" -v b="$b" 'BEGIN {printf "%-12s %12.3f %12.3f %8.3f\n", k, a, b, a / b}'
done
