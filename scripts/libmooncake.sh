#!/usr/bin/env bash
# Builds the library for programs in C into a folder, dist/libmooncake by default: lib, include,
# and a file for pkg-config, which finds the other two from where it lies, so that the folder
# may be moved.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/../dist/libmooncake}")
cd "$(dirname "$0")/.."
source=cmd/libmooncake
version=$(sed -n 's/^version = "\(.*\)"/\1/p' sdk/python/pyproject.toml)

[ $# -gt 0 ] || rm -rf "$out"
mkdir -p "$out/lib/pkgconfig" "$out/include"
link="-Wl,--version-script=$PWD/$source/exports.map,-soname,libmooncake.so"
CGO_ENABLED=1 go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags "-s -w \"-extldflags=-Wl,--strip-all '$link'\"" \
  -o "$out/lib/libmooncake.so" ./$source
rm "$out/lib/libmooncake.h" # generated; the headers to use are in include
for header in "$source"/include/*.h; do
  [ "${header##*/}" = mooncake_native.h ] || cp "$header" "$out/include/" # that one is the Python package's
done
cat >"$out/lib/pkgconfig/mooncake.pc" <<PC
prefix=\${pcfiledir}/../..

Name: mooncake
Description: A pool of memory for the KV cache of LLM inference, and its transfer engine
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lmooncake
PC
find "$out" -type f
