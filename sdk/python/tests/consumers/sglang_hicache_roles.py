"""One rank of SGLang's HiCache over the store, run in processes of its own by test_sglang_hicache.

HiCache makes the calls that SGLang's backend makes, in its order, and no others.
"""

from __future__ import annotations

import ctypes
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginepeer import Memory, Worker, content, digest

LOCAL_BUFFER = 16 << 20


class Pool:
    """Host memory of a rank as one region: K of all pages and then V of all pages, or one latent a page."""

    def __init__(self, address: int, pages: int, page: int, mla: bool) -> None:
        self.address, self.pages, self.page, self.mla = address, pages, page, mla
        self.size = pages * page * (1 if mla else 2)

    def places(self, page: int) -> list[int]:
        k = self.address + page * self.page
        return [k] if self.mla else [k, k + self.pages * self.page]

    def fill(self, seed: int) -> None:
        ctypes.memmove(self.address, content(seed, self.size), self.size)

    def digests(self, pages: list[int]) -> list[list[str]]:
        return [[digest(ctypes.string_at(at, self.page)) for at in self.places(i)] for i in pages]


class HiCache:
    """The backend of one rank. config has what extra_config has, and rank, size and mla."""

    def __init__(self, config: dict[str, Any], engine: Any = None, session: str = "") -> None:
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig

        self.replicate, self.config = ReplicateConfig, config
        self.groups = bool(config.get("enable_group_semantics")) and hasattr(ReplicateConfig, "group_ids")
        self.sessions = hasattr(ReplicateConfig, "session_ids")
        self.mla = config["mla"]
        self.suffix = "" if self.mla else str(config["rank"])
        self.store = MooncakeDistributedStore()
        if config.get("check_server"):
            _wait_for_segments(config["admin"], config["asked"])
        segment = config["global_segment_size"] // config["size"]
        if config.get("client_server_address"):
            code = self.store.setup_dummy(config["pool_bytes"], LOCAL_BUFFER, config["client_server_address"])
        else:
            head = (
                session or config["hostname"],
                "P2PHANDSHAKE",
                segment,
                LOCAL_BUFFER,
                config.get("protocol", "tcp"),
                "",
                config["master"],
            )
            code = self._setup(*head, *([engine] if "older" not in config else []))
        if code:
            raise RuntimeError(f"setup answered {code}")
        self._warm_up()

    def _setup(self, *args: Any) -> int:
        optional = dict(self.config.get("setup_kwargs", {}))
        self.dropped: list[str] = []
        while True:
            try:
                return self.store.setup(*args, **optional)
            except TypeError as error:
                unknown = [name for name in optional if name in str(error)]
                if not unknown:
                    raise
                if "tenant_id" in unknown:
                    raise RuntimeError("tenants need mooncake-transfer-engine>=0.3.12") from error
                for name in unknown:
                    del optional[name]
                self.dropped += unknown

    def _warm_up(self) -> None:
        key, value = "sglang_mooncake_store_warmup_key" + uuid.uuid4().hex, bytes(4096)
        code = self.store.put(key, value)
        if code != 0:
            raise RuntimeError(f"warm-up put answered {code}")
        assert self.store.is_exist(key) == 1
        assert self.store.get(key) == value

    def register(self, pool: Pool) -> None:
        self.pool = pool
        code = self.store.register_buffer(pool.address, pool.size)
        if code != 0:
            raise RuntimeError(f"register_buffer answered {code}")

    def _names(self, keys: list[str]) -> list[str]:
        parts = ("k",) if self.mla else ("k", "v")
        return [f"org-model_{key}_{self.suffix}_{part}" for key in keys for part in parts]

    def _places(self, pages: list[int]) -> tuple[list[int], list[int]]:
        ptrs = [at for page in pages for at in self.pool.places(page)]
        return ptrs, [self.pool.page] * len(ptrs)

    def _by_page(self, fine: list[bool]) -> list[bool]:
        n = 1 if self.mla else 2
        return [all(fine[i : i + n]) for i in range(0, len(fine), n)]

    def batch_set(self, keys: list[str], pages: list[int]) -> list[bool]:
        names, (ptrs, sizes) = self._names(keys), self._places(pages)
        exists = self.store.batch_is_exist(names)
        assert len(exists) == len(names)
        fine = [state == 1 for state in exists]
        absent = [i for i, there in enumerate(fine) if not there]
        codes = self._put([names[i] for i in absent], [ptrs[i] for i in absent], [sizes[i] for i in absent])
        assert len(codes) == len(absent)
        for i, code in zip(absent, codes, strict=True):
            fine[i] = code == 0
        return self._by_page(fine)

    def _put(self, names: list[str], ptrs: list[int], sizes: list[int]) -> list[int]:
        if self.config.get("multi_buffer"):
            return self.store.batch_put_from_multi_buffers(
                names, [[p] for p in ptrs], [[n] for n in sizes], self.replicate()
            )
        if not self.groups:
            return self.store.batch_put_from(names, ptrs, sizes)
        config = self.replicate()
        config.group_ids = ["sglang-hicache:" + name.rsplit("_", 2)[0] for name in names]
        if self.config.get("session_id") and self.sessions:
            config.session_ids = [self.config["session_id"]] * len(names)
        return self.store.batch_put_from(names, ptrs, sizes, config)

    def batch_get(self, keys: list[str], pages: list[int]) -> list[bool]:
        names, (ptrs, sizes) = self._names(keys), self._places(pages)
        if self.config.get("multi_buffer"):
            got = self.store.batch_get_into_multi_buffers(names, [[p] for p in ptrs], [[n] for n in sizes])
        else:
            got = self.store.batch_get_into(names, ptrs, sizes)
        assert len(got) == len(names)
        return self._by_page([n > 0 for n in got])

    def batch_exists(self, keys: list[str]) -> int:
        """How many pages of the beginning are there whole."""
        pages = self._by_page([state == 1 for state in self.store.batch_is_exist(self._names(keys))])
        return next((i for i, there in enumerate(pages) if not there), len(pages))


def _wait_for_segments(admin: str, asked: str) -> None:
    """Asks every now and then until a segment is mounted. The file is there once the answer was that none is."""
    until = time.monotonic() + 60
    while not segments(None, admin):
        Path(asked).touch()
        if time.monotonic() > until:
            raise RuntimeError("no segment was mounted")
        threading.Event().wait(0.05)


def segments(_: Worker | None, admin: str) -> str:
    with urllib.request.urlopen(f"{admin}/get_all_segments", timeout=60) as answer:
        return answer.read().decode()


def open_cache(
    worker: Worker, config: dict[str, Any], pages: int, page: int, seed: int | None = None
) -> dict[str, Any]:
    """A backend with a registered pool, filled with content(seed) or zeros."""
    memory = Memory(pages * page * (1 if config["mla"] else 2))
    cache = HiCache(config)
    cache.register(Pool(memory.address, pages, page, config["mla"]))
    if seed is not None:
        cache.pool.fill(seed)
    worker.memories.append(memory)
    worker.kept["cache"] = cache
    return {"hostname": cache.store.get_hostname(), "dropped": getattr(cache, "dropped", [])}


def open_standalone(worker: Worker, config: dict[str, Any], pages: int, page: int, seed: int | None = None) -> None:
    """As open_cache, for a dummy client: the pool is memory that the local service can map."""
    from mooncake.store import MooncakeHostMemAllocator

    allocator, size = MooncakeHostMemAllocator(), pages * page * (1 if config["mla"] else 2)
    address = allocator.alloc(size)
    assert address
    region = (ctypes.c_byte * size).from_address(address)
    cache = HiCache(config | {"pool_bytes": size})
    cache.register(Pool(ctypes.addressof(region), pages, page, config["mla"]))
    if seed is not None:
        cache.pool.fill(seed)
    worker.kept.update(cache=cache, allocator=allocator)


def do(worker: Worker, method: str, *args: Any) -> Any:
    """batch_set, batch_get or batch_exists of the backend."""
    return getattr(worker.kept["cache"], method)(*args)


def store(worker: Worker, method: str, *args: Any) -> Any:
    return getattr(worker.kept["cache"].store, method)(*args)


def digests(worker: Worker, pages: list[int]) -> list[list[str]]:
    return worker.kept["cache"].pool.digests(pages)


def prefetch_and_backup(worker: Worker, there: list[str], new: list[list[str]], half: int) -> list[bool]:
    """The two background threads: one backs new pages up, the other fetches what is there, again and again."""
    cache: HiCache = worker.kept["cache"]
    fine: list[bool] = []

    def backup() -> None:
        for keys in new:
            fine.extend(cache.batch_set(keys, list(range(len(keys)))))

    def prefetch() -> None:
        for _ in new:
            fine.extend(cache.batch_get(there, list(range(half, half + len(there)))))

    return _both(backup, prefetch, fine)


def _both(one: Callable[[], None], other: Callable[[], None], fine: list[bool]) -> list[bool]:
    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            fine.append(False)
            raise

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return fine


def embeddings(worker: Worker, config: dict[str, Any], keys: list[str], size: int, seed: int | None) -> list[str]:
    """The embedding store: puts what is not there from two buffers each where seed is given, and reads it so too."""
    from mooncake.store import MooncakeDistributedStore

    made = MooncakeDistributedStore()
    if made.setup(config["hostname"], "P2PHANDSHAKE", 0, LOCAL_BUFFER, "tcp", "", config["master"]):
        raise RuntimeError("setup failed")
    memory, half = Memory(size * len(keys)), size // 3
    assert made.register_buffer(memory.address, memory.size) == 0
    starts = [memory.address + i * size for i in range(len(keys))]
    ptrs, sizes = [[p, p + half] for p in starts], [[half, size - half]] * len(keys)
    if seed is None:
        assert made.batch_is_exist(keys) == [1] * len(keys)
        assert made.batch_get_into_multi_buffers(keys, ptrs, sizes) == [size] * len(keys)
    else:
        memory.write(0, content(seed, memory.size))
        absent = [i for i, state in enumerate(made.batch_is_exist(keys)) if state != 1]
        rows = [ptrs[i] for i in absent], [sizes[i] for i in absent]
        assert made.batch_put_from_multi_buffers([keys[i] for i in absent], *rows) == [0] * len(absent)
        whole = Memory(size)
        assert made.register_buffer(whole.address, size) == 0
        assert [made.batch_get_into([key], [whole.address], [size]) for key in keys] == [[size]] * len(keys)
        assert made.batch_put_from([], [], []) == [] == made.batch_get_into([], [], [])
    assert made.close() == 0
    return [digest(memory.read(i * size, size)) for i in range(len(keys))]


def layers(
    worker: Worker, keys: list[str], layers: int, size: int
) -> tuple[list[int], list[list[int]], int, list[str]]:
    """The direct linker: objects of all layers are read layer by layer, each page into two places, within a session."""
    made = worker.kept["cache"].store
    assert getattr(made, "batch_get_session_start_with_sources", None) is None
    memory = Memory(len(keys) * layers * size)
    assert made.register_buffer(memory.address, memory.size) in (0, None)
    started, read, part = made.batch_get_session_start(keys), [], size // 4
    for layer in range(layers):
        at = [memory.address + (i * layers + layer) * size for i in range(len(keys))]
        rows = (
            [[p, p + part] for p in at],
            [[part, size - part] for _ in keys],
            [[layer * size, layer * size + part] for _ in keys],
        )
        read.append(made.batch_get_into_multi_buffer_ranges(keys, *rows))
    ended = made.batch_get_session_end(keys)
    assert made.unregister_buffer(memory.address) == 0
    return started, read, ended, [digest(memory.read(i * layers * size, layers * size)) for i in range(len(keys))]


def reuse_engine(worker: Worker, config: dict[str, Any]) -> tuple[str, str]:
    """The engine of disaggregation serves the store as well: its session, and the store's name."""
    code = worker.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "")
    assert code == 0, code
    session = f"127.0.0.1:{worker.engine.get_rpc_port()}"
    cache = HiCache(config | {"protocol": "rdma"}, worker.engine.get_engine(), session)
    memory = Memory(2 * 4096 * 4)
    cache.register(Pool(memory.address, 4, 4096, False))
    cache.pool.fill(config["seed"])
    worker.memories.append(memory)
    worker.kept["cache"] = cache
    return session, cache.store.get_hostname()
