"""What the tests share: the generated code, and the program as a user builds it."""

import pathlib
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent
PROTOS = (EXAMPLE / "../../sdk/proto").resolve()
sys.path[:0] = [str(EXAMPLE), str(HERE)]

import build

_generated = tempfile.TemporaryDirectory()
build.generate(PROTOS, pathlib.Path(_generated.name))
sys.path.insert(0, _generated.name)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The built program."""
    return build.build(tmp_path_factory.mktemp("bin"), PROTOS, sys.executable)
