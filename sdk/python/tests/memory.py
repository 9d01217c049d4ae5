"""Memory of this process, for calls that take addresses."""

from __future__ import annotations

import ctypes
import mmap


class Memory:
    """size bytes on a page of their own; register(store) makes them known to a store."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(-1, size)
        self._array = (ctypes.c_ubyte * size).from_buffer(self._map)
        self.ptr = ctypes.addressof(self._array)

    def __getitem__(self, at: slice) -> bytes:
        return bytes(self._map[at])

    def __setitem__(self, at: slice, data: bytes) -> None:
        self._map[at] = data

    def register(self, store: object) -> Memory:
        """Registers all of it with the store, which must succeed."""
        assert store.register_buffer(self.ptr, self.size) == 0, store.last_error()
        return self

    def fill(self, byte: int) -> None:
        """Sets every byte."""
        self._map[:] = bytes([byte]) * self.size
