"""Real processes for the tests: started, waited for by what they write, ended for sure."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

WAIT_S = 90.0
"""Bound on every wait for another process."""

PATIENT = {"MOONCAKE_STORE_MASTER_DOWN_TIMEOUT": "60s"}
"""Settings of every process of the tests: on a busy machine a master may be silent for longer than the second after
which stores call it down, and fail. One that was killed is found out at once, by its closed port."""
if SEAL := os.environ.get("MOONCAKE_TEST_SEAL"):
    # MODE:PLACE, as aead:file:/tmp/seal.json, has all clients seal what they put. Tests that count bytes or shared calls fail.
    mode, place = SEAL.split(":", 1)
    PATIENT |= {"MOONCAKE_SECURITY_SEAL": mode, "MOONCAKE_SECURITY_SEAL_KEYS": place}


MASTER_SECURITY: dict[str, str] = {}
"""The certificate of masters, where the run has a security mode: PATIENT has that of all others."""


def secure(mode: str, program: Path, folder: Path) -> None:
    """Gives every process that starts from now on, and the library in this one, a security mode and certificates.

    Health and metadata stay plaintext, as tests read them by urllib.
    """
    subprocess.run([program, "certs", "try", folder], check=True, timeout=WAIT_S, capture_output=True)

    def certificate(role: str) -> dict[str, str]:
        return {
            "MOONCAKE_SECURITY_CERT": str(folder / f"{role}.pem"),
            "MOONCAKE_SECURITY_KEY": str(folder / f"{role}-key.pem"),
        }

    PATIENT.update(
        MOONCAKE_SECURITY_MODE=mode, MOONCAKE_SECURITY_CA=str(folder / "ca.pem"), **certificate("store"),
        MOONCAKE_SECURITY_PLAINTEXT="health,metadata",
    )  # fmt: skip
    MASTER_SECURITY.update(certificate("master"))
    os.environ.update(PATIENT)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of a pool but those of PATIENT, and with extra."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MOONCAKE_", "MC_"))}
    return env | PATIENT | dict(extra or {})


def _candidates() -> list[int]:
    """Ports between 20000 and 30000, without those that the kernel gives to connections where there are enough."""
    ports = range(20000, 30000)
    try:
        low, high = (int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        return list(ports)
    safe = [p for p in ports if not low <= p <= high]
    return safe if len(safe) >= 1000 else list(ports)


_PORTS = itertools.cycle(random.sample(found := _candidates(), len(found)))


def free_port() -> int:
    """A port nothing listens on, outside the ranges that the kernel and the nodes choose from.

    It comes again only after all others: whoever asked for one may listen on it later.
    """
    for port in itertools.islice(_PORTS, 200):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise RuntimeError("no free port between 20000 and 30000")


def with_free_ports(start: Callable[[], Any]) -> Any:
    """What start returns, which takes ports from free_port: it is called again where others were quicker to listen."""
    for _ in range(4):
        try:
            return start()
        except AssertionError as e:
            if "address already in use" not in str(e):
                raise
    return start()


class Process:
    """A running program whose lines are kept. Used by one test at a time."""

    def __init__(self, args: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.args = [str(a) for a in args]
        self.lines: list[str] = []
        self.ended = False
        self._changed = threading.Condition()
        self._child = subprocess.Popen(
            self.args, cwd=cwd, env=clean_environment(env), text=True, errors="replace",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.pid = self._child.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait_line(self, wanted: str | Callable[[str], bool], after: int = 0) -> str:
        """The first line that has the text, or for which the function is true; AssertionError when it does not come."""
        has = (lambda line: wanted in line) if isinstance(wanted, str) else wanted
        found: list[str] = []

        def seen() -> bool:
            found[:] = [line for line in self.lines[after:] if has(line)][:1]
            return bool(found) or self.ended

        with self._changed:
            self._changed.wait_for(seen, WAIT_S)
        if not found:
            raise AssertionError(f"{self.args[:2]} did not write {wanted!r}:\n{self.text()}")
        return found[0]

    def text(self) -> str:
        """Everything that the program has written."""
        with self._changed:
            return "\n".join(self.lines)

    def tell(self, line: str) -> None:
        """Writes a line to its standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def wait(self) -> int:
        """Its exit status; AssertionError when it does not end."""
        try:
            rc = self._child.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.args[:2]} did not end:\n{self.text()}") from None
        self._reader.join(WAIT_S)
        return rc

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def freeze(self) -> None:
        """Stops it from running, and returns when no thread of it does; SIGCONT goes on."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + WAIT_S
        while any(
            stat.read_text().rpartition(")")[2].split()[0] != "T"
            for stat in Path(f"/proc/{self.pid}/task").glob("*/stat")
        ):
            assert time.monotonic() < deadline, f"{self.args[0]} cannot be frozen"

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self._child.send_signal(number)

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        if self.running():
            self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """Asks it to end, then kills it; the pipes are closed."""
        try:
            if self.running():
                self.signal(signal.SIGTERM)
                try:
                    self._child.wait(10)
                except subprocess.TimeoutExpired:
                    self.kill()
            self.wait()
        finally:
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        pass


class Master:
    """A master in a process of its own."""

    def __init__(self, programs: Path, cwd: Path, flags: Sequence[str] = ()) -> None:
        self._programs, self._cwd, self._flags = programs, cwd, list(flags)
        self.process = with_free_ports(self._first)

    def _first(self) -> Process:
        self.port, self.metrics_port, self.metadata_port = free_port(), free_port(), free_port()
        self.rpc = f"127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{self.metrics_port}"
        self.metadata = f"http://127.0.0.1:{self.metadata_port}/metadata"
        return self._start()

    def _start(self) -> Process:
        p = Process(
            [
                self._programs / "mooncake_master", "--rpc_address=127.0.0.1", f"--rpc_port={self.port}",
                "--metrics_host=127.0.0.1", f"--metrics_port={self.metrics_port}", "--enable_http_metadata_server",
                "--http_metadata_server_host=127.0.0.1", f"--http_metadata_server_port={self.metadata_port}", *self._flags,
            ],
            self._cwd, MASTER_SECURITY,
        )  # fmt: skip
        try:
            p.wait_line("master is serving")
        except AssertionError:
            p.stop()
            raise
        return p

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def restart(self) -> None:
        """Starts it again, empty, with the same ports."""
        self.process.stop()
        self.process = self._start()

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()


class Node:
    """A store node in a process of its own: memory for the pool."""

    def __init__(
        self, programs: Path, cwd: Path, master: Master, size: str = "64MB", flags: Sequence[str] = ()
    ) -> None:
        self.process = Process(
            [
                programs / "mooncake", "store", "--global_segment_size", size, "--master_server_address", master.rpc,
                "--local_hostname", "127.0.0.1", *flags,
            ],
            cwd,
        )  # fmt: skip
        try:
            self.process.wait_line("memory is mounted")
        except AssertionError:
            self.process.stop()
            raise

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()


class LocalService:
    """A mooncake_client: what dummy clients of this machine attach to."""

    def __init__(self, programs: Path, cwd: Path, master: Master, size: str = "0", flags: Sequence[str] = ()) -> None:
        self.process = with_free_ports(lambda: self._start(programs, cwd, master, size, flags))

    def _start(self, programs: Path, cwd: Path, master: Master, size: str, flags: Sequence[str]) -> Process:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        p = Process(
            [
                programs / "mooncake_client", "-host", "127.0.0.1", "-port", str(self.port), "-global_segment_size", size,
                "-master_server_address", master.rpc, "-metadata_server", "P2PHANDSHAKE", *flags,
            ],
            cwd,
        )  # fmt: skip
        try:
            p.wait_line("local service is serving")
        except AssertionError:
            p.stop()
            raise
        return p

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()
