"""mooncake.engine."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe import Probe

KB = 1 << 10


def engine(host: str = "127.0.0.1") -> Any:
    """An initialized engine."""
    from mooncake.engine import TransferEngine

    e = TransferEngine()
    code = e.initialize(host, "P2PHANDSHAKE", "tcp", "")
    if code != 0:
        raise RuntimeError(f"initialize({host!r}) answered {code}")
    return e


def has_ipv6() -> bool:
    """Whether this machine has the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        return False
    return True


def settled(e: Any, batch: int) -> int:
    """What transfer_check_status answers when a batch is over; a number that started nothing is told apart."""
    if batch == 0:
        return "nothing started"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = e.transfer_check_status(batch)
        if state != 0:
            return state
        time.sleep(0.01)
    return "does not end"


def run(p: Probe) -> None:
    """Two engines in one process: memory, transfers, batches."""
    from probe import Memory

    e, peer = engine(), engine()
    name = f"127.0.0.1:{peer.get_rpc_port()}"
    mine, theirs, stray, far = (Memory(64 * KB) for _ in range(4))
    assert e.register_memory(mine.ptr, mine.size) == 0
    assert peer.register_memory(theirs.ptr, theirs.size) == 0
    p.kept += [e, peer, mine, theirs, stray, far]
    p("register_memory: no bytes", lambda: e.register_memory(stray.ptr, 0))
    p("register_memory: address 0", lambda: e.register_memory(0, KB))
    p("register_memory: the same again", lambda: e.register_memory(mine.ptr, mine.size))
    p("register_memory: part of what is registered", lambda: e.register_memory(mine.ptr + KB, KB))
    p("register_memory: negative size", lambda: e.register_memory(stray.ptr, -1))
    p("unregister_memory: not registered", lambda: e.unregister_memory(far.ptr))
    p("unregister_memory: address 0", lambda: e.unregister_memory(0))
    p("batch_register_memory: two addresses, one size", lambda: e.batch_register_memory([far.ptr, stray.ptr], [KB]))
    p("batch_register_memory: nothing", lambda: e.batch_register_memory([], []))
    p("batch_unregister_memory: not registered", lambda: e.batch_unregister_memory([far.ptr]))
    p("batch_unregister_memory: nothing", lambda: e.batch_unregister_memory([]))
    p("get_first_buffer_address: peer", lambda: e.get_first_buffer_address(name) == theirs.ptr)
    p("get_first_buffer_address: unknown segment", lambda: e.get_first_buffer_address("127.0.0.1:1"))
    p("get_first_buffer_address: empty", lambda: e.get_first_buffer_address(""))
    p("send_probe: peer", lambda: e.send_probe(name))
    p("send_probe: unknown segment", lambda: e.send_probe("127.0.0.1:1"))
    p("send_probe: empty", lambda: e.send_probe(""))
    for kind in ("write", "read"):
        transfers(p, e, kind, name, (mine.ptr, theirs.ptr, theirs.size, far.ptr))
    p("get_batch_transfer_status: nothing", lambda: e.get_batch_transfer_status([]))
    p("allocate_managed_buffer: 0 bytes", lambda: e.allocate_managed_buffer(0) != 0)
    p("free_managed_buffer: not allocated", lambda: e.free_managed_buffer(far.ptr, KB))
    p("get_local_topology: unknown device", lambda: json.loads(e.get_local_topology("none")))
    other = engine()
    p("initialize: again", lambda: other.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))
    p("register_memory: after initialize again", lambda: other.register_memory(far.ptr, far.size))
    p.kept.append(other)
    p("get_batch_transfer_status: unknown number", lambda: e.get_batch_transfer_status([12345]))
    p("transfer_check_status: unknown number", lambda: e.transfer_check_status(12345))
    p("transfer_check_status: 0", lambda: e.transfer_check_status(0))


def transfers(p: Probe, e: Any, kind: str, name: str, where: tuple[int, int, int, int]) -> None:
    """Transfers in one direction between my memory, the peer's of some size, and memory that is not registered."""
    mine, theirs, size, far = where
    sync, submit = getattr(e, f"transfer_sync_{kind}"), getattr(e, f"transfer_submit_{kind}", None)
    batch, start = getattr(e, f"batch_transfer_sync_{kind}"), getattr(e, f"batch_transfer_async_{kind}")
    p(f"transfer_sync_{kind}", lambda: sync(name, mine, theirs, KB))
    p(f"transfer_sync_{kind}: no bytes", lambda: sync(name, mine, theirs, 0))
    p(f"transfer_sync_{kind}: negative length", lambda: sync(name, mine, theirs, -1))
    p(f"transfer_sync_{kind}: unknown segment", lambda: sync("127.0.0.1:1", mine, theirs, KB))
    p(f"transfer_sync_{kind}: a name without a port", lambda: sync("nowhere", mine, theirs, KB))
    p(f"transfer_sync_{kind}: empty name", lambda: sync("", mine, theirs, KB))
    p(f"transfer_sync_{kind}: from memory that is not registered", lambda: sync(name, far, theirs, KB))
    p(
        f"batch_transfer_sync_{kind}: two buffers, one length",
        lambda: batch(name, [mine] * 2, [theirs] * 2, [KB]),
    )
    p(f"batch_transfer_sync_{kind}: nothing", lambda: batch(name, [], [], []))
    p(f"batch_transfer_sync_{kind}: unknown segment", lambda: batch("127.0.0.1:1", [mine], [theirs], [KB]))
    p(
        f"batch_transfer_async_{kind}",
        lambda: e.get_batch_transfer_status([start(name, [mine], [theirs], [KB])]),
    )
    p(
        f"batch_transfer_async_{kind}: two buffers, one length",
        lambda: start(name, [mine] * 2, [theirs] * 2, [KB]),
    )
    p(f"batch_transfer_async_{kind}: unknown segment", lambda: start("127.0.0.1:1", [mine], [theirs], [KB]))
    p(f"batch_transfer_async_{kind}: nothing", lambda: start(name, [], [], []) == 0)
    if submit is not None:
        p(f"transfer_submit_{kind}", lambda: settled(e, submit(name, mine, theirs, KB)))
        p(f"transfer_submit_{kind}: unknown segment", lambda: submit("127.0.0.1:1", mine, theirs, KB))
        p(f"transfer_submit_{kind}: no bytes", lambda: settled(e, submit(name, mine, theirs, 0)))
    p(f"transfer_sync_{kind}: memory the peer has not registered", lambda: sync(name, mine, far, KB))
    p(
        f"transfer_sync_{kind}: beyond the peer's memory",
        lambda: sync(name, mine, theirs + size - KB, 2 * KB),
    )


def run_unset(p: Probe) -> None:
    """Before initialize, and what initialize refuses."""
    from probe import Memory

    from mooncake.engine import TransferEngine

    e, m = TransferEngine(), Memory(KB)
    p("get_rpc_port: not initialized", lambda: e.get_rpc_port())
    p("register_memory: not initialized", lambda: e.register_memory(m.ptr, m.size))
    p("unregister_memory: not initialized", lambda: e.unregister_memory(m.ptr))
    p("transfer_sync_write: not initialized", lambda: e.transfer_sync_write("127.0.0.1:1", m.ptr, m.ptr, 10))
    p(
        "batch_transfer_sync_write: not initialized",
        lambda: e.batch_transfer_sync_write("127.0.0.1:1", [m.ptr], [m.ptr], [10]),
    )
    p(
        "batch_transfer_async_write: not initialized",
        lambda: e.batch_transfer_async_write("127.0.0.1:1", [m.ptr], [m.ptr], [10]),
    )
    p("transfer_check_status: not initialized", lambda: e.transfer_check_status(1))
    p("get_batch_transfer_status: not initialized", lambda: e.get_batch_transfer_status([1]))
    p("get_first_buffer_address: not initialized", lambda: e.get_first_buffer_address("127.0.0.1:1"))
    p("send_probe: not initialized", lambda: e.send_probe("127.0.0.1:1"))
    p("allocate_managed_buffer: not initialized", lambda: e.allocate_managed_buffer(KB) != 0)
    p("initialize: protocol xgmi", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "xgmi", ""))
    p("initialize: unknown protocol", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "smoke", ""))
    p("initialize: rdma without a device", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", ""))
    p("initialize: unknown device", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "none_0"))
    p(
        "initialize: metadata server that is not there",
        lambda: TransferEngine().initialize("127.0.0.1", "http://127.0.0.1:1/metadata", "tcp", ""),
    )
    p("initialize: empty metadata server", lambda: TransferEngine().initialize("127.0.0.1", "", "tcp", ""))


def run_addresses(p: Probe) -> None:
    """Names that say nothing, or little, about where a process can be reached."""
    from probe import Memory

    peer, here = engine(), Memory(64 * KB)
    assert peer.register_memory(here.ptr, here.size) == 0
    back = f"127.0.0.1:{peer.get_rpc_port()}"
    p.kept += [peer, here]
    hosts = ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:7600", "localhost", "localhost:0"]
    hosts += ["0.0.0.0", "0.0.0.0:7600", "0.0.0.0:0", "", ":7600"]
    v6 = has_ipv6()
    if v6:
        hosts += ["::", "[::]", "[::]:7600", "::1", "[::1]:7600", "[::1]:0"]
    for host in hosts:
        called(p, host, v6, (peer, here.ptr, back))


def called(p: Probe, host: str, v6: bool, other: tuple[Any, int, str]) -> None:
    """One engine of this name, beside another with memory at an address and a name."""
    from probe import Memory

    from mooncake.engine import TransferEngine

    peer, here, back = other
    e, m = TransferEngine(), Memory(64 * KB)
    p.kept += [e, m]
    what = repr(host)
    p(f"initialize {what}", lambda: e.initialize(host, "P2PHANDSHAKE", "tcp", ""))
    p(f"initialize {what}: get_rpc_port is a port", lambda: e.get_rpc_port() > 0)
    p(f"initialize {what}: it is the one in the name", lambda: e.get_rpc_port() == 7600)
    p(f"initialize {what}: register_memory", lambda: e.register_memory(m.ptr, m.size))
    name = f"127.0.0.1:{e.get_rpc_port()}"
    p(f"initialize {what}: reached at 127.0.0.1", lambda: peer.transfer_sync_write(name, here, m.ptr, KB))
    p(
        f"initialize {what}: reached at 127.0.0.1, first buffer",
        lambda: peer.get_first_buffer_address(name) == m.ptr,
    )
    p(f"initialize {what}: reaches a peer", lambda: e.transfer_sync_write(back, m.ptr, here, KB))
    p(f"initialize {what}: reaches a peer to read", lambda: e.transfer_sync_read(back, m.ptr, here, KB))
    if v6:
        p(
            f"initialize {what}: reached at [::1]",
            lambda: peer.transfer_sync_write(f"[::1]:{e.get_rpc_port()}", here, m.ptr, KB),
        )
