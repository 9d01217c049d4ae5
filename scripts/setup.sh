#!/usr/bin/env bash
# Checks for what the build needs and installs what Debian or Ubuntu packages give.
# Go itself is not installed: a distribution's package is often older than go.mod asks for.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
command -v awk >/dev/null || missing+=(mawk)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)

if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  if ! command -v apt-get >/dev/null; then
    echo "setup: please install: ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}" >&2
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
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
