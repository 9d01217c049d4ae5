#!/usr/bin/env bash
# Runs the tests of tensors with the distribution's PyTorch. It comes after `make pydev`, whose
# extension is for Python 3.11 and newer. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3
venv=.tools/python-torch

leave_out() {
  echo "test-python: the tests of tensors that need PyTorch are LEFT OUT: $1" >&2
  exit 0
}
[ -x $python ] || leave_out "there is no $python"
$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || leave_out "$python is older than 3.11"
$python -c 'import torch; torch.__version__' 2>/dev/null || leave_out "$python has no torch; on Debian or Ubuntu: apt install python3-torch"
ls sdk/python/mooncake/_native.abi3.so >/dev/null 2>&1 || leave_out "the extension was built for a Python older than 3.11"

if ! cmp -s sdk/python/tests/requirements.txt $venv/.requirements; then
  $python -m venv --clear --system-site-packages $venv >/dev/null || leave_out "$python has no venv; on Debian or Ubuntu: apt install python3-venv"
  # Not numpy: torch is built for the distribution's.
  grep -v '^numpy' sdk/python/tests/requirements.txt >$venv/without-numpy.txt
  ./scripts/retry.sh $venv/bin/pip install -q --disable-pip-version-check -r $venv/without-numpy.txt
  cp sdk/python/tests/requirements.txt $venv/.requirements
fi
echo "test-python: the tests of tensors, with PyTorch $($venv/bin/python -c 'import torch; print(torch.__version__)')"
$venv/bin/python -m pytest -q -p no:cacheprovider sdk/python/tests/tensor "$@"
