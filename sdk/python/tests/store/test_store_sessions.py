"""Objects that are read and written layer by layer."""

import pytest
from memory import Memory

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore
MISSING = -704
INVALID = -600


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    return Memory(1 << 20).register(store)


def test_write_by_ranges(store: Store, memory: Memory, key: str) -> None:
    keys = [key + "1", key + "2"]
    memory[0:8] = b"abcdefgh"
    assert store.batch_put_session_start(keys, [6, 4]) == [0, 0], store.last_error()
    assert store.batch_is_exist(keys) == [0, 0], "nothing is readable yet"
    put = store.batch_put_from_multi_buffer_ranges
    assert put(keys, [[memory.ptr, memory.ptr + 4], [memory.ptr]], [[2, 2], [4]], [[4, 0], [0]]) == [4, 4]
    assert put(keys=keys[:1], all_buffer_ptrs=[[memory.ptr + 6]], all_sizes=[[2]], all_dst_offsets=[[2]]) == [2]
    assert store.batch_put_session_end(keys=keys) == [0, 0]
    assert store.get_batch(keys) == [b"efghab", b"abcd"]


def test_read_by_ranges(store: Store, memory: Memory, key: str) -> None:
    keys = [key + "1", key + "2"]
    assert store.put_batch(keys, [b"0123456789", b"abcdefghij"]) == 0
    assert store.batch_get_session_start([*keys, key + "no"]) == [0, 0, MISSING]
    memory.fill(0x2E)
    get = store.batch_get_into_multi_buffer_ranges
    rows = [[memory.ptr, memory.ptr + 20], [memory.ptr + 10]]
    assert get(keys, rows, [[3, 2], [4]], [[7, 0], [2]]) == [5, 4]
    assert memory[0:22] == b"789.......cdef......01"
    assert get(keys=keys[1:], all_buffer_ptrs=[[memory.ptr]], all_sizes=[[10]], all_src_offsets=[[0]]) == [10]
    assert store.batch_get_session_end(keys=keys) == 0
    assert get(keys[:1], [[memory.ptr]], [[1]], [[0]])[0] < 0, "the session is over"


def test_a_session_may_prefer_one_node(store: Store, memory: Memory, key: str) -> None:
    config = ReplicateConfig()
    config.prefer_alloc_in_same_node = True
    assert store.batch_put_session_start([key], [4], config) == [0], store.last_error()
    memory[0:4] = b"abcd"
    assert store.batch_put_from_multi_buffer_ranges([key], [[memory.ptr]], [[4]], [[0]]) == [4]
    assert store.batch_put_session_end([key]) == [0]
    assert store.get(key) == b"abcd"


def test_revoke(store: Store, memory: Memory, key: str) -> None:
    assert store.batch_put_session_start([key], [4], ReplicateConfig()) == [0]
    assert store.batch_put_session_revoke(keys=[key]) == [0]
    assert store.is_exist(key) == 0
    assert store.put(key, b"x") == 0, "the key is free"


def test_start_with_keywords_and_groups(store: Store, key: str) -> None:
    config = ReplicateConfig()
    config.group_ids = ["g1", "g2"]
    keys = [key + "1", key + "2"]
    assert store.batch_put_session_start(keys=keys, sizes=[1, 1], config=config) == [0, 0]
    assert store.batch_put_session_revoke(keys) == [0, 0]
    config.group_ids = ["g1"]
    assert store.batch_put_session_start(keys, [1, 1], config) == [INVALID, INVALID]


def test_ranges_beyond_the_object(store: Store, memory: Memory, key: str) -> None:
    assert store.batch_put_session_start([key], [4]) == [0]
    assert store.batch_put_from_multi_buffer_ranges([key], [[memory.ptr]], [[2]], [[3]])[0] < 0
    assert store.batch_put_session_revoke([key]) == [0]
    assert store.put(key, b"1234") == 0
    assert store.batch_get_session_start([key]) == [0]
    assert store.batch_get_into_multi_buffer_ranges([key], [[memory.ptr]], [[2]], [[3]])[0] < 0
    assert store.batch_get_into_multi_buffer_ranges([key], [[memory.ptr]], [[2]], [[2]]) == [2]
    assert store.batch_get_session_end([key]) == 0


def test_calls_without_a_session(store: Store, memory: Memory, key: str) -> None:
    assert store.batch_put_from_multi_buffer_ranges([key], [[memory.ptr]], [[1]], [[0]])[0] < 0
    assert store.batch_put_session_end([key])[0] < 0
    assert store.batch_get_session_end([key]) == 0


def test_lists_of_different_lengths(store: Store, memory: Memory, key: str) -> None:
    assert store.batch_put_session_start([key, key + "2"], [1]) == [INVALID] * 2
    assert store.batch_get_into_multi_buffer_ranges([key], [[1, 2]], [[1]], [[0]]) == [INVALID]
    assert store.batch_put_from_multi_buffer_ranges([key], [[1]], [[1]], [[0, 1]]) == [INVALID]


def test_empty_lists(store: Store) -> None:
    assert store.batch_get_session_start([]) == store.batch_put_session_start([], []) == []
    assert store.batch_get_into_multi_buffer_ranges([], [], [], []) == []
    assert store.batch_put_from_multi_buffer_ranges([], [], [], []) == []
    assert store.batch_put_session_end([]) == store.batch_put_session_revoke([]) == []
    assert store.batch_get_session_end([]) == 0


def test_ranges_ask_the_master_nothing(master, processes, make_store) -> None:
    node = processes.node(master)
    store = make_store(master)
    memory = Memory(4096).register(store)
    assert store.put("k", b"0123456789") == 0
    assert store.batch_get_session_start(["k"]) == [0]
    master.kill()
    assert store.batch_get_into_multi_buffer_ranges(["k"], [[memory.ptr]], [[10]], [[0]]) == [10]
    assert memory[0:10] == b"0123456789"
    assert node.process.running()
