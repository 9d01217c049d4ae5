"""Objects that do not fit, and pools that are full."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe import Probe

MB = 1 << 20
NONE = -200


def put_calls(p: Probe, s: Any, what: str, size: int) -> None:
    """Every call that puts, with one object of size bytes."""
    m = p.memory(s, size)
    value = memoryview(m.mem)
    p(f"put: {what}", lambda: s.put("big1", value))
    p(f"put_parts: {what}", lambda: s.put_parts("big2", bytes(size // 2), bytes(size - size // 2)))
    p(f"put_batch: {what}", lambda: s.put_batch(["big3"], [value]))
    p(f"put_from: {what}", lambda: s.put_from("big4", m.ptr, size))
    p(f"batch_put_from: {what}", lambda: s.batch_put_from(["big5"], [m.ptr], [size]))
    p(f"batch_put_from: {what} and a small one", lambda: s.batch_put_from(["big6", "small"], [m.ptr] * 2, [size, 10]))
    p(f"upsert: {what}", lambda: s.upsert("big7", value))
    p(f"upsert_from: {what}", lambda: s.upsert_from("big8", m.ptr, size))
    p(f"batch_upsert_from: {what}", lambda: s.batch_upsert_from(["big9"], [m.ptr], [size]))
    halves = [[m.ptr, m.ptr + size // 2]], [[size // 2] * 2]
    p(f"batch_put_from_multi_buffers: {what}", lambda: s.batch_put_from_multi_buffers(["big10"], *halves))
    p(f"put session: {what}", lambda: s.batch_put_session_start(["big11"], [size]))
    s.unregister_buffer(m.ptr)


def run_large(p: Probe) -> None:
    """Objects larger than the pool, a segment, and the local buffer; what else is there stays."""
    master = p.master()
    s = p.store(master, 16 * MB, 256 * MB)
    p.store(master, 16 * MB, 16 * MB)
    keys = [f"kept{i}" for i in range(16)]
    assert all(s.put(k, bytes(MB)) == 0 for k in keys)
    put_calls(p, s, "larger than the pool", 40 * MB)
    time.sleep(1)  # upstream evicts in the background
    p("larger than the pool: all that was there before is", lambda: sum(s.batch_is_exist(keys)) == len(keys))
    s.remove_all(True)
    p("put: larger than a segment", lambda: s.put("wide", bytes(20 * MB)))
    p("put: larger than the local buffer", lambda: p.store(master, 0, 2 * MB).put("staged", bytes(4 * MB)))
    p(
        "put: a batch larger than the local buffer",
        lambda: p.store(master, 0, 2 * MB).put_batch(["c1", "c2", "c3"], [bytes(MB)] * 3),
    )
    p(
        "get: larger than the local buffer",
        lambda: (s.put("wide2", bytes(4 * MB)), p.store(master, 0, 2 * MB).get("wide2")),
    )
    p("put: no local buffer", lambda: p.store(master, 0, 0).put("unstaged", b"x"))
    p("get: no local buffer", lambda: (s.put("small", b"xyz"), p.store(master, 0, 0).get("small")))


def run_full(p: Probe) -> None:
    """Pools without memory, full of pinned objects, and full of leased ones."""
    from mooncake.store import ReplicateConfig

    none = p.master()
    put_calls(p, p.store(none, 0, 16 * MB), "no segment is mounted", MB)
    pinned = p.master()
    s = p.store(pinned, 16 * MB, 32 * MB)
    config = ReplicateConfig()
    config.with_hard_pin = True
    n = 0
    while n < 64 and s.put(f"pin{n}", bytes(MB), config) == 0:
        n += 1
    put_calls(p, s, "the pool is full of pinned objects", 2 * MB)
    p("put: a key that is there, in a full pool", lambda: s.put("pin0", bytes(MB)))
    p("get: in a full pool", lambda: s.get("pin0"))
    leased = p.master()
    s = p.store(leased, 16 * MB, 32 * MB)
    n = 0
    for _ in range(200):
        if s.put(f"lease{n}", bytes(MB)) != 0:
            break
        n += len(s.get(f"lease{n}")) == MB  # The master may have evicted it between the two calls.
    put_calls(p, s, "the pool is full of leased objects", 2 * MB)
