"""What each function passes to the library, and how it answers."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

HOW = (1, 0, 0, 0, None, False, False, 0, None, [])
HOW_TEXT = "how=1,0,0,0,0:0,0,0,0 segments=[]"

CALLS: list[tuple[Callable[[ModuleType], Any], Any, str]] = [
    (lambda m: m.store_setup(1, '{"a":"b"}', True, 5), -600, 'store_setup 1 settings={"a":"b"} positional=1 engine=5'),
    (lambda m: m.store_setup_dummy(1, 2, 3, "h:1"), -1, "store_setup_dummy 1 2 3 address=h:1"),
    (lambda m: m.store_close(3), 0, "store_close 3"),
    (lambda m: m.store_is_setup(3), True, "store_is_setup 3"),
    (lambda m: m.store_is_setup(4), False, "store_is_setup 4"),
    (lambda m: m.store_health(3), 2, "store_health 3"),
    (lambda m: m.store_hostname(3), "localhost:12300", "store_hostname 3"),
    (lambda m: m.store_hostname(4), "", "store_hostname 4"),
    (lambda m: m.store_free(2**70), None, "store_free 0"),
    (lambda m: m.store_register(1, 2, 3), 0, "store_register 1 2 3"),
    (lambda m: m.store_unregister(1, 2), -600, "store_unregister 1 2"),
    (
        lambda m: m.store_put_parts(1, "k", b"\1\2", HOW, 1),
        0,
        f"store_put 1 keys=[k] sizes=[2] rows=[0,1] flags=1 {HOW_TEXT} bytes=3",
    ),
    (
        lambda m: m.store_put_parts(1, b"k", [b"\1", bytearray(b"\2\3")], HOW, 0),
        0,
        f"store_put 1 keys=[k] sizes=[1,2] rows=[0,2] flags=0 {HOW_TEXT} bytes=1,5",
    ),
    (
        lambda m: m.store_put_parts(1, "", (), HOW, 0),
        0,
        f"store_put 1 keys=[] sizes=[] rows=[0,0] flags=0 {HOW_TEXT} bytes=",
    ),
    (lambda m: m.store_put_values(1, [], [], HOW, 0), [], f"store_put 1 keys=[] sizes=[] flags=0 {HOW_TEXT} bytes="),
    (
        lambda m: m.store_put_from(1, ["a", "b"], [7, 8], [9, 10], HOW, 2),
        [0, -1],
        f"store_put 1 keys=[a,b] sizes=[9,10] flags=2 {HOW_TEXT} bytes=@7,@8",
    ),
    (
        lambda m: m.store_put_from_rows(1, ["a", "b", "c"], [[7], [], (8, 9)], [[1], [], [2, 3]], HOW, 0),
        [0, -1, -2],
        f"store_put 1 keys=[a,b,c] sizes=[1,2,3] rows=[0,1,1,3] flags=0 {HOW_TEXT} bytes=@7,@8,@9",
    ),
    (lambda m: m.store_get_into(1, [], [], []), [], "store_get_into 1 keys=[] ptrs=[] sizes=[]"),
    (
        lambda m: m.store_get_into_rows(1, ["a"], [[1, 2]], [[3, 4]]),
        [0],
        "store_get_into 1 keys=[a] ptrs=[1,2] sizes=[3,4] rows=[0,2]",
    ),
    (lambda m: m.store_get_into_rows(1, [], [], []), [], "store_get_into 1 keys=[] ptrs=[] sizes=[] rows=[0]"),
    (
        lambda m: m.store_get_ranges(
            1, [1, 2], [["a", "b"], ["c"]], [[[1, 2], []], [[3]]], [[[4, 5], []], [[6]]], [[[7, 8], []], [[9]]]
        ),
        [[[0, 1], []], [[2]]],
        (
            "store_get_ranges 1 buffers=[1,2] key_rows=[0,2,3] keys=[a,b,c] "
            "frag_rows=[0,2,2,3] dst=[1,2,3] src=[4,5,6] sizes=[7,8,9]"
        ),
    ),
    (
        lambda m: m.store_get_ranges(1, [], [], [], [], []),
        [],
        "store_get_ranges 1 buffers=[] key_rows=[0] keys=[] frag_rows=[0] dst=[] src=[] sizes=[]",
    ),
    (lambda m: m.store_exist(1, ("a", "b")), [0, 1], "store_exist 1 keys=[a,b]"),
    (lambda m: m.store_exist(1, []), [], "store_exist 1 keys=[]"),
    (lambda m: m.store_size(1, ["a", "b"]), [-704, -703], "store_size 1 keys=[a,b]"),
    (lambda m: m.store_remove(1, ["a"], False), [-706], "store_remove 1 keys=[a] force=0"),
    (lambda m: m.store_clear_replicas(1, ["a", b"b"], ""), ["b"], "store_clear_replicas 1 keys=[a,b] segment="),
    (lambda m: m.store_remove_regex(1, "^a", True), 3, "store_remove_regex 1 expr=^a force=1"),
    (lambda m: m.store_remove_all(1, True), 1 << 40, "store_remove_all 1 force=1"),
    (lambda m: m.store_get_session_start(1, ["a"]), [0], "store_get_session_start 1 keys=[a]"),
    (
        lambda m: m.store_get_session_ranges(1, ["a"], [[1]], [[2]], [[3]]),
        [100],
        "store_get_session_ranges 1 keys=[a] ptrs=[1] sizes=[2] rows=[0,1] offsets=[3]",
    ),
    (lambda m: m.store_get_session_end(1, ["a"]), 0, "store_get_session_end 1 keys=[a]"),
    (
        lambda m: m.store_put_session_start(1, ["a"], [5], HOW),
        [0],
        f"store_put_session_start 1 keys=[a] sizes=[5] {HOW_TEXT}",
    ),
    (
        lambda m: m.store_put_session_ranges(1, ["a", "b"], [[1], [2]], [[3], [4]], [[5], [6]]),
        [100, 101],
        "store_put_session_ranges 1 keys=[a,b] ptrs=[1,2] sizes=[3,4] rows=[0,1,2] offsets=[5,6]",
    ),
    (lambda m: m.store_put_session_end(1, ["a"]), [-800], "store_put_session_end 1 keys=[a]"),
    (lambda m: m.store_put_session_revoke(1, ["a"]), [-1], "store_put_session_revoke 1 keys=[a]"),
    (lambda m: m.store_control(1, "rare", "{}"), '{"code":0}', "store_control 1 method=rare args={}"),
    (lambda m: m.host_alloc(0), 0, "host_alloc 0 0"),
    (lambda m: m.engine_initialize(1, "{}"), 0, "engine_initialize 1 settings={}"),
    (lambda m: m.engine_free(1), None, "engine_free 1"),
    (lambda m: m.engine_rpc_port(1), 12345, "engine_rpc_port 1"),
    (lambda m: m.engine_register(1, [1], [2], "*"), 0, "engine_register 1 ptrs=[1] sizes=[2] location=*"),
    (lambda m: m.engine_unregister(1, [1]), 0, "engine_unregister 1 ptrs=[1]"),
    (
        lambda m: m.engine_transfer(1, "h:1", 1, [1], [2], [3], None),
        0,
        "engine_transfer 1 target=h:1 opcode=1 ptrs=[1] addrs=[2] sizes=[3] notify=[]",
    ),
    (
        lambda m: m.engine_transfer(1, b"h", 0, [], [], [], ("n", b"m")),
        0,
        "engine_transfer 1 target=h opcode=0 ptrs=[] addrs=[] sizes=[] notify=[n,m]",
    ),
    (
        lambda m: m.engine_submit(1, "h", 0, [1], [2], [3]),
        2**64 - 1,
        "engine_submit 1 target=h opcode=0 ptrs=[1] addrs=[2] sizes=[3]",
    ),
    (lambda m: m.engine_wait(1, [1, 2]), 0, "engine_wait 1 batches=[1,2]"),
    (lambda m: m.engine_check(1, 2), -2, "engine_check 1 2"),
    (lambda m: m.engine_first_buffer(1, "s"), 1 << 63, "engine_first_buffer 1 segment=s"),
    (lambda m: m.engine_topology(""), "{}", "engine_topology 0 devices="),
    (lambda m: m.engine_notifies(1), [(b"a", "caf\xe9".encode()), (b"b", b"")], "engine_notifies 1"),
    (lambda m: m.engine_notifies(9), [], "engine_notifies 9"),
    (lambda m: m.engine_probe(1, "p"), -1, "engine_probe 1 peer=p"),
    (lambda m: m.engine_alloc(1, 5), 0, "engine_alloc 1 5"),
    (lambda m: m.engine_free_memory(1, 2, 3), 0, "engine_free_memory 1 2 3"),
    (lambda m: m.close_all(), None, "close_all 0"),
]


@pytest.mark.parametrize(
    ("call", "answer", "record"), CALLS, ids=[f"{i}-{c[2].split()[0]}" for i, c in enumerate(CALLS)]
)
def test_passes_and_answers(
    native: ModuleType, recorded: Callable[[], str], call: Callable[[ModuleType], Any], answer: Any, record: str
) -> None:
    got = call(native)
    assert (got, type(got)) == (answer, type(answer))
    assert recorded() == record


def test_handles_are_new(native: ModuleType) -> None:
    assert len({native.store_new(), native.store_new(), native.engine_new()}) == 3


MISMATCHED: list[tuple[Callable[[ModuleType], Any], Any]] = [
    (lambda m: m.store_put_values(1, ["a", "b"], [b""], HOW, 0), [-600, -600]),
    (lambda m: m.store_put_from(1, ["a", "b"], [1], [1, 2], HOW, 0), [-600, -600]),
    (lambda m: m.store_put_from(1, ["a", "b"], [1, 2], [1], HOW, 0), [-600, -600]),
    (lambda m: m.store_put_from(1, ["a"], [1, 2], [1, 2], HOW, 0), [-600]),
    (lambda m: m.store_put_from(1, [], [1], [1], HOW, 0), []),
    (lambda m: m.store_put_from_rows(1, ["a"], [[1, 2]], [[1]], HOW, 0), [-600]),
    (lambda m: m.store_put_from_rows(1, ["a", "b"], [[1], [2, 3]], [[1, 2], [3]], HOW, 0), [-600, -600]),
    (lambda m: m.store_get_into(1, ["a"], [], []), [-600]),
    (lambda m: m.store_get_into_rows(1, ["a", "b"], [[1]], [[1]]), [-600, -600]),
    (lambda m: m.store_get_session_ranges(1, ["a"], [[1]], [[1]], [[]]), [-600]),
    (lambda m: m.store_put_session_ranges(1, ["a"], [[1]], [[1, 2]], [[1]]), [-600]),
    (lambda m: m.store_put_session_start(1, ["a", "b"], [1], HOW), [-600, -600]),
    (lambda m: m.store_get_ranges(1, [1], [["a", "b"]], [[[0], []]], [[[0, 1], []]], [[[], []]]), [[[-600, -600], []]]),
    (lambda m: m.store_get_ranges(1, [1, 2], [["a"]], [[[0]]], [[[0]]], [[[1]]]), [[[-600]], []]),
    (lambda m: m.store_get_ranges(1, [1], [["a"]], [[[0]]], [[[0], [1]]], [[[1]]]), [[[-600], [-600]]]),
    (lambda m: m.engine_register(1, [1], [], "*"), -1),
    (lambda m: m.engine_transfer(1, "h", 0, [1], [2], [], None), -1),
    (lambda m: m.engine_submit(1, "h", 0, [1], [], [1]), 0),
]


@pytest.mark.parametrize(("call", "answer"), MISMATCHED)
def test_lists_that_do_not_fit_are_answered_without_a_call(
    native: ModuleType, recorded: Callable[[], str], call: Callable[[ModuleType], Any], answer: Any
) -> None:
    native.store_exist(1, ["before"])
    assert call(native) == answer
    assert recorded() == "store_exist 1 keys=[before]"


def test_memory_is_written(native: ModuleType) -> None:
    memory = ctypes.create_string_buffer(b"......", 6)
    at = ctypes.addressof(memory)
    native.store_get_into_rows(1, ["a"], [[at + 1, at + 4]], [[2, 1]])
    assert memory.raw == b".xx.x."


def test_answers_that_are_no_answers(native: ModuleType) -> None:
    with pytest.raises(KeyError, match="msg"):
        native.engine_notifies(2)
    with pytest.raises(ValueError, match="Expecting value"):
        native.engine_notifies(3)


def test_a_call_runs_beside_others(native: ModuleType) -> None:
    """Two calls that each wait for a call of this thread: with the GIL none would end."""
    threads = [threading.Thread(target=native.engine_wait, args=(1, [99])) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in threads:
        native.engine_check(1, 99)
    for t in threads:
        t.join(timeout=30)
        assert not t.is_alive()


def test_a_signal_whose_handler_raises_ends_a_setup(native: ModuleType) -> None:
    """The handler runs while the library waits, on the thread that called."""
    calls: list[threading.Thread] = []

    def handle(*_: object) -> None:
        calls.append(threading.current_thread())
        if len(calls) == 2:
            raise ZeroDivisionError

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        for delay in (0.2, 0.4):
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(ZeroDivisionError):
            native.store_setup(1, "wait", False, 0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls == [threading.main_thread()] * 2


def test_buffers_are_released_on_every_way_out(native: ModuleType) -> None:
    data = bytearray(8)
    native.store_put_parts(1, "k", data, HOW, 0)
    data.extend(b"x")  # BufferError while a view of it is held
    with pytest.raises(TypeError):
        native.store_put_parts(1, "k", (data, None), HOW, 0)
    data.extend(b"x")
    with pytest.raises(TypeError):
        native.store_put_parts(1, "k", data, (), 0)
    data.extend(b"x")


def test_functions_for_other_allocators(native: ModuleType) -> None:
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(native.alloc_func_addr())
    free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(native.free_func_addr())
    at = alloc(100)
    assert at
    assert native.memory_read(at, 100) == bytes(100)
    assert free(at) == 0
    assert native.host_free(native.host_alloc(10)) == 0


def test_memory_of_this_process(native: ModuleType) -> None:
    memory = ctypes.create_string_buffer(b"abcdef", 6)
    at = ctypes.addressof(memory)
    assert native.memory_read(at + 1, 3) == b"bcd"
    native.memory_write(at, memoryview(b"XYZ"), 2)
    assert memory.raw == b"XYcdef"
    assert native.memory_read(0, 0) == b""
    native.memory_write(0, b"", 0)
    with pytest.raises(ValueError, match="length: 4 is more than the 3 bytes of data"):
        native.memory_write(at, b"XYZ", 4)
    for addr, n in ((0, 1), (2**64 - 1, 2), (4096, 2**63)):
        with pytest.raises(ValueError, match="addr: there is no memory"):
            native.memory_read(addr, n)
