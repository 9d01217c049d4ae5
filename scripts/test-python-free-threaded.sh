#!/usr/bin/env bash
# Runs the tests of the extension and of stores with a CPython that has no GIL: PYTHON, else python3.14t or python3.13t.
# Its packages go into FOLDER. Without such an interpreter the tests are skipped.
#   scripts/test-python-free-threaded.sh FOLDER [PYTHON] [arguments of pytest]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 python=${2:-}
shift "$(($# > 2 ? 2 : $#))"
for found in python3.14t python3.13t; do
  [ -n "$python" ] || python=$(command -v "$found" || true)
done
if [ -z "$python" ]; then
  echo "test-python-free-threaded: skipped: there is no python3.14t and no python3.13t; name one with FREE_THREADED=PATH" >&2
  exit 0
fi
"$python" -c 'import sysconfig, sys; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || {
  echo "test-python-free-threaded: $python has a GIL; a free-threaded CPython calls itself so in the answer to -VV" >&2
  exit 1
}
"$python" -m venv "$folder"
grep -vE '^(#|aiohttp|ruff)' sdk/python/tests/requirements.txt >"$folder/requirements.txt" # not needed below, or without a build for it
./scripts/retry.sh "$folder/bin/pip" install -q --disable-pip-version-check -r "$folder/requirements.txt"
make --no-print-directory pydev PYTHON="$folder/bin/python"
exec "$folder/bin/python" -m pytest -q -p no:cacheprovider -n 3 --dist loadfile sdk/python/tests/native sdk/python/tests/store "$@"
