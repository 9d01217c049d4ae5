"""The routes of MooncakeStoreService for memory that is mounted and unmounted."""

import asyncio
from pathlib import Path
from typing import Any

from mooncake._rest import Refused, call, fields, grace, handler, segment_ids, success, where, whole

SHM = "/dev/shm"
_SIZE = "Invalid size: must be a positive integer"
_OFFSET = "Invalid offset: must be a non-negative integer"
_NAME = "Invalid name or size: name must be the name of a file in /dev/shm, and size a positive integer"


class Segments:
    """Part of MooncakeStoreService. Changes go one after the other, under _state_lock."""

    store: Any
    config: Any
    current_mode: str
    mounted_segment_ids: list[str]
    last_mount_info: dict[str, Any]
    _state_lock: asyncio.Lock

    @handler("Mount operation failed")
    async def handle_mount(self, request: Any) -> Any:
        """POST /api/mount {"size", "protocol"?, "location"?}: contributes new memory."""
        body = await fields(request)
        size = whole(body, "size", 1, _SIZE)
        protocol, location = where(self, body)
        async with self._state_lock:
            done = await call(self.store.allocate_and_mount_segment, size, protocol, location)
        if done["ret"] != 0:
            raise Refused(500, "Mount operation failed", error_code=done["ret"])
        return success(segment_ids=done["segment_ids"], allocated_size=done["allocated_size"])

    @handler("Unmount operation failed")
    async def handle_unmount(self, request: Any) -> Any:
        """POST /api/unmount {"segment_ids", "grace_period_seconds"?}: undoes mount, and frees the memory."""
        body = await fields(request)
        ids, seconds = segment_ids(body), grace(body)
        async with self._state_lock:
            code = await call(self.store.unmount_and_free_segment, ids, seconds)
        if code != 0:
            raise Refused(500, "Unmount operation failed", error_code=code)
        return success()

    @handler("Mount shm operation failed")
    async def handle_mount_shm(self, request: Any) -> Any:
        """POST /api/mount_shm {"name", "size", "offset"?, "protocol"?, "location"?}: a range of /dev/shm/name."""
        body = await fields(request)
        name = body.get("name")
        plain = name[1:] if isinstance(name, str) and name.startswith("/") else name
        if not isinstance(plain, str) or plain in ("", ".", "..") or "/" in plain or "\0" in plain:
            raise Refused(400, _NAME)
        source = self._source(body, f"{SHM}/{plain}", _NAME)
        async with self._state_lock:
            return success(segment_ids=await self._contribute(source, "Mount shm operation failed"))

    @handler("Unmount shm operation failed")
    async def handle_unmount_shm(self, request: Any) -> Any:
        """POST /api/unmount_shm {"segment_ids", "grace_period_seconds"?}: each for itself."""
        body = await fields(request)
        ids, seconds = segment_ids(body), grace(body)
        async with self._state_lock:
            failed = await self._release(ids, seconds)
        if failed:
            raise Refused(500, "Unmount shm operation failed", failed_segment_ids=failed)
        return success()

    @handler("Unmount local disk operation failed")
    async def handle_unmount_local_disk(self, request: Any) -> Any:
        """POST /api/unmount_local_disk {"grace_period_seconds"?}."""
        seconds = grace(await fields(request, malformed=400))
        async with self._state_lock:
            code = await call(self.store.unmount_local_disk_segment, seconds)
        if code != 0:
            raise Refused(500, "Unmount local disk operation failed", error_code=code)
        return success()

    @handler("Reconfigure failed, the previous segments stay")
    async def handle_reconfigure(self, request: Any) -> Any:
        """POST /api/reconfigure {"mode": "decode", "path", "size", "offset"?} or {"mode": "prefill"}.

        Mounts the new file and then unmounts the one before; prefill only unmounts.
        """
        body = await fields(request)
        mode, seconds = body.get("mode"), grace(body)
        if mode not in ("decode", "prefill"):
            raise Refused(400, "Invalid mode: must be prefill or decode")
        source = self._source(body, self._shm_path(body.get("path")), _SIZE) if mode == "decode" else {}
        async with self._state_lock:
            if not source or source != self.last_mount_info or not self.mounted_segment_ids:
                await self._become(mode, source, seconds)
            return success(mode=mode, segment_ids=self.mounted_segment_ids)

    async def _become(self, mode: str, source: dict[str, Any], seconds: int) -> None:
        new = await self._contribute(source, "Reconfigure failed, the previous segments stay") if source else []
        before = self.mounted_segment_ids
        self.current_mode, self.last_mount_info = mode, source
        self.mounted_segment_ids = before + new
        failed = await self._release(before, seconds)
        if failed:
            raise Refused(
                500,
                "Reconfigure failed: previous segments could not be unmounted",
                mode=mode,
                failed_segment_ids=failed,
            )

    def _source(self, body: dict[str, Any], path: str, text: str) -> dict[str, Any]:
        size, offset = whole(body, "size", 1, text), whole(body, "offset", 0, _OFFSET)
        protocol, location = where(self, body)
        return {"path": path, "size": size, "offset": offset, "protocol": protocol, "location": location}

    @staticmethod
    def _shm_path(path: Any) -> str:
        # Whoever reaches the port could have any other file overwritten.
        if not isinstance(path, str) or not path:
            raise Refused(400, "Missing path")
        clean = Path(path)
        if ".." in clean.parts or not clean.is_relative_to(SHM) or clean == Path(SHM) or "\0" in path:
            raise Refused(400, "Invalid parameters", detail=f"path {path!r} is not in {SHM}")
        return str(clean)

    async def _contribute(self, source: dict[str, Any], failed: str) -> list[str]:
        names = ("path", "size", "offset", "protocol", "location")
        done = await call(self.store.mount_segment, *(source[name] for name in names))
        if done["ret"] != 0:
            raise Refused(500, failed, error_code=done["ret"])
        return list(done["segment_ids"])

    async def _release(self, ids: list[str], seconds: int) -> list[str]:
        """Unmounts each of them, and returns those that could not be."""
        failed = [i for i in ids if await call(self.store.unmount_segment, [i], seconds) != 0]
        kept = [i for i in self.mounted_segment_ids if i not in ids or i in failed]
        if self.mounted_segment_ids and not kept:
            self.current_mode, self.last_mount_info = "prefill", {}
        self.mounted_segment_ids = kept
        return failed
