"""Memory that joins and leaves the pool while a store runs, replicas, and tasks."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory import Memory
from processes import Master

from mooncake.store import ReplicaStatus, ReplicateConfig, TaskStatus, TaskType

FULL = -200
MISSING = -704


@pytest.fixture
def shm() -> Iterator[Path]:
    path = Path("/dev/shm") / f"mooncake-test-{os.getpid()}-{uuid.uuid4().hex}"
    path.write_bytes(bytes(16 << 20))
    yield path
    path.unlink()


def test_allocate_and_mount(master: Master, make_store) -> None:
    store = make_store(master)
    assert store.put("k", b"x") == FULL
    mounted = store.allocate_and_mount_segment(16 << 20)
    assert mounted["ret"] == 0, store.last_error()
    assert mounted["allocated_size"] >= 16 << 20
    assert all(isinstance(i, str) and i for i in mounted["segment_ids"])
    assert len(mounted["segment_ids"]) >= 1
    assert store.put("k", b"x") == 0
    assert store.get("k") == b"x"
    assert store.unmount_and_free_segment(mounted["segment_ids"]) == 0
    assert store.get("k") == b""
    again = store.allocate_and_mount_segment(size=4 << 20, protocol="tcp", location="cpu:0")
    assert again["ret"] == 0
    assert store.unmount_and_free_segment(segment_ids=again["segment_ids"], grace_period_seconds=0) == 0
    assert store.put("k2", b"x") == FULL


def test_mount_a_file(master: Master, make_store, shm: Path) -> None:
    store = make_store(master)
    mounted = store.mount_segment(str(shm), 8 << 20, 4 << 20)
    assert set(mounted) == {"ret", "segment_ids"}
    assert mounted["ret"] == 0, store.last_error()
    value = os.urandom(100_000)
    assert store.put("k", value) == 0
    assert store.get("k") == value
    assert 4 << 20 <= shm.read_bytes().find(value) < 12 << 20, "the object lies in that part of the file"
    assert store.unmount_segment(mounted["segment_ids"], 0) == 0
    again = store.mount_segment(path=str(shm), size=16 << 20, offset=0, protocol="tcp", location="")
    assert again["ret"] == 0
    assert store.unmount_segment(segment_ids=again["segment_ids"], grace_period_seconds=0) == 0


def test_what_cannot_be_mounted(master: Master, make_store, shm: Path) -> None:
    store = make_store(master)
    for path, size, offset in ((str(shm) + "no", 1 << 20, 0), (str(shm), 32 << 20, 0), (str(shm), 0, 0)):
        answer = store.mount_segment(path, size, offset)
        assert answer["ret"] < 0
        assert answer["segment_ids"] == []
    assert store.allocate_and_mount_segment(0)["ret"] < 0
    assert store.unmount_segment([str(uuid.uuid4())]) < 0
    assert store.unmount_and_free_segment(["no uuid"]) < 0
    for call in (store.unmount_segment, store.unmount_and_free_segment):
        with pytest.raises(TypeError, match="segment_ids"):
            call("id")
    with pytest.raises(TypeError, match="size"):
        store.allocate_and_mount_segment("4gb")


def test_memory_of_the_pool(pool: Master, make_store) -> None:
    import ctypes

    store = make_store(pool)
    ptr = store.alloc_from_mem_pool(1 << 16)
    assert ptr != 0, store.last_error()
    ctypes.memset(ptr, 0x41, 1 << 16)
    assert store.put_from("k", ptr, 1 << 16) == 0
    assert store.get("k") == b"A" * (1 << 16)
    assert store.get_offload_rpc_read_count() == 0
    assert store.unmount_local_disk_segment() == 0


def test_replica_descriptors(pool: Master, processes, make_store) -> None:
    processes.node(pool)
    store = make_store(pool)
    config = ReplicateConfig()
    config.replica_num = 2
    assert store.put("k", bytes(1000), config) == 0
    replicas = store.get_replica_desc("k")
    assert len(replicas) == 2
    for r in replicas:
        assert r.status == ReplicaStatus.COMPLETE
        assert (r.is_memory_replica(), r.is_disk_replica(), r.is_local_disk_replica()) == (True, False, False)
        d = r.get_memory_descriptor().buffer_descriptor
        assert d.size == 1000
        assert d.buffer_address != 0
        assert d.transport_endpoint.startswith("127.0.0.1:")
        with pytest.raises(RuntimeError, match="disk"):
            r.get_disk_descriptor()
    assert len({r.get_memory_descriptor().buffer_descriptor.transport_endpoint for r in replicas}) == 2
    assert store.get_replica_desc(key="no") == []
    assert store.put("l", b"x") == 0
    found = store.batch_get_replica_desc(keys=["k", "no", "l"])
    assert set(found) == {"k", "l"}
    assert len(found["l"]) == 1
    assert found.get("no") is None
    assert len(found["k"]) == 2


def test_clear_replicas(processes, make_store) -> None:
    master = processes.master("--default_kv_lease_ttl=1")
    processes.node(master)
    store, other = make_store(master), make_store(master)
    assert store.put_batch(["a", "b"], [b"x", b"y"]) == 0
    assert other.batch_replica_clear(["a"]) == [], "not what others have put"
    assert store.batch_replica_clear(["a", "no"]) == ["a"], store.last_error()
    assert store.batch_is_exist(["a", "b"]) == [0, 1]
    assert store.batch_replica_clear(keys=["b"], segment_name="no such segment") == []


def test_tasks(pool: Master, processes, make_store) -> None:
    node = make_store(pool, segment=16 << 20)
    target = make_store(pool, segment=16 << 20)
    memory = Memory(4096).register(node)
    memory[0:4] = b"task"
    config = ReplicateConfig()
    config.preferred_segment = node.get_hostname()
    assert node.put_from("k", memory.ptr, 4, config) == 0
    task, code = node.create_copy_task("k", [target.get_hostname()])
    assert code == 0, node.last_error()
    assert len(task) == 2
    assert task != (0, 0)
    answer, code = node.query_task(task)
    assert code == 0
    assert (answer.id, answer.type) == (task, TaskType.REPLICA_COPY)
    assert answer.status in (TaskStatus.PENDING, TaskStatus.PROCESSING, TaskStatus.SUCCESS)
    assert answer.created_at_ms_epoch > 1_600_000_000_000
    assert answer.last_updated_at_ms_epoch >= answer.created_at_ms_epoch
    assert len(answer.assigned_client) == 2
    assert isinstance(answer.message, str)
    with pytest.raises(AttributeError):
        answer.status = TaskStatus.FAILED
    assert node.create_move_task(key="no", source=node.get_hostname(), target=target.get_hostname())[0] == (0, 0)
    assert node.create_copy_task(key="k", targets=["no such segment"])[1] < 0
    assert node.query_task((1, 2)) == (None, -1400)
    with pytest.raises(TypeError, match="task_id"):
        node.query_task("id")
