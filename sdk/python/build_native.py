"""Builds what is not Python: libmooncake.so, the program mooncake, and the extension.

Used by setup.py and by ``make pydev``; needs nothing but the standard library, Go, a C
compiler and Python's headers. CC, CGO_ENABLED, GOFLAGS and the like work as usual.

    python build_native.py FOLDER     puts all three into FOLDER, the package
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATIVE = HERE / "native"
VERSION_VARIABLE = "github.com/mooncake-go/mooncake/cmd/mooncake/cli.version"
HEADERS = ("mooncake_native.h",)  # of include/, not for programs in C

# The functions for buffers are in the stable ABI since 3.11: one extension for all from there
# on. CPython without the GIL has no stable ABI.
STABLE_ABI = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


class BuildError(Exception):
    """What is missing, and what to do about it."""


def go_root() -> Path:
    """The folder of go.mod: the checkout's, or the copy in a source distribution."""
    for root in (HERE / "go", HERE.parent.parent):
        if (root / "go.mod").is_file() and (root / "cmd" / "libmooncake").is_dir():
            return root
    raise BuildError(
        f"the Go sources are not there: {HERE} is neither in a checkout of Mooncake nor an unpacked source distribution"
    )


def compiler() -> list[str]:
    """The C compiler, as a command."""
    cc = shlex.split(os.environ.get("CC") or "gcc")
    if not shutil.which(cc[0]):
        raise BuildError(
            f"the C compiler {cc[0]} is not installed; on Debian or Ubuntu: apt install gcc libc6-dev "
            f"(or set CC to another one)"
        )
    return cc


def include() -> str:
    """The folder of Python.h."""
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").is_file():
        raise BuildError(
            f"the headers of Python {sysconfig.get_python_version()} are not in {folder}; on Debian or Ubuntu: "
            f"apt install python3-dev (or use a Python that has them, as those of pyenv, uv or conda do)"
        )
    return folder


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def go() -> str:
    """The Go command, which is new enough or may fetch a newer one itself."""
    root = go_root()
    wanted = re.search(r"^go (\S+)", (root / "go.mod").read_text(), re.MULTILINE)
    want = wanted.group(1) if wanted else "1"
    program = shutil.which("go")
    if not program:
        raise BuildError(f"Go is not installed; this package needs Go {want} or newer: https://go.dev/dl/")
    answer = run([program, "env", "GOVERSION", "CGO_ENABLED"], cwd=root, capture=True)
    have, cgo = (answer.split() + ["", ""])[:2]
    if numbers(have) < numbers(want):
        raise BuildError(
            f"this package needs Go {want} or newer, this is {have or 'older'}; get it from https://go.dev/dl/ "
            f"or set GOTOOLCHAIN=auto"
        )
    if cgo == "0":
        raise BuildError("Go is set not to use the C compiler; unset CGO_ENABLED and install gcc")
    return program


def environment() -> dict[str, str]:
    env = dict(os.environ)
    if not {"HOME", "XDG_CACHE_HOME", "GOCACHE"} & env.keys():
        env["GOCACHE"] = str(HERE / "build" / "go-cache")  # as in an empty environment
    return env


def run(command: list[str], cwd: Path, capture: bool = False) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment(), text=True, stdout=subprocess.PIPE if capture else None, check=False
    )
    if done.returncode != 0:
        raise BuildError(
            f"this failed with status {done.returncode}, for the reason above: (cd {cwd} && {shlex.join(command)})"
        )
    return done.stdout or ""


def version() -> str:
    """The version that the programs report: of git in a checkout, else of the package."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--tags", "--always", "--dirty"],
            cwd=HERE,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if answer.returncode == 0 and (HERE.parent.parent / ".git").exists():
            return answer.stdout.strip()
    except OSError:
        pass
    found = re.search(r'^version = "(.*)"', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    return found.group(1) if found else "dev"


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A path to build at, which then takes the place of out: processes may have out mapped."""
    out.parent.mkdir(parents=True, exist_ok=True)
    new = out.with_name(f".{os.getpid()}-{out.name}")
    try:
        yield new
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)


def go_build(out: Path, package: str, *flags: str, link: str = "") -> None:
    """Builds a Go package as the file out; link is for the C linker."""
    root = go_root()
    program = go()
    compiler()
    # Go's -s alone leaves what other C compilers than gcc write for debuggers, with paths of this machine.
    ldflags = f"-s -w -X {VERSION_VARIABLE}={os.environ.get('VERSION') or version()} "
    ldflags += f"\"-extldflags=-Wl,--strip-all '{link}'\"" if link else "-extldflags=-Wl,--strip-all"
    with replacing(out) as new:
        command = [program, "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, *flags]
        run([*command, "-o", str(new), package], cwd=root)
        new.with_suffix(".h").unlink(missing_ok=True)  # generated; the headers to use are in include/


def build_library(folder: Path) -> None:
    """libmooncake.so into folder."""
    exports = go_root() / "cmd" / "libmooncake" / "exports.map"
    link = f"-Wl,--version-script={exports},-soname,libmooncake.so"
    go_build(folder / "libmooncake.so", "./cmd/libmooncake", "-buildmode=c-shared", link=link)


def build_program(folder: Path) -> None:
    """The one program of all roles into folder."""
    go_build(folder / "mooncake", "./cmd/mooncake")


def copy_headers(folder: Path) -> None:
    """The headers for programs in C, into the folder include of folder."""
    for header in sorted((go_root() / "cmd" / "libmooncake" / "include").glob("*.h")):
        if header.name not in HEADERS:
            (folder / "include").mkdir(parents=True, exist_ok=True)
            shutil.copy(header, folder / "include")


def extension_name() -> str:
    return "_native.abi3.so" if STABLE_ABI else "_native" + sysconfig.get_config_var("EXT_SUFFIX")


def build_extension(out: Path, *flags: str) -> None:
    """The extension as the file out."""
    headers = go_root() / "cmd" / "libmooncake" / "include"
    command = [*compiler(), "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *WARNINGS]
    command += ["-DMOONCAKE_ABI3"] if STABLE_ABI else []
    command += [f"-I{include()}", f"-I{headers}", *map(str, sorted(NATIVE.glob("*.c")))]
    with replacing(out) as new:
        run([*command, "-o", str(new), "-lpthread", "-ldl", *(flags or ["-s"])], cwd=NATIVE)


def build(folder: Path) -> None:
    """Everything into folder."""
    if not sys.platform.startswith("linux"):
        raise BuildError(f"Mooncake runs on Linux, this is {sys.platform}")
    build_extension(folder / extension_name())
    build_program(folder)
    build_library(folder)
    copy_headers(folder)


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]).resolve())
    except BuildError as e:
        sys.exit(f"build: {e}")
