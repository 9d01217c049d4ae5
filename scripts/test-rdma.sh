#!/usr/bin/env bash
# Builds the tests that need RDMA devices or a device mapper, and runs them in the VM of test/rdma-vm, which
# boots once for all of them. Results go to dist/test-rdma. Arguments are passed on to the
# test: -test.run TestOnDevices/speed.
set -euo pipefail
cd "$(dirname "$0")/.."

vm=$PWD/test/rdma-vm/rdma-vm
out=$PWD/dist/test-rdma
# Outside of the folder that the VM writes to, where it would read programs page by page.
bin=$PWD/dist/test-rdma-bin
# Seconds for downloads, and for the VM; the steps in it have limits of their own, which
# leave out those that a slow machine would not get to.
setup_limit=420
limit=720
memory=3072   # MiB

# skip WHY: a test that cannot run here does not fail, but must not pass for done either.
skip() {
  echo "SKIPPED: test-rdma: nothing was tested with RDMA devices: $*"
  exit 0
}

rc=0
why=$("$vm" --check 2>&1) || rc=$?
if [ $rc = 77 ]; then
  skip "$why"
elif [ $rc != 0 ]; then
  echo "test-rdma: $why" >&2
  exit $rc
fi
free=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
if [ "${free:-$memory}" -lt "$memory" ]; then
  skip "the VM takes $memory MiB of memory, $free MiB are free"
fi
# Also when asked for one step only: reports of an older run would look like this one's.
rm -rf "$out" "$bin"
mkdir -p "$out" "$bin"

# Packages and the image: a mirror may be away for a moment, or for longer.
for wait in 5 30 0; do
  left=$((setup_limit - SECONDS))
  rc=124
  if [ "$left" -gt 0 ]; then
    rc=0
    timeout --kill-after 20 "$left" "$vm" --setup || rc=$?
  fi
  case $rc in
    0) break ;;
    75 | 124 | 137) ;;
    *)
      echo "test-rdma: the VM could not be set up" >&2
      exit $rc
      ;;
  esac
  sleep "$wait"
done
[ $rc = 0 ] || skip "the packages of the VM cannot be downloaded, or not within $setup_limit s"

go build -trimpath -o "$bin/" ./cmd/mooncake
go test -c -o "$bin/verbs.test" ./plugins/transport-rdma/internal/verbs
go test -c -o "$bin/transport-rdma.test" ./plugins/transport-rdma
go test -c -o "$bin/tier-file.test" ./plugins/tier-file
go test -c -o "$bin/rdma.test" ./test/rdma

cd "$out"
export RDMA_TEST_BIN=$bin RDMA_TEST_OUT=$out RDMA_TEST_ROOT=${PWD%/dist/test-rdma}
rc=0
"$vm" --timeout $limit --mem $memory --devices 4 --log "$out/kernel.log" -- \
  "$bin/rdma.test" -test.v -test.timeout $((limit - 60))s "$@" 2>&1 |
  grep --line-buffered -v '^ *=== ' | tee "$out/log.txt" || rc=$?

if [ $# = 0 ]; then
  cd "$RDMA_TEST_ROOT"
  if grep -q '^test-rdma: SKIP' "$out/log.txt"; then
    # Each of the tests below boots a VM.
    echo "SKIPPED: test-rdma: the steps marked SKIP above, and the VM itself: this machine is too slow"
    exit $rc
  fi
  echo "test-rdma: the VM itself"
  RDMA_VM_TEST=1 go test -count=1 -timeout 6m ./test/rdma-vm || rc=$?
fi
exit $rc
