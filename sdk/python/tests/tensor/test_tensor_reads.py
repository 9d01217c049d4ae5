"""What a ReadTarget gets, whatever way the tensor was written."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensor_requests import axis, parallelism, target, tp
from tensor_torch import Memory, same, sample, torch

from mooncake import _native
from mooncake._tensor import assemble

EP = axis("ep", 1, 4, expert_id=5)


def write(store: Any, key: str, tensor: Any, way: str, size: int, dim: int) -> None:
    """Stores tensor in size parts along dim, as way says."""
    if way == "plain":
        assert store.put_tensor(key, tensor) == 0
    elif way == "all ranks at once":
        assert store.put_tensor_with_tp(key, tensor, 0, size, dim) == 0
    else:
        for rank in range(size):
            own = tensor.chunk(size, dim)[rank] if way == "own parts" else tensor
            layout = {"own parts": [tp(rank, size, dim)], "of an expert": [EP, tp(rank, size, dim)], "writers": None}[
                way
            ]
            writer = tp(rank, size, dim) if layout is None else None
            layout = None if layout is None else parallelism(*layout)
            assert store.put_tensor_with_parallelism(key, own, layout, writer_partition=writer) == 0


WAYS = ["plain", "all ranks at once", "own parts", "of an expert", "writers"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("size", "dim"), [(4, 0), (4, 1), (2, 1)])
def test_any_part_of_what_was_written_in_any_way(store: Any, key: str, way: str, size: int, dim: int) -> None:
    write(store, key, sample(), way, size, dim)
    others = [EP] if way == "of an expert" else []
    for wanted, along in ((1, 0), (2, 0), (4, 0), (2, 1), (4, 1), (8, 1)):
        for rank in range(wanted):
            got = store.get_tensor_with_parallelism(key, target("shard", *others, tp(rank, wanted, along)))
            assert same(got, sample().chunk(wanted, along)[rank]), (wanted, along, rank)
        assert same(store.get_tensor_with_parallelism(key, target("full", *others, tp(0, wanted, along))), sample())
    if not others:
        assert same(store.get_tensor_with_parallelism(key, target("full")), sample())


_names = itertools.count()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_parts_of_parts(store: Any, key: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 4, 6]), min_size=1, max_size=4)))
    dtype = data.draw(st.sampled_from(["uint8", "int16", "float32", "bool", "bfloat16"]))
    tensor = sample(shape, dtype)

    def cut() -> tuple[int, int]:
        dim = data.draw(st.integers(0, len(shape) - 1))
        return data.draw(st.sampled_from([n for n in (1, 2, 3, 4, 6) if shape[dim] % n == 0])), dim

    (size, dim), (wanted, along) = cut(), cut()
    way = data.draw(
        st.sampled_from([w for w in WAYS if w != "of an expert" and (size > 1 or w != "all ranks at once")])
    )
    own_key = f"{key}-{next(_names)}"
    write(store, own_key, tensor, way, size, dim)
    for rank in range(wanted):
        got = store.get_tensor_with_parallelism(own_key, target("shard", tp(rank, wanted, along)))
        assert same(got, tensor.chunk(wanted, along)[rank])
    assert same(store.get_tensor_with_parallelism(own_key, target("full")), tensor)


def test_as_it_is_stored(store: Any, key: str) -> None:
    write(store, key, sample(), "own parts", 4, 0)
    assert store.get_tensor_with_parallelism(key) is store.get_tensor_with_parallelism(key, target("as_stored")) is None
    got = store.get_tensor_with_parallelism(key, target("as_stored", tp(1, 4)))
    assert same(got, sample().chunk(4)[1])
    assert store.get_tensor_with_parallelism(key, target("as_stored", tp(1, 2))) is None
    write(store, key, sample(), "plain", 1, 0)
    assert same(store.get_tensor_with_parallelism(key), sample())
    assert same(store.get_tensor_with_parallelism(key=key, target=target("as_stored")), sample())


def test_without_tp_the_object_of_the_group_is_the_whole(store: Any, key: str) -> None:
    layout = [axis("dp", 1, 2)]
    assert store.put_tensor_with_parallelism(key, sample(), parallelism(*layout)) == 0
    for mode in ("as_stored", "shard", "full"):
        assert same(store.get_tensor_with_parallelism(key, target(mode, *layout)), sample())
        assert store.get_tensor_with_parallelism(key, target(mode, axis("dp", 0, 2))) is None


@pytest.mark.parametrize("way", WAYS[1:])
def test_a_missing_part_is_none_and_spoils_only_what_needs_it(store: Any, key: str, way: str) -> None:
    write(store, key, sample(), way, 4, 0)
    others = [EP] if way == "of an expert" else []
    last = {"of an expert": f"{key}__tp_3of4_sd0__ep_1of4_eid5", "writers": f"{key}__writer_3of4_sd0"}.get(
        way, f"{key}_tp_3"
    )
    assert store.remove(last, True) == 0
    assert store.get_tensor_with_parallelism(key, target("full", *others, tp(0, 4))) is None
    assert store.get_tensor_with_parallelism(key, target("shard", *others, tp(1, 2))) is None
    assert same(store.get_tensor_with_parallelism(key, target("shard", *others, tp(0, 2))), sample().chunk(2)[0])
    assert same(store.get_tensor_with_parallelism(key, target("shard", *others, tp(2, 4))), sample().chunk(4)[2])


def test_a_part_that_is_another_one_is_refused(store: Any, key: str) -> None:
    write(store, key, sample(), "own parts", 2, 0)
    other = sample().to(torch.int32)
    assert store.upsert_tensor_with_parallelism(key, other.chunk(2)[1], parallelism(tp(1, 2))) == 0
    assert store.get_tensor_with_parallelism(key, target("full", tp(0, 2))) is None
    assert store.upsert(key + "_tp_1", b"x" * 400) == 0
    assert store.get_tensor_with_parallelism(key, target("full", tp(0, 2))) is None


def test_requests_that_cannot_be_are_none(store: Any, key: str) -> None:
    write(store, key, sample(), "plain", 1, 0)
    read = store.get_tensor_with_parallelism
    assert (
        read(key, target("shard"))
        is read(key, target("shard", tp(0, 3)))
        is read(key, target("shard", tp(0, 2, 5)))
        is None
    )
    assert read(key, "x") is read(key, target("shard", axis("tp", 0, 2))) is None
    batch = store.batch_get_tensor_with_parallelism
    assert batch([key, key], [None]) == batch([key, key], "ab") == [None, None]
    assert batch([]) == []
    got = batch(keys=[key, key + "x", key], targets=[None, None, target("shard", tp(1, 2))])
    assert same(got[0], sample()) and got[1] is None and same(got[2], sample().chunk(2)[1])


def test_a_manifest_that_lies_harms_nobody(store: Any, key: str) -> None:
    from mooncake._tensor.layout import Manifest

    huge = Manifest(0, (2**40, 2**20), 0, 1)
    endless = Manifest(0, (2**30,), 0, 2**30)
    for i, manifest in enumerate((huge, endless)):
        for name in ("__parallelism_manifest", "__writer_manifest"):
            assert store.put(f"{key}{i}{name}", manifest.pack()) == 0
        assert store.get_tensor_with_parallelism(f"{key}{i}", target("full")) is None
    assert store.put(f"{key}b__writer_manifest", b"x" * 96) == 0
    assert store.put_tensor(f"{key}b", sample()) == 0
    assert same(store.get_tensor_with_parallelism(f"{key}b", target("shard", tp(1, 2))), sample().chunk(2)[1])


class Counted:
    """Bytes that range reads have moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges = self.buffers = 0
        self._read_ranges, self._read_buffers = _native.store_get_ranges, _native.store_get_buffers
        monkeypatch.setattr(_native, "store_get_ranges", self._get_ranges)
        monkeypatch.setattr(_native, "store_get_buffers", self._get_buffers)

    def _get_ranges(self, *args: Any) -> list[list[list[int]]]:
        got = self._read_ranges(*args)
        self.ranges += sum(n for buffer in got for row in buffer for n in row if n > 0)
        return got

    def _get_buffers(self, *args: Any) -> list[Any]:
        got = self._read_buffers(*args)
        self.buffers += sum(h.size() for h in got if h is not None)
        return got


@pytest.mark.parametrize("along", [0, 1])
def test_only_the_bytes_of_the_part_are_read(store: Any, key: str, monkeypatch: pytest.MonkeyPatch, along: int) -> None:
    tensor = sample((64, 4096), "int16")
    write(store, key, tensor, "all ranks at once", 2, along)
    part, wanted = tensor.chunk(8, along)[5], target("shard", tp(5, 8, along))
    size = part.numel() * 2
    memory = Memory(store, 304 + size)
    counted = Counted(monkeypatch)
    # Besides the part itself: the metadata of rank 0, then those of the rank that has the part.
    assert same(store.get_tensor_with_parallelism(key, wanted), part)
    assert (counted.ranges, counted.buffers) == (304 + 304 + size, 0)
    assert same(store.get_tensor_with_parallelism_into(key, memory.ptr, memory.size, wanted), part)
    assert (counted.ranges, counted.buffers) == (2 * (304 + 304 + size), 0)
    memory.close()


def test_memory_that_the_caller_registered_stays_so(store: Any, key: str) -> None:
    tensor = sample((64, 4096), "int16")
    write(store, key, tensor, "all ranks at once", 2, 0)
    memory = Memory(store, 304 + 65536)
    memory.close()
    assert store.register_buffer(memory.ptr + 304, 65536) == 0
    got = store.get_tensor_with_parallelism_into(key, memory.ptr, memory.size, target("shard", tp(5, 8)))
    assert same(got, tensor.chunk(8)[5])
    assert store.unregister_buffer(memory.ptr + 304) == 0


def test_where_ranges_cannot_be_read_whole_parts_are(store: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = sample((64, 4096), "int16")
    write(store, key, tensor, "writers", 2, 0)
    monkeypatch.setattr(_native, "store_register", lambda *_: -1)
    monkeypatch.setattr(_native, "store_get_ranges", lambda handle, ptrs, keys, dst, src, sizes: [
        [[-600] * len(f) for f in row] for row in sizes
    ])  # fmt: skip
    assert same(store.get_tensor_with_parallelism(key, target("shard", tp(5, 8))), tensor.chunk(8)[5])


def test_another_part_behind_ranges_is_refused(store: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "MIN_SAVED", 0)
    write(store, key, sample((8, 64)), "own parts", 2, 0)
    assert same(store.get_tensor_with_parallelism(key, target("shard", tp(3, 4))), sample((8, 64)).chunk(4)[3])
    swapped = parallelism(tp(1, 2, 1))
    assert store.upsert_tensor_with_parallelism(key, sample((4, 64)), swapped) == 0
    assert store.upsert_tensor_with_parallelism(key, sample((4, 64)), parallelism(tp(0, 2, 0))) == 0
    assert store.get_tensor_with_parallelism(key, target("shard", tp(3, 4))) is None
