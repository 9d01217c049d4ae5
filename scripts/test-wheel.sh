#!/usr/bin/env bash
# Installs the wheels of dist/ into bare systems, one for each processor, and uses them there.
#
# A bare system is a folder with Debian's python3 and what that needs, and neither Go nor a
# compiler; programs run in it by chroot, those of another processor under qemu's emulation.
# Needs root, for chroot. In each of them a master and a store run, and Python puts and gets an object.
set -euo pipefail
cd "$(dirname "$0")/.."
packed_most=$((15 * 1000 * 1000))    # bytes of a wheel
installed_most=$((40 * 1024 * 1024)) # bytes of what it puts into a system
wait_most=120                        # seconds for a program to start, emulated

fail() { echo "test-wheel: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "chroot needs root; run it as root or with sudo"
tools=()
command -v mmdebstrap >/dev/null || tools+=(mmdebstrap)
command -v qemu-aarch64-static >/dev/null && command -v qemu-x86_64-static >/dev/null || tools+=(qemu-user-static)
if [ ${#tools[@]} -gt 0 ]; then
  echo "test-wheel: installing ${tools[*]}" >&2
  DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${tools[@]}" >/dev/null
fi
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
work=$(mktemp -d)
started=()
finish() {
  [ ${#started[@]} = 0 ] || kill -9 "${started[@]}" 2>/dev/null || true
  for bound in "$work"/*/proc; do ! mountpoint -q "$bound" || umount -l "$bound"; done
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# test_wheel ARCH DEBIANS_NAME PORT
test_wheel() {
  local arch=$1 root=$work/$1 port=$3 wheel emulate=() size
  wheel=$(compgen -G "dist/mooncake_transfer_engine-*_$arch.whl") || fail "dist has no wheel for $arch; run: make wheel"
  size=$(stat -c %s "$wheel")
  [ "$size" -le $packed_most ] || fail "$wheel has $size bytes; at most $packed_most are allowed"

  mmdebstrap --quiet --variant=extract --architectures="$2" --include=base-files,libc6,python3,python3-pip-whl "$suite" "$root" ||
    fail "no Debian $suite for $2"
  ! [ -e "$root/usr/bin/gcc" ] && ! [ -e "$root/usr/bin/go" ] || fail "$root is not bare"
  mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/site"
  mount -t proc proc "$root/proc"
  for device in null:3 zero:5 random:8 urandom:9; do
    [ -e "$root/dev/${device%:*}" ] || mknod -m 666 "$root/dev/${device%:*}" c 1 "${device#*:}"
  done
  if [ "$arch" != "$(uname -m)" ]; then
    cp "$(command -v "qemu-$arch-static")" "$root/emulator"
    emulate=(/emulator)
  fi
  # No function: a program in the background has to be the process that is killed at the end.
  local inside=(env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/site chroot "$root" "${emulate[@]}")
  cp "$wheel" "$root/tmp/"
  # The packages are unpacked and not set up: python3 is a link of Debian's, and pip a wheel.
  local python pip
  python=$(cd "$root" && compgen -G "usr/bin/python3.*[0-9]" | head -1)
  pip=$(cd "$root" && compgen -G "usr/share/python-wheels/pip-*.whl" | head -1)
  "${inside[@]}" "/$python" "/$pip/pip" install -q --no-index --no-deps --root-user-action=ignore --target /site "/tmp/${wheel##*/}"
  size=$(du -sb "$root/site" | cut -f1)
  [ "$size" -le $installed_most ] || fail "$wheel installs $size bytes; at most $installed_most are allowed"

  "${inside[@]}" /site/mooncake/mooncake version
  "${inside[@]}" /site/mooncake/mooncake master --rpc_address 127.0.0.1 --rpc_port "$port" --metrics_port $((port + 1)) >"$work/$arch.log" 2>&1 &
  started+=($!)
  timeout $wait_most bash -c "until (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; do sleep 0.2; done" ||
    { cat "$work/$arch.log" >&2; fail "the master of $arch does not serve"; }
  "${inside[@]}" "/$python" - <<PY || { cat "$work/$arch.log" >&2; fail "the package does not work on $arch"; }
import platform
from mooncake.store import MooncakeDistributedStore
assert platform.machine() == "$arch", platform.machine()
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 16 << 20, 4 << 20, "tcp", "", "127.0.0.1:$port") == 0, store.last_error()
assert store.put("greeting", b"hello") == 0, store.last_error()
assert store.get("greeting") == b"hello", store.last_error()
assert store.close() == 0
PY
  echo "test-wheel: $arch is fine: $(stat -c %s "$wheel") bytes packed, $size installed"
}

port=$((20000 + RANDOM % 10000))
test_wheel x86_64 amd64 $port
test_wheel aarch64 arm64 $((port + 10))
