"""The topology dump: of this machine, and of a file."""

import json
from pathlib import Path

import pytest
from procs import Package

MODULE = "mooncake.transfer_engine_topology_dump"
# The names are such that no machine has the devices.
MATRIX = {"cpu:0": [["absent_0"], ["absent_1"]], "cuda:0": [["absent_1"], []]}


def matrix(line: str, mode: str) -> dict[str, list[list[str]]]:
    head = f"Local topology [te/{mode}]: "
    assert line.startswith(head), line
    assert line.count("\n") == 1
    return json.loads(line.removeprefix(head))


@pytest.fixture
def custom(tmp_path: Path) -> str:
    path = tmp_path / "topo.json"
    path.write_text(json.dumps(MATRIX))
    return str(path)


def check_custom(out: str, err: str, path: str) -> None:
    """The locations are the file's; devices that the machine lacks are left out and named."""
    assert matrix(out, f"custom ({path})") == {"cpu:0": [[], []], "cuda:0": [[], []]}
    assert '"absent_0"' in err
    assert '"absent_1"' in err


def test_this_machine(package: Package, custom: str) -> None:
    plain = package.run("-m", MODULE)
    assert plain.returncode == 0, plain.stderr
    assert all(len(near) == 2 for near in matrix(plain.stdout, "discover").values())
    with_variable = package.run("-m", MODULE, "--backend", "te", MC_CUSTOM_TOPO_JSON=custom)
    assert with_variable.stdout == plain.stdout, "the variable counts only when it is asked for"


def test_a_file(package: Package, custom: str) -> None:
    done = package.run("-m", MODULE, "--custom-topo-json", custom)
    assert done.returncode == 0, done.stderr
    check_custom(done.stdout, done.stderr, custom)


def test_the_file_of_the_environment(package: Package, custom: str) -> None:
    done = package.run("-m", MODULE, "--use-custom-topo", MC_CUSTOM_TOPO_JSON=custom)
    assert done.returncode == 0, done.stderr
    check_custom(done.stdout, done.stderr, custom)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--use-custom-topo"], "needs MC_CUSTOM_TOPO_JSON"),
        (["--custom-topo-json", "/nowhere/topo.json"], "/nowhere/topo.json"),
        (["--custom-topo-json", ""], "is not a file"),
        (["--backend", "tent"], "no TENT"),
    ],
)
def test_failures_end_with_1(package: Package, args: list[str], said: str) -> None:
    done = package.run("-m", MODULE, *args)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr


def test_a_file_that_is_no_matrix(package: Package, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    done = package.run("-m", MODULE, "--custom-topo-json", str(broken))
    assert (done.returncode, done.stdout) == (1, "")
    assert "broken.json" in done.stderr


def test_without_the_binary(bare: Path) -> None:
    done = Package(bare).run("-m", MODULE)
    assert done.returncode == 1
    assert "this installation has no binary" in done.stderr
