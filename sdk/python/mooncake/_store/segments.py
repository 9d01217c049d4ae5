"""The methods of a store about the memory that it contributes while it runs. Private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from .. import _arguments as arguments
from .._signatures import signed
from .base import StoreBase

Text = str | bytes


@signed
class SegmentMethods(StoreBase):
    """Segments: memory of this process that the pool places objects in."""

    def mount_segment(
        self, path: Text, size: SupportsIndex, offset: SupportsIndex = 0, protocol: Text = "tcp", location: Text = ""
    ) -> dict[str, Any]:
        """Contributes size bytes of the file at path from offset on, as under /dev/shm, mapped
        shared: {"ret": 0 or a negative code, "segment_ids": the ids to unmount it by}.
        """
        answer = self._segments(
            "mount_segment",
            path=arguments.string("path", path),
            size=arguments.number("size", size),
            offset=arguments.number("offset", offset),
            protocol=arguments.string("protocol", protocol),
            location=arguments.string("location", location),
        )
        return {"ret": answer["code"], "segment_ids": answer.get("segment_ids") or []}

    def allocate_and_mount_segment(
        self, size: SupportsIndex, protocol: Text = "tcp", location: Text = ""
    ) -> dict[str, Any]:
        """Contributes new memory: {"ret", "segment_ids", "allocated_size": bytes that were mounted}."""
        answer = self._segments(
            "allocate_and_mount_segment",
            size=arguments.number("size", size),
            protocol=arguments.string("protocol", protocol),
            location=arguments.string("location", location),
        )
        return {
            "ret": answer["code"],
            "segment_ids": answer.get("segment_ids") or [],
            "allocated_size": answer.get("allocated_size", 0),
        }

    def unmount_segment(self, segment_ids: Sequence[Text], grace_period_seconds: SupportsIndex = 0) -> int:
        """Takes memory of mount_segment out of the pool, after the time in which its objects may
        still be read: 0, or a negative code.
        """
        return self._unmount("unmount_segment", segment_ids, grace_period_seconds)

    def unmount_and_free_segment(self, segment_ids: Sequence[Text], grace_period_seconds: SupportsIndex = 0) -> int:
        """As unmount_segment, for memory of allocate_and_mount_segment, which is freed."""
        return self._unmount("unmount_and_free_segment", segment_ids, grace_period_seconds)

    def unmount_local_disk_segment(self, grace_period_seconds: SupportsIndex = 0) -> int:
        """Takes the storage tiers of this node out of the pool, for as long as the store lives: 0, or -1.

        What lies only there is gone for all. Reads that have begun go on for grace_period_seconds, after
        which the call returns. Without a tier there is nothing to do.
        """
        grace = arguments.number("grace_period_seconds", grace_period_seconds)
        return self._segments("unmount_local_disk_segment", grace_period_seconds=grace)["code"]

    def alloc_from_mem_pool(self, size: SupportsIndex, /) -> int:
        """Memory that lives as long as the store and is registered with it: its address, or 0. That
        register_buffer is called for it, as with upstream, is fine.
        """
        answer = self._segments("alloc_from_mem_pool", size=arguments.number("size", size))
        return answer.get("address", 0)

    def get_offload_rpc_read_count(self) -> int:
        """How many calls this client has made to nodes to read what lies on their storage tiers."""
        return self._segments("get_offload_rpc_read_count").get("count", 0)

    def _unmount(self, method: str, segment_ids: Sequence[Text], grace_period_seconds: SupportsIndex) -> int:
        ids = arguments.strings("segment_ids", segment_ids)
        grace = arguments.number("grace_period_seconds", grace_period_seconds)
        return self._segments(method, segment_ids=ids, grace_period_seconds=grace)["code"]

    def _segments(self, method: str, **args: Any) -> dict[str, Any]:
        return self._control(method, **args) if self._ready else {"code": -1}
