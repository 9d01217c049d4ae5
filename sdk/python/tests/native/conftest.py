"""The extension beside a library that says what it was passed; fake/libmooncake.c."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE_ROOT = HERE.parent.parent
INCLUDE = PACKAGE_ROOT.parent.parent / "cmd" / "libmooncake" / "include"
SANITIZE = os.environ.get("NATIVE_SANITIZE")  # as asan.sh sets it

sys.path.insert(0, str(PACKAGE_ROOT))
import build_native

# Starts every script that a test runs in an interpreter of its own.
LOAD = """
import importlib.util, os, sys
def load(folder, name):
    spec = importlib.util.spec_from_file_location("fake._native", os.path.join(folder, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""


def flags() -> list[str]:
    if not SANITIZE:
        return []
    return ["-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=undefined"]


@pytest.fixture(scope="session")
def extension_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extension and nothing else."""
    folder = tmp_path_factory.mktemp("extension")
    build_native.build_extension(folder / build_native.extension_name(), *flags())
    return folder


@pytest.fixture(scope="session")
def build_fake(tmp_path_factory: pytest.TempPathFactory, extension_folder: Path) -> Callable[..., Path]:
    """Builds a folder with the extension and a library made with these compiler flags."""

    def build(*more: str) -> Path:
        folder = tmp_path_factory.mktemp("fake")
        name = build_native.extension_name()
        (folder / name).write_bytes((extension_folder / name).read_bytes())
        source = HERE / "fake" / "libmooncake.c"
        command = [*build_native.compiler(), "-std=gnu11", "-O1", *build_native.WARNINGS, "-fPIC", "-shared"]
        command += [f"-I{INCLUDE}", *more, *flags(), str(source), "-o", str(folder / "libmooncake.so"), "-ldl"]
        subprocess.run(command, check=True)
        return folder

    return build


@pytest.fixture(scope="session")
def fake_folder(build_fake: Callable[..., Path]) -> Path:
    return build_fake()


@pytest.fixture(scope="session")
def native(fake_folder: Path) -> ModuleType:
    """The extension in this process, with the library that records."""
    spec = importlib.util.spec_from_file_location("fake._native", fake_folder / build_native.extension_name())
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recorded(native: ModuleType) -> Callable[[], str]:
    """What the last call was passed."""
    return lambda: native.last_error(1)


@pytest.fixture(autouse=True)
def nothing_is_held(native: ModuleType) -> object:
    """Every call came without the GIL, and what the library gave was given back."""
    yield
    with_gil, blobs, buffers = json.loads(native.store_control(1, "held", ""))
    assert (with_gil, blobs, buffers) == (0, 0, 0)


@pytest.fixture
def script(fake_folder: Path) -> Callable[..., str]:
    """Runs a script in an interpreter of its own, with load() and native; its output."""

    def run(text: str, folder: Path = fake_folder, want: int = 0) -> str:
        head = f"{LOAD}\nfolder = {str(folder)!r}\nname = {build_native.extension_name()!r}\n"
        done = subprocess.run(
            [sys.executable, "-I", "-c", head + text], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == want, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
