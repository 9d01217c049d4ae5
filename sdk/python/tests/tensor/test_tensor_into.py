"""Tensors in the caller's memory."""

from __future__ import annotations

from typing import Any

from tensor_golden import objects_of
from tensor_requests import axis, target, tp
from tensor_torch import Memory, memory, object_of, same, sample  # noqa: F401

SIZE = 304 + 64


def test_a_tensor_over_the_callers_memory(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor(key, sample()) == 0
    got = store.get_tensor_into(key=key, buffer_ptr=memory.ptr, size=memory.size)
    assert same(got, sample()) and got.data_ptr() == memory.ptr + 304
    assert memory.raw.raw[:SIZE] == objects_of("plain")["k"]
    memory.load(b"\x63\0", 304)
    assert got[0, 0] == 0x63
    got[0, 0] = 7
    assert memory.raw.raw[304] == 7


def test_memory_must_be_large_enough_and_is_left_alone_else(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor(key, sample()) == 0
    assert same(store.get_tensor_into(key, memory.ptr, SIZE), sample())
    memory.load(b"\x55" * SIZE)
    assert store.get_tensor_into(key, memory.ptr, SIZE - 1) is None
    assert store.get_tensor_into(key + "/missing", memory.ptr, SIZE) is None
    assert memory.raw.raw[:SIZE] == b"\x55" * SIZE


def test_many_into_memory(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor(key, sample()) == 0
    ptrs = [memory.ptr, memory.ptr + 4096, memory.ptr + 8192]
    got = store.batch_get_tensor_into(keys=[key, key + "x", key], buffer_ptrs=ptrs, sizes=[4096, 4096, 100])
    assert same(got[0], sample()) and got[1:] == [None, None]
    assert store.batch_get_tensor_into([key, key], ptrs, [1, 1]) == [-600, -600]
    assert store.batch_get_tensor_into([], [], []) == []


def test_parts_into_memory(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor_with_tp(key, sample(), 0, 4, 1) == 0
    part = sample().chunk(4, 1)[2]
    assert same(store.get_tensor_with_tp_into(key, memory.ptr, 4096, tp_rank=2, tp_size=4, split_dim=1), part)
    got = store.batch_get_tensor_with_tp_into([key, key], [memory.ptr, memory.ptr + 4096], [4096, 4096], 2, 4)
    assert same(got[0], part) and same(got[1], part)
    assert store.batch_get_tensor_with_tp_into([key, key], [memory.ptr], [4096], 2, 4) == [-600, -600]
    assert store.put_tensor(key, sample()) == 0
    assert same(store.get_tensor_with_tp_into(key, memory.ptr, 4096, 3), sample())


def test_what_lies_in_memory_is_stored(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    size = memory.load(object_of(sample()))
    assert store.put_tensor_from(key=key, buffer_ptr=memory.ptr, size=size) == 0
    assert store.get(key) == objects_of("plain")["k"]
    memory.load(object_of(sample() + 1))
    assert store.put_tensor_from(key, memory.ptr, size) == 0
    assert same(store.get_tensor(key), sample())
    assert store.upsert_tensor_from(key, memory.ptr, size) == 0
    assert same(store.get_tensor(key), sample() + 1)
    keys = [key + "a", key + "b"]
    assert store.batch_put_tensor_from(keys, [memory.ptr] * 2, [size] * 2) == [0, 0]
    assert store.batch_upsert_tensor_from(keys=keys, buffer_ptrs=[memory.ptr] * 2, sizes=[size] * 2) == [0, 0]
    assert store.get(keys[1]) == object_of(sample() + 1)


def test_what_is_no_tensor_is_not_stored(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    size = memory.load(object_of(sample()))
    for wrong in (size + 1, size - 1, 304, 303, 0):
        assert store.put_tensor_from(key, memory.ptr, wrong) == -600
        assert store.put_tensor_with_tp_from(key, memory.ptr, wrong, 0, 2) == -600
        assert store.put_tensor_with_parallelism_from(key, memory.ptr, wrong) == -600
    assert store.put_tensor_from(key, 0, size) == -600
    assert store.batch_put_tensor_from([key + "a", key], [memory.ptr, 0], [size, size]) == [0, -600]
    for call in (store.batch_put_tensor_from, store.batch_upsert_tensor_from, store.batch_put_tensor_with_tp_from):
        assert call([key, key], [memory.ptr], [size]) == [-600, -600]
        assert call([], [], []) == []
    memory.load(b"\0", 0)
    assert store.put_tensor_from(key, memory.ptr, size) == -600
    assert store.is_exist(key) == 0


def test_what_is_put_together_has_the_metadata_of_upstream(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor_with_tp(key, sample(), 0, 4, 1) == 0
    for mode, rank, size, want in (("full", 0, 4, sample()), ("shard", 1, 2, sample().chunk(2, 1)[1])):
        expected = objects_of(f"read {mode}")["k"]
        memory.load(bytes(4096))
        got = store.get_tensor_with_parallelism_into(key, memory.ptr, len(expected), target(mode, tp(rank, size, 1)))
        assert same(got, want) and memory.raw.raw[: len(expected)] == expected
        short = store.get_tensor_with_parallelism_into(
            key, memory.ptr, len(expected) - 1, target(mode, tp(rank, size, 1))
        )
        assert short is None


def test_many_targets_into_memory(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    assert store.put_tensor_with_tp(key, sample(), 0, 4, 1) == 0
    assert store.put_tensor(key + "b", sample()) == 0
    read = store.batch_get_tensor_with_parallelism_into
    ptrs, sizes = [memory.ptr, memory.ptr + 4096, memory.ptr], [4096] * 3
    got = read([key, key + "b", key + "x"], ptrs, sizes, [target("full", tp(0, 4, 1)), None, None])
    assert same(got[0], sample()) and same(got[1], sample()) and got[2] is None
    assert read([key, key], [memory.ptr], [1, 1]) == read([key, key], ptrs[:2], sizes[:2], [None]) == [None, None]
    assert read([], [], []) == []


def test_the_part_that_is_there_is_read_as_it_is(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    layout = (axis("ep", 1, 4, expert_id=5), tp(1, 4, 1))
    assert store.put_tensor_with_parallelism(key, sample(), target("shard", *layout).parallelism) == 0
    got = store.get_tensor_with_parallelism_into(key, memory.ptr, 4096, target("shard", *layout))
    assert same(got, sample().chunk(4, 1)[1])
