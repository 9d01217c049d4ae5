"""The console scripts and the python -m forms become the binary, under the name that was asked for."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from processes import free_port
from procs import Package, http

# console script, the function behind it, the name the binary is called by, and how its help begins
SCRIPTS = [
    ("mooncake", "mooncake.__main__:main", "mooncake", "Mooncake pools"),
    ("mooncake_master", "mooncake.cli:main", "mooncake_master", "The master knows"),
    ("mooncake_client", "mooncake.cli_client:main", "mooncake_client", "It owns the transports"),
    ("transfer_engine_bench", "mooncake.cli_bench:main", "transfer_engine_bench", "mooncake bench transfer"),
    (
        "mooncake_http_metadata_server",
        "mooncake.http_metadata_server:main",
        "mooncake_http_metadata_server",
        "Serve the metadata",
    ),
    ("mc_store_rest_server", "mooncake.mooncake_store_service:program", "mooncake_store_service", "A store node"),
    ("mooncake-hicache-sizing", "mooncake.hicache_sizing:main", "mooncake-hicache-sizing", "huge pages"),
]
MODULES = [
    "mooncake",
    "mooncake.cli",
    "mooncake.cli_client",
    "mooncake.cli_bench",
    "mooncake.http_metadata_server",
    "mooncake.mooncake_store_service",
    "mooncake.hicache_sizing",
]


def test_the_table_is_the_packages() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    scripts = {name: target for name, target, *_ in SCRIPTS}
    assert project["project"]["scripts"] == scripts | {
        "mooncake_store_service": scripts["mc_store_rest_server"],
        "transfer_engine_topology_dump": "mooncake.transfer_engine_topology_dump:main",
    }


def script(target: str) -> str:
    """What an installer writes for a console script."""
    module, function = target.split(":")
    return f"import sys; from {module} import {function}; sys.exit({function}())"


@pytest.mark.parametrize(("name", "target", "alias", "help_text"), SCRIPTS, ids=[s[0] for s in SCRIPTS])
def test_a_console_script_is_its_program(package: Package, name: str, target: str, alias: str, help_text: str) -> None:
    done = package.run("-c", script(target), "--help")
    assert done.returncode == 0, done.stderr
    assert help_text in done.stdout


@pytest.mark.parametrize("module", MODULES)
def test_python_m_is_the_program(package: Package, module: str) -> None:
    done = package.run("-m", module, "--help")
    assert done.returncode == 0, done.stderr
    by_script = next(
        script(target) for _, target, *_ in SCRIPTS if target.split(":")[0].removesuffix(".__main__") == module
    )
    assert done.stdout == package.run("-c", by_script, "--help").stdout


def test_a_wrong_flag_ends_as_upstreams_programs_do(package: Package) -> None:
    done = package.run("-m", "mooncake.cli", "--rpc_prot", "1")
    assert done.returncode == 1
    assert "rpc_port" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_master_keeps_the_pid_and_ends_with_a_signal(package: Package, binary: Path, how: signal.Signals) -> None:
    port = free_port()
    flags = [f"--rpc_port={port}", "--rpc_address=127.0.0.1", "-metrics_port=0", "--metrics_host", "127.0.0.1"]
    master = package.start("-m", "mooncake.cli", *flags)
    master.wait_for("master is serving")
    assert os.path.samefile(master.exe(), binary), "the process that was started is the binary"
    assert master.argv() == ["mooncake_master", *flags]
    assert master.end(how) == 0


def test_the_metadata_server_serves_upstreams_requests(package: Package, binary: Path) -> None:
    server = package.start(
        "-m", "mooncake.http_metadata_server", "--port", "0", "--host", "127.0.0.1", "--log-level", "INFO"
    )
    base = "http://" + server.wait_for(r"metadata server is serving.*address=(\S+)")[1] + "/metadata"
    assert os.path.samefile(server.exe(), binary)
    assert http("GET", base)[0] == 400
    assert http("PUT", base + "?key=a%2Fb", b"one") == (200, b"metadata updated")
    assert http("GET", base + "?key=a%2Fb") == (200, b"one")
    assert http("DELETE", base + "?key=a%2Fb")[0] == 200
    assert http("GET", base + "?key=a%2Fb")[0] == 404
    assert server.end() == 0


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_the_metadata_server_takes_pythons_log_levels(package: Package, level: str) -> None:
    port = str(free_port())
    done = package.run(
        "-m", "mooncake.http_metadata_server", "--log-level", level, "--port", port, "--host", "256.0.0.1"
    )
    assert "256.0.0.1" in done.stderr, "it got as far as the address"


def test_without_the_binary_the_scripts_say_what_to_do(bare: Path) -> None:
    done = Package(bare).run("-m", "mooncake.cli")
    assert done.returncode == 1
    assert "this installation has no binary" in done.stderr
    assert "make pydev" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_binary_is_made_executable(bare: Path, binary: Path) -> None:
    copy = Package(bare).binary
    shutil.copyfile(binary, copy)
    copy.chmod(0o640)
    done = Package(bare).run("-m", "mooncake", "version")
    assert done.returncode == 0, done.stderr
    assert copy.stat().st_mode & 0o777 == 0o751


def test_a_binary_that_cannot_be_made_executable_is_named(bare: Path, binary: Path) -> None:
    copy = Package(bare).binary
    shutil.copyfile(binary, copy)
    copy.chmod(0o644)
    read_only = """
import pathlib
def refuse(self, mode): raise PermissionError(30, "Read-only file system")
pathlib.Path.chmod = refuse
from mooncake import cli
cli.main()
"""
    done = Package(bare).run("-c", read_only)
    assert done.returncode == 1
    assert re.search(r"mooncake_master: .*cannot be run.*Read-only file system.*chmod \+x", done.stderr), done.stderr
