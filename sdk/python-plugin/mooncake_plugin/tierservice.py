"""The calls of the kind tier."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .errors import Class, Code, PluginError, invalid
from .host import Host
from .lifecycle import Kind, answering, columns
from .protocol import messages
from .tier import Store, Volume
from .tiermemory import DATA, Inbox, Regions
from .tierqueue import Queue, decode_locator, encode_locator, encode_record

wire = messages("tier")

MAX_FORGET = 64 << 10
"""Locators in one message."""
MAX_FOUND = 1024
"""Records in one message."""
BATCH = 256
"""Completions in one message."""
GRACE = 1.0
"""Seconds that the end of a stop may take after its time is over."""


class Tier(Kind):
    """Carries the calls of the contract. Values move through the memory that the host shares."""

    name = "mooncake.tier.v1.TierService"

    def __init__(self, lifecycle: Any, log: Any) -> None:
        super().__init__(lifecycle, log)
        self._queue: Queue | None = None
        self._inbox: Inbox | None = None
        self._regions = Regions()
        self._max_record = 0
        self._operating = False
        self._stopping = asyncio.Lock()
        self._stopped = False
        self._pool = ThreadPoolExecutor(4, "calls")

    async def start(self, component: Store, host: Host) -> None:
        inbox = Inbox(os.environ.get(DATA, ""), self.log)
        try:
            await self._run(component.open, host)
            self._max_record = (await self._run(component.volume)).max_record
        except Exception:
            inbox.close()
            raise
        self._inbox, self._queue = inbox, Queue(component, self._regions)

    async def stop(self, component: Store, seconds: float) -> None:
        async with self._stopping:
            queue = self._queue
            if self._stopped or queue is None:
                self._stopped = True
                return
            within = asyncio.get_running_loop().time() + seconds
            try:
                await asyncio.wait_for(queue.wait(lambda: not queue.open), max(0.0, seconds - GRACE))
            except (asyncio.TimeoutError, TimeoutError):
                self.log.warning("operations are left at a stop: %d", len(queue.open))
            queue.end()
            left = max(GRACE, within - asyncio.get_running_loop().time())
            try:
                await asyncio.wait_for(queue.wait(lambda: not queue.open), left)
            except (asyncio.TimeoutError, TimeoutError):
                text = "stop: the storage does not respond; operations are in flight"
                raise PluginError(Code.FILE_WRITE_FAIL, text) from None
            await self._run(component.close)
            self._stopped = True
            self._regions.clear()
            if self._inbox is not None:
                self._inbox.close()
            queue.notify()

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call the store on another thread. A storage that fails has a code."""

        def checked() -> Any:
            try:
                return call(*args)
            except OSError as e:
                code = Code.FILE_OPEN_FAIL if call.__name__ == "open" else Code.FILE_WRITE_FAIL
                raise PluginError(code, f"{call.__name__}: {e}", Class.LOCAL_DEVICE) from e

        return await asyncio.get_running_loop().run_in_executor(self._pool, checked)

    def _running(self) -> tuple[Store, Queue]:
        store = self.lifecycle.component()
        if self._queue is None or self._stopped:
            raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "the tier does not run")
        return store, self._queue

    async def Operate(self, requests, context):
        async with answering(self.log, context):
            _, queue = self._running()
            if self._operating:
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "operate comes once")
            self._operating = True
            receiving = asyncio.create_task(self._receive(requests, queue))
            try:
                while not (receiving.done() and self._stopped and not queue.open and not queue.done):
                    if receiving.done():
                        receiving.result()  # It raises what the host did wrong.
                    part, queue.done[:BATCH] = queue.done[:BATCH], []
                    if part:
                        await context.write(wire.OperateResponse(completions=part))
                        continue
                    before = (receiving.done(), self._stopped)
                    await queue.wait(lambda was=before: queue.done or was != (receiving.done(), self._stopped))
            finally:
                receiving.cancel()

    async def _receive(self, requests: Any, queue: Queue) -> None:
        try:
            async for m in requests:
                queue.take(m.ops, self._max_record)
        finally:
            queue.notify()

    async def Volume(self, request, context):
        async with answering(self.log, context):
            store, _ = self._running()
            return wire.VolumeResponse(volume=encode_volume(await self._run(store.volume)))

    async def Space(self, request, context):
        async with answering(self.log, context):
            return wire.SpaceResponse(space=self._running()[0].space(request.key, request.size))

    async def Register(self, request, context):
        async with answering(self.log, context):
            self._running()
            fd = await self._inbox.take(request.token)
            try:
                self._running()
                self._regions.add(request.token, fd, request.offset, request.bytes)
            finally:
                os.close(fd)
            return wire.RegisterResponse()

    async def Deregister(self, request, context):
        async with answering(self.log, context):
            self._running()
            self._regions.remove(request.token)
            return wire.DeregisterResponse()

    async def Forget(self, request, context):
        async with answering(self.log, context):
            store, _ = self._running()
            columns("forget", MAX_FORGET, len(request.at))
            await self._run(store.forget, [decode_locator(at) for at in request.at])
            return wire.ForgetResponse()

    async def Scan(self, request, context):
        async with answering(self.log, context):
            store, _ = self._running()
            if request.limit == 0:
                raise invalid("scan: there is no place for records")
            limit = min(request.limit, MAX_FOUND)
            found, (a, b) = await self._run(store.scan, (request.from_a, request.from_b), limit)
            out = [wire.Found(record=encode_record(f.record), at=encode_locator(f.at)) for f in found]
            return wire.ScanResponse(found=out, next_a=a, next_b=b)

    async def Flush(self, request, context):
        async with answering(self.log, context):
            await self._run(self._running()[0].flush)
            return wire.FlushResponse()

    async def Wipe(self, request, context):
        async with answering(self.log, context):
            store, queue = self._running()
            await queue.wipe(request.after, lambda: self._run(store.wipe))
            return wire.WipeResponse(volume=encode_volume(await self._run(store.volume)))

    async def Stats(self, request, context):
        async with answering(self.log, context):
            store, q = self._running()
            s = await self._run(store.stats)
            errors = {"read_errors": q.read_errors, "write_errors": q.write_errors, "damaged": q.damaged}
            return wire.StatsResponse(**s._asdict(), **errors, oldest=q.oldest())


def encode_volume(v: Volume) -> Any:
    """The message of a volume."""
    return wire.Volume(**v._asdict())
