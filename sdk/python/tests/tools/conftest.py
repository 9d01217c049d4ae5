"""Fixtures of the tests of the programs of the package."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from procs import SOURCE, Package


@pytest.fixture(scope="session")
def binary(programs: Path) -> Path:
    """The binary of the programs."""
    return (programs / "mooncake").resolve()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the modules of the package and no binary."""
    root = tmp_path / "site"
    for module in SOURCE.rglob("*.py"):
        copy = root / "mooncake" / module.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, copy)
    return root


@pytest.fixture
def package(bare: Path, binary: Path) -> Iterator[Package]:
    """The package as an installation has it; what it started is ended with the test."""
    (bare / "mooncake" / "mooncake").symlink_to(binary)
    for library in SOURCE.glob("*.so"):
        (bare / "mooncake" / library.name).symlink_to(library)
    package = Package(bare)
    yield package
    package.close()
