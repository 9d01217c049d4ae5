"""Processes of the package, for tests: started, waited for, and always ended."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from processes import PATIENT

PATIENCE = 90.0  # seconds until a test gives up on what has to come

SOURCE = Path(__file__).parents[2] / "mooncake"
"""The package in this checkout."""


class Process:
    """A program whose lines can be waited for."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.child = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._fresh: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._fresh.put(line)
        self._fresh.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match of a line that was not looked at before."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._fresh.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = None
            assert line is not None, f"no line has {pattern!r} in\n" + "".join(self.lines)
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match

    def exe(self) -> str:
        """The file that the process runs."""
        return os.readlink(f"/proc/{self.child.pid}/exe")

    def argv(self) -> list[str]:
        """Its arguments, from argv[0] on."""
        return Path(f"/proc/{self.child.pid}/cmdline").read_text().split("\0")[:-1]

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Sends the signal and returns the exit code."""
        self.child.send_signal(how)
        return self.child.wait(PATIENCE)

    def kill(self) -> None:
        """Ends it whatever it does, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(PATIENCE)
        if self.child.stdout:
            self.child.stdout.close()


class Package:
    """A copy of the package with the binary beside the modules, as an installation has it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.binary = root / "mooncake" / "mooncake"
        self._started: list[Process] = []

    def env(self, **more: str) -> dict[str, str]:
        """A small environment in which the copy is the package."""
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        return keep | PATIENT | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"} | more

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs python with these arguments to its end."""
        return subprocess.run(
            [sys.executable, *command],
            check=False,
            env=self.env(**env),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def start(self, *command: str, **env: str) -> Process:
        """Starts python with these arguments; close ends what is left."""
        process = Process([sys.executable, *command], self.env(**env), self.root)
        self._started.append(process)
        return process

    def shell(self, line: str, **env: str) -> Process:
        """Runs a line of a shell that finds python and the console scripts, as in a container."""
        scripts = self.root / "bin"
        if not scripts.is_dir():
            scripts.mkdir()
            for name in ("python", "python3"):
                (scripts / name).symlink_to(sys.executable)
            master = scripts / "mooncake_master"
            master.write_text(f"#!{sys.executable}\nimport sys\nfrom mooncake.cli import main\nsys.exit(main())\n")
            master.chmod(0o755)
        found = self.env(**env) | {"PATH": f"{scripts}:{os.environ['PATH']}"}
        # Some shells stay in front of the last command otherwise, and signals end with them.
        process = Process(["sh", "-c", f"exec {line}"], found, self.root)
        self._started.append(process)
        return process

    def close(self) -> None:
        """Ends every process that was started, newest first."""
        while self._started:
            self._started.pop().kill()


def http(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """The status and body of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method), timeout=PATIENCE) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as err:
        with err:
            return err.code, err.read()


def eventually(what: Callable[[], Any]) -> Any:
    """Asks until the answer is a true one, and returns it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if answer := what():
                return answer
        except OSError:
            pass
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
