"""Calls that name keys and bring or take bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probe import Probe

LONG = "k" * 5000
TOO_LONG = "k" * 70000
NOT_UTF8 = b"\xff\xfe"


def run(p: Probe) -> None:
    """A pool with room; what is wrong is the key, the value, the list or the expression."""
    from mooncake.store import ReplicateConfig

    s = p.store(p.master())
    assert s.put("here", b"0123456789") == 0
    for name, key in (("empty key", ""), ("key of 5000 bytes", LONG)):
        p(f"put: {name}", lambda key=key: s.put(key, b"x"))
        p(f"put_parts: {name}", lambda key=key: s.put_parts(key, b"x"))
        p(f"put_batch: {name}", lambda key=key: s.put_batch([key], [b"x"]))
        p(f"upsert: {name}", lambda key=key: s.upsert(key, b"x"))
        p(f"is_exist: {name}", lambda key=key: s.is_exist(key))
        p(f"batch_is_exist: {name}", lambda key=key: s.batch_is_exist([key, "here", "gone"]))
        p(f"get: {name}", lambda key=key: s.get(key))
        p(f"get_size: {name}", lambda key=key: s.get_size(key))
        p(f"remove: {name}", lambda key=key: s.remove(key, True))
        p(f"batch_remove: {name}", lambda key=key: s.batch_remove([key], True))
    p("put: key of 70000 bytes", lambda: s.put(TOO_LONG, b"x"))
    p("get: key of 70000 bytes", lambda: s.get(TOO_LONG))
    p("get_size: key of 70000 bytes", lambda: s.get_size(TOO_LONG))
    p("put: key that is not UTF-8", lambda: s.put(NOT_UTF8, b"x"))
    p("put: no bytes", lambda: s.put("none", b""))
    p("put_parts: no parts", lambda: s.put_parts("none"))
    p("put_parts: parts without a byte", lambda: s.put_parts("none", b"", b""))
    p("put_batch: a value without a byte", lambda: s.put_batch(["none", "some"], [b"", b"x"]))
    p("put_batch: what it left", lambda: s.batch_is_exist(["none", "some"]))
    p("put_batch: two keys, one value", lambda: s.put_batch(["a1", "a2"], [b"x"]))
    p("put_batch: nothing", lambda: s.put_batch([], []))
    p("upsert: no bytes", lambda: s.upsert("none", b""))
    p("upsert_batch: two keys, one value", lambda: s.upsert_batch(["a1", "a2"], [b"x"]))
    p("upsert_batch: the same key twice", lambda: s.upsert_batch(["twice", "twice"], [b"x", b"y"]))
    p("upsert_batch: nothing", lambda: s.upsert_batch([], []))
    p("put: a key that is there", lambda: s.put("here", b"other"))
    p("put: a key that is there, larger than the pool", lambda: s.put("here", bytes(40 << 20)))
    p("put_batch: a key that is there", lambda: s.put_batch(["here", "new"], [b"other", b"x"]))
    p("put_batch: the same key twice", lambda: s.put_batch(["same", "same"], [b"1", b"22"]))
    p("put: no copies", lambda: s.put("copies", b"x", replicas(ReplicateConfig(), 0)))
    p("put: more copies than segments", lambda: s.put("many", b"x", replicas(ReplicateConfig(), 4)))
    p("put: unknown preferred segment", lambda: s.put("preferred", b"x", preferring(ReplicateConfig(), "nowhere:1")))
    p("put: text as value", lambda: s.put("text", "text"))
    p("put: no value", lambda: s.put("text"))
    p("put: None as key", lambda: s.put(None, b"x"))
    p("is_exist: unknown key", lambda: s.is_exist("gone"))
    p("batch_is_exist: nothing", lambda: s.batch_is_exist([]))
    p("get: unknown key", lambda: s.get("gone"))
    p("get_batch: known and unknown key", lambda: s.get_batch(["here", "gone"]))
    p("get_batch: nothing", lambda: s.get_batch([]))
    p("get_buffer: unknown key", lambda: s.get_buffer("gone"))
    p("get_buffer: empty key", lambda: s.get_buffer(""))
    p("batch_get_buffer: known and unknown key", lambda: s.batch_get_buffer(["here", "gone"]))
    p("batch_get_buffer: nothing", lambda: s.batch_get_buffer([]))
    p("get_size: unknown key", lambda: s.get_size("gone"))
    p("get_replica_desc: unknown key", lambda: s.get_replica_desc("gone"))
    p("get_replica_desc: empty key", lambda: s.get_replica_desc(""))
    p("batch_get_replica_desc: known and unknown key", lambda: s.batch_get_replica_desc(["here", "gone"]))
    p("batch_get_replica_desc: nothing", lambda: s.batch_get_replica_desc([]))
    p("batch_replica_clear: unknown key", lambda: s.batch_replica_clear(["gone"], ""))
    p("batch_replica_clear: leased key", lambda: s.batch_replica_clear(["here"], ""))
    p("batch_replica_clear: unknown segment", lambda: s.batch_replica_clear(["here"], "nowhere:1"))
    p("batch_replica_clear: nothing", lambda: s.batch_replica_clear([], ""))
    p("remove: unknown key", lambda: s.remove("gone"))
    p("remove: leased key", lambda: s.remove("here"))
    p("batch_remove: leased and unknown key", lambda: s.batch_remove(["here", "gone"]))
    p("batch_remove: nothing", lambda: s.batch_remove([]))
    p("remove_by_regex: no such key", lambda: s.remove_by_regex("^nothing-like-it$"))
    p("remove_by_regex: leased key", lambda: s.remove_by_regex("^here$"))
    p("remove_by_regex: not an expression", lambda: s.remove_by_regex("("))
    p("remove_by_regex: empty", lambda: s.remove_by_regex("", True) > 0)
    p("remove_all: nothing there", lambda: (s.remove_all(True), s.remove_all(True))[1])


def replicas(config, n: int):
    """The config with so many copies."""
    config.replica_num = n
    return config


def preferring(config, segment: str):
    """The config with a preferred segment."""
    config.preferred_segment = segment
    return config
