"""The file: its manifest is found without running it, and it is the same every time."""

import sys

import pytest
from conftest import SAMPLE

from mooncake_plugin.build import build


def test_the_manifest_is_in_the_file_as_it_is(program):
    assert program.read_bytes().count((SAMPLE / "sample_lru/manifest.json").read_bytes()) == 1
    assert program.read_bytes().count(b'{"mooncake_plugin_manifest":') == 1


def test_the_same_input_gives_the_same_file(program, tmp_path):
    again = build(SAMPLE, tmp_path, sys.executable)
    assert again.read_bytes() == program.read_bytes()
    assert [f.name for f in tmp_path.iterdir()] == [program.name]


@pytest.mark.parametrize("interpreter", ["/" + "x" * 250, "/opt/my tools/python"])
def test_an_interpreter_that_no_first_line_can_name(tmp_path, interpreter):
    with pytest.raises(SystemExit, match="first line"):
        build(SAMPLE, tmp_path, interpreter)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_one_package(tmp_path):
    with pytest.raises(SystemExit, match="0 packages with a manifest"):
        build(tmp_path, tmp_path / "bin", sys.executable)
