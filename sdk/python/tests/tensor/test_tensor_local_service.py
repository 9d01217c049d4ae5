"""Tensors of a process that uses the mooncake_client of its host, whose memory it shares."""

from __future__ import annotations

from typing import Any

import pytest
from tensor_golden import objects_of
from tensor_requests import target, tp
from tensor_torch import object_of, same, sample

from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator


@pytest.fixture
def dummy(master: Any, processes: Any) -> Any:
    service = processes.local_service(master, "64MB")
    store = MooncakeDistributedStore()
    assert store.setup_dummy(16 << 20, 16 << 20, service.address) == 0, store.last_error()
    yield store
    assert store.close() == 0


def test_tensors_of_memory_that_is_not_shared(dummy: Any) -> None:
    large = sample((512, 2048), "float32")
    assert dummy.batch_put_tensor(["a", "large"], [sample(), large]) == [0, 0]
    assert dummy.get("a") == objects_of("plain")["k"]
    got = dummy.batch_get_tensor(["a", "large", "missing"])
    assert same(got[0], sample()) and same(got[1], large) and got[2] is None
    got[1].zero_()
    assert same(dummy.get_tensor("large"), large)


def test_parts_without_ranges_of_unshared_memory(dummy: Any) -> None:
    tensor = sample((64, 4096), "int16")
    assert dummy.put_tensor_with_tp("k", tensor, 0, 2, 1) == 0
    assert same(dummy.get_tensor_with_parallelism("k", target("shard", tp(5, 8, 1))), tensor.chunk(8, 1)[5])
    assert same(dummy.get_tensor_with_parallelism("k", target("full", tp(0, 8, 1))), tensor)


def test_tensors_in_shared_memory(dummy: Any) -> None:
    import ctypes

    allocator = MooncakeHostMemAllocator()
    size = 2 << 20
    ptr = allocator.alloc(size)
    assert dummy.register_buffer(ptr, size) == 0
    data = object_of(sample())
    ctypes.memmove(ptr, data, len(data))
    assert dummy.put_tensor_from("k", ptr, len(data)) == 0
    assert same(dummy.get_tensor_into("k", ptr, size), sample())
    assert dummy.unregister_buffer(ptr) == 0
    assert allocator.free(ptr) == 0
