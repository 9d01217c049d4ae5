#!/usr/bin/env bash
# Installs what `make bench-peers` compares with: the published wheel of the reference
# implementation into a Python environment of its own, and servers and measuring programs of
# Debian or Ubuntu. What cannot be installed is left out: the measurement says so in its result.
#   scripts/bench-peers-setup.sh FOLDER PYTHON
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$1 python=$2
wheel=mooncake-transfer-engine-non-cuda==0.3.13.post1

missing=()
for program in redis-server memcached iperf3 fio; do
  command -v "$program" >/dev/null || missing+=("$program")
done
command -v taskset >/dev/null || missing+=(util-linux)
if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  patient=(-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  echo "bench-peers: installing ${missing[*]}" >&2
  $sudo apt-get "${patient[@]}" update -qq >&2 || true
  for package in "${missing[@]}"; do # One that cannot be had keeps none of the others out.
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get "${patient[@]}" install -y -qq --no-install-recommends "$package" >/dev/null ||
      echo "bench-peers: $package could not be installed" >&2
  done
fi

upstream=$folder/upstream
if [ -e "$upstream/.stamp" ] && [ "$(cat "$upstream/.stamp")" = "$wheel" ]; then
  exit 0
fi
mkdir -p "$upstream"
log=$folder/upstream.log
if "$python" -m venv --clear "$upstream" >"$log" 2>&1 &&
  ./scripts/retry.sh timeout 600 "$upstream/bin/pip" install -q --disable-pip-version-check "$wheel" >>"$log" 2>&1 &&
  "$upstream/bin/python" -c 'import mooncake.store' >>"$log" 2>&1; then
  echo "$wheel" >"$upstream/.stamp"
else
  mkdir -p "$upstream"
  { echo "$wheel could not be installed: $(tail -n 1 "$log")"; } >"$upstream/MISSING"
  echo "bench-peers: $(cat "$upstream/MISSING")" >&2
fi
