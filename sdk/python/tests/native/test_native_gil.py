"""No call keeps other threads of the interpreter from running while it waits."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import test_native_calls

COUNT = 10_000
BUFFERS = ["a", "miss", "lent"]

# One call of each function, and the ends of objects.
WAITING: dict[str, Callable[[ModuleType], Any]] = {
    "last_error": lambda m: m.last_error(1),
    "store_new": lambda m: m.store_new(),
    "engine_new": lambda m: m.engine_new(),
    "store_get": lambda m: m.store_get(1, "a"),
    "store_get_batch": lambda m: m.store_get_batch(1, BUFFERS),
    "store_get_buffers": lambda m: m.store_get_buffers(1, BUFFERS),
    "store_replicas": lambda m: m.store_replicas(1, BUFFERS, m.Replica),
    "host_free": lambda m: m.host_free(0),
    "alloc_func": lambda m: ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(m.alloc_func_addr())(0),
    "free_func": lambda m: ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(m.free_func_addr())(None),
}
for _call, _, _record in test_native_calls.CALLS:
    WAITING.setdefault(_record.split()[0], _call)


class Hold:
    """Makes calls of the recording library wait."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self.came, self.inside = self._library.fake_came, self._library.fake_inside
        self.came.restype = self.inside.restype = ctypes.c_long

    def set(self, on: bool) -> None:
        self._library.fake_hold(int(on))


@pytest.fixture
def hold(native: ModuleType) -> Iterator[Hold]:
    native.store_exist(1, [])  # loads the library
    hold = Hold(native.library())
    yield hold
    hold.set(False)


def runs_beside(hold: Hold, call: Callable[[Any], Any], prepare: Callable[[], Any] = lambda: None) -> None:
    """Fails unless this thread counts while call is in the library. call gets what prepare answers in the same thread."""
    prepared, go = threading.Event(), threading.Event()

    def run() -> None:
        what = prepare()
        prepared.set()
        go.wait()
        call(what)

    thread = threading.Thread(target=run)
    thread.start()
    prepared.wait()
    before = hold.came()
    hold.set(True)
    try:
        go.set()
        while hold.came() == before and thread.is_alive():
            pass
        counted = 0
        while counted < COUNT:
            counted += 1
        assert hold.inside() == 1, "the call had ended before another thread ran"
    finally:
        hold.set(False)
        thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("name", WAITING)
def test_another_thread_runs_while_a_call_waits(native: ModuleType, hold: Hold, name: str) -> None:
    runs_beside(hold, lambda _: WAITING[name](native))


def test_another_thread_runs_while_an_object_ends(native: ModuleType, hold: Hold) -> None:
    # Without the GIL, an object of another thread would end there.
    runs_beside(hold, list.clear, lambda: native.store_get_buffers(1, ["a"]))


def test_every_function_of_the_library_is_among_them(native: ModuleType) -> None:
    """A function that does not wait is named here."""
    at_once = {"library", "loaded", "memory_read", "memory_write", "alloc_func_addr", "free_func_addr"}
    names = {n for n in dir(native) if callable(getattr(native, n)) and not n.startswith("__") and n[0].islower()}
    same = {
        "store_put_parts": "store_put", "store_put_values": "store_put", "store_put_from": "store_put",
        "store_put_from_rows": "store_put", "store_get_into_rows": "store_get_into",
    }  # fmt: skip
    assert {same.get(n, n) for n in names} - at_once == WAITING.keys() - {"alloc_func", "free_func"}


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this CPython always has the GIL")
def test_the_extension_leaves_the_gil_off(script: Callable[..., str]) -> None:
    out = script("native = load(folder, name); print(sys._is_gil_enabled(), native.store_exist(1, ['a']))")
    assert out == "False [0]\n", sys.version
