"""The Mooncake binary that lies beside this module, for the console scripts.

One binary is every program of the pool: it goes by the name that it is called by
(``mooncake_master``, ``mooncake_client``, and so on), and is ``mooncake`` with verbs otherwise.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

NAME = "mooncake"
_ANYONE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class BinaryMissing(RuntimeError):
    """This installation has no binary that can be run."""


def path() -> str:
    """The binary's path, after making it executable where an installer has lost that bit and the
    file may be changed. Raises BinaryMissing where there is none.
    """
    file = Path(__file__).absolute().parent / NAME
    if not file.is_file():
        raise BinaryMissing(
            f"this installation has no binary: {file} does not exist. "
            "Install the package again; in a checkout, run 'make pydev'."
        )
    if not os.access(file, os.X_OK):
        try:
            file.chmod(file.stat().st_mode | _ANYONE)
        except OSError as err:
            raise BinaryMissing(f"{file} cannot be run, nor made executable ({err}). Run: chmod +x {file}") from err
    return str(file)


def execute(alias: str, args: Sequence[str] | None = None) -> NoReturn:
    """Becomes the program ``alias`` with args, by default those of this process. The process ID stays,
    so that the parent of this process can stop the program with it. Ends the process with exit code 1
    and one line on standard error where the program cannot be run.
    """
    try:
        os.execv(path(), [alias, *(sys.argv[1:] if args is None else args)])
    except (BinaryMissing, OSError) as err:
        print(f"{alias}: {err}", file=sys.stderr)
        raise SystemExit(1) from None


def capture(args: Sequence[str], env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs ``mooncake args`` to its end, for at most timeout seconds, and returns what it wrote. Raises
    BinaryMissing, OSError, or subprocess.TimeoutExpired.
    """
    return subprocess.run([path(), *args], env=dict(env), capture_output=True, text=True, timeout=timeout, check=False)
