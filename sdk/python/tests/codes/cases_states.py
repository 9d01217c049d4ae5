"""Stores that are not set up, that are closed, whose master died, and setups that cannot work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe import Probe

MB = 1 << 20


def every_call(p: Probe, s: Any, state: str) -> None:
    """Each call once, with arguments that work on a store that is well."""
    from probe import Memory

    m = Memory(MB)
    calls = {
        "put": lambda: s.put("k", b"x"),
        "put_parts": lambda: s.put_parts("k", b"x"),
        "put_batch": lambda: s.put_batch(["k"], [b"x"]),
        "put_from": lambda: s.put_from("k", m.ptr, 10),
        "batch_put_from": lambda: s.batch_put_from(["k", "l"], [m.ptr] * 2, [10] * 2),
        "batch_put_from_multi_buffers": lambda: s.batch_put_from_multi_buffers(["k"], [[m.ptr]], [[10]]),
        "upsert": lambda: s.upsert("k", b"x"),
        "upsert_from": lambda: s.upsert_from("k", m.ptr, 10),
        "batch_upsert_from": lambda: s.batch_upsert_from(["k"], [m.ptr], [10]),
        "get": lambda: s.get("k"),
        "get_batch": lambda: s.get_batch(["k", "l"]),
        "get_buffer": lambda: s.get_buffer("k"),
        "batch_get_buffer": lambda: s.batch_get_buffer(["k", "l"]),
        "get_into": lambda: s.get_into("k", m.ptr, 10),
        "batch_get_into": lambda: s.batch_get_into(["k", "l"], [m.ptr] * 2, [10] * 2),
        "batch_get_into_multi_buffers": lambda: s.batch_get_into_multi_buffers(["k"], [[m.ptr]], [[10]]),
        "get_into_ranges": lambda: s.get_into_ranges([m.ptr], [["k"]], [[[0]]], [[[0]]], [[[4]]]),
        "is_exist": lambda: s.is_exist("k"),
        "batch_is_exist": lambda: s.batch_is_exist(["k", "l"]),
        "get_size": lambda: s.get_size("k"),
        "remove": lambda: s.remove("k"),
        "batch_remove": lambda: s.batch_remove(["k", "l"]),
        "remove_by_regex": lambda: s.remove_by_regex("k"),
        "remove_all": lambda: s.remove_all(),
        "register_buffer": lambda: s.register_buffer(m.ptr, m.size),
        "unregister_buffer": lambda: s.unregister_buffer(m.ptr),
        "alloc_from_mem_pool": lambda: s.alloc_from_mem_pool(4096) != 0,
        "get_replica_desc": lambda: s.get_replica_desc("k"),
        "batch_get_replica_desc": lambda: s.batch_get_replica_desc(["k"]),
        "batch_replica_clear": lambda: s.batch_replica_clear(["k"], ""),
        "create_copy_task": lambda: s.create_copy_task("k", ["a:1"])[1],
        "create_move_task": lambda: s.create_move_task("k", "a:1", "b:1")[1],
        "query_task": lambda: s.query_task("1-1")[1],
        "allocate_and_mount_segment": lambda: s.allocate_and_mount_segment(16 * MB)["ret"],
        "unmount_segment": lambda: s.unmount_segment(["1-1"]),
        "batch_get_session_start": lambda: s.batch_get_session_start(["k"]),
        "batch_get_session_end": lambda: s.batch_get_session_end(["k"]),
        "batch_put_session_start": lambda: s.batch_put_session_start(["k"], [10]),
        "batch_put_session_end": lambda: s.batch_put_session_end(["k"]),
        "batch_put_session_revoke": lambda: s.batch_put_session_revoke(["k"]),
        "health_check": lambda: s.health_check(),
        "get_hostname": lambda: s.get_hostname() != "",
    }
    for name, call in calls.items():
        p(f"{name}: {state}", call)


def run_unset(p: Probe) -> None:
    """Before setup."""
    from mooncake.store import MooncakeDistributedStore

    s = MooncakeDistributedStore()
    every_call(p, s, "not set up")
    p("close: not set up", s.close)


def run_closed(p: Probe) -> None:
    """After close."""
    s = p.store(p.master())
    assert s.put("k", b"x") == 0
    p("close", s.close)
    every_call(p, s, "closed")
    p("close: closed", s.close)


def run_dead(p: Probe) -> None:
    """The master is gone."""
    s = p.store(p.master())
    assert s.put("k", b"x") == 0
    p.kill_masters()
    every_call(p, s, "the master is dead")
    p("close: the master is dead", s.close)


def run_setup(p: Probe) -> None:
    """Setups that cannot work, each with a store of its own."""
    from mooncake.store import MooncakeDistributedStore

    master = p.master()

    def setup(
        host: str = "127.0.0.1",
        metadata: str = "P2PHANDSHAKE",
        segment: int = 0,
        buffer: int = MB,
        protocol: str = "tcp",
        at: str = master,
    ) -> int:
        s = MooncakeDistributedStore()
        p.kept.append(s)
        return s.setup(host, metadata, segment, buffer, protocol, "", at)

    p("setup", setup)
    p("setup: empty host", lambda: setup(host=""))
    for host in ("0.0.0.0", "127.0.0.1:0", "0.0.0.0:0", "::"):
        p(f"setup: host {host!r}", lambda host=host: setup(host=host))
    p("setup: unknown protocol", lambda: setup(protocol="smoke"))
    p("setup: metadata server that is not there", lambda: setup(metadata="http://127.0.0.1:1/metadata"))
    p("setup: empty metadata server", lambda: setup(metadata=""))
    p("setup: negative segment", lambda: setup(segment=-1))
    p("setup: no master there", lambda: setup(at="127.0.0.1:1"))
    p("setup: empty master", lambda: setup(at=""))
    p("setup: larger segment than memory", lambda: setup(segment=1 << 50))
    given = {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_addr": master}

    def from_dict(**more: str) -> int:
        s = MooncakeDistributedStore()
        p.kept.append(s)
        return s.setup({**given, **more})

    p("setup: dict", from_dict)
    p("setup: dict, a size that is none", lambda: from_dict(global_segment_size="50%"))
    p("setup: dict, negative size", lambda: from_dict(global_segment_size="-1"))
    p("setup: dict, a size below 1024", lambda: from_dict(local_buffer_size="100"))
    p("setup: dict, no host", lambda: from_dict(local_hostname=""))
    p("setup: dict, empty", lambda: MooncakeDistributedStore().setup({}))
    p("setup: twice", lambda: p.store(master, 0).setup("127.0.0.1", "P2PHANDSHAKE", 0, MB, "tcp", "", master))
    p("setup_dummy: nothing there", lambda: MooncakeDistributedStore().setup_dummy(MB, MB, "127.0.0.1:1"))
