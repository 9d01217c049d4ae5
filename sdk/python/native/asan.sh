#!/usr/bin/env bash
# Runs the extension's tests with the address, leak and undefined-behaviour sanitizers in the
# extension and in the library that records its calls. PYTHON has pytest.
#
# The interpreter is not instrumented and keeps memory until it exits, so of the leak reports
# only those count that go through a function of the extension. What the recording library
# gave is counted by the tests themselves; a child of a fork must not give it back.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
asan=$(gcc -print-file-name=libasan.so)
[ -e "$asan" ] || { echo "asan.sh: libasan is not installed; on Debian or Ubuntu it comes with gcc" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=$work/logs
mkdir "$logs"

# handle_segv=0: faulthandler is Python's. PYTHONMALLOC: every object is a block of its own.
# exitcode=0 for leaks: the reports are judged below; other findings abort.
status=0
NATIVE_SANITIZE=address,undefined LD_PRELOAD=$asan PYTHONMALLOC=malloc \
  ASAN_OPTIONS="detect_leaks=1:exitcode=0:abort_on_error=0:halt_on_error=1:handle_segv=0:fast_unwind_on_malloc=0:malloc_context_size=12:log_path=$logs/asan" \
  UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:log_path=$logs/ubsan" \
  "$python" -m pytest -q -p no:cacheprovider --basetemp="$work/tests" tests/native --deselect tests/native/test_native_leak.py::test_no_memory_is_kept "$@" || status=$?

grep -q libasan "$work"/tests/extension0/_native*.so || { echo "asan.sh: the extension was built without sanitizers" >&2; exit 1; }

"$python" - "$logs" <<'PY' || status=1
import pathlib, re, sys

def counts(report):
    if "leak of" not in report.split("\n")[0]:
        return "AddressSanitizer:" in report or "runtime error:" in report
    return "/python/native/" in report and "/native/fake/" not in report.split(" #2 ")[0]

reports = [
    report
    for log in pathlib.Path(sys.argv[1]).iterdir()
    for report in re.split(r"\n\n+", log.read_text(errors="replace").split("\nSUMMARY:")[0])
    if counts(report)
]
print(*reports, f"asan.sh: {len(reports)} findings in the extension", sep="\n\n")
sys.exit(len(reports) > 0)
PY
exit $status
