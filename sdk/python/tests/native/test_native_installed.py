"""The package as pip puts it somewhere: what it takes, and its program without any tool around it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

import mooncake

PACKED_MOST = 15 * 1000 * 1000  # bytes, compressed as in a wheel
INSTALLED_MOST = 43 * 1000 * 1000  # bytes
LIMIT = 60.0  # seconds


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the package in a folder of its own."""
    package = Path(mooncake.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "mooncake", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return tmp_path / "site"


def test_size(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= INSTALLED_MOST
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) <= PACKED_MOST


def test_nothing_but_the_package(site: Path, tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(site)}  # no Go, no compiler
    link = tmp_path / "mooncake_master"
    link.symlink_to(site / "mooncake" / "mooncake")
    for program, args, status in (
        (site / "mooncake" / "mooncake", ["version"], 0),
        (link, ["--version"], 0),
        (site / "mooncake" / "mooncake", ["nonsense"], 2),
    ):
        done = subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == status, done.stderr
        assert ("mooncake " in done.stdout) == (status == 0)
    code = "import mooncake; from mooncake.store import MooncakeDistributedStore as S; print(mooncake.__file__, S().close())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout


def test_tools_of_plugin_authors_are_elsewhere(site: Path) -> None:
    for verb in ("new", "conformance"):
        command = [site / "mooncake" / "mooncake", "plugins", verb, "evict/lru", "--run", "x"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 1, done.stderr
        assert "built without the conformance suites" in done.stderr and "make build" in done.stderr


def read_until(process: subprocess.Popen[str], mark: bytes) -> bytes:
    """What a process writes to its standard error, up to a mark or its end, or for as long as LIMIT."""
    assert process.stderr is not None
    text, until = b"", time.monotonic() + LIMIT
    while mark not in text and select.select([process.stderr], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(process.stderr.fileno(), 65536)
        if not more:
            break
        text += more
    return text


def test_quit_shows_what_the_program_does(site: Path) -> None:
    command = [site / "mooncake" / "mooncake", "metadata", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            # By then it runs code of the project. A sanitizer writes a line before that.
            assert b"is serving" in read_until(process, b"is serving"), "the program does not serve"
            process.send_signal(signal.SIGQUIT)
            _, text = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == 2
    assert "SIGQUIT" in text and "goroutine " in text and "cli.Main" in text
