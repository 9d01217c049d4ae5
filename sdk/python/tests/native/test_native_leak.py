"""Memory does not grow, on any way out of a call."""

from __future__ import annotations

import gc
import sys
import sysconfig
import tracemalloc
from collections.abc import Callable
from types import ModuleType

import pytest
import test_native_calls
import test_native_convert

WARM = 30  # rounds until the interpreter has specialized what it runs
ROUNDS = 1500  # of a table of calls: more than 100,000 that are refused


def traced(call: Callable[[], object], rounds: int) -> int:
    """How many more bytes are held after many calls than after few."""
    tracemalloc.start()
    try:
        for _ in range(WARM):
            call()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(rounds):
            call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def refused(call: Callable[..., object], *args: object) -> None:
    try:
        call(*args)
    except (TypeError, KeyError, ValueError):
        return
    raise AssertionError("was taken")


def wrong(native: ModuleType) -> None:
    for _, call in test_native_convert.WRONG:
        refused(call, native)


def right(native: ModuleType) -> None:
    for call, _, _ in test_native_calls.CALLS:
        call(native)


def mismatched(native: ModuleType) -> None:
    for call, _ in test_native_calls.MISMATCHED:
        call(native)


def read(native: ModuleType) -> None:
    native.store_get(1, "big:100000")
    native.store_get_batch(1, ["a", "miss"])
    for handle in native.store_get_buffers(1, ["a", "miss", "big:70000"]):
        if handle:
            memoryview(handle)[:1].tobytes()
    native.host_free(native.host_alloc(100))
    for e in (2, 3):
        refused(native.engine_notifies, e)


def long(native: ModuleType) -> None:
    """Arguments that do not fit on the stack."""
    keys, numbers, none = ["key"] * 500, [1] * 500, [1] * 499 + [None]
    native.store_exist(1, keys)
    native.store_get_into(1, keys, numbers, numbers)
    native.store_get_into(1, keys, numbers, numbers[1:])
    refused(native.store_get_into, 1, keys, numbers, none)
    refused(native.store_exist, 1, none)


@pytest.mark.parametrize("calls", [wrong, right, mismatched, read, long])
def test_no_memory_is_kept(native: ModuleType, calls: Callable[[ModuleType], None]) -> None:
    # One leaked object or block a round would be more than 16 bytes each.
    rounds = ROUNDS // 10 if calls is long else ROUNDS
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # CPython keeps some memory of the first calls without a GIL.
        traced(lambda: calls(native), rounds)
    assert traced(lambda: calls(native), rounds) < 16 * rounds


def test_no_reference_is_kept(native: ModuleType) -> None:
    """Objects that are passed have as many references after the calls as before."""
    how, keys, ptrs = test_native_calls.HOW, ["k"], [object()]
    number, text, data = 2**40, "text" * 5, bytearray(10)
    objects = [how, keys, ptrs, ptrs[0], number, text, data, None, True, native.BufferHandle]
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(500):
        native.store_put_parts(number, text, data, how, 0)
        native.store_put_values(number, keys, [data], how, 0)
        native.store_register(number, number, number)
        native.store_get_buffers(number, ["miss", text])
        for wrong in (ptrs, None, data):
            refused(native.store_put_from_rows, number, [text, wrong], [[number]], [[number]], how, True)
            refused(native.store_get_ranges, number, [number], [[text]], [[[number, ptrs[0]]]], wrong, None)
    after = [sys.getrefcount(o) for o in objects]
    # None and True are everywhere: a few more or less say nothing, one each call would.
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True)), (before, after)
