"""Several threads of one interpreter: none stalls another."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from memory import Memory
from processes import Master

from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.store import MooncakeDistributedStore, bind_to_numa_node

LONGEST_CALL_S = 120


def test_a_counting_thread_goes_on_during_a_large_get(pool: Master, make_store) -> None:
    store = make_store(pool)
    memory = Memory(32 << 20).register(store)
    assert store.put_from("k", memory.ptr, memory.size) == 0
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        while not counted[0]:
            pass
        during = 0
        for _ in range(5):
            before = counted[0]
            assert store.get_into("k", memory.ptr, memory.size) == memory.size
            during += counted[0] - before
    finally:
        stop.set()
        thread.join()
    # With the GIL held it would count while this thread is between two calls only: a few hundred times each.
    assert during > 20_000, during


class Asked(NamedTuple):
    """What a call is made with."""

    at: int
    master: str


BLOCKED: dict[str, Callable[[MooncakeDistributedStore, Asked], Any]] = {
    "is_exist": lambda s, _: s.is_exist("k"),
    "batch_is_exist": lambda s, _: s.batch_is_exist(["k", "l"]),
    "get_size": lambda s, _: s.get_size("k"),
    "batch_get_replica_desc": lambda s, _: s.batch_get_replica_desc(["k", "l"]),
    "batch_replica_clear": lambda s, _: s.batch_replica_clear(["l"]),
    "put": lambda s, _: s.put("new", b"x"),
    "put_batch": lambda s, _: s.put_batch(["new", "newer"], [b"x", b"y"]),
    "batch_put_from": lambda s, a: s.batch_put_from(["new", "newer"], [a.at, a.at], [8, 8]),
    "get": lambda s, _: s.get("k"),
    "get_batch": lambda s, _: s.get_batch(["k", "l"]),
    "batch_get_buffer": lambda s, _: s.batch_get_buffer(["k", "l"]),
    "batch_get_into": lambda s, a: s.batch_get_into(["k", "l"], [a.at, a.at], [8, 8]),
    "batch_put_session_start": lambda s, _: s.batch_put_session_start(["new"], [8]),
    "remove": lambda s, _: s.remove("l"),
    "batch_remove": lambda s, _: s.batch_remove(["l"]),
    "remove_by_regex": lambda s, _: s.remove_by_regex("^l$"),
    "health_check": lambda s, _: s.health_check(),
    "query_task": lambda s, _: s.query_task((1, 2)),
    "close": lambda s, _: s.close(),
    "setup": lambda s, a: MooncakeDistributedStore().setup(
        "127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", a.master, max_wait_time=0
    ),
    "the end of a store": lambda s, _: s.__del__(),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_another_thread_runs_while_the_master_is_frozen(pool: Master, make_store, name: str) -> None:
    # Memory of its own: the end of such a store asks the master.
    store = make_store(pool, 16 << 20)
    memory = Memory(1 << 16).register(store)
    assert store.put_batch(["k", "l"], [b"k" * 8, b"l" * 8]) == 0
    begun, ended = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        BLOCKED[name](store, Asked(memory.ptr, pool.rpc))
        ended.set()

    thread = threading.Thread(target=call)
    pool.process.freeze()
    try:
        thread.start()
        begun.wait()
        for _ in range(1000):
            time.sleep(0)  # gives the lock of the interpreter away, where there is one
        assert not ended.is_set(), "the call kept this thread from running"
    finally:
        pool.process.signal(signal.SIGCONT)
        thread.join(LONGEST_CALL_S)
    assert ended.is_set()


def test_setup_lets_other_threads_run() -> None:
    """setup waits for a master that is another thread of this interpreter, and hangs up."""
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        asked, answered = threading.Event(), threading.Event()

        def answer() -> None:
            connection, _ = listening.accept()
            asked.set()
            connection.close()
            listening.close()
            answered.set()

        thread = threading.Thread(target=answer)
        thread.start()
        store = MooncakeDistributedStore()
        port = listening.getsockname()[1]
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", f"127.0.0.1:{port}", max_wait_time=1) < 0
        assert asked.is_set()
        thread.join(30)
        assert answered.is_set()


def test_many_threads_one_store(pool: Master, make_store) -> None:
    store = make_store(pool)
    failures: list[str] = []

    def work(n: int) -> None:
        memory = Memory(1 << 16).register(store)
        for i in range(30):
            key, value = f"t{n}/{i}", os.urandom(1000)
            memory[0:1000] = value
            steps = (
                store.put_from(key, memory.ptr, 1000) == 0,
                store.is_exist(key) == 1,
                store.get(key) == value,
                store.batch_get_into([key, key + "no"], [memory.ptr + 2000, memory.ptr], [1000, 1000]) == [1000, -704],
                memory[2000:3000] == value,
                store.remove(key, force=True) == 0,
            )
            if not all(steps):
                failures.append(f"{key}: {steps} {store.last_error()}")
        if store.unregister_buffer(memory.ptr) != 0:
            failures.append("unregister")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_async_twins_of_every_method(pool: Master) -> None:
    async def main() -> None:
        store = MooncakeDistributedStoreAsync()
        assert await store.async_setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", pool.rpc) == 0
        assert await asyncio.gather(*(store.async_put(f"k{i}", bytes([i]) * 10) for i in range(20))) == [0] * 20
        assert await store.async_get_batch([f"k{i}" for i in range(20)]) == [bytes([i]) * 10 for i in range(20)]
        assert await store.async_remove(key="k1", force=True) == 0
        assert await store.async_is_exist("k1") == 0
        assert store.get("k2") == bytes([2]) * 10, "it is a store as well"
        assert store.async_put is store.async_put, "made once"
        assert asyncio.iscoroutinefunction(store.async_put_tensor_with_tp)
        assert "put(key" in store.async_put.__doc__
        with pytest.raises(TypeError, match="key"):
            await store.async_get(None)
        for name in ("async_no_such", "async_", "no_such", "async__handle"):
            with pytest.raises(AttributeError, match=name):
                getattr(store, name)
        assert await store.async_close() == 0

    asyncio.run(main())


def test_the_event_loop_goes_on_during_a_call(pool: Master) -> None:
    async def main() -> None:
        store = MooncakeDistributedStoreAsync()
        assert await store.async_setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", pool.rpc) == 0
        memory = Memory(32 << 20).register(store)
        assert await store.async_put_from("k", memory.ptr, memory.size) == 0
        get = asyncio.ensure_future(store.async_get_into("k", memory.ptr, memory.size))
        turns = 0
        while not get.done():
            turns += 1
            await asyncio.sleep(0)
        assert get.result() == memory.size
        assert turns > 1
        assert store.close() == 0

    asyncio.run(main())


def cpus_of(node: int) -> set[int]:
    """The CPUs of a NUMA node, none where it or all of them are missing."""
    found = set()
    for cpu in Path(f"/sys/devices/system/node/node{node}").glob("cpu[0-9]*"):
        found.add(int(cpu.name.removeprefix("cpu")))
    return found


def test_numa_binding() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        if allowed & cpus_of(0):
            bind_to_numa_node(0)
            assert os.sched_getaffinity(0) <= cpus_of(0)
        with pytest.warns(RuntimeWarning, match="12345"):
            bind_to_numa_node(node=12345)
        with pytest.raises(TypeError, match="node"):
            bind_to_numa_node(-1)
    finally:
        os.sched_setaffinity(0, allowed)
