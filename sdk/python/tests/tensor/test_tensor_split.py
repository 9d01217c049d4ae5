"""Tensors split by their writers: the objects are those of upstream."""

from __future__ import annotations

from typing import Any

import pytest
from tensor_golden import objects_of
from tensor_requests import axis, parallelism, tp
from tensor_torch import Memory, memory, object_of, same, sample  # noqa: F401


def stored(store: Any, key: str, case: str) -> bool:
    """Whether the store has the objects of a case under key."""
    return all(store.get(key + k[1:]) == data for k, data in objects_of(case).items())


@pytest.mark.parametrize(
    ("size", "dim", "case"), [(2, 0, "tp2 dim 0"), (4, 1, "tp4 dim 1"), (1, 0, "plain"), (0, 5, "plain")]
)
def test_all_ranks_are_written(store: Any, key: str, size: int, dim: int, case: str) -> None:
    assert store.put_tensor_with_tp(key, sample(), tp_rank=1, tp_size=size, split_dim=dim) == 0
    assert stored(store, key, case)
    parts = sample().chunk(max(size, 1), dim) if size > 1 else [sample()]
    for rank, part in enumerate(parts):
        assert same(store.get_tensor_with_tp(key, tp_rank=rank, tp_size=size, split_dim=dim), part)
        assert same(store.batch_get_tensor_with_tp([key], rank, size)[0], part)
    if size > 1:
        assert store.get_tensor_with_tp(key, size, size) is None
        assert store.get_tensor(key) is None


def test_the_other_ways_to_write_all_ranks(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    size = memory.load(object_of(sample()))
    ways = [
        store.pub_tensor_with_tp(key + "0", sample(), tp_size=4, split_dim=1),
        *store.batch_put_tensor_with_tp([key + "1"], [sample()], 0, 4, 1),
        *store.batch_pub_tensor_with_tp(base_keys=[key + "2"], tensors_list=[sample()], tp_size=4, split_dim=1),
        store.put_tensor_with_tp_from(key + "3", memory.ptr, size, tp_size=4, split_dim=1),
        *store.batch_put_tensor_with_tp_from([key + "4"], [memory.ptr], [size], 0, 4, 1),
    ]
    assert ways == [0] * 5
    assert all(stored(store, f"{key}{i}", "tp4 dim 1") for i in range(5))


@pytest.mark.parametrize(
    ("shape", "size", "dim"),
    [((10, 3), 4, 0), ((2, 3), 4, 0), ((7,), 3, 0), ((2, 2), 2, 2), ((2, 4), 2, -1), ((), 2, 0), ((0, 4), 2, 0)],
    ids=str,
)
def test_what_cannot_be_split_into_equal_parts(store: Any, key: str, shape: tuple, size: int, dim: int) -> None:
    assert store.put_tensor_with_tp(key, sample(shape), 0, size, dim) == -600
    assert store.batch_put_tensor_with_tp([key, key + "b"], [sample(shape), 5], 0, size, dim) == [-600, -600]
    assert store.put_tensor_with_parallelism(key, sample(shape), None, writer_partition=tp(0, size, dim)) == -600
    assert store.batch_is_exist([key, key + "_tp_0", key + "_tp_1"]) == [0, 0, 0]


REQUESTS = {
    "tp only": (parallelism(tp(1, 2, 1)), None),
    "dp": (parallelism(axis("dp", 1, 2)), None),
    "ep": (parallelism(axis("ep", 1, 4, expert_id=5)), None),
    "pp": (parallelism(axis("pp", 1, 4, stage_id=3)), None),
    "dp tp": (parallelism(axis("dp", 1, 2), tp(1, 2)), None),
    "all, in another order": (
        parallelism(axis("pp", 1, 2, stage_id=4), axis("ep", 0, 2, expert_id=7), tp(1, 2, 1), axis("dp", 1, 2)),
        None,
    ),
    "writer dim 0": (None, tp(1, 4)),
    "writer dim 1": (None, axis("", 3, 4, split_dim=1)),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_writer_with_a_parallelism_stores_its_part(store: Any, key: str, case: str) -> None:
    layout, writer = REQUESTS[case]
    assert store.put_tensor_with_parallelism(key, sample(), layout, writer_partition=writer) == 0
    assert stored(store, key, case)
    rows = {"parallelisms": [layout, None], "writer_partitions": [writer, None]}
    for i, name in enumerate(["batch_put_tensor_with_parallelism", "batch_upsert_tensor_with_parallelism"]):
        keys = [f"{key}-{i}", f"{key}-{i}-plain"]
        assert getattr(store, name)(keys, [sample(), sample()], **rows) == [0, 0]
        assert stored(store, keys[0], case) and stored(store, keys[1], "plain")
    assert store.upsert_tensor_with_parallelism(key, sample() + 1, layout, writer_partition=writer) == 0
    assert not stored(store, key, case)


def test_whole_tensors_in_memory_are_split_for_all_ranks(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    size = memory.load(object_of(sample()))
    layout = parallelism(axis("dp", 1, 2), tp(1, 4))
    assert store.put_tensor_with_parallelism_from(key, memory.ptr, size, layout) == 0
    assert stored(store, key, "from dp tp")
    assert store.upsert_tensor_with_parallelism_from(key + "u", memory.ptr, size, layout) == 0
    assert stored(store, key + "u", "from dp tp")
    for i, name in enumerate(["batch_put_tensor_with_parallelism_from", "batch_upsert_tensor_with_parallelism_from"]):
        keys = [f"{key}{i}a", f"{key}{i}b", f"{key}{i}c"]
        codes = getattr(store, name)(
            keys, [memory.ptr] * 3, [size] * 3, [layout, None, None], writer_partitions=[None, None, tp(1, 4)]
        )
        assert codes == [0, 0, 0]
        assert stored(store, keys[0], "from dp tp") and stored(store, keys[1], "plain")
        assert stored(store, keys[2], "writer dim 0")


def test_a_part_in_memory_is_stored_as_the_part_that_it_is(store: Any, key: str, memory: Memory) -> None:  # noqa: F811
    part = objects_of("tp4 dim 1")["k_tp_1"]
    size = memory.load(part)
    assert store.put_tensor_with_parallelism_from(key, memory.ptr, size, parallelism(tp(1, 4, 1))) == 0
    assert store.get(key + "_tp_1") == part
    assert store.batch_is_exist([key + "_tp_0", key + "_tp_2"]) == [0, 0]
    for other in (tp(0, 4, 1), tp(1, 2, 1), tp(1, 4, 0)):
        assert store.put_tensor_with_parallelism_from(key + "x", memory.ptr, size, parallelism(other)) == -600


def test_requests_that_cannot_be_are_codes(store: Any, key: str) -> None:
    t = sample()
    assert store.put_tensor_with_parallelism(key, t, parallelism(tp(0, 2)), writer_partition=tp(0, 2)) == -600
    for wrong in ("x", parallelism(), parallelism(axis("xx")), parallelism(tp(0, 2, 5)), parallelism(tp(0, 2, -1))):
        assert store.put_tensor_with_parallelism(key, t, wrong) == -600
    assert store.put_tensor_with_parallelism(key, t, None, writer_partition=axis("tp", 0, 2)) == -600
    batch = store.batch_put_tensor_with_parallelism
    assert batch([key, key], [t]) == batch([key, key], [t, t], [None]) == batch([key, key], [t, t], "ab") == [-600] * 2
    assert batch([key, key + "b"], [t, 5], None) == [0, -600]
    assert batch([], []) == []
