"""Calls with addresses and sizes: registered memory, ranges of objects, and objects that come piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probe import Probe

KB = 1 << 10
MB = 1 << 20


def run(p: Probe) -> None:
    """register_buffer and what moves whole objects without a copy."""
    from probe import Memory

    s = p.store(p.master())
    m = p.memory(s, 2 * MB)
    stray = Memory(64 * KB)
    other = Memory(64 * KB)
    assert s.put("k", b"0123456789") == 0
    p("register_buffer: no bytes", lambda: s.register_buffer(other.ptr, 0))
    p("register_buffer: address 0", lambda: s.register_buffer(0, KB))
    p("register_buffer: negative size", lambda: s.register_buffer(other.ptr, -1))
    p("register_buffer: the same again", lambda: s.register_buffer(m.ptr, m.size))
    p("register_buffer: part of what is registered", lambda: s.register_buffer(m.ptr + KB, KB))
    p("unregister_buffer: not registered", lambda: s.unregister_buffer(other.ptr))
    p("unregister_buffer: the middle of what is registered", lambda: s.unregister_buffer(m.ptr + KB))
    p("unregister_buffer: address 0", lambda: s.unregister_buffer(0))
    p("alloc_from_mem_pool: of a store of its own", lambda: s.alloc_from_mem_pool(4096) != 0)
    p("alloc_from_mem_pool: 0 bytes", lambda: s.alloc_from_mem_pool(0) != 0)
    p("alloc_from_mem_pool: more than there is", lambda: s.alloc_from_mem_pool(1 << 40))
    for name, key in (("empty key", ""), ("key of 5000 bytes", "k" * 5000)):
        p(f"put_from: {name}", lambda key=key: s.put_from(key, m.ptr, 10))
        p(f"batch_put_from: {name}", lambda key=key: s.batch_put_from([key, "ok"], [m.ptr] * 2, [10] * 2))
        p(f"upsert_from: {name}", lambda key=key: s.upsert_from(key, m.ptr, 10))
        p(f"get_into: {name}", lambda key=key: s.get_into(key, m.ptr, 10))
        p(f"batch_get_into: {name}", lambda key=key: s.batch_get_into([key, "k"], [m.ptr] * 2, [10] * 2))
    p("put_from: no bytes", lambda: s.put_from("p0", m.ptr, 0))
    p("put_from: negative size", lambda: s.put_from("p0", m.ptr, -1))
    p("put_from: address 0", lambda: s.put_from("p0", 0, 10))
    p("put_from: memory that is not registered", lambda: s.put_from("p1", stray.ptr, 10))
    p("put_from: beyond registered memory", lambda: s.put_from("p2", m.ptr + m.size - 5, 4))
    p("put_from: a key that is there", lambda: s.put_from("k", m.ptr, 20))
    p("batch_put_from: no bytes", lambda: s.batch_put_from(["b0", "b1"], [m.ptr] * 2, [0, 10]))
    p("batch_put_from: two keys, one address", lambda: s.batch_put_from(["b2", "b3"], [m.ptr], [10, 10]))
    p("batch_put_from: two keys, one size", lambda: s.batch_put_from(["b2", "b3"], [m.ptr] * 2, [10]))
    p("batch_put_from: nothing", lambda: s.batch_put_from([], [], []))
    p("batch_put_from: a key that is there", lambda: s.batch_put_from(["k", "b4"], [m.ptr] * 2, [10, 10]))
    p("batch_put_from: the same key twice", lambda: s.batch_put_from(["b5", "b5"], [m.ptr] * 2, [10, 10]))
    p("batch_put_from: memory that is not registered", lambda: s.batch_put_from(["b6"], [stray.ptr], [10]))
    p("upsert_from: no bytes", lambda: s.upsert_from("u0", m.ptr, 0))
    p("upsert_from: memory that is not registered", lambda: s.upsert_from("u1", stray.ptr, 10))
    p("batch_upsert_from: two keys, one size", lambda: s.batch_upsert_from(["u2", "u3"], [m.ptr] * 2, [10]))
    p("batch_upsert_from: no bytes", lambda: s.batch_upsert_from(["u4", "u5"], [m.ptr] * 2, [0, 10]))
    p("batch_upsert_from: nothing", lambda: s.batch_upsert_from([], [], []))
    p("batch_upsert_from: the same key twice", lambda: s.batch_upsert_from(["u6", "u6"], [m.ptr] * 2, [10] * 2))
    p("put_from_with_metadata: no metadata", lambda: s.put_from_with_metadata("w0", m.ptr, m.ptr, 10, 0))
    p("put_from_with_metadata: no bytes", lambda: s.put_from_with_metadata("w1", m.ptr, m.ptr, 0, 10))
    p("put_from_with_metadata: nothing", lambda: s.put_from_with_metadata("w2", m.ptr, m.ptr, 0, 0))
    p("batch_put_from_multi_buffers: no pieces", lambda: s.batch_put_from_multi_buffers(["m0"], [[]], [[]]))
    p(
        "batch_put_from_multi_buffers: two, one row",
        lambda: s.batch_put_from_multi_buffers(["m1", "m2"], [[m.ptr]], [[10]]),
    )
    p(
        "batch_put_from_multi_buffers: sizes are missing",
        lambda: s.batch_put_from_multi_buffers(["m3"], [[m.ptr, m.ptr]], [[10]]),
    )
    p("batch_put_from_multi_buffers: nothing", lambda: s.batch_put_from_multi_buffers([], [], []))
    p("get_into: unknown key", lambda: s.get_into("gone", m.ptr, 10))
    p("get_into: buffer too small", lambda: s.get_into("k", m.ptr, 9))
    p("get_into: no bytes", lambda: s.get_into("k", m.ptr, 0))
    p("get_into: address 0", lambda: s.get_into("k", 0, 10))
    p("get_into: negative size", lambda: s.get_into("k", m.ptr, -1))
    p("get_into: memory that is not registered", lambda: s.get_into("k", stray.ptr, 10))
    p("batch_get_into: known and unknown key", lambda: s.batch_get_into(["k", "gone"], [m.ptr] * 2, [10] * 2))
    p("batch_get_into: buffer too small", lambda: s.batch_get_into(["k", "k"], [m.ptr] * 2, [9, 10]))
    p("batch_get_into: two keys, one address", lambda: s.batch_get_into(["k", "k"], [m.ptr], [10] * 2))
    p("batch_get_into: two keys, one size", lambda: s.batch_get_into(["k", "k"], [m.ptr] * 2, [10]))
    p("batch_get_into: nothing", lambda: s.batch_get_into([], [], []))
    p("batch_get_into: memory that is not registered", lambda: s.batch_get_into(["k"], [stray.ptr], [10]))
    p("batch_get_into_multi_buffers: unknown key", lambda: s.batch_get_into_multi_buffers(["gone"], [[m.ptr]], [[10]]))
    p("batch_get_into_multi_buffers: too small", lambda: s.batch_get_into_multi_buffers(["k"], [[m.ptr] * 2], [[4, 4]]))
    p(
        "batch_get_into_multi_buffers: two, one row",
        lambda: s.batch_get_into_multi_buffers(["k", "k"], [[m.ptr]], [[10]]),
    )
    p(
        "batch_get_into_multi_buffers: sizes are missing",
        lambda: s.batch_get_into_multi_buffers(["k"], [[m.ptr] * 2], [[10]]),
    )
    p("batch_get_into_multi_buffers: nothing", lambda: s.batch_get_into_multi_buffers([], [], []))


def run_ranges(p: Probe) -> None:
    """get_into_ranges."""
    from probe import Memory

    s = p.store(p.master())
    m = p.memory(s, MB)
    stray = Memory(64 * KB)
    assert s.put("k", b"0123456789") == 0

    def ranges(keys, dst, src, sizes, ptrs=None):
        return s.get_into_ranges(ptrs or [m.ptr], keys, dst, src, sizes)

    p("get_into_ranges: whole", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[10]]]))
    p("get_into_ranges: unknown key", lambda: ranges([["gone", "k"]], [[[0], [0]]], [[[0], [0]]], [[[4], [4]]]))
    p("get_into_ranges: beyond the object", lambda: ranges([["k"]], [[[0, 0]]], [[[8, 0]]], [[[4, 4]]]))
    p("get_into_ranges: begins beyond the object", lambda: ranges([["k"]], [[[0]]], [[[11]]], [[[1]]]))
    p("get_into_ranges: a sum that overflows", lambda: ranges([["k"]], [[[0]]], [[[(1 << 64) - 1]]], [[[2]]]))
    p("get_into_ranges: beyond the memory", lambda: ranges([["k"]], [[[m.size - 1]]], [[[0]]], [[[4]]]))
    p("get_into_ranges: no bytes", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[0]]]))
    p("get_into_ranges: negative size", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[-1]]]))
    p("get_into_ranges: empty key", lambda: ranges([[""]], [[[0]]], [[[0]]], [[[4]]]))
    p("get_into_ranges: memory that is not registered", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[4]]], [stray.ptr]))
    p("get_into_ranges: address 0", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[4]]], [0]))
    p("get_into_ranges: offsets are missing", lambda: ranges([["k"]], [[[0, 4]]], [[[0]]], [[[4, 4]]]))
    p("get_into_ranges: a row is missing", lambda: ranges([["k", "k"]], [[[0]]], [[[0]]], [[[4]]]))
    p("get_into_ranges: two buffers, one list", lambda: ranges([["k"]], [[[0]]], [[[0]]], [[[4]]], [m.ptr, m.ptr]))
    p("get_into_ranges: nothing", lambda: s.get_into_ranges([], [], [], [], []))


def run_sessions(p: Probe) -> None:
    """Objects that come or go piece by piece."""
    from probe import Memory

    s = p.store(p.master())
    m = p.memory(s, MB)
    stray = Memory(64 * KB)
    assert s.put("k", b"0123456789") == 0
    put, get = s.batch_put_from_multi_buffer_ranges, s.batch_get_into_multi_buffer_ranges
    p("get session: unknown key", lambda: s.batch_get_session_start(["k", "gone"]))
    p("get session: empty key", lambda: s.batch_get_session_start([""]))
    p("get session: nothing", lambda: s.batch_get_session_start([]))
    p("get session: begun again", lambda: s.batch_get_session_start(["k"]))
    p("get session, read: not begun", lambda: get(["never"], [[m.ptr]], [[4]], [[0]]))
    p("get session, read: beyond the object", lambda: get(["k"], [[m.ptr]], [[4]], [[8]]))
    p("get session, read: no bytes", lambda: get(["k"], [[m.ptr]], [[0]], [[0]]))
    p("get session, read: address 0", lambda: get(["k"], [[0]], [[4]], [[0]]))
    p("get session, read: memory that is not registered", lambda: get(["k"], [[stray.ptr]], [[4]], [[0]]))
    p("get session, read: sizes are missing", lambda: get(["k"], [[m.ptr, m.ptr]], [[4]], [[0, 4]]))
    p("get session, read: two keys, one row", lambda: get(["k", "k"], [[m.ptr]], [[4]], [[0]]))
    p("get session, read: nothing", lambda: get([], [], [], []))
    p("get session, end", lambda: s.batch_get_session_end(["k"]))
    p("get session, end: not begun", lambda: s.batch_get_session_end(["never"]))
    p("get session, end: nothing", lambda: s.batch_get_session_end([]))
    p("get session, read: ended", lambda: get(["k"], [[m.ptr]], [[4]], [[0]]))
    p("put session: a key that is there", lambda: s.batch_put_session_start(["k"], [10]))
    p("put session: no bytes", lambda: s.batch_put_session_start(["s0"], [0]))
    p("put session: empty key", lambda: s.batch_put_session_start([""], [10]))
    p("put session: two keys, one size", lambda: s.batch_put_session_start(["s1", "s2"], [10]))
    p("put session: larger than the pool", lambda: s.batch_put_session_start(["s3"], [1 << 30]))
    p("put session: nothing", lambda: s.batch_put_session_start([], []))
    p("put session: begun", lambda: s.batch_put_session_start(["s"], [10]))
    p("put session: begun again", lambda: s.batch_put_session_start(["s"], [10]))
    p("put session, write: not begun", lambda: put(["never"], [[m.ptr]], [[4]], [[0]]))
    p("put session, write: beyond the object", lambda: put(["s"], [[m.ptr]], [[4]], [[8]]))
    p("put session, write: no bytes", lambda: put(["s"], [[m.ptr]], [[0]], [[0]]))
    p("put session, write: address 0", lambda: put(["s"], [[0]], [[4]], [[0]]))
    p("put session, write: sizes are missing", lambda: put(["s"], [[m.ptr, m.ptr]], [[4]], [[0, 4]]))
    p("put session, write: nothing", lambda: put([], [], [], []))
    p("put session, write", lambda: put(["s"], [[m.ptr]], [[10]], [[0]]))
    p("put session: what is being put exists", lambda: s.is_exist("s"))
    p("put session: what is being put is read", lambda: s.get("s"))
    p("put session: size of what is being put", lambda: s.get_size("s"))
    p("put session: what is being put is removed", lambda: s.remove("s", True))
    p("put session, end", lambda: s.batch_put_session_end(["s"]))
    p("put session, end: again", lambda: s.batch_put_session_end(["s"]))
    p("put session, end: not begun", lambda: s.batch_put_session_end(["never"]))
    p("put session, end: nothing", lambda: s.batch_put_session_end([]))
    p("put session, revoke: ended", lambda: s.batch_put_session_revoke(["s"]))
    p("put session, revoke: not begun", lambda: s.batch_put_session_revoke(["never"]))
    p("put session, revoke: nothing", lambda: s.batch_put_session_revoke([]))
