#!/usr/bin/env bash
# Builds the Python wheel and the source distribution into dist/.
#
# So that the wheel runs on other systems than this, the C compiler is zig's, which links for
# the C library of GLIBC, the oldest that zig and Go both know. auditwheel then checks that no
# file needs a newer one and gives the wheel its manylinux tag. With a PYTHON of 3.11 or newer
# the wheel is for all of these, with an older one for that version alone.
set -euo pipefail
cd "$(dirname "$0")/.."
glibc=${GLIBC:-2.17}
venv=.tools/wheel
python=${PYTHON:-python3}

# What the environment is made of; another PYTHON gets another one.
made_of=$(cat scripts/wheel-requirements.txt; "$python" --version)
if [ "$made_of" != "$(cat $venv/.made-of 2>/dev/null)" ]; then
  "$python" -m venv --clear $venv || { echo "wheel: $python has no venv; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
  ./scripts/retry.sh $venv/bin/pip install -q --disable-pip-version-check -r scripts/wheel-requirements.txt
  echo "$made_of" >$venv/.made-of
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
zig="$PWD/$venv/bin/python -m ziglang"
CC="$zig cc -target $(uname -m)-linux-gnu.$glibc" \
  $venv/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir -w "$work" ./sdk/python
mkdir -p dist
PATH=$PWD/$venv/bin:$PATH $venv/bin/auditwheel repair --plat "manylinux_${glibc/./_}_$(uname -m)" -w dist "$work"/*.whl
(cd sdk/python && ../../$venv/bin/python setup.py -q sdist -d ../../dist)

ls -l dist/mooncake_transfer_engine-*
