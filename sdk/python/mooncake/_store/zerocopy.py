"""The methods of a store that move bytes from and to addresses. Private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from .. import _arguments as arguments
from .. import _native
from .base import INVALID_PARAMS, StoreBase

if TYPE_CHECKING:
    from .config import ReplicateConfig

Text = str | bytes
Keys = Sequence[Text]
Numbers = Sequence[SupportsIndex]
Rows = Sequence[Numbers]


class ZeroCopyMethods(StoreBase):
    """Objects in memory of the caller. Addresses and sizes are numbers of bytes, ranges included."""

    def register_buffer(self, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int:
        """register_buffer(buffer_ptr: int, size: int) -> int

        Makes memory known to the transports, so that it is read and written where it lies: 0, or
        a negative code. With a dummy client it is one allocation of MooncakeHostMemAllocator, or of
        alloc_from_mem_pool, which comes registered: registering it again is 0.
        """
        ptr, size = arguments.number("buffer_ptr", buffer_ptr), arguments.number("size", size)
        return _native.store_register(self._handle, ptr, size) if self._ready else INVALID_PARAMS

    def unregister_buffer(self, buffer_ptr: SupportsIndex) -> int:
        """unregister_buffer(buffer_ptr: int) -> int

        Forgets memory that was registered: 0, or a negative code. It may be freed afterwards.
        """
        ptr = arguments.number("buffer_ptr", buffer_ptr)
        return _native.store_unregister(self._handle, ptr) if self._ready else INVALID_PARAMS

    def put_from(
        self, key: Text, buffer_ptr: SupportsIndex, size: SupportsIndex, config: ReplicateConfig | None = None
    ) -> int:
        """put_from(key: str, buffer_ptr: int, size: int, config: ReplicateConfig = ReplicateConfig()) -> int

        Stores size bytes from buffer_ptr on: 0, or a negative code.
        """
        return self._put_from(key, buffer_ptr, size, config, _native.PUT)

    def upsert_from(
        self, key: Text, buffer_ptr: SupportsIndex, size: SupportsIndex, config: ReplicateConfig | None = None
    ) -> int:
        """upsert_from(key: str, buffer_ptr: int, size: int, config: ReplicateConfig = ReplicateConfig()) -> int

        As put_from, in place of what is there.
        """
        return self._put_from(key, buffer_ptr, size, config, _native.UPSERT)

    def put_from_with_metadata(
        self,
        key: Text,
        buffer_ptr: SupportsIndex,
        metadata_buffer_ptr: SupportsIndex,
        size: SupportsIndex,
        metadata_size: SupportsIndex,
        config: ReplicateConfig | None = None,
    ) -> int:
        """put_from_with_metadata(key: str, buffer_ptr: int, metadata_buffer_ptr: int, size: int, metadata_size: int, config: ReplicateConfig = ReplicateConfig()) -> int

        Stores the metadata and then the data as one object: 0, or a negative code.
        """
        pieces = {
            "metadata_buffer_ptr": metadata_buffer_ptr,
            "buffer_ptr": buffer_ptr,
            "metadata_size": metadata_size,
            "size": size,
        }
        checked = [arguments.number(name, value) for name, value in pieces.items()]
        how = self._how(config)
        if not self._ready:
            return INVALID_PARAMS
        return _native.store_put_from_rows(
            self._handle, [arguments.text("key", key)], [checked[:2]], [checked[2:]], how, _native.PUT
        )[0]

    def batch_put_from(
        self, keys: Keys, buffer_ptrs: Numbers, sizes: Numbers, config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_put_from(keys: list[str], buffer_ptrs: list[int], sizes: list[int], config: ReplicateConfig = ReplicateConfig()) -> list[int]

        For each key 0 or a negative code. Lists of different lengths give -600 for each key.
        """
        return self._batch_put_from(keys, buffer_ptrs, sizes, config, _native.PUT)

    def batch_upsert_from(
        self, keys: Keys, buffer_ptrs: Numbers, sizes: Numbers, config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_upsert_from(keys: list[str], buffer_ptrs: list[int], sizes: list[int], config: ReplicateConfig = ReplicateConfig()) -> list[int]

        As batch_put_from, in place of what is there.
        """
        return self._batch_put_from(keys, buffer_ptrs, sizes, config, _native.UPSERT)

    def batch_put_from_multi_buffers(
        self, keys: Keys, all_buffer_ptrs: Rows, all_sizes: Rows, config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_put_from_multi_buffers(keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]], config: ReplicateConfig = ReplicateConfig()) -> list[int]

        As batch_put_from; each object is its buffers one after the other.
        """
        how = self._how(config)
        if not self._ready:
            return []
        flags = _native.PUT | _native.MAY_PREFER_NODE
        return _native.store_put_from_rows(self._handle, keys, all_buffer_ptrs, all_sizes, how, flags)

    def get_into(self, key: Text, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int:
        """get_into(key: str, buffer_ptr: int, size: int) -> int

        Reads the object to buffer_ptr, where size bytes may be written: the size of the object, or
        a negative code. Memory that is too small is not touched.
        """
        ptr, size = arguments.number("buffer_ptr", buffer_ptr), arguments.number("size", size)
        if not self._ready:
            return INVALID_PARAMS
        return _native.store_get_into(self._handle, [arguments.text("key", key)], [ptr], [size])[0]

    def batch_get_into(self, keys: Keys, buffer_ptrs: Numbers, sizes: Numbers) -> list[int]:
        """batch_get_into(keys: list[str], buffer_ptrs: list[int], sizes: list[int]) -> list[int]

        For each key what get_into gives. Lists of different lengths give -600 for each key.
        """
        if not self._ready:
            return [INVALID_PARAMS] * len(keys)
        return _native.store_get_into(self._handle, keys, buffer_ptrs, sizes)

    def batch_get_into_multi_buffers(
        self, keys: Keys, all_buffer_ptrs: Rows, all_sizes: Rows, prefer_alloc_in_same_node: bool = False
    ) -> list[int]:
        """batch_get_into_multi_buffers(keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]], prefer_alloc_in_same_node: bool = False) -> list[int]

        As batch_get_into; each object is laid into its buffers in order. prefer_alloc_in_same_node
        is accepted, without effect.
        """
        arguments.flag("prefer_alloc_in_same_node", prefer_alloc_in_same_node)
        return _native.store_get_into_rows(self._handle, keys, all_buffer_ptrs, all_sizes) if self._ready else []

    def get_into_ranges(
        self,
        buffer_ptrs: Numbers,
        all_keys: Sequence[Keys],
        all_dst_offsets: Sequence[Rows],
        all_src_offsets: Sequence[Rows],
        all_sizes: Sequence[Rows],
    ) -> list[list[list[int]]]:
        """get_into_ranges(buffer_ptrs: list[int], all_keys: list[list[str]], all_dst_offsets: list[list[list[int]]], all_src_offsets: list[list[list[int]]], all_sizes: list[list[list[int]]]) -> list[list[list[int]]]

        Reads parts of objects into registered buffers: for each buffer, key and fragment the bytes
        read or a negative code. Fragment f of key k goes from src_offsets[f] of the object to
        dst_offsets[f] of the buffer. Lists of different shapes give negative codes.
        """
        if not self._ready:
            return []
        return _native.store_get_ranges(
            self._handle, buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes
        )

    def _put_from(
        self, key: Text, buffer_ptr: SupportsIndex, size: SupportsIndex, config: ReplicateConfig | None, flags: int
    ) -> int:
        ptr, size = arguments.number("buffer_ptr", buffer_ptr), arguments.number("size", size)
        how = self._how(config)
        if not self._ready:
            return INVALID_PARAMS
        return _native.store_put_from(self._handle, [arguments.text("key", key)], [ptr], [size], how, flags)[0]

    def _batch_put_from(
        self, keys: Keys, buffer_ptrs: Numbers, sizes: Numbers, config: ReplicateConfig | None, flags: int
    ) -> list[int]:
        how = self._how(config)
        if not self._ready:
            return [INVALID_PARAMS] * len(keys)
        return _native.store_put_from(self._handle, keys, buffer_ptrs, sizes, how, flags)
