"""What goes wrong easily with batches, keys and sizes: one function each."""

import itertools
import threading
import time

import pytest
from memory import Memory
from processes import Master

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore
MISSING = -704
INVALID = -600
LEASED = -706
FULL = -200


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    return Memory(1 << 20).register(store)


def test_empty_lists_give_empty_lists(store: Store) -> None:
    for call, lists in (
        (store.batch_put_from, 3),
        (store.batch_upsert_from, 3),
        (store.batch_get_into, 3),
        (store.batch_put_from_multi_buffers, 3),
        (store.batch_get_into_multi_buffers, 3),
        (store.batch_is_exist, 1),
        (store.batch_get_buffer, 1),
        (store.get_batch, 1),
        (store.batch_remove, 1),
        (store.batch_replica_clear, 1),
    ):
        assert call(*[[] for _ in range(lists)]) == [], call
    assert store.batch_get_replica_desc([]) == {}


def test_duplicate_keys_in_one_batch(store: Store, memory: Memory, key: str) -> None:
    memory[0:8] = b"aaaabbbb"
    assert store.batch_put_from([key, key], [memory.ptr, memory.ptr + 4], [4, 4]) == [0, 0]
    assert store.get(key) in (b"aaaa", b"bbbb")
    memory.fill(0)
    assert store.batch_get_into([key, key], [memory.ptr, memory.ptr + 100], [4, 4]) == [4, 4]
    assert memory[0:4] == memory[100:104] == store.get(key)
    assert store.batch_is_exist([key, key]) == [1, 1]


def test_put_of_what_is_there_keeps_the_old_bytes(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"old") == 0
    memory[0:3] = b"new"
    assert store.put(key, b"new") == 0
    assert store.put_parts(key, b"n", b"ew") == 0
    assert store.put_batch([key], [b"new"]) == 0
    assert store.put_from(key, memory.ptr, 3) == 0
    assert store.batch_put_from([key], [memory.ptr], [3]) == [0]
    assert store.batch_put_from_multi_buffers([key], [[memory.ptr]], [[3]]) == [0]
    assert store.get(key) == b"old"


def test_identical_puts_at_the_same_time_succeed(store: Store, key: str) -> None:
    value = bytes(range(256)) * 1024
    together, codes = threading.Barrier(4), []

    def put() -> None:
        together.wait(30)
        codes.append(store.put(key, value))

    threads = [threading.Thread(target=put) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert codes == [0] * 4
    assert store.put(key, value) == 0
    assert store.get(key) == value


def test_get_into_gives_the_size_of_the_object(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"12345") == 0
    memory.fill(0x2E)
    assert store.get_into(key, memory.ptr, 1000) == 5
    assert memory[0:8] == b"12345..."


def test_get_into_too_small_a_buffer_leaves_it(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"12345") == 0
    memory.fill(0x2E)
    assert store.get_into(key, memory.ptr, 4) == INVALID
    assert store.batch_get_into([key], [memory.ptr], [4]) == [INVALID]
    assert memory[0:8] == b"........"


def test_batch_get_into_that_fails_in_part(store: Store, memory: Memory, key: str) -> None:
    assert store.put_batch([key + "1", key + "3"], [b"one", b"three"]) == 0
    keys = [key + "0", key + "1", key + "2", key + "3"]
    ptrs = [memory.ptr + 100 * i for i in range(4)]
    assert store.batch_get_into(keys, ptrs, [100] * 4) == [MISSING, 3, MISSING, 5]
    assert memory[100:103] == b"one"
    assert memory[300:305] == b"three"


def test_a_full_pool_answers_minus_200_for_each_key(processes, make_store) -> None:
    master = processes.master("--eviction_high_watermark_ratio=1")
    processes.node(master, "16MB")
    store = make_store(master)
    memory = Memory(8 << 20).register(store)
    pinned = ReplicateConfig()
    pinned.with_hard_pin = True
    assert store.batch_put_from(["a", "b", "c"], [memory.ptr] * 3, [4 << 20] * 3, pinned) == [0, 0, 0]
    codes = store.batch_put_from(["a", "too large 1", "b", "too large 2"], [memory.ptr] * 4, [memory.size] * 4)
    assert codes == [0, FULL, 0, FULL], "a put of an existing object is a success"
    assert store.batch_put_from_multi_buffers(["more"], [[memory.ptr]], [[memory.size]]) == [FULL]
    assert store.put("bytes", bytes(memory.size)) == FULL
    assert "NO_AVAILABLE_HANDLE" in store.last_error()
    assert store.put("small", b"x") == 0, "there is room for less"


def test_eviction_makes_room(processes, make_store) -> None:
    master = processes.master("--default_kv_lease_ttl=1")
    processes.node(master, "16MB")
    store = make_store(master)
    memory = Memory(1 << 20).register(store)
    stored, deadline = 0, time.monotonic() + 60
    for i in itertools.count():  # between two of them the master may have to evict
        stored += store.put_from(f"page{i}", memory.ptr, memory.size) == 0
        if stored >= 100:  # six times the pool
            break
        assert time.monotonic() < deadline, f"{stored} of {i + 1} were stored, {store.last_error()}"


def test_exist_and_get_grant_a_lease(store: Store, key: str) -> None:
    assert store.put_batch([key + "1", key + "2"], [b"x", b"x"]) == 0
    assert store.is_exist(key + "1") == 1
    assert store.get(key + "2") == b"x"
    assert store.batch_remove([key + "1", key + "2"]) == [LEASED, LEASED]
    assert store.batch_remove([key + "1", key + "2"], force=True) == [0, 0]


def test_remove_all_counts_what_it_removed(pool: Master, make_store) -> None:
    store = make_store(pool)
    assert store.remove_all() == 0
    assert store.put_batch(["a", "b", "c"], [b"x"] * 3) == 0
    assert store.is_exist("b") == 1
    assert store.remove_all() == 2
    assert store.batch_is_exist(["a", "b", "c"]) == [0, 1, 0]
    assert store.remove_all(force=True) == 1


@pytest.mark.parametrize("name", ["a/b/c", "with spaces in it", "日本語/ключ/🔑", "k" * 1024, "page__k", "model__k__v"])
def test_keys_of_all_kinds(store: Store, name: str) -> None:
    assert store.put(name, name.encode()) == 0
    assert store.get(name) == name.encode()
    assert list(store.batch_get_replica_desc([name])) == [name]
    assert store.remove(name, force=True) == 0


def test_values_of_no_bytes_are_refused(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"") == INVALID
    assert store.put_parts(key) == INVALID
    assert store.put_parts(key, b"", b"") == INVALID
    assert store.put_from(key, memory.ptr, 0) == INVALID
    assert store.batch_put_from([key, key + "2"], [memory.ptr, memory.ptr], [0, 1]) == [INVALID, 0]
    assert store.is_exist(key) == 0


def test_an_empty_key_is_refused(store: Store) -> None:
    assert store.put("", b"x") == INVALID
    assert store.is_exist("") == 0
    assert store.get("") == b""


def test_memory_that_is_not_registered_works_over_tcp(store: Store, key: str) -> None:
    memory = Memory(4096)
    memory[0:4] = b"data"
    assert store.put_from(key, memory.ptr, 4) == 0
    assert store.get_into(key, memory.ptr + 100, 10) == 4
    assert memory[100:104] == b"data"


def test_registering_large_memory_and_parts_of_it(store: Store, key: str) -> None:
    memory = Memory(64 << 20)
    assert store.register_buffer(memory.ptr, memory.size) == 0
    inside = memory.ptr + (10 << 20)
    memory[10 << 20 : (10 << 20) + 4] = b"data"
    assert store.put_from(key, inside, 4) == 0
    assert store.get_into(key, inside + 64, 1 << 20) == 4
    assert store.unregister_buffer(inside) != 0, "not where it begins"
    assert store.unregister_buffer(memory.ptr) == 0
    assert store.unregister_buffer(memory.ptr) != 0
    assert store.register_buffer(memory.ptr, memory.size) == 0, "again"
    assert store.unregister_buffer(buffer_ptr=memory.ptr) == 0


def test_unregistering_what_was_never_registered(store: Store) -> None:
    assert store.unregister_buffer(4096) != 0


def test_registering_overlapping_memory(store: Store) -> None:
    memory = Memory(1 << 20)
    half = memory.size // 2
    assert store.register_buffer(memory.ptr, half) == 0
    assert store.register_buffer(memory.ptr + half, half) == 0, "beside it"
    assert store.unregister_buffer(memory.ptr) == 0
    assert store.unregister_buffer(memory.ptr + half) == 0
