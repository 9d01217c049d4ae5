"""Asks one implementation of mooncake.store and mooncake.engine what it answers to calls that cannot work.

    python probe.py GROUP --master PATH/mooncake_master [--skip CASE]...

runs the cases of one group against the package that this interpreter imports, with a master of its own where the group
needs one, and writes a line of JSON before and after each case: {"begin": case}, {"case": case, "answer": ...}. A case
that ends the process leaves its first line alone; the caller runs the group again and skips it. It needs nothing but the
standard library and the package, so that it runs beside any other implementation, too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

MB = 1 << 20
SETUP_S = 60.0
"""Bound on every wait for another process."""


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Memory:
    """size bytes that an engine's buffer could be."""

    def __init__(self, size: int) -> None:
        self.mem = ctypes.create_string_buffer(size)
        self.ptr, self.size = ctypes.addressof(self.mem), size


def plain(value: Any) -> Any:
    """An answer as JSON can hold it: of bytes only how many there are, of objects only their kind."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return type(value).__name__


class Probe:
    """Runs cases and reports them."""

    def __init__(self, master: str, skip: set[str]) -> None:
        self.program, self.skip = master, skip
        self.masters: list[subprocess.Popen[bytes]] = []
        self.kept: list[Any] = []

    def __call__(self, case: str, call: Callable[[], Any]) -> None:
        """Runs one case and reports its answer, or the kind of its exception."""
        if case in self.skip:
            return
        print(json.dumps({"begin": case}), flush=True)
        began = time.monotonic()
        try:
            answer = plain(call())
        except Exception as e:  # noqa: BLE001 - the kind of the exception is the answer
            answer = f"raises {type(e).__name__}"
        took = time.monotonic() - began
        print(json.dumps({"case": case, "answer": answer, "seconds": round(took, 1)}), flush=True)

    def master(self, *flags: str) -> str:
        """Starts a master and returns its address; leases last longer than the whole run."""
        port, metrics = free_port(), free_port()
        command = [self.program, f"--rpc_port={port}", "--rpc_address=127.0.0.1", f"--metrics_port={metrics}"]
        log = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with the process
        self.masters.append(
            subprocess.Popen([*command, "--default_kv_lease_ttl=600000", *flags], stdout=log, stderr=log)
        )
        deadline = time.monotonic() + SETUP_S
        while time.monotonic() < deadline:
            for wanted in (port, metrics):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", wanted)) != 0:
                        break
            else:
                self.metrics = metrics
                return f"127.0.0.1:{port}"
            time.sleep(0.05)
        raise RuntimeError(f"{self.program} does not listen")

    def kill_masters(self) -> None:
        """Ends them at once."""
        for m in self.masters:
            m.kill()
            m.wait()
        self.masters.clear()

    def store(self, master: str, segment: int = 16 * MB, buffer: int = 64 * MB) -> Any:
        """A store that has been set up, with a segment of its own in the pool."""
        from mooncake.store import MooncakeDistributedStore

        s = MooncakeDistributedStore()
        code = s.setup("127.0.0.1", "P2PHANDSHAKE", segment, buffer, "tcp", "", master)
        if code != 0:
            raise RuntimeError(f"setup answered {code}")
        self.kept.append(s)
        return s

    def memory(self, store: Any, size: int) -> Memory:
        """Memory that is registered with a store."""
        m = Memory(size)
        if (code := store.register_buffer(m.ptr, m.size)) != 0:
            raise RuntimeError(f"register_buffer answered {code}")
        self.kept.append(m)
        return m


def main() -> None:
    """Runs the group that the command line names."""
    import cases

    parser = argparse.ArgumentParser()
    parser.add_argument("group", choices=sorted(cases.GROUPS))
    parser.add_argument("--master", required=True)
    parser.add_argument("--skip", action="append", default=[])
    given = parser.parse_args()
    p = Probe(given.master, set(given.skip))
    try:
        cases.GROUPS[given.group](p)
        print(json.dumps({"end": given.group}), flush=True)
    finally:
        p.kill_masters()
        sys.stdout.flush()
        os._exit(0)  # an implementation may take long, or fail, to end in order


if __name__ == "__main__":
    main()
