"""The processes that measure.py works with: pools, and clients that take work by lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
PACKAGE_ROOT = BENCH.parent
REPOSITORY = PACKAGE_ROOT.parent.parent
CLIENT = BENCH / "client.py"
NODE_BYTES = 768 << 20

sys.path.insert(0, str(PACKAGE_ROOT / "tests"))

from processes import LocalService, Master, Node, Process, free_port


def build(folder: Path) -> None:
    """The programs of this checkout into folder: mooncake with two of its names, and goclient."""
    for package in ("./cmd/mooncake", "./cmd/libmooncake/internal/goclient"):
        subprocess.run(["go", "build", "-o", f"{folder}/", package], cwd=REPOSITORY, check=True)
    for alias in ("mooncake_master", "mooncake_client"):
        (folder / alias).symlink_to("mooncake")


class Client:
    """A process that does jobs and says how long they took. Used by one thread."""

    def __init__(self, command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = Process(command, cwd, env)
        self._answers = 0
        try:
            self._answer()
        except AssertionError:
            self.stop()
            raise

    def _answer(self) -> dict[str, Any]:
        line = self.process.wait_line(lambda line: line.startswith("{"), after=self._answers)
        self._answers = self.process.lines.index(line, self._answers) + 1
        return json.loads(line)

    def do(self, **job: Any) -> list[float]:
        """Seconds, as client.py says."""
        self.process.tell(json.dumps(job))
        return self._answer()["seconds"]

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()


class Pools:
    """Starts what a comparison needs, and ends it, the last first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Any] = []

    def _keep(self, started: Any) -> Any:
        self._started.append(started)
        return started

    def master(self, node: bool = True) -> Master:
        """A master; its pool has a node in a process of its own, or no memory yet."""
        m = self._keep(Master(self.folder, self.folder))
        if node:
            self._keep(Node(self.folder, self.folder, m, str(NODE_BYTES), ["--shared_memory=off"]))
        return m

    def go(self, master: Master) -> Client:
        """A client in Go."""
        return self._keep(Client([self.folder / "goclient", "-master", master.rpc], self.folder))

    def python(self, master: Master, *flags: str) -> Client:
        """A client in Python with the package of this checkout."""
        command = [sys.executable, CLIENT, "--master", master.rpc, *flags]
        return self._keep(Client(command, self.folder, {"PYTHONPATH": str(PACKAGE_ROOT)}))

    def dummy(self, master: Master) -> Client:
        """A client in Python that goes through a mooncake_client of this machine."""
        service = self._keep(LocalService(self.folder, self.folder, master))
        return self.python(master, "--dummy", service.address)

    def other(self, python: str, local: bool = False) -> Client:
        """A client of another package, and a pool of it: python is an interpreter that has it.

        local is whether the client has the pool's memory itself.
        """
        port, metrics = free_port(), free_port()
        program = Path(python).parent / "mooncake_master"
        self._keep(
            Process(
                [program, f"--rpc_port={port}", f"--metrics_port={metrics}", "--rpc_address=127.0.0.1"], self.folder
            )
        )
        command = [python, CLIENT, "--master", f"127.0.0.1:{port}"]
        memory = ["--segment", str(NODE_BYTES)]
        if not local:
            self._keep(Client([*command, *memory, "--memory", "0"], self.folder))
        return self._keep(Client([*command, *(memory if local else [])], self.folder))

    def stop(self, since: int = 0) -> None:
        """Ends everything that was started after the first `since`."""
        while len(self._started) > since:
            self._started.pop().stop()

    def __enter__(self) -> Pools:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
