"""Builds the wheel and the source distribution; pyproject.toml says what is in them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_native

# What a build needs of the Go sources, from the folder of go.mod.
GO_SOURCES = ("go.mod", "go.sum", "LICENSE", "cmd", "core", "plugins", "sdk")
LEFT_OUT = shutil.ignore_patterns("*_test.go", "testdata", "python", "bin", "dist", ".*", "__pycache__")


class Modules(build_py):
    """Starts with an empty folder, not with what an older build left."""

    def run(self) -> None:
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildNative(build_ext):
    """Puts library, program, headers and extension beside the modules."""

    def build_extension(self, ext: Extension) -> None:
        try:
            build_native.build(Path(self.get_ext_fullpath(ext.name)).resolve().parent)
        except build_native.BuildError as e:
            raise SystemExit(f"\nmooncake-transfer-engine cannot be built: {e}\n") from None


class WithGo(sdist):
    """Adds the Go sources, as the folder go."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        root, to = build_native.go_root(), Path(base_dir, "go")
        for name in GO_SOURCES:
            if (root / name).is_dir():
                shutil.copytree(root / name, to / name, ignore=LEFT_OUT)
            elif (root / name).is_file():
                to.mkdir(exist_ok=True)
                shutil.copy(root / name, to / name)


class Binary(Distribution):
    """Has files for one platform, also before the extension is built."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=Binary,
    cmdclass={"build_py": Modules, "build_ext": BuildNative, "sdist": WithGo},
    ext_modules=[Extension("mooncake._native", sources=[], py_limited_api=build_native.STABLE_ABI)],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if build_native.STABLE_ABI else {},
)
