"""The metadata by which nodes find each other, over HTTP.

The console script and ``python -m mooncake.http_metadata_server`` become the server of the binary.
KVBootstrapServer is the same in a thread of a Python process, and needs aiohttp.
"""

import argparse
import asyncio
import logging
import threading
from concurrent.futures import Future
from enum import Enum
from typing import Any, NoReturn

from mooncake import _aiohttp, _binary

logger = logging.getLogger(__name__)

MAX_KEYS = 100_000
MAX_KEY_SIZE = 4 << 10  # bytes, as are the others
MAX_VALUE_SIZE = 16 << 20
MAX_TOTAL_SIZE = 1 << 30
_STARTED = "HTTP Metadata Server started on %s:%s"
_START_TIMEOUT = 30.0  # seconds
_STOP_TIMEOUT = 10.0


class KVPoll(Enum):
    """What a KVBootstrapServer is at; Success means that it serves."""

    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


class KVBootstrapServer:
    """Serves ``/metadata?key=K``: GET, PUT and DELETE of bytes, which are lost when it closes.

    run, close and poll are for any thread; the coroutines are for the loop that serves. What it
    holds is bounded by MAX_KEYS and the sizes beside it: a PUT beyond them is answered 413 or 507.
    """

    def __init__(self, port: int, host: str = "0.0.0.0") -> None:
        self._web = _aiohttp.web("KVBootstrapServer")
        self.port = port
        self.host = host
        self.store: dict[str, bytes] = {}
        self.lock = asyncio.Lock()
        # Some versions of aiohttp refuse what has this size, others only what has more.
        self.app = self._web.Application(client_max_size=MAX_VALUE_SIZE + 1)
        self.app.router.add_route("*", "/metadata", self._handle_metadata)
        self.thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving = False

    def run(self) -> threading.Thread:
        """Serves in a thread that does not keep the process alive, and returns it once the port is bound;
        with port 0, ``port`` is then the one that was given. Raises OSError where it cannot be bound.
        """
        started: Future[None] = Future()
        self.thread = threading.Thread(target=self._run_server, args=(started,), name="http-metadata", daemon=True)
        self.thread.start()
        started.result(timeout=_START_TIMEOUT)
        return self.thread

    def close(self) -> None:
        """Ends the thread, after up to 10 s for requests in progress. May be called again."""
        loop, thread = self._loop, self.thread
        if loop is not None:
            try:
                loop.call_soon_threadsafe(loop.stop)
            except RuntimeError:
                pass  # It is closed already.
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=_STOP_TIMEOUT)

    def poll(self) -> KVPoll:
        """Success while it serves, Bootstrapping while it starts, else Failed."""
        if self.thread is not None and self.thread.is_alive():
            return KVPoll.Success if self._serving else KVPoll.Bootstrapping
        return KVPoll.Failed

    def _run_server(self, started: "Future[None]") -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        asyncio.set_event_loop(loop)
        runner = self._web.AppRunner(self.app, access_log=None, shutdown_timeout=_STOP_TIMEOUT / 2)
        try:
            loop.run_until_complete(self._bind(runner))
            started.set_result(None)
            loop.run_forever()
        except Exception as err:
            if started.done():
                raise
            logger.error("HTTP Metadata Server cannot serve on %s:%s: %s", self.host, self.port, err)
            started.set_exception(err)
        finally:
            self._serving = False
            loop.run_until_complete(runner.cleanup())
            loop.close()

    async def _bind(self, runner: Any) -> None:
        await runner.setup()
        await self._web.TCPSite(runner, self.host, self.port).start()
        self.port = runner.addresses[0][1]
        self._serving = True
        logger.info(_STARTED, self.host, self.port)

    def _answer(self, status: int, text: str) -> Any:
        return self._web.Response(status=status, text=text, content_type="application/json")

    async def _handle_metadata(self, request: Any) -> Any:
        """Answers a request; it uses the request's method, query and read()."""
        key = request.query.get("key", "").strip()
        if not key:
            return self._answer(400, "metadata key is required")
        if request.method == "GET":
            return await self._handle_get(key)
        if request.method == "PUT":
            return await self._handle_put(key, request)
        if request.method == "DELETE":
            return await self._handle_delete(key)
        return self._answer(405, "Method not allowed")

    async def _handle_get(self, key: str) -> Any:
        async with self.lock:
            value = self.store.get(key)
        if value is None:
            return self._answer(404, "metadata not found")
        return self._web.Response(body=value, content_type="application/json")

    async def _handle_put(self, key: str, request: Any) -> Any:
        value = await request.read()
        if len(value) > MAX_VALUE_SIZE or len(key) > MAX_KEY_SIZE:
            return self._answer(413, f"a key may have {MAX_KEY_SIZE} and a value {MAX_VALUE_SIZE} bytes")
        async with self.lock:
            before = self.store.get(key)
            if "rpc_meta" in key and before is not None and before != value:
                return self._answer(400, "Duplicate rpc_meta key not allowed")
            held = sum(len(k) + len(v) for k, v in self.store.items() if k != key)
            if held + len(key) + len(value) > MAX_TOTAL_SIZE or before is None and len(self.store) >= MAX_KEYS:
                return self._answer(507, f"no space: at most {MAX_KEYS} keys and {MAX_TOTAL_SIZE} bytes are held")
            self.store[key] = value
        return self._answer(200, "metadata updated")

    async def _handle_delete(self, key: str) -> Any:
        async with self.lock:
            if self.store.pop(key, None) is None:
                return self._answer(404, "metadata not found")
        return self._answer(200, "metadata deleted")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """The arguments as a Python program may want them; main leaves them to the binary."""
    parser = argparse.ArgumentParser(description="Serve the metadata by which nodes find each other, over HTTP")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--log-level", default="INFO", help="least severe messages that are written")
    return parser.parse_args(argv)


def main() -> NoReturn:
    """Becomes mooncake_http_metadata_server with the arguments of this process."""
    _binary.execute("mooncake_http_metadata_server")


if __name__ == "__main__":
    main()
