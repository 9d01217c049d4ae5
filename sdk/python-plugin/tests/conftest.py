"""What the tests share: a program, as a user builds it."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE / "sample"
sys.path[:0] = [str(HERE.parent), str(HERE), str(SAMPLE)]

from mooncake_plugin.build import build


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The built program."""
    return build(SAMPLE, tmp_path_factory.mktemp("bin"), sys.executable)
