"""The build says what is missing, and what to do about it."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

import build_native


def program(folder: Path, name: str, answer: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{answer}\n")
    file.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def test_no_compiler(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        build_native.BuildError, match=r"the C compiler gcc is not installed; .* apt install gcc libc6-dev"
    ):
        build_native.build_extension(path / "x.so")
    monkeypatch.setenv("CC", "my-cc -m64")
    with pytest.raises(build_native.BuildError, match="the C compiler my-cc is not installed"):
        build_native.build_extension(path / "x.so")


def test_no_go(path: Path) -> None:
    with pytest.raises(
        build_native.BuildError, match=r"Go is not installed; this package needs Go 1\.\d+.* https://go.dev/dl/"
    ):
        build_native.build_library(path)


def test_an_old_go(path: Path) -> None:
    program(path, "go", "echo go1.9.7; echo 1")
    with pytest.raises(
        build_native.BuildError, match=r"needs Go 1\.\d+.* or newer, this is go1\.9\.7; .*GOTOOLCHAIN=auto"
    ):
        build_native.build_library(path)


def test_go_without_c(path: Path) -> None:
    program(path, "go", "echo go99.1; echo 0")
    with pytest.raises(build_native.BuildError, match="unset CGO_ENABLED"):
        build_native.build_library(path)


def test_go_fails(path: Path) -> None:
    program(path, "gcc", "exit 1")
    program(path, "go", '[ "$1" = env ] && { echo go99.1; echo 1; exit; }\n[ "$1" = list ] && exit\nexit 3')
    with pytest.raises(build_native.BuildError, match=r"failed with status 3, .*go build .*\./cmd/libmooncake"):
        build_native.build_library(path)
    assert sorted(p.name for p in path.iterdir()) == ["gcc", "go"]  # no half of a file


def test_no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(
        build_native.BuildError, match=rf"headers of Python 3\.\d+ are not in {tmp_path}.* apt install python3-dev"
    ):
        build_native.build_extension(tmp_path / "x.so")


def test_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_native, "HERE", tmp_path / "a" / "b")
    with pytest.raises(build_native.BuildError, match="neither in a checkout of Mooncake nor an unpacked source"):
        build_native.build_library(tmp_path)


def test_another_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(build_native.BuildError, match="runs on Linux, this is darwin"):
        build_native.build(tmp_path)


def test_go_finds_a_cache_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "GOCACHE"):
        monkeypatch.delenv(name, raising=False)
    assert Path(build_native.environment()["GOCACHE"]).is_absolute()


def test_versions() -> None:
    assert build_native.numbers("go1.26.8") == (1, 26, 8)
    assert build_native.numbers("go1.27rc1 X:nocoverageredesign")[:2] == (1, 27)
