"""A hundred thousand calls of all kinds leave nothing behind in this process.

LEAK_CALLS in the environment is for more of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest
from enginepeer import Peer, start, take
from leakwatch import Held, Lowest, Watch
from memory import Memory
from processes import Master, free_port

from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

CALLS = int(os.environ.get("LEAK_CALLS", "100000"))
KEYS = 40
SAMPLES = 40  # in the time that is compared, and as many after it
SETTLING = 40  # more samples, a second of rest and some calls before each, for what ends by a timer

MOST = Held(resident=4 << 20, malloc=64 << 10, blocks=400, objects=1500, goroutines=4, threads=20, files=2)
"""What there may be more after 40 % of all calls; half as much as one of anything for each round.

Threads are half as many as one for each of the 40 lives of stores between the two times: Go makes one more whenever the
machine stands still while all of them are in calls, and keeps it. Of the blocks up to 190 are what asking for the
metrics of Go leaves in Python's HTTP client, two for each time."""


@pytest.fixture
def watch(pool: Master, make_store) -> Watch:
    port = free_port()
    make_store(pool, enable_client_http_server=True, client_http_port=port)
    return Watch(f"http://127.0.0.1:{port}/metrics")


def refused(kind: type[Exception], call: Callable[[], object]) -> int:
    with pytest.raises(kind):
        call()
    return 1


def rounds(store: MooncakeDistributedStore, memory: Memory) -> Iterator[int]:
    """Makes calls about one key after the other; each round gives how many it made."""
    nowhere = ReplicateConfig()
    nowhere.preferred_segments = ["no such node"]
    value, at = bytes(2000), memory.ptr
    kept: list[object] = []
    n = 0
    while True:
        key, n = f"leak/{n % KEYS}", n + 1
        assert store.put(key, value, nowhere) == 0
        assert store.get(key) == value
        kept.append(store.get_buffer(key))
        kept.append(memoryview(store.batch_get_buffer([key, "no"])[0]))
        del kept[:-10]
        assert store.get("no") == b"" and "no" in store.last_error()
        assert store.is_exist(key) == 1 and store.batch_is_exist([key, "no"]) == [1, 0]
        assert store.get_size(key) == len(value)
        assert store.batch_get_into([key, "no"], [at, at], [4000, 4000]) == [len(value), -704]
        assert store.get_into(key, at, 10) < 0
        assert store.batch_get_into_multi_buffers([key], [[at, at + 1000]], [[1000, 1000]]) == [len(value)]
        assert store.get_into_ranges([at], [[key]], [[[0]]], [[[5]]], [[[10]]]) == [[[10]]]
        assert store.put_from(key, at, 0) <= 0 and store.put_parts(key, b"a", b"b") == 0
        assert store.batch_put_from([key, "b"], [at, at], [100, 100]) == [0, 0]
        assert store.batch_put_from([key], [], []) == [-600]
        assert store.upsert(key, value) == 0
        assert store.batch_get_replica_desc([key])[key]
        assert store.register_buffer(at, 0) < 0 and store.register_buffer(at, memory.size) < 0
        assert store.health_check() == 0
        assert store.remove(key, force=True) == 0 and store.remove(key) < 0
        yield 26 + (
            refused(TypeError, lambda k=key: store.put(k, "text"))
            + refused(TypeError, lambda k=key: store.batch_get_into([k, None], [at, at], [1, 1]))
            + refused(TypeError, lambda k=key: store.batch_put_from([k], [-1], [1]))
            + refused(TypeError, lambda: store.batch_is_exist("text"))
        )


def store_life(pool: Master, memory: Memory) -> int:
    """A store that is set up and closed, one whose setup fails, and one that is never closed."""
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "", 0, 0, "tcp", "", pool.rpc) < 0
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 1 << 20, "tcp", "", pool.rpc) == 0
    assert store.register_buffer(memory.ptr, memory.size) == 0
    assert store.put("life", b"12345") == 0
    buffer = store.get_buffer("life")
    assert store.remove("life", True) == 0
    assert store.close() == 0 and bytes(buffer) == b"12345"
    forgotten = MooncakeDistributedStore()
    assert forgotten.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", pool.rpc) == 0
    return 9


def engine_life(target: str, there: int, memory: Memory) -> int:
    """An engine from its beginning to its end."""
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.register_memory(memory.ptr, memory.size) == 0
    assert engine.transfer_sync_write(target, memory.ptr, there, 4096) == 0
    assert engine.batch_transfer_sync_read(target, [memory.ptr], [there], [4096]) == 0
    batch = engine.batch_transfer_async_write(target, [memory.ptr], [there], [4096])
    assert engine.get_batch_transfer_status([batch]) == 0
    assert engine.transfer_sync_write("127.0.0.1:1", memory.ptr, there, 4096) < 0
    assert engine.unregister_memory(memory.ptr) == 0
    return 9


def growth(before: Held, after: Held) -> dict[str, int]:
    earlier, later = asdict(before), asdict(after)
    return {name: later[name] - earlier[name] for name in later}


def beyond(grown: dict[str, int]) -> dict[str, int]:
    return {name: n for name, n in grown.items() if n > getattr(MOST, name)}


def test_nothing_stays_behind(pool: Master, processes, make_store, watch: Watch, capfd) -> None:
    store, memory, other = make_store(pool), Memory(1 << 16), Memory(1 << 16)
    memory.register(store)
    with Peer() as peer:
        target = f"127.0.0.1:{peer.do(start, '127.0.0.1')}"
        there = peer.do(take, 1 << 16)
        made, seen = 0, {"warm": Lowest(), "before": Lowest(), "after": Lowest()}
        calls = rounds(store, memory)
        every = CALLS // (5 * SAMPLES)
        for sample in range(5 * SAMPLES):  # 40 % fill pools and caches, 20 % are before, the last 20 % after
            made += store_life(pool, other) + engine_life(target, there, other)
            while made < (sample + 1) * every:
                made += next(calls)
            processes.forget_lines()  # they are kept in this process
            part = "before" if 2 * SAMPLES <= sample < 3 * SAMPLES else "after" if sample >= 4 * SAMPLES else "warm"
            seen[part].add(watch.now())
            capfd.readouterr()  # what refused setups logged, lest it hides the figures of a failure
        assert made >= CALLS
        # A quick machine makes all calls in seconds, and what a closed store holds until a timer ends would count as
        # left behind. What leaks is still there after a rest.
        before, after = seen["before"].held, seen["after"]
        for _ in range(SETTLING):
            if not beyond(growth(before, after.held)):
                break
            time.sleep(1)
            for _ in range(10):
                next(calls)
            after.add(watch.now())
    grown = growth(before, after.held)
    with capfd.disabled():
        print(f"\n{made} calls: {before}, grown by {grown}")
    assert beyond(grown) == {}, f"grown beyond {MOST}"
