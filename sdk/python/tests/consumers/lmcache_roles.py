"""LMCache's connector and lookup client, run in processes of their own by test_lmcache.

Connector makes the calls that LMCache's makes, and no others.
"""

from __future__ import annotations

import asyncio
import ctypes
import struct
from typing import Any
from urllib.parse import parse_qs, urlsplit

from enginepeer import Memory, Worker, content, digest

HEAD = struct.Struct("<7i")  # length, format, dtype and shape: 28 bytes
TOKEN = 64  # bytes of one token
POSITIONAL = (
    "local_hostname", "metadata_server", "global_segment_size", "local_buffer_size", "protocol", "device_name", "master_server_address",
)  # fmt: skip
OWN = {"transfer_timeout", "prefer_local_alloc", "save_chunk_meta"}


def setup_dict(extra: dict[str, Any], url: str = "") -> dict[str, str]:
    """What is left for the store: names with mooncake_ before them count more, and all are texts."""
    plain = {k: str(v) for k, v in extra.items() if k in POSITIONAL}
    prefixed = {k.removeprefix("mooncake_"): str(v) for k, v in extra.items() if k.startswith("mooncake_")}
    settings = {
        "global_segment_size": "16777216",
        "local_buffer_size": "16777216",
        "protocol": "tcp",
        "device_name": "",
    }
    settings |= plain | {k: v for k, v in prefixed.items() if k not in OWN}
    if url:
        parts = urlsplit(url)
        settings["master_server_address"] = f"{parts.hostname}:{parts.port}"
        settings["device_name"] = next(iter(parse_qs(parts.query).get("device", [])), settings["device_name"])
    return settings


def set_up(store: Any, settings: dict[str, str], legacy: bool) -> None:
    """The code that it answers is not looked at."""
    if not legacy:
        store.setup(settings)
        return
    sizes = ("global_segment_size", "local_buffer_size")
    store.setup(*[int(settings[k]) if k in sizes else settings.get(k, "") for k in POSITIONAL])


class Connector:
    """Chunks of at most full bytes in one arena."""

    def __init__(self, extra: dict[str, Any], url: str, legacy: bool, full: int) -> None:
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig

        self.with_meta, self.full = extra.get("save_chunk_meta", True), full
        self.timeout = extra.get("transfer_timeout", 1)
        self.store = MooncakeDistributedStore()
        set_up(self.store, setup_dict(extra, url), legacy)
        self.how = ReplicateConfig()
        self.how.replica_num = 1
        if extra.get("mooncake_prefer_local_alloc"):
            self.how.preferred_segment = self.store.get_hostname()
        self.arena = Memory(64 * full)
        self.registered = self.store.register_buffer(self.arena.address, self.arena.size) == 0

    async def exists(self, key: str) -> bool:
        return bool(self.store.is_exist(key))

    async def contains(self, keys: list[str]) -> int:
        for i, key in enumerate(keys):
            if not self.store.is_exist(key):
                return i
        return len(keys)

    async def put(self, key: str, data: bytes, slot: int) -> None:
        self.arena.write(slot * self.full, data)
        at = self.arena.address + slot * self.full
        if self.with_meta:
            chunk = memoryview((ctypes.c_ubyte * len(data)).from_address(at)).cast("B")
            call = asyncio.to_thread(self.store.put_parts, key, HEAD.pack(len(data), 1, 2, 2, 4, 8, 0), chunk)
        else:
            call = asyncio.to_thread(self.store.put_from, key, at, len(data), self.how)
        await asyncio.wait_for(call, self.timeout)

    async def batched_put(self, keys: list[str], datas: list[bytes]) -> None:
        if self.with_meta:
            for slot, (key, data) in enumerate(zip(keys, datas, strict=True)):
                await self.put(key, data, slot)
            return
        for slot, data in enumerate(datas):
            self.arena.write(slot * self.full, data)
        at = [self.arena.address + slot * self.full for slot in range(len(keys))]
        call = asyncio.to_thread(self.store.batch_put_from, keys, at, [len(d) for d in datas], self.how)
        await asyncio.wait_for(call, self.timeout)

    async def batched_get(self, keys: list[str]) -> list[bytes | None]:
        if self.with_meta:
            handles = await asyncio.to_thread(self.store.batch_get_buffer, keys)
            return [None if h is None else _behind_head(h) for h in handles]
        at = [self.arena.address + (32 + i) * self.full for i in range(len(keys))]
        read = await asyncio.to_thread(self.store.batch_get_into, keys, at, [self.full] * len(keys))
        return [self._partial(32 + i, n) if n > 0 else None for i, n in enumerate(read)]

    def _partial(self, slot: int, n: int) -> bytes:
        assert n % TOKEN == 0 and n <= self.full, f"{n} bytes are no tokens"
        return self.arena.read(slot * self.full, n)

    def close(self) -> list[int]:
        return [self.store.unregister_buffer(self.arena.address) if self.registered else 1, self.store.close()]


def _behind_head(handle: Any) -> bytes:
    view = memoryview(handle)
    assert (view.itemsize, view.ndim, view.c_contiguous) == (1, 1, True)
    length, *_ = HEAD.unpack(view[: HEAD.size])
    assert len(view) == length + HEAD.size
    whole = bytes(view[HEAD.size :])
    frombuffer = _frombuffer()
    if frombuffer is not None:
        assert frombuffer(handle, dtype="uint8", offset=HEAD.size, count=length).tobytes() == whole
    return whole


def _frombuffer() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy.frombuffer


def connect(worker: Worker, extra: dict[str, Any], full: int, url: str = "", legacy: bool = False) -> tuple[str, bool]:
    """The name of its segment, and whether its arena is registered."""
    made = worker.kept["connector"] = Connector(extra, url, legacy, full)
    return made.store.get_hostname(), made.registered


def connect_to_nothing(worker: Worker, extra: dict[str, Any], full: int) -> None:
    """As connect where setup fails; the store has no name then."""
    worker.kept["connector"] = Connector(extra, "", False, full)


def run(worker: Worker, method: str, *args: Any) -> Any:
    return asyncio.run(getattr(worker.kept["connector"], method)(*args))


def put_chunks(worker: Worker, keys: list[str], sizes: list[int], seed: int, together: bool) -> list[str]:
    """Puts chunks in one batch, or each with a task of its own: their digests."""
    made: Connector = worker.kept["connector"]
    datas = [content(seed + i, n) for i, n in enumerate(sizes)]

    async def each() -> None:
        await asyncio.gather(*[made.put(key, data, i) for i, (key, data) in enumerate(zip(keys, datas, strict=True))])

    asyncio.run(made.batched_put(keys, datas) if together else each())
    return [digest(data) for data in datas]


def chunk_digests(worker: Worker, keys: list[str]) -> list[str | None]:
    got = asyncio.run(worker.kept["connector"].batched_get(keys))
    return [None if data is None else digest(data) for data in got]


def store(worker: Worker, method: str, *args: Any) -> Any:
    return getattr(worker.kept["connector"].store, method)(*args)


def endpoints(worker: Worker, keys: list[str]) -> list[str]:
    found = worker.kept["connector"].store.batch_get_replica_desc(keys)
    return [found[k][0].get_memory_descriptor().buffer_descriptor.transport_endpoint for k in keys]


def close(worker: Worker) -> list[int]:
    return worker.kept["connector"].close()


def lookup(worker: Worker, master: str, chunks: list[str]) -> int:
    """The lookup client: how many chunks of the beginning are there."""
    from mooncake.store import MooncakeDistributedStore

    made = worker.kept.get("lookup")
    if made is None:
        made = worker.kept["lookup"] = MooncakeDistributedStore()
        settings = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "master_server_address": master}
        set_up(made, setup_dict(settings | {"global_segment_size": 0}), legacy=False)
    return next((i for i, there in enumerate(made.batch_is_exist(chunks)) if there != 1), len(chunks))
