"""The master or a node dies while calls are in progress."""

import threading
import time

from memory import Memory
from processes import Master

from mooncake.store import MooncakeDistributedStore

BOUND_S = 100.0


def bounded(call, *args):
    """The outcome of a call, which must end in time."""
    began = time.monotonic()
    result = call(*args)
    assert time.monotonic() - began < BOUND_S
    return result


def test_kill_of_the_master(pool: Master, make_store) -> None:
    store = make_store(pool)
    memory = Memory(4096).register(store)
    assert store.put("k", b"x") == 0
    assert store.health_check() == 0
    pool.kill()
    assert bounded(store.health_check) == 2
    assert bounded(store.put, "k2", b"x") < 0
    assert bounded(store.get, "k2") == b""
    assert bounded(store.batch_put_from, ["a", "b"], [memory.ptr] * 2, [10, 10])[0] < 0
    assert all(code < 0 for code in bounded(store.batch_get_into, ["a", "b"], [memory.ptr] * 2, [10, 10]))
    assert bounded(store.is_exist, "k2") <= 0
    assert store.last_error()
    assert bounded(store.remove_all) < 0
    assert bounded(store.close) is not None


def test_a_master_that_comes_back_is_used_again(master: Master, make_store) -> None:
    store = make_store(master, segment=16 << 20)
    assert store.put("k", b"x") == 0
    master.kill()
    assert bounded(store.put, "k2", b"x") < 0
    master.restart()
    deadline = time.monotonic() + BOUND_S
    while store.put("k3", b"y") != 0:  # the node mounts again by itself
        assert time.monotonic() < deadline, store.last_error()
        threading.Event().wait(0.05)
    assert store.get("k3") == b"y"


def test_kill_of_the_master_during_calls(pool: Master, make_store) -> None:
    store = make_store(pool)
    memory = Memory(1 << 20).register(store)
    codes: list[int] = []
    first = threading.Event()

    def work() -> None:
        while not codes or codes[-1] == 0:
            codes.append(store.put_from(f"k{len(codes) % 20}", memory.ptr, memory.size))
            first.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert first.wait(30)
    pool.kill()
    thread.join(BOUND_S)
    assert not thread.is_alive()
    assert codes[-1] < 0


def test_kill_of_the_node_that_has_the_object(master: Master, processes, make_store) -> None:
    node = processes.node(master)
    store = make_store(master)
    memory = Memory(8 << 20).register(store)
    assert store.put_from("k", memory.ptr, memory.size) == 0
    memory.fill(7)
    node.kill()
    assert bounded(store.get_into, "k", memory.ptr, memory.size) < 0
    assert bounded(store.get, "k") == b""
    assert bounded(store.put_from, "k2", memory.ptr, memory.size) < 0
    assert store.health_check() == 0
    processes.node(master)
    deadline = time.monotonic() + BOUND_S
    while store.put_from("k3", memory.ptr, memory.size) != 0:  # until the master gives the dead node up
        assert time.monotonic() < deadline, store.last_error()
        threading.Event().wait(0.05)
    assert store.get_into("k3", memory.ptr, memory.size) == memory.size


def test_close_while_calls_are_under_way(pool: Master, make_store) -> None:
    store = make_store(pool)
    memory = Memory(4 << 20).register(store)
    assert store.put_from("k", memory.ptr, memory.size) == 0
    started, ended = threading.Barrier(3), []

    def read() -> None:
        started.wait(30)
        while store.get_into("k", memory.ptr, memory.size) > 0:
            pass
        ended.append(True)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for t in threads:
        t.start()
    started.wait(30)
    assert bounded(store.close) == 0
    for t in threads:
        t.join(BOUND_S)
    assert ended == [True, True]


def test_many_stores_leave_nothing(pool: Master) -> None:
    import os

    def round_trip() -> None:
        store = MooncakeDistributedStore()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 1 << 20, "tcp", "", pool.rpc) == 0
        assert store.put("k", b"x") == 0
        assert store.close() == 0

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    round_trip()
    before = descriptors()
    for _ in range(10):
        round_trip()
    deadline = time.monotonic() + 30
    while descriptors() > before + 2:  # the other ends close in their own time
        assert time.monotonic() < deadline, f"{before} descriptors, now {descriptors()}"
        threading.Event().wait(0.05)
