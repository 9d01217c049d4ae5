#!/usr/bin/env bash
# Builds the Python wheels and the source distribution into dist/: a wheel for each of ARCHS, by
# default x86-64 and arm64.
#
# So that a wheel runs on other systems than this, the C compiler is zig's, which links for
# the C library of GLIBC, the oldest that zig and Go both know, and for another processor as
# well. auditwheel then checks that no file needs a newer one and gives the wheel its manylinux
# tag. With a PYTHON of 3.11 or newer the wheel is for all of these, with an older one or one
# without the GIL for that version alone, and then for this machine's processor alone.
set -euo pipefail
cd "$(dirname "$0")/.."
glibc=${GLIBC:-2.17}
venv=.tools/wheel
python=${PYTHON:-python3}
here=$(uname -m)
declare -A goarch=([x86_64]=amd64 [aarch64]=arm64)

if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) or "t" in sys.abiflags)'; then
  archs=${ARCHS:-x86_64 aarch64}
else
  archs=$here
  echo "wheel: $("$python" --version) has no stable ABI for this package: the wheel is for $here alone" >&2
fi
for arch in $archs; do
  [ -n "${goarch[$arch]:-}" ] || { echo "wheel: ARCHS has $arch; it may have: ${!goarch[*]}" >&2; exit 2; }
done

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
mkdir -p dist
rm -f dist/mooncake_transfer_engine-*
for arch in $archs; do
  echo "wheel: $arch" >&2
  # Debian's Python keeps one header for each processor. Those of both have the same types.
  for folder in /usr/include/"$here"-linux-gnu/python3.*; do
    [ -d "$folder" ] && mkdir -p "$work/include/$arch-linux-gnu" && cp -r "$folder" "$work/include/$arch-linux-gnu/"
  done
  # -v: pip shows what the build says.
  CC="$zig cc -target $arch-linux-gnu.$glibc -I$work/include" CGO_ENABLED=1 GOOS=linux GOARCH=${goarch[$arch]} \
    _PYTHON_HOST_PLATFORM=linux-$arch \
    $venv/bin/pip wheel -v --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir -w "$work/$arch" ./sdk/python \
    >"$work/$arch.log" 2>&1 || { cat "$work/$arch.log" >&2; exit 1; }
  # auditwheel knows the tags of this machine's processor alone; for another it finds the oldest that fits.
  plat=manylinux_${glibc/./_}_$arch
  PATH=$PWD/$venv/bin:$PATH $venv/bin/auditwheel repair --plat "$([ "$arch" = "$here" ] && echo "$plat" || echo auto)" -w dist "$work/$arch"/*.whl
  compgen -G "dist/*$plat*.whl" >/dev/null || { echo "wheel: a file needs a newer C library than glibc $glibc: dist has no wheel for $plat" >&2; exit 1; }
done
(cd sdk/python && ../../$venv/bin/python setup.py -q sdist -d ../../dist)

ls -l dist/mooncake_transfer_engine-*
