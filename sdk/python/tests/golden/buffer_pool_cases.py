"""What BufferPool answers, call by call, as JSON on standard output.

Run as ``python buffer_pool_cases.py MASTER`` by any interpreter that has a mooncake package:
ours, or upstream's with a master of its own. It needs nothing else, and asserts nothing.
"""

# ruff: noqa: B023 - a call is made before the loop around it goes on

import copy
import gc
import json
import pickle
import sys
import threading
import weakref
from typing import Any

import mooncake
from mooncake import buffer_pool, store

KIB, MIB = 1 << 10, 1 << 20
LOCAL_BUFFER = 4 * MIB
SHORT = 0.01  # seconds

# What callers look for in the text of an error.
WORDS = (
    "active leases", "alignment", "capacity", "closed", "exhausted", "exported views", "non-negative",
    "not initialized", "overflow", "positive", "power of two", "timed out",
)  # fmt: skip

ANSWERS: dict[str, Any] = {}


def case(name: str, call: Any) -> None:
    """Notes what the call returns, or what it raises."""
    assert name not in ANSWERS, name
    try:
        ANSWERS[name] = {"returns": call()}
    except Exception as err:  # noqa: BLE001
        kinds = [c.__name__ for c in type(err).__mro__ if issubclass(c, Exception)]
        # The text of a TypeError is the whole signature in some packages.
        words = [w for w in WORDS if w in str(err)] if "RuntimeError" in kinds else []
        ANSWERS[name] = {"raises": kinds, "words": words}


def lent(pool: Any, size: Any) -> list[Any]:
    """What a lease of size looks like; it is released."""
    with pool.acquire(size) as lease:
        view = lease.buffer
        seen = [
            type(view).__name__, lease.size, len(view), view.nbytes, view.format, view.itemsize, view.ndim,
            list(view.shape), view.readonly, lease.ptr % 64, lease.ptr != 0,
        ]  # fmt: skip
        view.release()
    return seen


def fill(pool: Any, size: int, most: int) -> list[Any]:
    """How many buffers of size the pool lends, up to most, and why it lends no more."""
    leases, why = [], ""
    try:
        while len(leases) < most:
            leases.append(pool.acquire(size, block=False))
    except RuntimeError as err:
        why = next((w for w in ("exhausted", "non-negative") if w in str(err)), str(err))
    distinct = len({lease.ptr for lease in leases})
    for lease in leases:
        lease.release()
    return [distinct, why]


def sizes(client: Any) -> None:
    pool = store.BufferPool(client)
    for size in (0, 1, 1000, 64 * KIB, 64 * KIB + 1, LOCAL_BUFFER, 2 * LOCAL_BUFFER, True):
        case(f"acquire {size!r}", lambda: lent(pool, size))
    for size in (2 * LOCAL_BUFFER + 1, 1 << 63, (1 << 64) - 1, 1 << 64, -1, 1.5, None, "1"):
        case(f"acquire {size!r}", lambda: lent(pool, size))
    case("acquire without a size", lambda: pool.acquire())
    case("acquire with an unknown keyword", lambda: pool.acquire(1, wait=True))
    case("fill the default capacity", lambda: fill(pool, MIB, 100))
    case("close", pool.close)
    case("close again", pool.close)
    case("acquire after close", lambda: pool.acquire(1))
    case("buffer after close", lambda: pool.buffer(1))


def bounds(client: Any) -> None:
    def filled(most: int = 64, size: int = MIB, **settings: Any) -> Any:
        pool = store.BufferPool(client, **settings)
        answer = fill(pool, size, most)
        pool.close()
        return answer

    case("fill max_bytes=8 MiB", lambda: filled(max_bytes=8 * MIB))
    case("fill max_bytes=8 MiB with odd sizes", lambda: filled(max_bytes=8 * MIB, size=3 * MIB))
    case("fill max_bytes=1 MiB", lambda: filled(max_bytes=MIB))
    case("fill max_regions=0", lambda: filled(max_regions=0))
    case("fill max_regions=3", lambda: filled(max_regions=3, size=1))
    case("fill max_size_class=64 KiB", lambda: filled(max_size_class=64 * KIB, size=128 * KIB + 1, most=8))
    case("fill small buffers", lambda: filled(size=1, most=1000))
    case("size above max_bytes", lambda: lent(store.BufferPool(client, max_bytes=8 * MIB), 8 * MIB + 1))
    for name, values in {
        "alignment": (0, 1, 4, 8, 4096, 12345, 1 << 40, -1, "a"),
        "min_size_class": (0, 1, 100, 1 << 40, -1, None),
        "max_size_class": (0, 1, None, -1, "a"),
        "max_bytes": (0, None, -1, 1.5),
        "max_regions": (1, -1, "a"),
        "block_on_exhaustion": (True, False, None, 0, 1, "yes"),
        "default_timeout": (0, 1.5, None, "soon", -1),
        "prewarm_size": (0, 1000, None),
        "prewarm_count": (0, 7, -1),
    }.items():
        for value in values:
            case(f"BufferPool {name}={value!r}", lambda: filled(most=1, size=1, **{name: value}))
    case("BufferPool prewarm", lambda: filled(most=2, size=1, prewarm_size=1000, prewarm_count=2))
    case("BufferPool prewarm too much", lambda: filled(2, 1, prewarm_size=MIB, prewarm_count=100, max_bytes=8 * MIB))
    case("BufferPool prewarm_size=-1", lambda: filled(most=1, prewarm_size=-1, prewarm_count=1))
    for bad in (None, 5, "store", object()):
        case(f"BufferPool of {type(bad).__name__}", lambda: store.BufferPool(bad) and None)
    case("BufferPool of nothing", lambda: store.BufferPool() and None)
    case("BufferPool before setup", lambda: store.BufferPool(store.MooncakeDistributedStore()) and None)
    for args in ((1000, 2), (0, 0), (1 << 62, 5), (-1, 1), (1, -1), (1,)):
        case(f"prewarm {args}", lambda: store.BufferPool(client).prewarm(*args))
    case("prewarm by name", lambda: store.BufferPool(client).prewarm(size=1, count=1))


def exhaustion(client: Any) -> None:
    pool = store.BufferPool(client, max_regions=1)
    lease = pool.acquire(1)
    for settings in (
        {"block": False}, {"block": 0}, {"block": False, "timeout": 1}, {"timeout": 0}, {"timeout": SHORT},
        {"block": True, "timeout": SHORT}, {"block": None, "timeout": SHORT}, {"block": 1, "timeout": SHORT},
        {"timeout": -1}, {"timeout": "soon"}, {"block": "yes", "timeout": SHORT}, {"block": [], "timeout": SHORT},
    ):  # fmt: skip
        case(f"exhausted {settings}", lambda: pool.acquire(1, **settings))
    case("exhausted by position", lambda: pool.acquire(1, True, SHORT))
    case("exhausted buffer", lambda: pool.buffer(1, False))
    got: list[int] = []

    def wait() -> None:
        with pool.acquire(5) as mine:
            got.append(mine.size)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    lease.release()
    for thread in waiting:
        thread.join(60)
    case("waiting threads", lambda: got)
    pool.close()
    pool = store.BufferPool(client, max_regions=1, default_timeout=SHORT)
    with pool.acquire(1):
        case("exhausted with default_timeout", lambda: pool.acquire(1))
        case("exhausted with default_timeout, not blocking", lambda: pool.acquire(1, block=False))
    pool.close()
    pool = store.BufferPool(client, max_regions=1, block_on_exhaustion=False)
    with pool.acquire(1):
        case("exhausted without blocking", lambda: pool.acquire(1))
        case("exhausted without blocking, timeout", lambda: pool.acquire(1, timeout=SHORT))
        case("exhausted without blocking, block", lambda: pool.acquire(1, block=True, timeout=SHORT))
    pool.close()


def leases(client: Any) -> None:
    pool = store.BufferPool(client, max_regions=8, block_on_exhaustion=False)
    lease = pool.acquire(100)
    case("repr of a lease", lambda: repr(lease).split(" at ")[0])
    case("repr of a pool", lambda: repr(pool).split(" at ")[0])
    case("set ptr", lambda: setattr(lease, "ptr", 1))
    case("set size", lambda: setattr(lease, "size", 1))
    case("set another", lambda: setattr(lease, "another", 1))
    case("len of a lease", lambda: len(lease))
    case("bytes of a lease", lambda: bytes(lease))
    case("a lease is true", lambda: bool(lease))
    case("a lease is itself", lambda: [lease == lease, isinstance(hash(lease), int)])  # noqa: PLR0124
    case("views are new each time", lambda: [lease.buffer is lease.buffer, lease.buffer == lease.buffer])
    case("weakref of a lease", lambda: weakref.ref(lease)() is lease)
    view = lease.buffer
    case("release with a view", lease.release)
    case("ptr goes on", lambda: lease.ptr != 0)
    part = view[10:20]
    del view
    case("release with a slice", lease.release)
    part.release()
    case("release", lease.release)
    case("release again", lease.release)
    case("ptr after release", lambda: lease.ptr)
    case("size after release", lambda: lease.size)
    case("buffer after release", lambda: lease.buffer)
    case("enter after release", lambda: lease.__enter__() is lease)
    case("exit after release", lambda: lease.__exit__(None, None, None))
    case("a slice after release", lambda: part[0])
    lease = pool.acquire(100)
    array = (memoryview(lease.buffer).cast("I"), bytearray(lease.buffer))
    case("release with a view of another format", lease.release)
    del array
    case("release with a copy", lease.release)
    case("exit without arguments", lambda: pool.acquire(1).__exit__())
    case("exit by hand", lambda: pool.acquire(1).__exit__(1, 2, 3))

    def leave(keep: bool, fail: bool) -> str:
        with pool.acquire(10) as lease:
            kept.append(lease.buffer if keep else lease)
            if fail:
                raise KeyError("of the block")
        return "left"

    kept: list[Any] = []
    case("leave the block", lambda: leave(False, False))
    case("leave the block with a view", lambda: leave(True, False))
    case("leave the block by an exception", lambda: leave(False, True))
    case("leave the block by an exception with a view", lambda: leave(True, True))
    kept.clear()
    gc.collect()
    case("close after all", pool.close)


def lifetimes(client: Any) -> None:
    pool = store.BufferPool(client, max_regions=1, block_on_exhaustion=False)
    pool.acquire(10)
    gc.collect()
    case("a dropped lease comes back", lambda: lent(pool, 1)[1])
    view = pool.acquire(10).buffer
    gc.collect()
    case("a view keeps its lease", lambda: pool.acquire(1))
    view[0] = 7
    case("a view of a dropped lease", lambda: view[0])  # noqa: F821
    case("close with a lease", pool.close)
    del view
    gc.collect()
    case("a dropped view comes back", lambda: lent(pool, 1)[1])
    lease = pool.acquire(1)
    del pool
    gc.collect()
    case("a lease of a dropped pool", lambda: [lease.size, len(lease.buffer)])
    case("release to a dropped pool", lease.release)
    pool = store.BufferPool(client, max_regions=1)
    lease = pool.acquire(1)
    case("close while lent", pool.close)
    lease.buffer[:] = b"x"
    case("a lease after the refused close", lambda: bytes(lease.buffer) == b"x")
    lease.release()
    pool.close()
    case("copy", lambda: copy.copy(store.BufferPool(client)) and None)
    case("pickle", lambda: pickle.dumps(store.BufferPool(client)) and None)
    case("weakref", lambda: bool(weakref.ref(store.BufferPool(client))) or True)
    case("subclass", lambda: lent(type("Mine", (store.BufferPool,), {})(client), 3)[1])
    case("BufferLease()", lambda: store.BufferLease() and None)
    case("BufferLeaseView()", lambda: store.BufferLeaseView() and None)


def names() -> None:
    case("one class", lambda: len({id(m) for m in (store.BufferPool, buffer_pool.BufferPool, mooncake.BufferPool)}))
    case("aliases", lambda: [
        store.RegisteredBufferPool is store.BufferPool, store.RegisteredBufferLease is store.BufferLease,
        store.RegisteredBufferLeaseView is store.BufferLeaseView,
        buffer_pool.RegisteredBufferPool is store.BufferPool, mooncake.RegisteredBufferPool is store.BufferPool,
    ])  # fmt: skip
    case("modules", lambda: [store.BufferPool.__module__, store.BufferLease.__module__])
    for name in ("BufferPool", "BufferLease"):
        case(f"names of {name}", lambda: sorted(n for n in dir(getattr(store, name)) if not n.startswith("_")))


def transfers(client: Any) -> None:
    pool = store.BufferPool(client, max_bytes=16 * MIB)
    leases = [pool.acquire(LOCAL_BUFFER), pool.acquire(LOCAL_BUFFER)]  # upstream: the second one overflows
    for i, lease in enumerate(leases):
        lease.buffer[:5] = b"page%d" % i
        case(f"put_from buffer {i}", lambda: client.put_from(f"pool/{i}", lease.ptr, 5))
        case(f"get_into buffer {i}", lambda: client.get_into(f"pool/{i}", lease.ptr + 100, 100))
        case(f"what came to buffer {i}", lambda: bytes(lease.buffer[100:105]).decode())
        lease.release()
    pool.close()


def main(master: str) -> None:
    client = store.MooncakeDistributedStore()
    code = client.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MIB, LOCAL_BUFFER, "tcp", "", master)
    assert code == 0, code
    for group in (sizes, bounds, exhaustion, leases, lifetimes, transfers):
        group(client)
    names()
    gc.collect()
    no_local = store.MooncakeDistributedStore()
    code = no_local.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MIB, 0, "tcp", "", master)
    assert code == 0, code
    case("BufferPool without a local buffer", lambda: store.BufferPool(no_local) and None)
    no_local.close()
    client.close()
    print("ANSWERS " + json.dumps(ANSWERS))


if __name__ == "__main__":
    main(sys.argv[1])
