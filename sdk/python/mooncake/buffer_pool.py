"""Registered memory to be lent again and again, as registering is slow.

BufferPool and its leases are names of mooncake.store, too.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import weakref
from typing import Any, SupportsIndex

from . import _arguments as arguments
from . import _native

__all__ = [
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
]

BufferLeaseView = memoryview


class _Region:
    """Memory that is registered with the store, cut into buffers of one size."""

    __slots__ = ("free", "ptr", "size", "step")

    def __init__(self, ptr: int, size: int, step: int) -> None:
        self.ptr, self.size, self.step = ptr, size, step
        self.free = collections.deque(range(ptr, ptr + size - step + 1, step))

    def idle(self) -> bool:
        return len(self.free) == self.size // self.step


class BufferLease:
    """A buffer on loan. BufferPool.acquire makes them; release, or leaving its with block, ends it."""

    __module__ = "mooncake.store"

    def __init__(self) -> None:
        raise TypeError("BufferLease cannot be constructed; BufferPool.acquire gives one")

    @classmethod
    def _of(cls, pool: BufferPool, region: _Region, ptr: int, size: int) -> BufferLease:
        import ctypes

        lease = cls.__new__(cls)
        lease._ptr, lease._size = ptr, size
        # Every view of the memory keeps this object, and the buffer is free when it is gone.
        lease._memory = (ctypes.c_ubyte * size).from_address(ptr)
        end = weakref.finalize(lease._memory, pool._take_back, region, ptr)
        end.atexit = False
        lease._view = memoryview(lease._memory).cast("B")
        return lease

    @property
    def ptr(self) -> int:
        """Its address. RuntimeError after release."""
        self._must_hold()
        return self._ptr

    @property
    def size(self) -> int:
        """How many bytes were asked for."""
        return self._size

    @property
    def buffer(self) -> memoryview:
        """Its bytes, writable. RuntimeError after release."""
        self._must_hold()
        return self._view

    def release(self) -> None:
        """release() -> None

        Gives the buffer back; a second call does nothing. RuntimeError while something else than
        buffer itself, as a slice of it or an array over it, uses the memory.
        """
        if not hasattr(self, "_memory"):
            return
        memory = weakref.ref(self._memory)
        try:
            self._view.release()
        except BufferError:
            raise RuntimeError("cannot release the buffer: an object made from lease.buffer still uses it") from None
        del self._memory
        held = memory()
        if held is not None:
            self._memory, self._view = held, memoryview(held).cast("B")
            raise RuntimeError("cannot release the buffer: a view of lease.buffer is still there")

    def _must_hold(self) -> None:
        if not hasattr(self, "_memory"):
            raise RuntimeError("the buffer has been released")

    def __enter__(self) -> BufferLease:  # noqa: PYI034
        self._must_hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class BufferPool:
    """BufferPool(store: MooncakeDistributedStore, max_bytes: int = 0, min_size_class: int = 65536, max_size_class: int = None, alignment: int = 8388608, block_on_exhaustion: bool = True, default_timeout: float = None, max_regions: int = None, prewarm_size: int = None, prewarm_count: int = 0)

    Lends buffers in memory that is registered with the store. Sizes are rounded up to
    min_size_class times a power of two, at most max_size_class; memory is registered in
    regions that are multiples of alignment where the bounds allow. max_bytes bounds the memory
    (0: no bound) and max_regions the registrations. Close it before the store. Timeouts are
    seconds; without one, acquire waits until a buffer is released or the pool is closed. Used
    from any thread.
    """

    __module__ = "mooncake.store"
    _closed = True  # until __init__ is through

    def __init__(
        self,
        store: Any,
        max_bytes: SupportsIndex = 0,
        min_size_class: SupportsIndex = 65536,
        max_size_class: SupportsIndex | None = None,
        alignment: SupportsIndex = 8388608,
        block_on_exhaustion: bool = True,
        default_timeout: float | None = None,
        max_regions: SupportsIndex | None = None,
        prewarm_size: SupportsIndex | None = None,
        prewarm_count: SupportsIndex = 0,
    ) -> None:
        self._regions: list[_Region] = []
        self._store = store
        self._max_bytes = arguments.number("max_bytes", max_bytes) or 1 << 63
        self._min = arguments.positive("min_size_class", min_size_class)
        self._max = 1 << 62 if max_size_class is None else arguments.positive("max_size_class", max_size_class)
        self._alignment = arguments.positive("alignment", alignment)
        self._block = arguments.flag("block_on_exhaustion", block_on_exhaustion)
        self._timeout = arguments.seconds("default_timeout", default_timeout)
        self._max_regions = 1 << 31 if max_regions is None else arguments.number("max_regions", max_regions)
        if self._max < self._min:
            raise RuntimeError("max_size_class must be at least min_size_class")
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        count = arguments.number("prewarm_count", prewarm_count)
        if count and prewarm_size is not None:
            self.prewarm(prewarm_size, count)

    def acquire(self, size: SupportsIndex, block: bool | None = None, timeout: float | None = None) -> BufferLease:
        """acquire(size: int, block: bool = None, timeout: float = None) -> BufferLease

        A buffer of size bytes. Where there is none it waits, unless block (or block_on_exhaustion)
        is False. RuntimeError when there is none, when the time is up, after close, and for a size
        that the pool never has.
        """
        wanted = arguments.positive("size", size)
        step = self._class_of(wanted)
        wait = self._block if block is None else arguments.flag("block", block)
        limit = self._timeout if timeout is None else arguments.seconds("timeout", timeout)
        found: list[tuple[_Region, int]] = []

        def try_take() -> bool:
            taken = self._take(step)
            found[:] = [taken] if taken else []
            return bool(taken)

        with self._changed:
            if not try_take() and not (wait and self._changed.wait_for(try_take, limit)):
                why = f"none was released within {limit} s" if wait else "all are lent"
                raise RuntimeError(
                    f"the buffer pool has no buffer of {wanted} bytes: {why}; raise max_bytes or release leases"
                )
        return BufferLease._of(self, *found[0], wanted)

    buffer = acquire

    def prewarm(self, size: SupportsIndex, count: SupportsIndex) -> None:
        """prewarm(size: int, count: int) -> None

        Registers memory so that count buffers of size bytes are free. RuntimeError where the pool
        may not have so many.
        """
        step = self._class_of(arguments.positive("size", size))
        with self._changed:
            while sum(len(r.free) for r in self._regions if r.step == step) < arguments.number("count", count):
                self._must_be_open()
                if not self._grow(step):
                    raise RuntimeError(f"the buffer pool may not have {count} buffers of {step} bytes: raise max_bytes")

    def close(self) -> None:
        """close() -> None

        Frees the memory. RuntimeError, and nothing is freed, while buffers are lent; those who wait
        for one get a RuntimeError. A second call does nothing.
        """
        with self._changed:
            if self._closed:
                return
            if not all(region.idle() for region in self._regions):
                raise RuntimeError("cannot close the buffer pool: leases are active; release them first")
            self._closed = True
            self._changed.notify_all()
            while self._regions:
                self._drop(self._regions[-1])

    def _class_of(self, size: int) -> int:
        step = self._min << ((size - 1) // self._min).bit_length()
        step = step if step <= self._max or size > self._max else self._max
        if step > self._max or step > self._max_bytes:
            raise RuntimeError(
                f"size: a buffer of {size} bytes needs {step}, more than max_size_class or max_bytes allow"
            )
        return step

    # What follows is called with the lock. It is held while memory is registered: others of
    # this pool would wait for that memory.

    def _take(self, step: int) -> tuple[_Region, int] | None:
        self._must_be_open()
        for region in self._regions:
            if region.step == step and region.free:
                return region, region.free.pop()
        region = self._grow(step)
        return (region, region.free.pop()) if region else None

    def _grow(self, step: int) -> _Region | None:
        """A new region of buffers of step bytes; where the bounds forbid it, regions that nobody uses go first."""
        for idle in [r for r in self._regions if r.idle() and r.step != step]:
            if self._room() >= step and len(self._regions) < self._max_regions:
                break
            self._drop(idle)
        room = self._room()
        if room < step or len(self._regions) >= self._max_regions:
            return None
        size = -(-step // self._alignment) * self._alignment
        size = min(size, room) // step * step
        ptr = _native.host_alloc(size)
        if not ptr:
            raise RuntimeError(f"no memory for the buffer pool: {_native.last_error(0)}")
        code = self._store.register_buffer(ptr, size)
        if code != 0:
            _native.host_free(ptr)
            raise RuntimeError(f"cannot register memory of the buffer pool: {code}")
        region = _Region(ptr, size, step)
        self._regions.append(region)
        return region

    def _room(self) -> int:
        return self._max_bytes - sum(r.size for r in self._regions)

    def _drop(self, region: _Region) -> None:
        self._regions.remove(region)
        self._store.unregister_buffer(region.ptr)
        _native.host_free(region.ptr)

    def _take_back(self, region: _Region, ptr: int) -> None:
        with self._changed:
            region.free.append(ptr)
            self._changed.notify_all()

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("the buffer pool is closed")

    def __enter__(self) -> BufferPool:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            with contextlib.suppress(RuntimeError):  # of leases, or in a child
                self.close()


RegisteredBufferPool = BufferPool
RegisteredBufferLease = BufferLease
RegisteredBufferLeaseView = BufferLeaseView
