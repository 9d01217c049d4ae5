"""Stores with storage tiers: more objects than memory holds, over a real master."""

import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from memory import Memory
from processes import WAIT_S, Master

from mooncake.store import MooncakeDistributedStore

MB = 1 << 20
OBJECTS = 32


@pytest.fixture(autouse=True)
def small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", str(256 * MB))
    monkeypatch.setenv("MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES", str(32 * MB))


@pytest.fixture
def offloading(processes) -> Master:
    return processes.master("--enable_offload", "--default_kv_lease_ttl=100")


def eventually(what: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def value(i: int) -> bytes:
    return b"value %08d\n" % i * (MB // 15)


def saved(store: MooncakeDistributedStore, key: str) -> bool:
    return any(r.is_local_disk_replica() for r in store.get_replica_desc(key))


def fill(store: MooncakeDistributedStore) -> None:
    """Puts more than memory holds; what is not on the tier yet may be evicted."""
    for i in range(OBJECTS):
        eventually(lambda i=i: store.put(f"k{i}", value(i)) == 0 and saved(store, f"k{i}"))


def read_all(store: MooncakeDistributedStore) -> None:
    for i in range(OBJECTS):
        assert store.is_exist(f"k{i}") == 1
        assert store.get_size(f"k{i}") == len(value(i))
        got = b""

        def there(i: int = i) -> bool:
            nonlocal got
            got = store.get(f"k{i}")
            return got != b""  # The lease may end before a busy machine has read it.

        eventually(there)
        assert got == value(i), i


def test_more_than_memory_holds(offloading: Master, make_store, tmp_path: Path) -> None:
    store = make_store(offloading, 16 * MB, enable_ssd_offload=True, ssd_offload_path=str(tmp_path))
    assert list(tmp_path.iterdir())
    fill(store)
    read_all(store)
    other = make_store(offloading)
    read_all(other)
    assert other.get_offload_rpc_read_count() > 0
    assert store.get_offload_rpc_read_count() > 0

    found = other.batch_get_replica_desc([f"k{i}" for i in range(OBJECTS)])
    assert len(found) == OBJECTS
    only = 0
    for replicas in found.values():
        on_tier = [r for r in replicas if r.is_local_disk_replica()]
        assert len(on_tier) == 1
        assert not on_tier[0].is_memory_replica()
        assert not on_tier[0].is_disk_replica()
        for descriptor in (on_tier[0].get_memory_descriptor, on_tier[0].get_disk_descriptor):
            with pytest.raises(RuntimeError, match="is_.*_replica"):
                descriptor()
        assert "local disk" in repr(on_tier[0])
        for r in replicas:
            if r.is_memory_replica():
                assert r.get_memory_descriptor().buffer_descriptor.size == MB // 15 * 15
        only += len(replicas) == 1
    assert only > OBJECTS // 2

    assert store.unmount_local_disk_segment() == 0, store.last_error()
    left = other.batch_get_replica_desc([f"k{i}" for i in range(OBJECTS)])
    assert not any(r.is_local_disk_replica() for replicas in left.values() for r in replicas)
    assert len(left) <= OBJECTS - only
    assert store.unmount_local_disk_segment(3600) == 0, "there is none any more"
    eventually(lambda: store.put("new", b"x" * MB) == 0)
    assert not saved(store, "new")


def test_the_dict_form(offloading: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", str(tmp_path / "none"))
    given = {
        "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "global_segment_size": "16MB",
        "master_server_addr": offloading.rpc, "enable_ssd_offload": True,
    }  # fmt: skip
    store = MooncakeDistributedStore()
    assert store.setup(given) == -600, "that of the environment applies, and is not there"
    assert "ssd_offload_path" in store.last_error()
    assert store.setup(given | {"ssd_offload_path": "relative"}) == -600
    assert store.setup(given | {"ssd_offload_path": str(tmp_path)}) == 0, store.last_error()
    eventually(lambda: store.put("k", b"x") == 0 and saved(store, "k"))

    other = MooncakeDistributedStore()
    assert other.setup(given | {"ssd_offload_path": str(tmp_path)}) == 0, "several may share a folder"
    first = store.get_replica_desc("k")
    store.close()
    assert first[-1].is_local_disk_replica()
    eventually(lambda: other.put("l", b"x") == 0 and saved(other, "l"))
    other.close()


def test_without_offload_nothing_is_written(offloading: Master, make_store, tmp_path: Path) -> None:
    store = make_store(offloading, 16 * MB, ssd_offload_path=str(tmp_path))
    assert store.put("k", b"x") == 0
    assert store.unmount_local_disk_segment() == 0
    assert not list(tmp_path.iterdir())


@pytest.fixture
def dummy(offloading: Master, processes, tmp_path: Path) -> Iterator[MooncakeDistributedStore]:
    """A dummy client of a process with memory and a tier."""
    tiers = (
        "--enable_offload",
        f"--ssd_offload_path={tmp_path}",
        "--offload_size_limit=256MiB",
        "--offload_buffer_size=32MiB",
    )
    service = processes.local_service(offloading, "16MB", *tiers)
    store = MooncakeDistributedStore()
    assert store.setup_dummy(0, 16 * MB, service.address) == 0, store.last_error()
    yield store
    assert store.close() == 0


def read_ranges(store: MooncakeDistributedStore, ptr: int) -> None:
    """Reads the ends of all objects in one session for each, into memory that the store knows."""
    size = len(value(0))
    for i in range(OBJECTS):
        key = f"k{i}"

        def there(key: str = key) -> bool:
            ctypes.memset(ptr, 0, 150)
            if store.batch_get_session_start([key]) != [0]:
                return False
            got = store.batch_get_into_multi_buffer_ranges([key], [[ptr, ptr + 100]], [[100, 50]], [[0, size - 50]])
            store.batch_get_session_end([key])
            return got == [150]

        eventually(there)
        assert ctypes.string_at(ptr, 150) == value(i)[:100] + value(i)[-50:], i


def test_a_dummy_client_reads_tiers(dummy: MooncakeDistributedStore, offloading: Master, make_store) -> None:
    fill(dummy)
    read_all(dummy)
    assert sum(len(dummy.get_replica_desc(f"k{i}")) == 1 for i in range(OBJECTS)) > OBJECTS // 2
    ptr = dummy.alloc_from_mem_pool(MB)
    read_ranges(dummy, ptr)
    other = make_store(offloading)
    read_all(other)
    memory = Memory(MB).register(other)
    read_ranges(other, memory.ptr)


def test_a_hot_cache_holds_what_lies_on_tiers(
    offloading: Master, make_store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(offloading, 16 * MB, enable_ssd_offload=True, ssd_offload_path=str(tmp_path))
    fill(store)
    monkeypatch.setenv("MC_STORE_LOCAL_HOT_CACHE_SIZE", str(8 * MB))
    monkeypatch.setenv("MC_STORE_LOCAL_HOT_BLOCK_SIZE", str(MB))
    other = make_store(offloading)
    # Memory holds fewer objects than there are, and eviction chooses which.
    i = next(i for i in range(OBJECTS) if len(other.get_replica_desc(f"k{i}")) == 1)

    def cached() -> bool:
        before = other.get_offload_rpc_read_count()
        return other.get(f"k{i}") == value(i) and other.get_offload_rpc_read_count() == before

    eventually(cached)
    assert other.get(f"k{i}") == value(i)
