"""The sessions of a store: objects that are read or written piece by piece. Private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from .. import _native
from .base import INVALID_PARAMS, StoreBase

if TYPE_CHECKING:
    from .config import ReplicateConfig

Keys = Sequence[str | bytes]
Rows = Sequence[Sequence[SupportsIndex]]


class SessionMethods(StoreBase):
    """The master is asked where a session starts and ends, and by no call between."""

    def batch_get_session_start(self, keys: Keys) -> list[int]:
        """batch_get_session_start(keys: list[str]) -> list[int]

        Keeps the objects readable until the session ends: for each key 0 or a negative code.
        """
        return _native.store_get_session_start(self._handle, keys) if self._ready else []

    def batch_get_into_multi_buffer_ranges(
        self, keys: Keys, all_buffer_ptrs: Rows, all_sizes: Rows, all_src_offsets: Rows
    ) -> list[int]:
        """batch_get_into_multi_buffer_ranges(keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]], all_src_offsets: list[list[int]]) -> list[int]

        Reads ranges of objects of the session: for each key how many bytes, or a negative code.
        """
        if not self._ready:
            return []
        return _native.store_get_session_ranges(self._handle, keys, all_buffer_ptrs, all_sizes, all_src_offsets)

    def batch_get_session_end(self, keys: Keys) -> int:
        """batch_get_session_end(keys: list[str]) -> int

        Ends the session of these objects: 0, or a negative code.
        """
        return _native.store_get_session_end(self._handle, keys) if self._ready else INVALID_PARAMS

    def batch_put_session_start(
        self, keys: Keys, sizes: Sequence[SupportsIndex], config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_put_session_start(keys: list[str], sizes: list[int], config: ReplicateConfig = ReplicateConfig()) -> list[int]

        Makes room for objects of these sizes, to be written piece by piece: for each key 0 or a
        negative code. config.group_ids has one entry for each key, where it is set.
        """
        how = self._how(config)
        return _native.store_put_session_start(self._handle, keys, sizes, how) if self._ready else []

    def batch_put_from_multi_buffer_ranges(
        self, keys: Keys, all_buffer_ptrs: Rows, all_sizes: Rows, all_dst_offsets: Rows
    ) -> list[int]:
        """batch_put_from_multi_buffer_ranges(keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]], all_dst_offsets: list[list[int]]) -> list[int]

        Writes ranges of objects of the session: for each key how many bytes, or a negative code.
        """
        if not self._ready:
            return []
        return _native.store_put_session_ranges(self._handle, keys, all_buffer_ptrs, all_sizes, all_dst_offsets)

    def batch_put_session_end(self, keys: Keys) -> list[int]:
        """batch_put_session_end(keys: list[str]) -> list[int]

        Makes the objects readable: for each key 0 or a negative code.
        """
        return _native.store_put_session_end(self._handle, keys) if self._ready else []

    def batch_put_session_revoke(self, keys: Keys) -> list[int]:
        """batch_put_session_revoke(keys: list[str]) -> list[int]

        Gives the objects up: for each key 0 or a negative code.
        """
        return _native.store_put_session_revoke(self._handle, keys) if self._ready else []
