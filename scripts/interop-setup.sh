#!/usr/bin/env bash
# Installs published wheels of the reference implementation, each into a Python environment of
# its own, FOLDER/VERSION, which is kept and used again. Fails with the reason where one cannot
# be had.
#   scripts/interop-setup.sh FOLDER PYTHON VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 python=$2
shift 2

for version; do
  env=$folder/$version
  wants=("mooncake-transfer-engine-non-cuda==$version")
  case $version in
    0.3.12*) wants+=(nvidia-cuda-runtime-cu12) ;; # This one needs libcudart, without a device.
  esac
  if [ "$(cat "$env/.stamp" 2>/dev/null)" = "${wants[*]}" ]; then
    continue
  fi
  echo "interop: installing ${wants[*]}" >&2
  mkdir -p "$folder"
  log=$folder/$version.log
  if ! { "$python" -m venv --clear "$env" &&
    ./scripts/retry.sh timeout 600 "$env/bin/pip" install -q --disable-pip-version-check "${wants[@]}" &&
    cuda=$(find "$env/lib" -type d -path '*/nvidia/cuda_runtime/lib') &&
    LD_LIBRARY_PATH=$cuda:${LD_LIBRARY_PATH:-} "$env/bin/python" -c 'import mooncake.store'; } >"$log" 2>&1; then
    echo "interop: ${wants[*]} could not be installed into $env: $(tail -n 1 "$log"); the log is $log" >&2
    exit 1
  fi
  echo "${wants[*]}" >"$env/.stamp"
done
