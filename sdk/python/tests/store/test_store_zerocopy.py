"""Puts and gets from and to addresses."""

import pytest
from memory import Memory

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore
MISSING = -704
INVALID = -600


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    return Memory(1 << 20).register(store)


def test_put_from_and_get_into(store: Store, memory: Memory, key: str) -> None:
    memory[0:5] = b"hello"
    assert store.put_from(key, memory.ptr, 5) == 0
    assert store.put_from(key=key + "2", buffer_ptr=memory.ptr + 1, size=4, config=ReplicateConfig()) == 0
    assert store.get(key + "2") == b"ello"
    assert store.get_into(key, memory.ptr + 100, 50) == 5
    assert memory[100:105] == b"hello"
    assert store.get_into(key=key, buffer_ptr=memory.ptr, size=5) == 5
    assert store.get_into(key + "no", memory.ptr, 5) == MISSING


def test_upsert_from(store: Store, memory: Memory, key: str) -> None:
    memory[0:6] = b"onetwo"
    assert store.upsert_from(key, memory.ptr, 3) == 0
    assert store.upsert_from(key=key, buffer_ptr=memory.ptr + 3, size=3, config=ReplicateConfig()) == 0
    assert store.get(key) == b"two"
    assert store.batch_upsert_from([key, key + "2"], [memory.ptr, memory.ptr], [3, 6]) == [0, 0]
    assert store.batch_upsert_from(keys=[key], buffer_ptrs=[memory.ptr], sizes=[2], config=ReplicateConfig()) == [0]
    assert store.get_batch([key, key + "2"]) == [b"on", b"onetwo"]


def test_put_from_with_metadata(store: Store, memory: Memory, key: str) -> None:
    memory[0:10] = b"datadata!!"
    memory[512:516] = b"META"
    assert store.put_from_with_metadata(key, memory.ptr, memory.ptr + 512, 8, 4) == 0
    assert store.get(key) == b"METAdatadata"
    assert (
        store.put_from_with_metadata(
            key=key + "2",
            buffer_ptr=memory.ptr,
            metadata_buffer_ptr=memory.ptr + 512,
            size=1,
            metadata_size=4,
            config=ReplicateConfig(),
        )
        == 0
    )
    assert store.get(key + "2") == b"METAd"


def test_batches(store: Store, memory: Memory, key: str) -> None:
    keys = [f"{key}{i}" for i in range(4)]
    memory[0:400] = b"".join(bytes([65 + i]) * 100 for i in range(4))
    ptrs, sizes = [memory.ptr + 100 * i for i in range(4)], [100] * 4
    assert store.batch_put_from(keys, ptrs, sizes) == [0] * 4
    assert store.batch_put_from(keys=keys, buffer_ptrs=ptrs, sizes=sizes, config=ReplicateConfig()) == [0] * 4
    memory[0:400] = bytes(400)
    assert store.batch_get_into(keys=keys[::-1], buffer_ptrs=ptrs, sizes=sizes) == [100] * 4
    assert memory[0:400:100] == b"DCBA"


def test_multi_buffers(store: Store, memory: Memory, key: str) -> None:
    keys = [key + "1", key + "2"]
    memory[0:10] = b"abcdefghij"
    ptrs, sizes = [[memory.ptr, memory.ptr + 5], [memory.ptr + 2]], [[2, 3], [4]]
    assert store.batch_put_from_multi_buffers(keys, ptrs, sizes) == [0, 0], store.last_error()
    assert store.get_batch(keys) == [b"abfgh", b"cdef"]
    config = ReplicateConfig()
    config.prefer_alloc_in_same_node = True
    again = [key + "3", key + "4"]
    assert store.batch_put_from_multi_buffers(keys=again, all_buffer_ptrs=ptrs, all_sizes=sizes, config=config) == [
        0,
        0,
    ]
    memory[0:10] = bytes(10)
    assert store.batch_get_into_multi_buffers(keys, ptrs, sizes) == [5, 4]
    assert memory[2:6] == b"cdef"
    assert store.batch_get_into_multi_buffers(
        keys=[keys[1], key + "no"],
        all_buffer_ptrs=[[memory.ptr + 50], [memory.ptr]],
        all_sizes=[[4], [4]],
        prefer_alloc_in_same_node=True,
    ) == [4, MISSING]
    assert memory[50:54] == b"cdef"


def test_multi_buffers_scatter_in_order(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"0123456789") == 0
    memory.fill(0x2E)
    rows = [[memory.ptr + 20, memory.ptr, memory.ptr + 10]]
    assert store.batch_get_into_multi_buffers([key], rows, [[3, 3, 8]]) == [10]
    assert memory[0:30] == b"345......." + b"6789......" + b"012......."
    assert store.batch_get_into_multi_buffers([key], rows, [[3, 3, 3]]) == [INVALID], "too small"


@pytest.mark.parametrize(("ptrs", "sizes"), [([1], [1]), ([1, 2, 3], [1, 2, 3]), ([1, 2], [1]), ([], [])])
def test_lists_of_different_lengths(store: Store, key: str, ptrs: list[int], sizes: list[int]) -> None:
    keys = [key + "1", key + "2"]
    assert store.batch_put_from(keys, ptrs, sizes) == [INVALID] * 2
    assert store.batch_upsert_from(keys, ptrs, sizes) == [INVALID] * 2
    assert store.batch_get_into(keys, ptrs, sizes) == [INVALID] * 2
    rows, row_sizes = [[p] for p in ptrs], [[s] for s in sizes]
    assert store.batch_put_from_multi_buffers(keys, rows, row_sizes) == [INVALID] * 2
    assert store.batch_get_into_multi_buffers(keys, rows, row_sizes) == [INVALID] * 2


def test_inner_lists_of_different_lengths(store: Store, memory: Memory, key: str) -> None:
    assert store.batch_put_from_multi_buffers([key], [[memory.ptr, memory.ptr]], [[1]]) == [INVALID]
    assert store.batch_get_into_multi_buffers([key], [[memory.ptr]], [[1, 2]]) == [INVALID]


@pytest.mark.parametrize("bad", [-1, 1.5, "1", None, 2**64])
def test_pointers_and_sizes_are_checked(store: Store, key: str, bad: object) -> None:
    for call, names in (
        (store.put_from, ("buffer_ptr", "size")),
        (store.upsert_from, ("buffer_ptr", "size")),
        (store.get_into, ("buffer_ptr", "size")),
        (store.put_from_with_metadata, ("buffer_ptr", "metadata_buffer_ptr", "size", "metadata_size")),
    ):
        for name in names:
            arguments = {n: 1 for n in names} | {name: bad}
            with pytest.raises(TypeError, match=f"^{name}:"):
                call(key=key, **arguments)
    with pytest.raises(TypeError, match="^buffer_ptr:"):
        store.register_buffer(bad, 1)
    with pytest.raises(TypeError, match="^size:"):
        store.register_buffer(1, size=bad)
    with pytest.raises(TypeError, match="^buffer_ptr:"):
        store.unregister_buffer(buffer_ptr=bad)
    for call in (store.batch_put_from, store.batch_get_into, store.batch_upsert_from):
        with pytest.raises(TypeError, match=r"buffer_ptrs\[1\]"):
            call([key, key], [1, bad], [1, 1])
        with pytest.raises(TypeError, match=r"sizes\[0\]"):
            call([key, key], [1, 1], [bad, 1])
    for call in (store.batch_put_from_multi_buffers, store.batch_get_into_multi_buffers):
        with pytest.raises(TypeError, match=r"all_sizes\[0\]\[1\]"):
            call([key], [[1, 1]], [[1, bad]])


def test_ranges(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key + "a", b"0123456789") == 0
    assert store.put(key + "b", b"abcdefghij") == 0
    memory.fill(0x2E)
    got = store.get_into_ranges(
        [memory.ptr, memory.ptr + 100],
        [[key + "a", key + "b"], [key + "b"]],
        [[[0, 10], [20]], [[5]]],
        [[[2, 5], [0]], [[9]]],
        [[[3, 2], [4]], [[1]]],
    )
    assert got == [[[3, 2], [4]], [[1]]]
    assert memory[0:30] == b"234......." + b"56........" + b"abcd......"
    assert memory[100:106] == b".....j"


def test_ranges_fail_each_for_itself(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"0123456789") == 0
    got = store.get_into_ranges(
        buffer_ptrs=[memory.ptr],
        all_keys=[[key, key + "no", key]],
        all_dst_offsets=[[[0, memory.size], [0], [0]]],
        all_src_offsets=[[[0, 0], [0], [8]]],
        all_sizes=[[[4, 1], [1], [3]]],
    )
    assert got[0][0][0] == 4
    assert got[0][0][1] < 0, "beyond the registered memory"
    assert got[0][1] == [MISSING]
    assert got[0][2][0] < 0, "beyond the object"
    assert memory[0:4] == b"0123"


def test_ranges_of_different_shapes(store: Store, memory: Memory, key: str) -> None:
    assert store.put(key, b"0123456789") == 0
    got = store.get_into_ranges([memory.ptr], [[key, key]], [[[0], []]], [[[0, 1], []]], [[[], []]])
    assert [len(k) for k in got[0]] == [2, 0]
    assert all(code < 0 for code in got[0][0])
    assert store.get_into_ranges([], [], [], [], []) == []


def test_large_objects_come_back_whole(store: Store, key: str) -> None:
    memory = Memory(40 << 20).register(store)
    half = 20 << 20
    memory[0:half] = bytes(range(256)) * (half // 256)
    assert store.put_from(key, memory.ptr, half) == 0, store.last_error()
    assert store.get_into(key, memory.ptr + half, half) == half
    assert memory[0:half] == memory[half : 2 * half]
    assert store.unregister_buffer(memory.ptr) == 0
