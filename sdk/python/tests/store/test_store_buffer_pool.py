"""Registered memory that is lent."""

import gc
import threading

import pytest
from processes import Master

from mooncake.store import BufferLease, BufferLeaseView, BufferPool, MooncakeDistributedStore, RegisteredBufferPool

KIB = 1024


def pool_of(store: MooncakeDistributedStore, **settings: object) -> BufferPool:
    return BufferPool(store, **{"alignment": 64 * KIB, "block_on_exhaustion": False, **settings})


def test_lend_and_return(store: MooncakeDistributedStore, key: str) -> None:
    with RegisteredBufferPool(store) as pool:
        lease = pool.acquire(1000)
        assert isinstance(lease, BufferLease)
        assert isinstance(lease.buffer, BufferLeaseView)
        assert (lease.size, len(lease.buffer), lease.buffer.readonly, lease.buffer.itemsize) == (1000, 1000, False, 1)
        lease.buffer[:5] = b"hello"
        assert store.put_from(key, lease.ptr, 5) == 0
        assert store.get_into(key, lease.ptr + 100, 900) == 5
        assert bytes(lease.buffer[100:105]) == b"hello"
        lease.release()
        lease.release()
        for use in (lambda: lease.ptr, lambda: lease.buffer, lease.__enter__):
            with pytest.raises(RuntimeError, match="released"):
                use()


def test_the_same_memory_is_lent_again(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=64 * KIB) as pool:
        with pool.buffer(10) as lease:
            first = lease.ptr
        with pool.acquire(size=20_000) as lease:
            assert lease.ptr == first
        assert len(pool._regions) == 1


def test_exhaustion(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=128 * KIB) as pool:
        leases = [pool.acquire(64 * KIB), pool.acquire(1)]
        with pytest.raises(RuntimeError, match="all are lent"):
            pool.acquire(1)
        with pytest.raises(RuntimeError, match=r"within 0\.01 s"):
            pool.acquire(1, block=True, timeout=0.01)
        leases.pop().release()
        pool.acquire(1, block=False).release()
        leases.pop().release()


def test_default_timeout(store: MooncakeDistributedStore) -> None:
    settings = {"max_bytes": 64 * KIB, "block_on_exhaustion": True, "default_timeout": 0.01}
    with pool_of(store, **settings) as pool, pool.acquire(1), pytest.raises(RuntimeError, match="within"):
        pool.acquire(1)


def test_a_waiting_thread_gets_what_is_released(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=64 * KIB, block_on_exhaustion=True) as pool:
        lease, got = pool.acquire(1), []

        def wait() -> None:
            with pool.acquire(1) as mine:
                got.append(mine.ptr)

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for t in threads:
            t.start()
        assert not got
        ptr = lease.ptr
        lease.release()
        for t in threads:
            t.join(30)
        assert got == [ptr] * 4


def test_size_classes_share_the_memory(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=256 * KIB) as pool:
        small = [pool.acquire(64 * KIB) for _ in range(4)]
        with pytest.raises(RuntimeError):
            pool.acquire(200 * KIB)
        for lease in small:
            lease.release()
        with pool.acquire(200 * KIB) as large:
            assert large.size == 200 * KIB
            assert sum(r.size for r in pool._regions) <= 256 * KIB
        pool.acquire(1).release()


def test_bounds(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_size_class=128 * KIB, max_regions=1) as pool:
        with pytest.raises(RuntimeError, match="size"):
            pool.acquire(128 * KIB + 1)
        with pytest.raises(RuntimeError, match="size"):
            pool.acquire(0)
        with pytest.raises(TypeError, match="size"):
            pool.acquire(1.5)
        lease = pool.acquire(128 * KIB)
        with pytest.raises(RuntimeError, match="all are lent"):
            pool.acquire(1)
        lease.release()
    with pytest.raises(RuntimeError, match="max_size_class"):
        pool_of(store, max_size_class=1)
    for name in ("min_size_class", "alignment"):
        with pytest.raises(RuntimeError, match=name):
            pool_of(store, **{name: 0})
    for name in ("max_bytes", "prewarm_count", "max_regions"):
        with pytest.raises(TypeError, match=name):
            pool_of(store, **{name: -1})
    with pytest.raises(TypeError, match="block_on_exhaustion"):
        pool_of(store, block_on_exhaustion="yes")
    with pytest.raises(TypeError, match="default_timeout"):
        pool_of(store, default_timeout="soon")


def test_prewarm(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=512 * KIB, prewarm_size=64 * KIB, prewarm_count=4) as pool:
        assert sum(len(r.free) for r in pool._regions) >= 4
        with pytest.raises(RuntimeError, match="may not have"):
            pool.prewarm(64 * KIB, count=9)
        pool.prewarm(size=64 * KIB, count=8)
        leases = [pool.acquire(64 * KIB) for _ in range(8)]
        for lease in leases:
            lease.release()


def test_release_with_a_live_view(store: MooncakeDistributedStore) -> None:
    with pool_of(store) as pool:
        lease = pool.acquire(100)
        part = lease.buffer[10:20]
        with pytest.raises(RuntimeError, match="view"):
            lease.release()
        lease.buffer[10:12] = b"ok"
        assert bytes(part[:2]) == b"ok", "the lease goes on"
        del part
        lease.release()


def test_release_with_an_array_over_it(store: MooncakeDistributedStore) -> None:
    numpy = pytest.importorskip("numpy")
    with pool_of(store) as pool:
        lease = pool.acquire(4000)
        array = numpy.frombuffer(lease.buffer, dtype=numpy.float32)
        array[:] = 1.5
        with pytest.raises(RuntimeError, match="lease.buffer"):
            lease.release()
        del array
        lease.release()


def test_close_with_active_leases(store: MooncakeDistributedStore) -> None:
    pool = pool_of(store)
    lease = pool.acquire(1)
    with pytest.raises(RuntimeError, match="active"):
        pool.close()
    lease.release()
    pool.close()
    pool.close()
    for use in (lambda: pool.acquire(1), lambda: pool.prewarm(1, 1)):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_close_wakes_who_waits(store: MooncakeDistributedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_of(store, max_bytes=64 * KIB, block_on_exhaustion=True)
    waiting, errors = threading.Event(), []
    take = pool._take

    def seen(step: int) -> object:
        waiting.set()
        # The one buffer is not to be had: it counts as free, so that the pool can be closed.
        return take(step) if pool._closed else None

    monkeypatch.setattr(pool, "_take", seen)

    def wait() -> None:
        try:
            pool.acquire(1)
        except RuntimeError as e:
            errors.append(str(e))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(30)
    pool.close()
    thread.join(30)
    assert errors == ["the buffer pool is closed"]


def test_a_dropped_lease_comes_back(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=64 * KIB) as pool:
        view = pool.acquire(10).buffer
        gc.collect()
        view[0] = 1
        with pytest.raises(RuntimeError, match="all are lent"):
            pool.acquire(1)
        del view
        gc.collect()
        pool.acquire(1).release()


def test_memory_is_freed(pool: Master, make_store) -> None:
    store = make_store(pool)

    def mapped() -> int:
        with open("/proc/self/maps") as f:
            return sum("mooncake" in line and "memfd" in line for line in f)

    gc.collect()  # what other tests left behind
    before = mapped()
    buffers = BufferPool(store)
    buffers.acquire(1 << 20).release()
    ptr = buffers._regions[0].ptr
    assert mapped() > before
    buffers.close()
    assert mapped() == before
    assert store.unregister_buffer(ptr) != 0, "it is no longer registered"
    dropped = BufferPool(store)
    dropped.acquire(1 << 20).release()
    del dropped
    gc.collect()
    assert mapped() == before


def test_a_pool_that_was_not_made_is_dropped_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", complaints.append)
    with pytest.raises(TypeError, match="store"):
        BufferPool()
    gc.collect()
    assert complaints == []


def test_a_store_that_is_not_set_up() -> None:
    with BufferPool(MooncakeDistributedStore()) as pool, pytest.raises(RuntimeError, match="-600"):
        pool.acquire(1)


def test_with_a_dummy_client(processes, shared_pool: Master, key: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup_dummy(0, 1 << 20, processes.local_service(shared_pool).address) == 0
    with BufferPool(store) as pool, pool.acquire(1000) as lease:
        lease.buffer[:4] = b"page"
        assert store.put_from(key, lease.ptr, 4) == 0
        assert store.get(key) == b"page"
    assert store.close() == 0
