"""Registered memory that is cut into buffers of any size. Private, the part of BufferPool below its leases."""

from __future__ import annotations

import bisect
from typing import Any

from . import _native

GRANULE = 64
"""Buffers begin, and end, at multiples of so many bytes from the start of a page."""


def rounded(size: int) -> int:
    """What a buffer of size bytes takes up: at least one granule, so that buffers of no bytes have an address too."""
    return max(-(-size // GRANULE), 1) * GRANULE


class Region:
    """Memory that is registered with a store. Used under the lock of its pool."""

    __slots__ = ("free", "ptr", "size")

    def __init__(self, ptr: int, size: int) -> None:
        self.ptr, self.size = ptr, size
        self.free = [(ptr, size)]  # by address; no two of them touch

    def take(self, size: int) -> int:
        """The address of size bytes that are free, the lowest; 0 where no free range is as long."""
        for i, (ptr, space) in enumerate(self.free):
            if space > size:
                self.free[i] = (ptr + size, space - size)
            elif space == size:
                del self.free[i]
            else:
                continue
            return ptr
        return 0

    def give_back(self, ptr: int, size: int) -> None:
        """Makes what take returned free again."""
        at = bisect.bisect(self.free, (ptr, 0))
        if at < len(self.free) and ptr + size == self.free[at][0]:
            size += self.free.pop(at)[1]
        if at > 0 and sum(self.free[at - 1]) == ptr:
            ptr, before = self.free.pop(at - 1)
            size, at = size + before, at - 1
        self.free.insert(at, (ptr, size))

    def idle(self) -> bool:
        """Whether no buffer of it is lent."""
        return self.free == [(self.ptr, self.size)]


class Regions:
    """The memory of a pool, of which at most capacity bytes are lent at a time, 0 for no bound.

    No more than that is registered either, unless its free ranges are too short for a buffer that
    may be lent: then the buffer gets a region of its own, which goes as soon as that helps. Used
    under the lock of its pool.
    """

    def __init__(self, store: Any, capacity: int, alignment: int) -> None:
        self.capacity = capacity
        self.lent = 0
        self._store, self._alignment = store, alignment
        self._bound = rounded(capacity) if capacity else 1 << 63
        self._all: list[Region] = []

    def __len__(self) -> int:
        return len(self._all)

    def registered(self) -> int:
        """The bytes that are registered, lent or free."""
        return sum(region.size for region in self._all)

    def fits(self, size: int) -> bool:
        """Whether a buffer of size bytes can ever be had."""
        return rounded(size) <= self._bound

    def take(self, size: int, most: int) -> tuple[Region, int] | None:
        """A free buffer and its region; None where the capacity, or a number of regions of most, forbids one."""
        size = rounded(size)
        if self.lent + size > self._bound:
            return None
        for region in self._all:
            if ptr := region.take(size):
                break
        else:
            grown = self._grow(size, most)
            if grown is None:
                return None
            region, ptr = grown, grown.take(size)
        self.lent += size
        return region, ptr

    def give_back(self, region: Region, ptr: int, size: int) -> None:
        """Makes a buffer that take returned free again."""
        region.give_back(ptr, rounded(size))
        self.lent -= rounded(size)
        if region.idle() and self.registered() > self._bound:
            self._drop(region)

    def prewarm(self, size: int, count: int, most: int) -> None:
        """Registers memory until count buffers of size bytes are free at once, or the bounds are reached."""
        taken = []
        try:
            while len(taken) < count and (got := self.take(size, most)):
                taken.append(got)
        finally:
            for region, ptr in taken:
                self.give_back(region, ptr, size)

    def drop_all(self) -> None:
        """Frees all of it."""
        while self._all:
            self._drop(self._all[-1])

    def _grow(self, size: int, most: int) -> Region | None:
        """A new region with size bytes or more; where the bounds forbid it, regions that are idle go first."""
        for idle in [region for region in self._all if region.idle()]:
            if self._room() >= size and len(self._all) < most:
                break
            self._drop(idle)
        if len(self._all) >= most:
            return None
        # A whole number of buffers of this size: others of it shall find no remainder.
        size = max(min(-(-size // self._alignment) * self._alignment, self._room()) // size, 1) * size
        ptr = _native.host_alloc(size)
        if not ptr:
            raise RuntimeError(f"no memory for an overflow buffer of the buffer pool: {_native.last_error(0)}")
        code = self._store.register_buffer(ptr, size)
        if code != 0:
            _native.host_free(ptr)
            raise RuntimeError(
                f"cannot register {size} bytes with the store as an overflow buffer of the buffer pool: "
                f"register_buffer answered {code}"
            )
        self._all.append(Region(ptr, size))
        return self._all[-1]

    def _room(self) -> int:
        return self._bound - self.registered()

    def _drop(self, region: Region) -> None:
        self._all.remove(region)
        self._store.unregister_buffer(region.ptr)
        _native.host_free(region.ptr)
