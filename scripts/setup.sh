#!/usr/bin/env bash
# Checks for what the build needs, and installs what Debian or Ubuntu packages provide. --python
# adds the headers and virtual environments of Python, --tests also Redis and PyTorch.
# Go itself is not installed: a distribution's package is often older than go.mod asks for.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
command -v awk >/dev/null || missing+=(mawk)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"

# install PACKAGE...: from the distribution, quietly.
install() {
  echo "setup: installing $*" >&2
  # Networks fail now and then, and another program may be installing something, too.
  local patient=(-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  $sudo apt-get "${patient[@]}" update -qq &&
    DEBIAN_FRONTEND=noninteractive $sudo apt-get "${patient[@]}" install -y -qq --no-install-recommends "$@" >&2
}

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: please install: ${missing[*]}" >&2
    exit 1
  fi
  install "${missing[@]}"
fi

# The tests of the Python package build its extension, in an environment of their own.
if [ -n "${1:-}" ]; then
  python=()
  python3 -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || python+=(python3 python3-dev)
  python3 -c 'import ensurepip' 2>/dev/null || python+=(python3-venv)
  if [ ${#python[@]} -gt 0 ]; then
    { command -v apt-get >/dev/null && install "${python[@]}"; } ||
      echo "setup: ${python[*]} could not be installed; make test-python will not run" >&2
  fi
fi

# The tests of tensors run with the distribution's PyTorch, which has no CUDA and is small.
if [ "${1:-}" = --tests ] && ! /usr/bin/python3 -c 'import ensurepip, torch; torch.__version__' 2>/dev/null; then
  { command -v apt-get >/dev/null && install python3-torch python3-venv; } ||
    echo "setup: python3-torch could not be installed; the tests of tensors that need PyTorch are left out" >&2
fi

# The tests of the metadata service run a real Redis where there is one. redis-tools has the
# server's binary (as redis-check-rdb) without the package that starts it as a service.
if [ "${1:-}" = --tests ] && ! command -v redis-server >/dev/null && ! command -v redis-check-rdb >/dev/null; then
  { command -v apt-get >/dev/null && install redis-tools; } ||
    echo "setup: redis-tools could not be installed; the tests with Redis are left out" >&2
fi

if ! command -v go >/dev/null; then
  echo "setup: Go is not installed; this project needs Go $(awk '/^go /{print $2}' go.mod) or newer: https://go.dev/dl/" >&2
  exit 1
fi
want=$(awk '/^go /{print $2}' go.mod)
have=$(go env GOVERSION | sed 's/^go//')
if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" != "$want" ]; then
  echo "setup: go.mod needs Go $want, this is $have; install a newer Go from https://go.dev/dl/ or set GOTOOLCHAIN=auto" >&2
  exit 1
fi
