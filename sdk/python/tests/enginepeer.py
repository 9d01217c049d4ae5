"""Processes of their own for tests of the engine: each is an interpreter that runs functions.

``Peer.do(function, *args)`` runs a function of any importable module in the other process, as
``function(worker, *args)``, and returns what it returned. What it raises comes back as Raised.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE = 90  # seconds that one call may take before the test fails
HERE = Path(__file__).resolve().parent


class Raised(Exception):
    """An exception of the other process; ``type_name`` is its class."""

    def __init__(self, type_name: str, text: str, trace: str) -> None:
        super().__init__(f"{type_name}: {text}\n{trace}")
        self.type_name = type_name
        self.text = text


def content(seed: int, size: int) -> bytes:
    """Bytes that differ between seeds and have no period."""
    return random.Random(seed).randbytes(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Memory:
    """Anonymous memory of this process; ``address`` is page aligned."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(-1, size)
        self._view = (ctypes.c_char * size).from_buffer(self._map)
        self.address = ctypes.addressof(self._view)

    def write(self, offset: int, data: bytes) -> None:
        self._map[offset : offset + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        return self._map[offset : offset + size]


class Worker:
    """The state of the other process: its engine, its memories by number, and whatever roles keep."""

    def __init__(self) -> None:
        from mooncake.engine import TransferEngine

        self.engine = TransferEngine()
        self.memories: list[Memory] = []
        self.kept: dict[str, Any] = {}


def start(worker: Worker, host: str, metadata: str = "P2PHANDSHAKE", protocol: str = "tcp", device: str = "") -> int:
    code = worker.engine.initialize(host, metadata, protocol, device)
    return worker.engine.get_rpc_port() if code == 0 else code


def call(worker: Worker, method: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(worker.engine, method)(*args, **kwargs)


def take(worker: Worker, size: int, seed: int | None = None, register: bool = True) -> int:
    """Memory of size bytes, filled with content(seed) or zeros: its address."""
    memory = Memory(size)
    if seed is not None:
        memory.write(0, content(seed, size))
    worker.memories.append(memory)
    if register:
        code = worker.engine.register_memory(memory.address, size)
        if code != 0:
            raise RuntimeError(f"register_memory answered {code}")
    return memory.address


def look(worker: Worker, address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def look_digest(worker: Worker, address: int, size: int) -> str:
    return digest(ctypes.string_at(address, size))


class Peer:
    """Another process, which imports what this one can import. Use it with ``with``, or stop() it."""

    def __init__(self, *, env: dict[str, str] | None = None, python: str = sys.executable) -> None:
        mine, theirs = socket.socketpair()
        path = os.pathsep.join(str(p) for p in (sys.path if python == sys.executable else [HERE]) if p)
        code = f"import enginepeer; enginepeer.serve({theirs.fileno()})"
        with theirs:
            self.process = subprocess.Popen(
                [python, "-c", code],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path, **(env or {})},
            )
        self._connection = Connection(mine.detach())
        self.session = ""  # the name under which others reach its engine, where a fixture keeps it here

    def send(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Starts a call; the next receive() is its answer."""
        self._connection.send((function, args, kwargs))

    def receive(self) -> Any:
        if not self._connection.poll(PATIENCE):
            self.kill()
            raise TimeoutError(f"process {self.process.pid} did not answer within {PATIENCE} s and was killed")
        try:
            ok, answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise ConnectionError(f"process {self.process.pid} died with {self.process.wait()}") from None
        if not ok:
            raise Raised(*answer)
        return answer

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.send(function, *args, **kwargs)
        return self.receive()

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method of the engine of the process."""
        return self.do(call, method, *args, **kwargs)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ends the process as programs end, and returns its exit status."""
        self._connection.close()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> Peer:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        self._connection.close()


def serve(fd: int) -> None:
    """What the other process runs: calls until the connection ends."""
    connection, worker = Connection(fd), Worker()
    while True:
        try:
            function, args, kwargs = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, function(worker, *args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it goes to the test
            answer = (False, (type(error).__name__, str(error), traceback.format_exc()))
        connection.send(answer)
