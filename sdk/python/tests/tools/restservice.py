"""The store service as the tests of its routes use it."""

import json
from typing import Any

from processes import free_port, with_free_ports
from procs import Package, Process, eventually, http

# MooncakeStoreService, as a program has it that imports it.
IN_PROCESS = """
import asyncio, logging, signal, sys
from mooncake.mooncake_store_service import MooncakeStoreService

logging.basicConfig()

async def serve():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    service = MooncakeStoreService(cli_config={"local_hostname": "127.0.0.1"})
    assert await service.start_store_service(max_wait_time=float(sys.argv[1]))
    assert await service.start_http_service(0, "127.0.0.1")
    print("store service is serving address=127.0.0.1:%d" % service.port, flush=True)
    await stop.wait()
    await service.stop()

asyncio.run(serve())
"""


class Master:
    """A master with small leases, so that what was read can be removed soon."""

    def __init__(self, package: Package, *, later: bool = False) -> None:
        self._package = package
        self._choose_ports()
        if not later:
            with_free_ports(self._first)

    def _choose_ports(self) -> None:
        self.rpc, self.admin, self.metadata = free_port(), free_port(), free_port()

    def _first(self) -> None:
        self._choose_ports()
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it serves."""
        self.process = self._package.start(
            "-m", "mooncake.cli", "--rpc_address=127.0.0.1", f"--rpc_port={self.rpc}",
            "--metrics_host=127.0.0.1", f"--metrics_port={self.admin}",
            "--enable_http_metadata_server", "--http_metadata_server_host=127.0.0.1",
            f"--http_metadata_server_port={self.metadata}", "--default_kv_lease_ttl=500",
        )  # fmt: skip
        self.process.wait_for("master is serving")

    def env(self, **more: str) -> dict[str, str]:
        """The variables of a store service of this master."""
        return {
            "MOONCAKE_MASTER": f"127.0.0.1:{self.rpc}",
            "MOONCAKE_TE_META_DATA_SERVER": f"http://127.0.0.1:{self.metadata}/metadata",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": "64mb",
            "MOONCAKE_LOCAL_BUFFER_SIZE": "16mb",
        } | more


class Rest:
    """A store service and its routes."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.base = f"http://127.0.0.1:{port}"

    @classmethod
    def program(cls, package: Package, master: Master) -> "Rest":
        """The program, started as ``python -m``."""
        port = free_port()
        process = package.start(
            "-m", "mooncake.mooncake_store_service", "--port", str(port), "--max-wait-time", "30",
            "-D", "local_hostname=127.0.0.1", "--define", "global_segment_size=67108864",
            MOONCAKE_STORE_REST_FILES="/dev/shm/mooncake", **master.env(),
        )  # fmt: skip
        rest = cls(process, port)
        eventually(lambda: rest.ask("GET", "/api/exist/none")[0] == 200)
        return rest

    @classmethod
    def in_process(cls, package: Package, master: Master) -> "Rest":
        """The class, in a process of its own."""
        files = {"MOONCAKE_STORE_REST_FILES": "/dev/shm/mooncake"}
        return cls.of(package.start("-c", IN_PROCESS, "30", **master.env(), **files))

    @classmethod
    def of(cls, process: Process) -> "Rest":
        """The service of a process of IN_PROCESS, once it serves."""
        return cls(process, int(process.wait_for(r"store service is serving address=\S+:(\d+)")[1]))

    def raw(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """A request as it is."""
        return http(method, self.base + path, body)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request with JSON in and out."""
        status, answer = self.raw(method, path, None if body is None else json.dumps(body).encode())
        return status, json.loads(answer)
