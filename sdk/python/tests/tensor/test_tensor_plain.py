"""Whole tensors in a store of real processes."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from tensor_golden import objects_of
from tensor_torch import HERE, object_of, same, sample, torch

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

WRITES = {
    "put_tensor": lambda s, k, t: s.put_tensor(k, t),
    "put_tensor by name": lambda s, k, t: s.put_tensor(key=k, tensor=t),
    "upsert_tensor": lambda s, k, t: s.upsert_tensor(key=k, tensor=t),
    "pub_tensor": lambda s, k, t: s.pub_tensor(key=k, tensor=t, config=ReplicateConfig()),
    "upsert_pub_tensor": lambda s, k, t: s.upsert_pub_tensor(k, t, ReplicateConfig()),
    "batch_put_tensor": lambda s, k, t: s.batch_put_tensor(keys=[k], tensors_list=[t])[0],
    "batch_upsert_tensor": lambda s, k, t: s.batch_upsert_tensor([k], [t])[0],
    "batch_pub_tensor": lambda s, k, t: s.batch_pub_tensor([k], [t], config=ReplicateConfig())[0],
    "batch_upsert_pub_tensor": lambda s, k, t: s.batch_upsert_pub_tensor(keys=[k], tensors_list=[t])[0],
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_is_written_is_read_as_upstream_stores_it(store: Any, key: str, write: Any) -> None:
    assert write(store, key, sample()) == 0
    assert store.get(key) == objects_of("plain")["k"]
    assert same(store.get_tensor(key), sample())
    assert same(store.batch_get_tensor(keys=[key])[0], sample())


@pytest.mark.parametrize("dtype", HERE)
def test_every_dtype(store: Any, key: str, dtype: str) -> None:
    shapes = [(), (0, 3), (5,), (2, 3, 4), (1,) * 8]
    keys = [f"{key}/{i}" for i in range(len(shapes))]
    tensors = [sample(shape, dtype) for shape in shapes]
    assert store.batch_put_tensor(keys, tensors) == [0] * len(shapes)
    assert all(map(same, store.batch_get_tensor(keys), tensors))


def test_a_transposed_tensor(store: Any, key: str) -> None:
    assert store.put_tensor(key, sample().T) == 0
    assert store.get(key) == objects_of("transposed")["k"]


def test_put_leaves_what_is_there_and_upsert_replaces_it(store: Any, key: str) -> None:
    assert store.put_tensor(key, sample()) == 0
    assert store.put_tensor(key, sample() + 1) == 0
    assert same(store.get_tensor(key), sample())
    assert store.upsert_tensor(key, sample() + 1) == 0
    assert same(store.get_tensor(key), sample() + 1)


def test_a_tensor_outlives_its_store_and_can_be_written(make_store: Any, shared_pool: Any, key: str) -> None:
    store = make_store(shared_pool)
    tensor = sample((256, 1024), "float32")
    assert store.put_tensor(key, tensor) == 0
    got = store.get_tensor(key)
    assert store.close() == 0
    del store
    gc.collect()
    assert same(got, tensor)
    got += 1
    assert same(got, tensor + 1)


def test_what_is_written_to_a_tensor_stays_out_of_the_store(store: Any, key: str) -> None:
    assert store.put_tensor(key, sample()) == 0
    store.get_tensor(key).zero_()
    assert same(store.get_tensor(key), sample())


def test_errors_stay_with_their_key(store: Any, key: str) -> None:
    keys = [key + "a", key + "b", key + "c"]
    assert store.batch_put_tensor(keys, [sample(), 5, sample()]) == [0, -600, 0]
    got = store.batch_get_tensor(keys)
    assert same(got[0], sample()) and got[1] is None and same(got[2], sample())


def test_lists_of_different_lengths_and_empty_ones(store: Any, key: str) -> None:
    assert store.batch_put_tensor([key, key + "b"], [sample()]) == [-600, -600]
    assert store.batch_put_tensor([], []) == store.batch_get_tensor([]) == []
    assert store.get_tensor(key) is None


@pytest.mark.parametrize("wrong", [3, None, "x", torch.zeros(2, dtype=torch.complex64), torch.zeros((1,) * 9)], ids=str)
def test_what_is_no_tensor_of_the_store_is_a_code(store: Any, key: str, wrong: Any) -> None:
    assert store.put_tensor(key, wrong) == -600
    assert store.is_exist(key) == 0


def test_what_is_not_there_or_no_tensor_reads_as_none(store: Any, key: str, caplog: pytest.LogCaptureFixture) -> None:
    data = object_of(sample())
    for i, wrong in enumerate([b"x", b"x" * 400, data[:-1], data + b"x", data[:304]]):
        assert store.put(f"{key}/{i}", wrong) == 0
        assert store.get_tensor(f"{key}/{i}") is None
    assert store.get_tensor(key + "/missing") is None
    assert "1 bytes are too few for the metadata" in caplog.text
    assert "/missing" not in caplog.text


def test_wrong_arguments_are_type_errors_that_name_them(store: Any, key: str) -> None:
    for name, call in {
        "key": lambda: store.put_tensor(None, sample()),
        "keys": lambda: store.batch_put_tensor("abc", [sample()] * 3),
        r"keys\[1\]": lambda: store.batch_get_tensor([key, 5]),
        "tensor": lambda: store.put_tensor(key),
        "config": lambda: store.put_tensor(key, sample(), config=ReplicateConfig()),
    }.items():
        with pytest.raises(TypeError, match=name):
            call()
    with pytest.raises(TypeError):
        store.pub_tensor(key, sample(), config="x")


def test_prefer_alloc_in_same_node_is_accepted(store: Any, key: str) -> None:
    config = ReplicateConfig()
    config.prefer_alloc_in_same_node = True
    assert store.pub_tensor(key + "a", sample(), config) == 0
    assert store.batch_upsert_pub_tensor([key + "b"], [sample()], config) == [0]
    assert store.pub_tensor_with_tp(key + "c", sample(), config, tp_size=2) == 0
    assert store.put_tensor_with_parallelism(key + "d", sample(), None, config) == 0
    assert store.put(key + "e", b"x", config) == -600


def test_groups_are_for_all_objects_of_a_key(store: Any, key: str) -> None:
    config = ReplicateConfig()
    config.group_ids = ["one", "two"]
    keys = [key + "a", key + "b"]
    assert store.batch_pub_tensor_with_tp(keys, [sample(), sample()], config, tp_size=2) == [0, 0]
    assert store.batch_pub_tensor([key + "c"], [sample()], config) == [-600]


def test_a_store_that_is_not_set_up(key: str) -> None:
    store = MooncakeDistributedStore()
    assert store.put_tensor(key, sample()) == store.put_tensor_with_tp(key, sample(), 0, 2) == -600
    assert store.batch_put_tensor([key, key], [sample(), 5]) == [-600, -600]
    assert store.get_tensor(key) is store.get_tensor_into(key, 1, 2) is None
    assert store.get_tensor_with_parallelism(key) is None
    assert store.batch_get_tensor([key]) == [None]
