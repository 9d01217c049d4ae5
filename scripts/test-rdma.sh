#!/usr/bin/env bash
# Builds the tests that need RDMA devices and runs them in the VM of test/rdma-vm, which
# boots once for all of them. Results go to dist/test-rdma. Arguments are passed on to the
# test: -test.run TestOnDevices/speed.
set -euo pipefail
cd "$(dirname "$0")/.."

vm=$PWD/test/rdma-vm/rdma-vm
out=$PWD/dist/test-rdma
# Outside of the folder that the VM writes to, where it would read programs page by page.
bin=$PWD/dist/test-rdma-bin
limit=1500   # seconds for the VM; the steps have limits of their own

rc=0
why=$("$vm" --check 2>&1) || rc=$?
if [ $rc = 77 ]; then
  echo "SKIPPED: test-rdma: nothing was tested with RDMA devices: $why"
  exit 0
elif [ $rc != 0 ]; then
  echo "test-rdma: $why" >&2
  exit $rc
fi
# Also when asked for one step only: reports of an older run would look like this one's.
rm -rf "$out" "$bin"
mkdir -p "$out" "$bin"

if ! "$vm" --setup; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if ! $sudo apt-get -qq -o APT::Update::Error-Mode=any update >/dev/null 2>&1; then
    echo "SKIPPED: test-rdma: nothing was tested with RDMA devices: the packages of the VM cannot be downloaded"
    exit 0
  fi
  exit 1
fi
go build -trimpath -o "$bin/" ./cmd/mooncake
go test -c -o "$bin/verbs.test" ./plugins/transport-rdma/internal/verbs
go test -c -o "$bin/transport-rdma.test" ./plugins/transport-rdma
go test -c -o "$bin/rdma.test" ./test/rdma

cd "$out"
export RDMA_TEST_BIN=$bin RDMA_TEST_OUT=$out RDMA_TEST_ROOT=${PWD%/dist/test-rdma}
rc=0
"$vm" --timeout $limit --mem 3072 --devices 4 --log "$out/kernel.log" -- \
  "$bin/rdma.test" -test.v -test.timeout $((limit - 30))s "$@" 2>&1 |
  grep --line-buffered -v '^ *=== ' | tee "$out/log.txt" || rc=$?

if [ $# = 0 ]; then
  cd "$RDMA_TEST_ROOT"
  echo "test-rdma: the VM itself"
  RDMA_VM_TEST=1 go test -count=1 -timeout 5m ./test/rdma-vm || rc=$?
fi
exit $rc
