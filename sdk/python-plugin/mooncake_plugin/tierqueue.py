"""Operations from their arrival to their completions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import crc32c

from .errors import Class, Code, PluginError, invalid, of
from .protocol import messages
from .tier import MAX_KEY, Locator, Record, Store
from .tiermemory import Regions

wire = messages("tier")

WORKERS = 8
"""How many operations are at the storage at once."""
OWN_LIMIT = 30.0
"""Seconds until an operation without a deadline ends."""
MAX_LIMIT = 24 * 3600.0
MAX_OPEN = 4096
"""The most operations without a completion. A host has fewer."""
WRITE, READ = 1, 2
OK, FAILED, QUARANTINED, RETURNED = 1, 2, 3, 4


class Operation:
    """One operation. `lock` of the queue guards decided, quarantined, and doomed."""

    def __init__(self, m: Any, record: Record) -> None:
        self.number, self.kind, self.record, self.offset = m.number, m.kind, record, m.offset
        self.at = decode_locator(m.at)
        self.urgent = m.urgent
        self.parts: list[memoryview] = []
        self.timer: asyncio.TimerHandle | None = None
        self.deadline = self.began = 0.0
        self.decided = False
        self.quarantined = False
        self.doomed = False


class Queue:
    """All on the loop's thread, except `_execute` and the `commit` of a write."""

    def __init__(self, store: Store, regions: Regions) -> None:
        self.store, self.regions = store, regions
        self.open: set[Operation] = set()
        self.got = 0
        self.done: list[Any] = []
        self.changed = asyncio.Condition()
        self.ended = False
        self.read_errors = self.write_errors = self.damaged = 0
        self._waiting: tuple[deque[Operation], deque[Operation]] = (deque(), deque())
        self._running = 0
        self._paused = False
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(WORKERS, "storage")
        self._loop = asyncio.get_running_loop()
        self._notifying: set[asyncio.Task[None]] = set()

    def take(self, ops: Any, max_record: int) -> None:
        """Accept the operations of a message."""
        for m in ops:
            if m.number != self.got + 1 or len(self.open) >= MAX_OPEN:
                raise invalid(f"operation {m.number} after operation {self.got}, {len(self.open)} open")
            self.got += 1
            o = Operation(m, decode_record(m.record))
            self.open.add(o)
            try:
                if self.ended:
                    raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "the tier was stopped")
                o.parts = [self.regions.part(p.region, p.at, p.length) for p in m.local]
                check(o, max_record)
            except Exception as e:  # noqa: BLE001
                self._finish(o, FAILED, error=of(e))
                continue
            limit = min(m.limit / 1e9, MAX_LIMIT) if m.limit > 0 else OWN_LIMIT
            o.deadline = self._loop.time() + limit
            o.timer = self._loop.call_at(o.deadline, self._expire, o)
            self._waiting[0 if o.urgent else 1].append(o)
        self._start()
        self.notify()

    def _start(self) -> None:
        """Give operations to the threads, urgent ones first. Writes wait while the volume is wiped."""
        while self._running < WORKERS and not self.ended and not self._paused:
            waiting = self._waiting[0] or self._waiting[1]
            if not waiting:
                return
            o = waiting.popleft()
            if o not in self.open:
                continue  # Its deadline has passed.
            if self._loop.time() >= o.deadline:
                self._expire(o)
                continue
            o.began = time.monotonic()
            self._running += 1
            self._pool.submit(self._execute, o)

    def _execute(self, o: Operation) -> None:
        """Carry out an operation, on a thread of the pool."""
        args: dict[str, Any] = {}
        try:
            status = OK
            if o.kind == WRITE:
                if o.record.sum is not None and checksum(o.parts) != o.record.sum:
                    raise PluginError(Code.CHECKSUM_MISMATCH, "write: the bytes are not those of the checksum")
                at = self.store.write(o.record, o.parts, lambda: self._commit(o))
                args["at"] = encode_locator(at)
            else:
                args["verified"] = self._read(o)
        except Exception as e:  # noqa: BLE001
            status, args = FAILED, {"error": storage_error(e, o.kind)}
        self._loop.call_soon_threadsafe(self._executed, o, status, args)

    def _read(self, o: Operation) -> bool:
        """Read, and prove the bytes if that is possible."""
        there = self.store.read(o.record, o.at, o.offset, o.parts)
        if there.sum is None or sum(len(p) for p in o.parts) != there.size:
            return False
        if checksum(o.parts) != there.sum:
            raise PluginError(Code.CHECKSUM_MISMATCH, f"read: the bytes at {o.at} are damaged")
        return True

    def _commit(self, o: Operation) -> None:
        """Settle that a write keeps its record, unless its deadline or a wipe came first."""
        with self._lock:
            if o.quarantined:
                raise late()
            if o.doomed:
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "write: the volume was wiped")
            o.decided = True

    def _executed(self, o: Operation, status: int, args: dict[str, Any]) -> None:
        self._running -= 1
        self._finish(o, status, **args)
        self._start()

    def _expire(self, o: Operation) -> None:
        """The deadline has passed. The storage may still touch the memory of an operation that it has."""
        if o not in self.open:
            return
        if not o.began:
            self._finish(o, FAILED, error=late())
            return
        with self._lock:
            if o.decided:
                return
            o.quarantined = True
        self._post(o, QUARANTINED, error=late())

    def _finish(self, o: Operation, status: int, *, error: PluginError | None = None, **args: Any) -> None:
        """End an operation: nothing touches its memory any more."""
        self.open.discard(o)
        if o.timer is not None:
            o.timer.cancel()
        for part in o.parts:
            part.release()
        if error is not None and o.began:
            self.read_errors += error.code == Code.FILE_READ_FAIL
            self.write_errors += error.code == Code.FILE_WRITE_FAIL
            self.damaged += error.code in (Code.OBJECT_NOT_FOUND, Code.CHECKSUM_MISMATCH) and o.kind == READ
        if o.quarantined:
            status, error, args = RETURNED, None, {}
        self._post(o, status, error=error, **args)

    def _post(self, o: Operation, status: int, *, error: PluginError | None = None, **args: Any) -> None:
        if error is not None:
            args["error"] = error.message()
        self.done.append(wire.Completion(number=o.number, status=status, **args))
        self.notify()

    def notify(self) -> None:
        """Wake what waits."""

        async def notify() -> None:
            async with self.changed:
                self.changed.notify_all()

        task = self._loop.create_task(notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    async def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with self.changed:
            await self.changed.wait_for(ready)

    async def wipe(self, after: int, call: Callable[[], Any]) -> None:
        """Fail the writes that were submitted before, and wipe when none of them runs any more."""
        await self.wait(lambda: self.got >= after)
        self._paused = True
        try:
            with self._lock:
                for o in self.open:
                    o.doomed = o.doomed or (o.kind == WRITE and not o.decided)
            for o in [o for o in self.open if o.doomed and not o.began]:
                self._finish(o, FAILED, error=PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "the volume was wiped"))
            await self.wait(lambda: not any(o.kind == WRITE and o.began for o in self.open))
            await call()
        finally:
            self._paused = False
            self._start()

    def end(self) -> None:
        """Begin no operation any more, and fail those that have not begun."""
        self.ended = True
        for o in [o for o in self.open if not o.began]:
            self._finish(o, FAILED, error=PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, "the tier was stopped"))
        self._pool.shutdown(wait=False)
        self.notify()

    def oldest(self) -> int:
        """How long the oldest operation has been at the storage, in nanoseconds."""
        began = min((o.began for o in self.open if o.began), default=0.0)
        return max(1, int((time.monotonic() - began) * 1e9)) if began else 0


def check(o: Operation, max_record: int) -> None:
    """Refuse an operation that breaks the contract."""
    length = sum(len(p) for p in o.parts)
    where, r = f"submit: operation {o.number}", o.record
    if o.kind not in (WRITE, READ):
        raise invalid(f"{where} is of the unknown kind {o.kind}")
    if not 0 < len(r.key) <= MAX_KEY:
        raise invalid(f"{where} has a key of {len(r.key)} bytes, must be 1 to {MAX_KEY}")
    if not 0 < r.size <= max_record:
        raise invalid(f"{where} has a value of {r.size} bytes, must be 1 to {max_record}")
    if o.kind == WRITE and length != r.size:
        raise invalid(f"{where} writes {length} bytes as a value of {r.size}")
    if o.kind == READ and (length == 0 or o.offset + length > r.size):
        raise invalid(f"{where} reads {length} bytes at {o.offset} of a value of {r.size}")


def checksum(parts: list[memoryview]) -> int:
    """CRC-32C of the parts in a row."""
    crc = 0
    for part in parts:
        crc = crc32c.crc32c(part, crc)
    return crc


def storage_error(e: Exception, kind: int) -> PluginError:
    """The error of an operation: that of the store, or a failure of the storage."""
    if isinstance(e, PluginError):
        return e
    code, word = (Code.FILE_WRITE_FAIL, "write") if kind == WRITE else (Code.FILE_READ_FAIL, "read")
    return PluginError(code, f"{word}: {type(e).__name__}: {e}", Class.LOCAL_DEVICE)


def late() -> PluginError:
    """The error of an operation whose deadline has passed."""
    return PluginError(Code.RPC_TIMEOUT, "the deadline of the operation has passed")


def decode_record(m: Any) -> Record:
    """The record of a message."""
    return Record(m.key, m.epoch, m.put, m.size, m.sum if m.HasField("sum") else None)


def encode_record(r: Record) -> Any:
    """The message of a record."""
    return wire.Record(key=r.key, epoch=r.epoch, put=r.put, size=r.size, sum=r.sum)


def decode_locator(m: Any) -> Locator:
    """The locator of a message."""
    return (m.a, m.b, m.c, m.d)


def encode_locator(at: Locator) -> Any:
    """The message of a locator."""
    return wire.Locator(a=at[0], b=at[1], c=at[2], d=at[3])
