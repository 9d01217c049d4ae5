"""Objects that were read: bytes, and BufferHandle."""

from __future__ import annotations

import ctypes
import gc
import json
from types import ModuleType

import pytest


def held(native: ModuleType) -> int:
    return json.loads(native.store_control(1, "held", ""))[2]


def test_bytes(native: ModuleType) -> None:
    assert native.store_get(1, "value") == b"value"
    assert native.store_get(1, b"miss") == b""
    assert native.store_get(1, "empty") == b""
    assert native.store_get(1, "big:1000000") == b"b" * 1_000_000
    assert native.store_get_batch(1, ["a", "miss", "big:70000"]) == [b"a", b"", b"b" * 70000]
    assert native.store_get_batch(1, []) == []


def test_handles(native: ModuleType) -> None:
    got = native.store_get_buffers(1, ["value", "miss", "empty"])
    assert held(native) == 2
    value, miss, empty = got
    assert miss is None
    assert type(value) is native.BufferHandle
    assert (len(value), value.size(), bytes(value)) == (5, 5, b"value")
    assert ctypes.string_at(value.ptr(), 5) == b"value"
    assert (len(empty), empty.size(), bytes(empty)) == (0, 0, b"")
    assert repr(value) == "<BufferHandle of 5 bytes>"
    del got, value, empty
    assert held(native) == 0
    assert native.store_get_buffers(1, []) == []


def test_the_memory_stays_while_anything_refers_to_it(native: ModuleType) -> None:
    (handle,) = native.store_get_buffers(1, ["big:100000"])
    view = memoryview(handle)[10:20]
    del handle
    native.store_free(1)
    gc.collect()
    assert held(native) == 1
    assert bytes(view) == b"b" * 10
    del view
    assert held(native) == 0


def test_the_form_of_the_buffer(native: ModuleType) -> None:
    (handle,) = native.store_get_buffers(1, ["value"])
    view = memoryview(handle)
    assert (view.format, view.itemsize, view.ndim, view.shape, view.strides, view.nbytes) == ("B", 1, 1, (5,), (1,), 5)
    assert not view.readonly  # as upstream's; torch.frombuffer warns else
    view[0] = ord("V")
    assert bytes(handle) == b"Value"
    assert bytearray(handle).upper() == b"VALUE"


def test_memory_that_must_not_be_written_to_is_copied(native: ModuleType) -> None:
    (handle,) = native.store_get_buffers(1, ["lent"])
    assert held(native) == 0  # given back at once
    view = memoryview(handle)
    assert not view.readonly
    view[0] = ord("L")
    assert bytes(handle) == b"Lent"
    assert native.store_get(1, "lent") == b"lent"
    assert held(native) == 0


def test_numpy_takes_it_without_a_copy(native: ModuleType) -> None:
    np = pytest.importorskip("numpy")
    (handle,) = native.store_get_buffers(1, ["12345678"])
    array = np.frombuffer(handle, dtype=np.uint32, offset=4)
    assert array.tobytes() == b"5678"
    assert np.asarray(handle).ctypes.data == handle.ptr()
    del handle
    assert held(native) == 1
    assert array.tobytes() == b"5678"
    del array


def test_handles_come_from_reading_only(native: ModuleType) -> None:
    with pytest.raises(TypeError):
        native.BufferHandle()
    with pytest.raises(TypeError):
        native.BufferHandle.__new__(native.BufferHandle)


def test_a_handle_can_be_put(native: ModuleType) -> None:
    (handle,) = native.store_get_buffers(1, ["\1\2\3"])
    how = (1, 0, 0, 0, None, False, False, 0, None, [])
    assert native.store_put_parts(1, "k", handle, how, 0) == 0
    assert native.last_error(1).endswith("bytes=6")
