"""The workers of vLLM's MooncakeStoreConnector and its store of embeddings, run in processes of their own.

StoreWorker makes the calls that vLLM's makes, and no others.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from enginepeer import Memory, Worker, content, digest

NO_AVAILABLE_HANDLE = -200
SESSIONS = (
    "batch_get_session_start", "batch_get_into_multi_buffer_ranges", "batch_get_session_end",
    "batch_put_session_start", "batch_put_from_multi_buffer_ranges", "batch_put_session_end", "batch_put_session_revoke",
)  # fmt: skip
HEADER = struct.Struct("<IIQQ")
RECEIVERS = 4


class StoreWorker:
    """One rank: layers of blocks, of which a key has the same block of every layer."""

    def __init__(self, extra: dict[str, Any]) -> None:
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig

        config = json.loads(Path(os.environ["MOONCAKE_CONFIG_PATH"]).read_text())
        standalone = config.get("mode", "embedded") == "standalone-store"
        assert standalone == (config["global_segment_size"] == 0)
        self.store = MooncakeDistributedStore()
        tenant = {"tenant_id": config["tenant_id"]} if config.get("tenant_id", "default") != "default" else {}
        sizes = config["global_segment_size"], config["local_buffer_size"]
        device, master = config.get("device_name", ""), config["master_server_address"]
        name = os.environ.get("MOONCAKE_REQUESTER_LOCAL_HOSTNAME") or "127.0.0.1"
        if (
            self.store.setup(
                name, config["metadata_server"], *sizes, config.get("protocol", "rdma"), device, master, **tenant
            )
            != 0
        ):
            raise RuntimeError("Initialize MooncakeDistributedStore failed.")
        self.how = ReplicateConfig()
        self.groups = bool(extra.get("enable_group_semantics")) and hasattr(ReplicateConfig, "group_ids")
        preferred = extra.get("preferred_segment") or os.environ.get("MOONCAKE_PREFERRED_SEGMENT")
        if preferred:
            self.how.preferred_segment = preferred
        self.layerwise = all(callable(getattr(self.store, method, None)) for method in SESSIONS)
        self.receivers = ThreadPoolExecutor(RECEIVERS)
        self.caches: list[Memory] = []
        self.lock = threading.Lock()

    def register(self, layers: int, block: int, blocks: int, seed: int | None) -> list[int]:
        self.block = block
        self.caches = [Memory(block * blocks) for _ in range(layers)]
        for layer, cache in enumerate(self.caches):
            if seed is not None:
                cache.write(0, content(seed + layer, cache.size))
        return [self.store.register_buffer(cache.address, cache.size) for cache in self.caches]

    def _rows(self, blocks: list[int]) -> tuple[list[list[int]], list[list[int]]]:
        ptrs = [[cache.address + b * self.block for cache in self.caches] for b in blocks]
        return ptrs, [[self.block] * len(self.caches) for _ in blocks]

    def save(self, keys: list[str], blocks: list[int]) -> list[int]:
        """The sending thread: what it put of what was not there, as codes."""
        absent = [i for i, state in enumerate(self.store.batch_is_exist(keys)) if state != 1]
        if not absent:
            return []
        names = [keys[i] for i in absent]
        with self.lock:  # one thread sends, with one config
            if self.groups:
                self.how.group_ids = [f"vllm-mooncake-store:model@{name}" for name in names]
            return self.store.batch_put_from_multi_buffers(names, *self._rows([blocks[i] for i in absent]), self.how)

    def load(self, keys: list[str], blocks: list[int]) -> list[int]:
        return self.store.batch_get_into_multi_buffers(keys, *self._rows(blocks))

    def tiers(self, keys: list[str]) -> list[str]:
        found = self.store.batch_get_replica_desc(keys)
        return [_tier(found.get(key)) for key in keys]

    def digests(self, blocks: list[int]) -> list[list[str]]:
        return [[digest(cache.read(b * self.block, self.block)) for cache in self.caches] for b in blocks]


def _tier(replicas: Any) -> str:
    if not replicas:
        return "unknown"
    first = replicas[0]
    if first.is_memory_replica():
        return "memory"
    return "disk" if first.is_disk_replica() or first.is_local_disk_replica() else "unknown"


def start(
    worker: Worker, extra: dict[str, Any], layers: int, block: int, blocks: int, seed: int | None = None
) -> list[int]:
    """Sets a worker up; the codes of its registrations."""
    made = worker.kept["worker"] = StoreWorker(extra)
    assert made.layerwise
    return made.register(layers, block, blocks, seed)


def do(worker: Worker, method: str, *args: Any) -> Any:
    return getattr(worker.kept["worker"], method)(*args)


def store(worker: Worker, method: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(worker.kept["worker"].store, method)(*args, **kwargs)


def save_until_pressure(worker: Worker, prefix: str, batch: int, most: int) -> tuple[int, set[int]]:
    """Saves batches until one does not fit, and no more of that request: how many blocks are there, and all codes."""
    made: StoreWorker = worker.kept["worker"]
    there, seen = 0, set()
    for first in range(0, most, batch):
        keys = [f"{prefix}{i}" for i in range(first, first + batch)]
        codes = made.save(keys, [0] * batch)
        # Reads keep them: an object with a read lease is not evicted.
        there += sum(n > 0 for n in made.load(keys, [1] * batch))
        seen |= set(codes)
        if NO_AVAILABLE_HANDLE in codes:
            break
    return there, seen


def load_all(worker: Worker, requests: list[tuple[list[str], list[int]]], new: list[str]) -> list[list[int]]:
    """The receiving threads load while the sending thread saves and another looks keys up."""
    made: StoreWorker = worker.kept["worker"]
    loads = [made.receivers.submit(made.load, *request) for request in requests]
    with ThreadPoolExecutor(2) as others:
        saved = others.submit(made.save, new, [0] * len(new))
        looked = others.submit(made.store.batch_is_exist, [k for keys, _ in requests for k in keys])
        assert saved.result(60) == [0] * len(new)
        assert set(looked.result(60)) == {1}
    return [load.result(60) for load in loads]


def put_embedding(worker: Worker, key: str, tokens: int, hidden: int, seed: int) -> str:
    """An encoder's embedding of f32: a header of its own and the tensor, each registered, in one object."""
    from mooncake.store import ObjectDataType, ReplicateConfig

    made, how = worker.kept["worker"].store, ReplicateConfig()
    how.data_type = ObjectDataType.TENSOR
    head, data = Memory(HEADER.size), Memory(4 * tokens * hidden)
    head.write(0, HEADER.pack(0x4D4F4F4E, 0, tokens, hidden))
    data.write(0, content(seed, data.size))
    for memory in (head, data):
        assert made.register_buffer(memory.address, memory.size) == 0
    [code] = made.batch_put_from_multi_buffers([key], [[head.address, data.address]], [[head.size, data.size]], how)
    assert type(code) is int and code == 0, code
    for memory in (data, head):
        assert made.unregister_buffer(memory.address) == 0
    return digest(data.read(0, data.size))


def get_embeddings(worker: Worker, shapes: dict[str, tuple[int, int]]) -> dict[str, str]:
    """Reads embeddings into one buffer, one behind the other; those that are missing or of another shape are left out."""
    made = worker.kept["worker"].store
    sizes = [HEADER.size + 4 * tokens * hidden for tokens, hidden in shapes.values()]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    buffer = Memory(sum(sizes))
    assert made.register_buffer(buffer.address, buffer.size) == 0
    read = made.batch_get_into(list(shapes), [buffer.address + at for at in starts], sizes)
    assert all(type(n) is int and (0 <= n <= size or n in (-600, -704)) for n, size in zip(read, sizes, strict=True)), (
        read
    )
    found = {}
    for (key, shape), at, size, n in zip(shapes.items(), starts, sizes, read, strict=True):
        if n == size and HEADER.unpack(buffer.read(at, HEADER.size)) == (0x4D4F4F4E, 0, *shape):
            found[key] = digest(buffer.read(at + HEADER.size, size - HEADER.size))
    assert made.unregister_buffer(buffer.address) == 0
    return found
