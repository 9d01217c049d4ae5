"""A node of the pool with a REST service.

The console scripts and ``python -m mooncake.mooncake_store_service`` become the service of the
binary. MooncakeStoreService is the same in a Python process, and needs aiohttp; main runs it as a
program. MooncakeDistributedStore and web, which is aiohttp.web, are names of this module that
load when they are used, and whoever sets them here decides what the service uses.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, NoReturn

from mooncake import _aiohttp, _binary
from mooncake._rest import MAX_GRACE
from mooncake._rest.objects import Objects
from mooncake._rest.segments import SHM, Segments
from mooncake.mooncake_config import MooncakeConfig

logger = logging.getLogger(__name__)

MAX_BODY = 100 << 20  # bytes
_RETRY = 1.0  # seconds between two attempts at a setup that fails at once
_MAX_UNMOUNT_LOCAL_DISK_GRACE_PERIOD_SECONDS = MAX_GRACE

_SETUP_NAMES = {"device_name": "rdma_devices", "master_server_address": "master_server_addr"}
_SHUTDOWN_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[Any], Awaitable[Any]]


def __getattr__(name: str) -> Any:
    if name == "MooncakeDistributedStore":
        from mooncake.store import MooncakeDistributedStore

        return MooncakeDistributedStore
    if name == "web":
        try:
            return _aiohttp.web("mooncake.mooncake_store_service")
        except ImportError as err:
            raise AttributeError(str(err)) from err
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _current(name: str) -> Any:
    """A name of this module that loads when it is used, or what a caller has set in its place."""
    there = globals()
    return there[name] if name in there else __getattr__(name)


def _shm_name_to_path(name: Any) -> str | None:
    """The path of a file in /dev/shm by its name, which may begin with one slash; None for what is no name."""
    plain = name.removeprefix("/") if isinstance(name, str) else ""
    if plain in ("", ".", "..") or "/" in plain or "\0" in plain:
        return None
    return f"{SHM}/{plain}"


def _timed_handler(operation_name: str, handler: Handler) -> Handler:
    """The handler, with a line in the log at INFO that says how long each request took."""

    async def timed(request: Any) -> Any:
        begin = time.perf_counter()
        try:
            return await handler(request)
        finally:
            logger.info("store service: %s took %.2f ms", operation_name, (time.perf_counter() - begin) * 1000)

    return timed


def _install_shutdown_signal_handlers(loop: asyncio.AbstractEventLoop, shutdown_event: asyncio.Event) -> None:
    """Sets the event at SIGINT and SIGTERM. To be called in the main thread, where Python runs signal handlers."""

    def stop(number: int) -> None:
        logger.info("store service: signal %s, shutting down", number)
        shutdown_event.set()

    for number in _SHUTDOWN_SIGNALS:
        try:
            loop.add_signal_handler(number, stop, number)
        except (NotImplementedError, RuntimeError):  # a loop without signals
            signal.signal(number, lambda n, _: loop.call_soon_threadsafe(stop, n))


def _unblock_shutdown_signals() -> None:
    """Lets this thread receive SIGINT and SIGTERM, whatever the thread that started it has blocked."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SHUTDOWN_SIGNALS)


class MooncakeStoreService(Objects, Segments):
    """A store and its REST service, in the asyncio loop that calls its coroutines.

    >>> service = MooncakeStoreService("store.json")
    >>> await service.start_store_service()
    >>> await service.start_http_service(8080)
    >>> await service.stop()
    """

    _runner: Any = None

    def __init__(self, config_path: str | None = None, cli_config: dict[str, Any] | None = None) -> None:
        """Reads the file, or without one the environment; cli_config has fields of MooncakeConfig that replace those.

        Raises ValueError for settings that are wrong, OSError for a file that cannot be read.
        """
        config = MooncakeConfig.from_file(config_path) if config_path else MooncakeConfig.load_from_env()
        known = {field.name for field in dataclasses.fields(MooncakeConfig)}
        for name, value in (cli_config or {}).items():
            if name in known:
                setattr(config, name, value)
        self.config: Any = config
        self.store: Any = None
        self.current_mode = "prefill"
        self.mounted_segment_ids: list[str] = []
        self.last_mount_info: dict[str, Any] = {}
        self._state_lock = asyncio.Lock()

    def _setup_logging(self) -> None:
        """Messages from INFO on go to standard error, unless the process has decided otherwise."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")

    async def start_store_service(self, max_wait_time: float = 60, shutdown_event: asyncio.Event | None = None) -> bool:
        """start_store_service(max_wait_time: float = 60, shutdown_event: asyncio.Event = None) -> bool

        Sets the store up, which waits for the pool; a setup that fails before is tried again each
        second. False when max_wait_time seconds are over or the event is set; then the service has
        no store.
        """
        fields = dataclasses.asdict(self.config) if dataclasses.is_dataclass(self.config) else vars(self.config)
        settings = {_SETUP_NAMES.get(name, name): value for name, value in fields.items()}
        stopped = shutdown_event or asyncio.Event()
        loop = asyncio.get_running_loop()
        end = loop.time() + max_wait_time
        await asyncio.sleep(0)  # for a signal that arrived just before
        while not stopped.is_set() and loop.time() < end:
            failed = await self._try_to_set_up(settings, end - loop.time(), stopped)
            if stopped.is_set():
                await self.stop()
            elif not failed:
                logger.info("store service: the store is set up")
                return True
            elif loop.time() < end:
                logger.warning("store service: %s; trying again", failed)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(stopped.wait(), max(min(_RETRY, end - loop.time()), 0))
            else:
                logger.error("store service: %s", failed)
        if stopped.is_set():
            logger.info("store service: shut down before the store was set up")
        else:
            logger.error("store service: the store could not be set up in %s s", max_wait_time)
        return False

    async def _try_to_set_up(self, settings: dict[str, Any], limit: float, stopped: asyncio.Event) -> str:
        """Makes a new store; "" where its setup succeeds, otherwise why it does not."""
        try:
            self.store = _current("MooncakeDistributedStore")()
            code = await self._set_up(settings, limit, stopped)
        except Exception as err:  # noqa: BLE001 - what setup may raise is its own affair, and another attempt follows
            failed = f"setup failed: {err}"
        else:
            failed = f"setup failed with error code {code}" if code else ""
        if failed:
            await self._close_store()
        return failed

    async def _set_up(self, settings: dict[str, Any], limit: float, stopped: asyncio.Event) -> int:
        """The setup of the store in a thread, which close ends when the event is set or this task is cancelled.

        The store of this package waits for limit seconds; another in its place is given the settings alone.
        """
        from mooncake.store import MooncakeDistributedStore

        wait = {"max_wait_time": limit} if isinstance(self.store, MooncakeDistributedStore) else {}
        work = asyncio.ensure_future(asyncio.to_thread(self.store.setup, settings, **wait))
        stop = asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                self.store.close()
        return await work

    async def start_http_service(self, port: int = 8080, host: str = "0.0.0.0") -> bool:
        """start_http_service(port: int = 8080, host: str = "0.0.0.0") -> bool

        Serves until stop, and returns True. Raises OSError where the port cannot be bound.
        """
        web = _current("web")
        app = web.Application(client_max_size=MAX_BODY)
        for method, path, handle in self._routes():
            app.router.add_route(method, path, _timed_handler(path.split("/")[2].upper(), handle))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        return True

    async def stop(self) -> None:
        """stop() -> None

        Ends the service, then closes the store. May be called again.
        """
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        await self._close_store()

    async def _close_store(self) -> None:
        store, self.store = self.store, None
        if store is not None and (code := await asyncio.to_thread(store.close)) != 0:
            logger.warning("store service: closing the store failed with error code %s", code)

    @property
    def port(self) -> int:
        """The port that is served, 0 where none is."""
        return self._runner.addresses[0][1] if self._runner else 0

    def _path_in_shm(self, name: Any) -> str | None:
        return _shm_name_to_path(name)

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


def parse_arguments() -> argparse.Namespace:
    """The flags of main, from sys.argv."""
    parser = argparse.ArgumentParser(description="A node of the pool with a REST service, in a Python process")
    parser.add_argument("--config", help="a JSON file with settings; without it the environment has them")
    parser.add_argument(
        "-D", "--define", action="append", default=[], metavar="KEY=VALUE", help="a setting; replaces that of the file"
    )
    parser.add_argument("--port", type=int, default=8080, help="the port of the REST service (default: 8080)")
    parser.add_argument(
        "--max-wait-time", type=float, default=60, help="seconds to wait for the pool at the start (default: 60)"
    )
    return parser.parse_args()


async def main() -> None:
    """main() -> None

    Runs a MooncakeStoreService with the arguments of this process until SIGINT or SIGTERM. Raises
    RuntimeError where the store cannot be set up, OSError where the port cannot be bound, and as
    the constructor does.
    """
    args = parse_arguments()
    settings = dict(item.split("=", 1) for item in args.define if "=" in item)
    service = MooncakeStoreService(args.config, settings)
    service._setup_logging()
    for item in args.define:
        if "=" not in item:
            logger.warning("store service: --define %r is ignored, it is not KEY=VALUE", item)
    stopped = asyncio.Event()
    _install_shutdown_signal_handlers(asyncio.get_running_loop(), stopped)
    _unblock_shutdown_signals()
    try:
        if await service.start_store_service(max_wait_time=args.max_wait_time, shutdown_event=stopped):
            _unblock_shutdown_signals()
            if not stopped.is_set() and not await service.start_http_service(args.port):
                raise RuntimeError(f"the REST service could not be started on port {args.port}")
            await stopped.wait()
        elif not stopped.is_set():
            raise RuntimeError(
                f"the store could not be set up in {args.max_wait_time} s; is the master at "
                f"{service.config.master_server_address} running?"
            )
    finally:
        await service.stop()


def sync_main() -> None:
    """sync_main() -> None

    Runs main in this process, and returns when it ends. Without aiohttp this process becomes
    mooncake_store_service instead, with its own arguments.
    """
    if find_spec("aiohttp") is None:
        program()
    asyncio.run(main())


def program() -> NoReturn:
    """program() -> NoReturn

    Becomes mooncake_store_service with the arguments of this process.
    """
    _binary.execute("mooncake_store_service")


if __name__ == "__main__":
    program()
