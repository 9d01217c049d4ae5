"""Registered memory to be lent again and again, as registering is slow.

BufferPool and its leases are names of mooncake.store, too.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import threading
import weakref
from typing import Any, NoReturn, SupportsIndex

from . import _arguments as arguments
from ._buffer_regions import Region, Regions

__all__ = [
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
]

BufferLeaseView = memoryview

_ANY_NUMBER = 1 << 62
_WORD = ctypes.sizeof(ctypes.c_void_p)


class _LeaseReleased(RuntimeError, BufferError):
    """A lease is used after its release. Callers catch it as either."""


class BufferLease:
    """A buffer on loan. BufferPool.acquire makes them; release, or leaving its with block, ends it.

    Used from any thread; release is not to be called while another thread takes buffer.
    """

    __module__ = "mooncake.store"
    __slots__ = ("__weakref__", "_memory", "_ptr", "_size")

    def __init__(self) -> None:
        raise TypeError("BufferLease cannot be constructed; BufferPool.acquire gives one")

    @classmethod
    def _of(cls, pool: BufferPool, region: Region, ptr: int, size: int) -> BufferLease:
        lease = cls.__new__(cls)
        lease._ptr, lease._size = ptr, size
        # Every view of the memory keeps this object, and the buffer is free when it is gone.
        # It has one byte at least, as memoryview casts none of no bytes.
        lease._memory = (ctypes.c_ubyte * max(size, 1)).from_address(ptr)
        end = weakref.finalize(lease._memory, pool._take_back, region, ptr, size)
        end.atexit = False
        return lease

    @property
    def ptr(self) -> int:
        """Its address. RuntimeError after release."""
        self._held()
        return self._ptr

    @property
    def size(self) -> int:
        """How many bytes were asked for."""
        return self._size

    @property
    def buffer(self) -> memoryview:
        """Its bytes, writable, as a new view each time.

        After release an error that is both a RuntimeError and a BufferError.
        """
        return memoryview(self._held()).cast("B")[: self._size]

    def release(self) -> None:
        """Gives the buffer back; a second call does nothing. RuntimeError, and the lease goes on, while
        a view from buffer, a slice of one, or an array over one exists: drop them, or call their
        release, first.
        """
        try:
            memory = weakref.ref(self._memory)
            del self._memory
        except AttributeError:
            return
        held = memory()
        if held is not None:
            self._memory = held
            raise RuntimeError(
                "cannot release the buffer while exported views exist: delete what was made from lease.buffer, "
                "or call release() on those memoryviews, first"
            )

    def _held(self) -> Any:
        try:
            return self._memory
        except AttributeError:
            raise _LeaseReleased("the buffer lease is closed: its buffer has been released") from None

    def __enter__(self) -> BufferLease:  # noqa: PYI034
        return self

    def __exit__(self, kind: object, value: object, traceback: object, /) -> None:
        self.release()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError("a BufferLease cannot be pickled or copied: its buffer is memory of this process")


class BufferPool:
    """BufferPool(store: MooncakeDistributedStore, max_bytes: int = 0, min_size_class: int = 65536, max_size_class: int = None, alignment: int = 8388608, block_on_exhaustion: bool = True, default_timeout: float = None, max_regions: int = None, prewarm_size: int = None, prewarm_count: int = 0)

    Lends buffers in memory that is registered with the store. max_bytes bounds the bytes lent at a
    time; 0 stands for twice the store's local_buffer_size, and for no bound where that is 0. It
    bounds the registered bytes as well, unless the free ranges are too short for a buffer. max_regions
    bounds the number of buffers that are lent at a time, and with it the registrations. Memory is
    registered in regions of about alignment, a power of two, where the bound allows. min_size_class
    and max_size_class are checked and have no effect: a buffer takes up its size, rounded up to 64
    bytes. Close it before the store. Timeouts are seconds; without one, acquire waits until a buffer
    is released or the pool is closed. Used from any thread.

    RuntimeError for a store that is not set up, and for bounds that are wrong.
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
        bytes_ = arguments.number("max_bytes", max_bytes)
        arguments.positive("min_size_class", min_size_class)
        if max_size_class is not None:
            arguments.number("max_size_class", max_size_class)
        cut = arguments.positive("alignment", alignment)
        if cut < _WORD or cut & (cut - 1):
            raise RuntimeError(f"alignment must be a power of two and at least {_WORD}, not {cut}")
        self._block = arguments.flag("block_on_exhaustion", block_on_exhaustion)
        self._timeout = arguments.seconds("default_timeout", default_timeout)
        self._most = _ANY_NUMBER if max_regions is None else arguments.number("max_regions", max_regions)
        count = arguments.number("prewarm_count", prewarm_count)
        size = None if prewarm_size is None else arguments.number("prewarm_size", prewarm_size)
        self._regions = Regions(_usable(store), bytes_ or 2 * getattr(store, "_local_buffer", 0), cut)
        self._lent = 0
        # What was lent comes back through here: a garbage collection may run the end of a lease
        # in the middle of any statement, also of one that changes the regions.
        self._returned: collections.deque[tuple[Region, int, int]] = collections.deque()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        if count and size is not None:
            self.prewarm(size, count)

    def acquire(self, size: SupportsIndex, block: bool | None = None, timeout: float | None = None) -> BufferLease:
        """A buffer of size bytes, which may be 0. Where there is none it waits, unless block (or
        block_on_exhaustion) is False. RuntimeError when there is none, when the time is up, after
        close, and at once for a size that exceeds the capacity of the pool.
        """
        wanted = arguments.number("size", size)
        wait = self._block if block is None else arguments.flag("block", block)
        limit = self._timeout if timeout is None else arguments.seconds("timeout", timeout)
        found: list[tuple[Region, int]] = []

        def try_take() -> bool:
            taken = self._take(wanted)
            found[:] = [taken] if taken else []
            return bool(taken)

        with self._changed:
            if not self._regions.fits(wanted):
                self._must_be_open()
                raise RuntimeError(
                    f"the requested size of {wanted} bytes exceeds the capacity of the buffer pool, "
                    f"{self._regions.capacity or 1 << 63} bytes: raise max_bytes or ask for less"
                )
            if not try_take() and not (wait and self._changed.wait_for(try_take, limit)):
                self._exhausted(wanted, f"timed out after {limit} s: " if wait else "")
            self._lent += 1
        return BufferLease._of(self, *found[0], wanted)

    buffer = acquire

    def prewarm(self, size: SupportsIndex, count: SupportsIndex) -> None:
        """Registers memory ahead of time so that count buffers of size bytes are free, or as many of
        them as the bounds of the pool allow. RuntimeError after close.
        """
        wanted, many = arguments.number("size", size), arguments.number("count", count)
        with self._changed:
            self._collect()
            self._must_be_open()
            if self._regions.fits(wanted):
                self._regions.prewarm(wanted, min(many, self._most - self._lent), self._most)

    def close(self) -> None:
        """Frees the memory. RuntimeError, and nothing is freed, while buffers are lent; those who wait
        for one get a RuntimeError. A second call does nothing.
        """
        with self._changed:
            if self._closed:
                return
            self._collect()
            if self._lent:
                raise RuntimeError(
                    f"cannot close the buffer pool with active leases: release the {self._lent} of them first"
                )
            self._closed = True
            self._changed.notify_all()
            self._regions.drop_all()

    # What follows is called with the lock. It is held while memory is registered: others of
    # this pool would wait for that memory.

    def _take(self, size: int) -> tuple[Region, int] | None:
        self._collect()
        self._must_be_open()
        return self._regions.take(size, self._most) if self._lent < self._most else None

    def _collect(self) -> None:
        """Makes what came back free again."""
        while self._returned:
            self._regions.give_back(*self._returned.popleft())
            self._lent -= 1

    def _exhausted(self, size: int, why: str) -> NoReturn:
        capacity = self._regions.capacity
        bound = f"with a capacity of {capacity} bytes" if capacity else "without a bound in bytes"
        raise RuntimeError(
            f"{why}the buffer pool is exhausted: it cannot lend {size} bytes beside {self._lent} active leases of "
            f"{self._regions.lent} bytes, {bound}; release leases, or raise max_bytes or max_regions"
        )

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("the buffer pool is closed")

    def _take_back(self, region: Region, ptr: int, size: int) -> None:
        # At the end of a lease, in any thread, with or without the lock.
        self._returned.append((region, ptr, size))
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> BufferPool:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError("a BufferPool cannot be pickled or copied: its buffers are memory of this process")

    def __del__(self) -> None:
        if not self._closed:
            with contextlib.suppress(RuntimeError):  # of leases, or in a child
                self.close()


def _usable(store: Any) -> Any:
    """The store, which has to be one that is set up; RuntimeError else."""
    if store is None:
        raise RuntimeError("the store of the BufferPool is not initialized: it is None")
    if not all(callable(getattr(store, name, None)) for name in ("register_buffer", "unregister_buffer")):
        raise RuntimeError(f"BufferPool needs a MooncakeDistributedStore or what wraps one, not {type(store).__name__}")
    if not getattr(store, "_ready", True):
        raise RuntimeError("the store of the BufferPool is not initialized: call its setup first")
    return store


RegisteredBufferPool = BufferPool
RegisteredBufferLease = BufferLease
RegisteredBufferLeaseView = BufferLeaseView
