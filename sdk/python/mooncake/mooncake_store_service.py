"""A node of the pool with a REST service.

The console scripts and ``python -m mooncake.mooncake_store_service`` become the service of the
binary. MooncakeStoreService is the same in a Python process, and needs aiohttp.
"""

import asyncio
import dataclasses
import logging
from typing import Any, NoReturn

from mooncake import _aiohttp, _binary
from mooncake._rest_objects import Objects
from mooncake._rest_segments import Segments
from mooncake.mooncake_config import MooncakeConfig

logger = logging.getLogger(__name__)

MAX_BODY = 100 << 20  # bytes
_RETRY = 1.0  # seconds between two attempts to reach the pool

_SETUP_NAMES = {"device_name": "rdma_devices", "master_server_address": "master_server_addr"}


class MooncakeStoreService(Objects, Segments):
    """A store and its REST service, in the asyncio loop that calls its coroutines.

    >>> service = MooncakeStoreService("store.json")
    >>> await service.start_store_service()
    >>> await service.start_http_service(8080)
    >>> await service.stop()
    """

    def __init__(self, config_path: str | None = None, defines: dict[str, Any] | None = None) -> None:
        """Reads the file, or without one the environment; defines are fields of MooncakeConfig over it.

        Raises ValueError for settings that are wrong, OSError for a file that cannot be read.
        """
        config = MooncakeConfig.from_file(config_path) if config_path else MooncakeConfig.load_from_env()
        known = {field.name for field in dataclasses.fields(MooncakeConfig)}
        for name, value in (defines or {}).items():
            if name in known:
                setattr(config, name, value)
        self.config: Any = config
        self.store: Any = None
        self.current_mode = "prefill"
        self.mounted_segment_ids: list[str] = []
        self.last_mount_info: dict[str, Any] = {}
        self._state_lock = asyncio.Lock()
        self._runner: Any = None

    async def start_store_service(self, max_wait_time: float = 60) -> bool:
        """start_store_service(max_wait_time: float = 60) -> bool

        Sets the store up, and tries again each second for as long as the pool is not there. False
        when max_wait_time seconds are over.
        """
        from mooncake.store import MooncakeDistributedStore

        fields = dataclasses.asdict(self.config)
        settings = {_SETUP_NAMES.get(name, name): value for name, value in fields.items()}
        loop = asyncio.get_running_loop()
        end = loop.time() + max_wait_time
        while True:
            store = MooncakeDistributedStore()
            code = await asyncio.to_thread(store.setup, settings)
            if code == 0:
                self.store = store
                return True
            await asyncio.to_thread(store.close)
            if loop.time() + _RETRY > end:
                logger.error("store service: the store could not be set up in %s s, error code %s", max_wait_time, code)
                return False
            logger.warning("store service: setup failed with error code %s; trying again", code)
            await asyncio.sleep(_RETRY)

    async def start_http_service(self, port: int = 8080, host: str = "0.0.0.0") -> bool:
        """start_http_service(port: int = 8080, host: str = "0.0.0.0") -> bool

        Serves until stop. False where the port cannot be bound.
        """
        web = _aiohttp.web("MooncakeStoreService")
        app = web.Application(client_max_size=MAX_BODY)
        for method, path, handle in self._routes():
            app.router.add_route(method, path, handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as err:
            await runner.cleanup()
            logger.error("store service: port %s of %s cannot be bound: %s", port, host, err)
            return False
        self._runner = runner
        return True

    async def stop(self) -> None:
        """stop() -> None

        Ends the service, then closes the store. May be called again.
        """
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        store, self.store = self.store, None
        if store is not None:
            await asyncio.to_thread(store.close)

    @property
    def port(self) -> int:
        """The port that is served, 0 where none is."""
        return self._runner.addresses[0][1] if self._runner else 0

    def _routes(self) -> list[tuple[str, str, Any]]:
        return [
            ("PUT", "/api/put", self.handle_put),
            ("GET", "/api/get/{key:.+}", self.handle_get),
            ("GET", "/api/exist/{key:.+}", self.handle_exist),
            ("DELETE", "/api/remove/{key:.+}", self.handle_remove),
            ("DELETE", "/api/remove_all", self.handle_remove_all),
            ("POST", "/api/mount", self.handle_mount),
            ("POST", "/api/unmount", self.handle_unmount),
            ("POST", "/api/mount_shm", self.handle_mount_shm),
            ("POST", "/api/unmount_shm", self.handle_unmount_shm),
            ("POST", "/api/unmount_local_disk", self.handle_unmount_local_disk),
            ("POST", "/api/reconfigure", self.handle_reconfigure),
        ]


def sync_main() -> NoReturn:
    """sync_main() -> NoReturn

    Becomes mooncake_store_service with the arguments of this process.
    """
    _binary.execute("mooncake_store_service")


main = sync_main


if __name__ == "__main__":
    main()
