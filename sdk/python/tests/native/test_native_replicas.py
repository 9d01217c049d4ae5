"""Replicas: how the answer of the library becomes objects."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import sysconfig
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def fields(replica: Any) -> tuple[int, int, int, str, bool]:
    return replica._status, replica._size, replica._address, replica._endpoint, replica._tier


def test_replicas_by_key(native: ModuleType, recorded: Callable[[], str]) -> None:
    class Kind(native.Replica):
        __slots__ = ()

    found = native.store_replicas(1, ["a", b"b", "c\N{SNOWMAN}"], Kind)
    assert recorded() == "store_replicas 1 keys=[a,b,c\N{SNOWMAN}]"
    assert {k: [fields(r) for r in v] for k, v in found.items()} == {
        "b": [(3, (1 << 63) + 1, 0, "é0", False)],
        "c\N{SNOWMAN}": [(3, (1 << 63) + 2, 0, "é0", False), (3, (1 << 63) + 2, 1, "e1", True)],
    }
    assert all(type(r) is Kind for v in found.values() for r in v)
    assert native.store_replicas(1, ["a"], Kind) == {}
    assert native.store_replicas(1, [], Kind) == {}
    assert list(native.store_replicas(1, ("x", "k", "k"), Kind)) == ["k"]


def test_replicas_that_cannot_be(native: ModuleType) -> None:
    for kind in (object, int, 7, native.BufferHandle):
        with pytest.raises(TypeError, match="kind: expected a class derived from Replica"):
            native.store_replicas(1, ["a"], kind)
    for keys, words in (
        ("a", "keys: expected a list, got str"),
        (["a", 7], r"keys\[1\]: expected str or bytes, got int"),
        ([b"a", "b", b"\xff"], r"keys\[2\]: expected text that has a UTF-8 form"),
        (["\ud800"], r"keys\[0\]: a str that has no UTF-8 form"),
    ):
        with pytest.raises(TypeError, match=words):
            native.store_replicas(1, keys, native.Replica)
    with pytest.raises(MemoryError):
        native.store_replicas(1, ["none", "b"], native.Replica)


def test_a_replica_without_numbers(native: ModuleType) -> None:
    empty = native.Replica.__new__(native.Replica)
    assert (empty._status, empty._size, empty._address, empty._tier) == (0, 0, 0, False)
    with pytest.raises(AttributeError):
        empty._endpoint  # noqa: B018
    empty._size = (1 << 64) - 1
    assert empty._size == (1 << 64) - 1


def test_replicas_leave_nothing(native: ModuleType) -> None:
    class Kind(native.Replica):
        __slots__ = ()

    key = "k" * 40
    before = sys.getrefcount(Kind), sys.getrefcount(key)
    found = [native.store_replicas(1, ["a", key, key], Kind) for _ in range(100)]
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # which does not count the references to a class
        assert sys.getrefcount(Kind) > before[0]
    del found
    assert (sys.getrefcount(Kind), sys.getrefcount(key)) == before


def test_a_derived_class_may_have_more(native: ModuleType) -> None:
    class Kind(native.Replica):
        pass

    found = native.store_replicas(1, ["a", "b"], Kind)["b"][0]
    found.more = [found]
    del found
    assert gc.collect() > 0


def test_copies(native: ModuleType) -> None:
    from mooncake.store import ReplicaDescriptor

    made = ReplicaDescriptor.__new__(ReplicaDescriptor)
    made.__setstate__((3, 1 << 63, 5, "h:1", True))
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(again) is ReplicaDescriptor
        assert fields(again) == (3, 1 << 63, 5, "h:1", True)
        assert repr(again) == "<ReplicaDescriptor: local disk, COMPLETE>"
