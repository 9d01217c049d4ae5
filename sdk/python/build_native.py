"""Builds what is not Python: libmooncake.so, the program mooncake, which is a launcher of what is in
the library, and the extension.

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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).resolve().parent
NATIVE = HERE / "native"
VERSION_VARIABLE = "github.com/mooncake-go/mooncake/cmd/mooncake/cli.version"
HEADERS = ("mooncake_native.h",)  # of include/, not for programs in C

# The functions for buffers are in the stable ABI since 3.11: one extension for all from there
# on. CPython without the GIL has no stable ABI.
STABLE_ABI = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
# Without gRPC's pages for /debug/requests, which nothing here serves, and without the conformance suites
# of plugins, which authors of plugins run: they have Go and the sources.
TAGS = "grpcnotrace,mooncake_no_authoring"
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
        raise failed(command, cwd, done.returncode)
    return done.stdout or ""


def failed(command: list[str], cwd: Path, status: int) -> BuildError:
    return BuildError(f"this failed with status {status}, for the reason above: (cd {cwd} && {shlex.join(command)})")


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


class Progress:
    """Says how far the compiler is: on standard error, and on the terminal where pip hides that."""

    EVERY = 5.0  # seconds between two lines

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = self._said = time.monotonic()
        self._outputs: list[TextIO] = [sys.stderr]
        if not sys.stderr.isatty():
            with contextlib.suppress(OSError):
                self._outputs.append(open("/dev/tty", "w"))  # noqa: SIM115 (close closes it)

    def package(self) -> None:
        """Counts a package that the compiler has begun."""
        self._done += 1
        if time.monotonic() - self._said >= self.EVERY:
            self.say(f"compiled {self._done} of at most {self._total} Go packages")

    def say(self, text: str) -> None:
        self._said = time.monotonic()
        for output in self._outputs:
            print(f"mooncake: {text} ({self._said - self._start:.0f} s)", file=output, flush=True)

    def close(self) -> None:
        for output in self._outputs[1:]:
            output.close()


def watch(command: list[str], cwd: Path, total: int) -> None:
    """Runs ``go build -v``, which writes the name of each package that it compiles."""
    progress = Progress(total)
    try:
        progress.say(f"building the library; up to {total} Go packages, of which Go keeps what it compiles")
        with subprocess.Popen(command, cwd=cwd, env=environment(), text=True, stderr=subprocess.PIPE) as compiling:
            assert compiling.stderr is not None
            for line in compiling.stderr:
                if re.fullmatch(r"[\w.~/-]+", line.strip()):
                    progress.package()
                else:
                    sys.stderr.write(line)
        if compiling.returncode != 0:
            raise failed(command, cwd, compiling.returncode)
        progress.say("the library is built")
    finally:
        progress.close()


def build_library(folder: Path) -> None:
    """libmooncake.so into folder."""
    root = go_root()
    program = go()
    compiler()
    exports = root / "cmd" / "libmooncake" / "exports.map"
    # Go's -s alone leaves what other C compilers than gcc write for debuggers, with paths of this machine.
    link = f"-Wl,--strip-all '-Wl,--version-script={exports},-soname,libmooncake.so'"
    ldflags = f'-s -w -X {VERSION_VARIABLE}={os.environ.get("VERSION") or version()} "-extldflags={link}"'
    package = "./cmd/libmooncake"
    total = len(run([program, "list", "-tags", TAGS, "-deps", package], cwd=root, capture=True).split())
    with replacing(folder / "libmooncake.so") as new:
        command = [program, "build", "-v", "-trimpath", "-buildvcs=false", "-buildmode=c-shared"]
        command += ["-tags", TAGS, "-ldflags", ldflags]
        watch([*command, "-o", str(new), package], root, total)
        new.with_suffix(".h").unlink(missing_ok=True)  # generated; the headers to use are in include/


def build_program(folder: Path) -> None:
    """The one program of all roles into folder, where the library already is."""
    source = go_root() / "cmd" / "libmooncake"
    command = [*compiler(), "-std=gnu11", "-O2", "-fPIE", "-pie", "-s", *WARNINGS, f"-I{source / 'include'}"]
    with replacing(folder / "mooncake") as new:
        command += ["-o", str(new), str(source / "launcher" / "mooncake.c"), f"-L{folder}", "-lmooncake"]
        run([*command, "-Wl,-rpath,$ORIGIN"], cwd=source)


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
    build_library(folder)
    build_program(folder)
    copy_headers(folder)


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]).resolve())
    except BuildError as e:
        sys.exit(f"build: {e}")
