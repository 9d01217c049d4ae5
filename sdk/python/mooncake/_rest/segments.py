"""The routes of MooncakeStoreService for memory that is mounted and unmounted."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from mooncake._rest import Refused, call, fields, grace, handler, segment_ids, success, where, whole

logger = logging.getLogger(__name__)

SHM = "/dev/shm"
FILES = "MOONCAKE_STORE_REST_FILES"  # the variable of the program's setting store.rest_files
_FOLDERS = (SHM, "/dev/hugepages")
_SIZE = "Invalid size: must be a positive integer"
_PATH_AND_SIZE = "Missing path or size: mode decode needs both"
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
    _left_over: Sequence[str] = ()  # of mounted_segment_ids, what a reconfigure could not unmount

    @handler("Mount operation failed")
    async def handle_mount(self, request: Any) -> Any:
        """POST /api/mount {"size", "protocol"?, "location"?}: contributes new memory."""
        body = await fields(request)
        size = whole(body, "size", 1, _SIZE)
        protocol, location = where(self, body)
        async with self._state_lock:
            done = await call(self.store.allocate_and_mount_segment, size, protocol, location)
        if done["ret"] != 0:
            raise Refused(500, f"Mount operation failed, ret={done['ret']}", error_code=done["ret"])
        return success(segment_ids=done["segment_ids"], allocated_size=done["allocated_size"])

    @handler("Unmount operation failed")
    async def handle_unmount(self, request: Any) -> Any:
        """POST /api/unmount {"segment_ids", "grace_period_seconds"?}: undoes mount, and frees the memory."""
        body = await fields(request)
        ids, seconds = segment_ids(body), grace(body)
        async with self._state_lock:
            code = await call(self.store.unmount_and_free_segment, ids, seconds)
            if code == 0:
                self._forget(ids)
        if code != 0:
            raise Refused(500, f"Unmount operation failed, ret={code}", error_code=code)
        return success()

    @handler("Mount shm operation failed")
    async def handle_mount_shm(self, request: Any) -> Any:
        """POST /api/mount_shm {"name", "size", "offset"?, "protocol"?, "location"?}: a range of /dev/shm/name."""
        body = await fields(request)
        path = self._path_in_shm(body.get("name"))
        if path is None:
            raise Refused(400, _NAME)
        source = self._source(body, path, _NAME, "Mount shm operation failed")
        async with self._state_lock:
            done = await self._contribute(source)
        if done["ret"] != 0:
            raise Refused(500, f"Mount shm operation failed: Mount failed, ret={done['ret']}", error_code=done["ret"])
        return success(segment_ids=list(done["segment_ids"]))

    @handler("Unmount shm operation failed")
    async def handle_unmount_shm(self, request: Any) -> Any:
        """POST /api/unmount_shm {"segment_ids", "grace_period_seconds"?}: each for itself."""
        body = await fields(request)
        ids, seconds = segment_ids(body), grace(body)
        async with self._state_lock:
            failed = [i for i in ids if await call(self.store.unmount_segment, [i], seconds) != 0]
            self._forget([i for i in ids if i not in failed])
        if failed:
            text = "Unmount shm operation failed: Unmount failed for one or more segments"
            raise Refused(500, text, failed_segment_ids=failed)
        return success()

    @handler("Unmount local disk operation failed")
    async def handle_unmount_local_disk(self, request: Any) -> Any:
        """POST /api/unmount_local_disk {"grace_period_seconds"?}."""
        seconds = grace(await fields(request, malformed=400))
        async with self._state_lock:
            code = await call(self.store.unmount_local_disk_segment, seconds)
        if code != 0:
            raise Refused(500, f"Unmount local disk operation failed, ret={code}", error_code=code)
        return success()

    @handler("Reconfigure operation failed")
    async def handle_reconfigure(self, request: Any) -> Any:
        """POST /api/reconfigure {"mode": "decode", "path", "size", "offset"?} or {"mode": "prefill"}.

        Mounts the new file and then unmounts the one before; prefill only unmounts. What cannot be
        unmounted stays in segment_ids, to be unmounted by a later request. Errors of the store say
        the mode that the service is in.
        """
        body = await fields(request)
        mode, seconds = body.get("mode"), grace(body)
        mode = mode.lower() if isinstance(mode, str) else mode
        if mode not in ("decode", "prefill"):
            raise Refused(400, "Invalid mode: must be prefill or decode")
        if mode == "decode" and (not body.get("path") or body.get("size") is None):
            raise Refused(400, _PATH_AND_SIZE)
        source: dict[str, Any] = {}
        if mode == "decode":
            failed = "Reconfigure failed, the previous segments stay"
            source = self._source(body, self._shared_path(body["path"]), _SIZE, failed)
        async with self._state_lock:
            if source:
                await self._become_decode(source, seconds)
            else:
                await self._become_prefill(seconds)
            return success(mode=mode, segment_ids=list(self.mounted_segment_ids))

    async def _become_decode(self, source: dict[str, Any], seconds: int) -> None:
        before = list(self.mounted_segment_ids)
        new = [i for i in before if i not in self._left_over] if source == self.last_mount_info else []
        if not new:
            done = await self._contribute(source)
            if done["ret"] != 0:
                self._stay(done["ret"])
            new = list(done["segment_ids"])
        self._left_over = [i for i in before if i not in new]
        self.current_mode, self.last_mount_info = "decode", source
        self.mounted_segment_ids = new + self._left_over
        self._forget([i for i in self._left_over if await self._unmount(i, seconds) == 0])

    def _stay(self, code: int) -> NoReturn:
        """Refuses what could not be mounted, and stays with the segments there are."""
        if self.mounted_segment_ids:
            then = "keeping previous decode segments"
        else:
            then = "rolled back to prefill"
            self.current_mode, self.last_mount_info = "prefill", {}
        text = f"Reconfigure failed, the previous segments stay: Mount failed, ret={code}; {then}"
        raise Refused(500, text, error_code=code, mode=self.current_mode)

    async def _become_prefill(self, seconds: int) -> None:
        codes = {i: await self._unmount(i, seconds) for i in list(self.mounted_segment_ids)}
        self._forget([i for i, code in codes.items() if code == 0])
        if self.mounted_segment_ids:
            code = codes[self.mounted_segment_ids[0]]
            raise Refused(
                500,
                f"Unmount failed, ret={code}: segments of decode stay, and the same request tries again",
                error_code=code,
                mode=self.current_mode,
                failed_segment_ids=list(self.mounted_segment_ids),
            )
        self.current_mode, self.last_mount_info = "prefill", {}

    async def _unmount(self, segment_id: str, seconds: int) -> int:
        """Unmounts a segment: 0, or the code of its failure."""
        grace_period = (seconds,) if seconds else ()
        return await call(self.store.unmount_segment, [segment_id], *grace_period)

    def _source(self, body: dict[str, Any], path: str, text: str, failed: str) -> dict[str, Any]:
        size, offset = whole(body, "size", 1, text), whole(body, "offset", 0, _OFFSET)
        protocol, location = where(self, body)
        self._allow(path, failed)
        return {"path": path, "size": size, "offset": offset, "protocol": protocol, "location": location}

    @staticmethod
    def _allow(path: str, failed: str) -> None:
        """Refuses a file that the setting does not allow, also one behind a link: whoever reaches the port could
        have it overwritten.
        """
        allowed = tuple(filter(None, (beginning.strip() for beginning in os.environ.get(FILES, "").split(","))))
        real = os.path.realpath(path)
        for folder in _FOLDERS:  # which may be a link itself
            if real.startswith(os.path.realpath(folder) + "/"):
                real = folder + real.removeprefix(os.path.realpath(folder))
        if path.startswith(allowed) and real.startswith(allowed):
            return
        name = path if not path.startswith(allowed) else f"{path}, which leads to {real},"
        detail = (
            f"{name} may not be mounted: {FILES} does not allow it; add the beginning of its path there if the "
            "pool may overwrite it"
        )
        logger.warning("store service: request refused: %s", detail)
        raise Refused(403, failed, detail=detail)

    @staticmethod
    def _shared_path(path: Any) -> str:
        # Otherwise a program that reaches the port could overwrite any file.
        clean = Path(path) if isinstance(path, str) and "\0" not in path else Path()
        if ".." in clean.parts or not any(clean.is_relative_to(f) and clean != Path(f) for f in _FOLDERS):
            raise Refused(400, "Invalid parameters", detail=f"path {path!r} is not in {' or '.join(_FOLDERS)}")
        return str(clean)

    async def _contribute(self, source: dict[str, Any]) -> dict[str, Any]:
        """What mount_segment of the store answers."""
        names = ("path", "size", "offset", "protocol", "location")
        return await call(self.store.mount_segment, *(source[name] for name in names))

    def _forget(self, ids: list[str]) -> None:
        """Strikes segments off those of decode, which are unmounted; without any the mode is prefill."""
        kept = [i for i in self.mounted_segment_ids if i not in ids]
        if self.mounted_segment_ids and not kept:
            self.current_mode, self.last_mount_info = "prefill", {}
        self.mounted_segment_ids = kept

    def _path_in_shm(self, name: Any) -> str | None:
        raise NotImplementedError
