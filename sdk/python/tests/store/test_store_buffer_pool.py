"""Registered memory that is lent."""

import copy
import gc
import itertools
import pickle
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
        assert lease.size == 1000
        for use in (lambda: lease.ptr, lambda: lease.buffer):
            with pytest.raises(RuntimeError, match="closed"):
                use()
        with pytest.raises(BufferError, match="closed"):
            _ = lease.buffer


def test_the_same_memory_is_lent_again(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=64 * KIB) as pool:
        with pool.buffer(10) as lease:
            first = lease.ptr
        with pool.acquire(size=20_000) as lease:
            assert lease.ptr == first
        assert len(pool._regions) == 1


def test_sizes_of_any_kind(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=KIB * KIB, max_size_class=128 * KIB) as pool:
        for size in (0, 1, 128 * KIB, 128 * KIB + 1, KIB * KIB):
            with pool.acquire(size) as lease:
                assert (lease.size, len(lease.buffer), lease.ptr % 64) == (size, size, 0)
                assert lease.ptr != 0


def test_buffers_do_not_overlap_and_fill_the_memory(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=3 * 100 * KIB, alignment=512 * KIB) as pool:
        for order in itertools.permutations(range(3)):
            leases = [pool.acquire(100 * KIB) for _ in range(3)]
            for i, lease in enumerate(leases):
                lease.buffer[:] = bytes([i]) * lease.size
            assert [bytes(lease.buffer) == bytes([i]) * lease.size for i, lease in enumerate(leases)] == [True] * 3
            with pytest.raises(RuntimeError, match="exhausted"):
                pool.acquire(0)
            for i in order:
                leases[i].release()
            with pool.acquire(300 * KIB):
                assert len(pool._regions) == 1, "what came back is one range again"


def test_exhaustion(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=128 * KIB) as pool:
        leases = [pool.acquire(64 * KIB), pool.acquire(64 * KIB)]
        with pytest.raises(RuntimeError, match="exhausted.* 2 active leases of 131072 bytes"):
            pool.acquire(1)
        with pytest.raises(RuntimeError, match=r"timed out after 0\.01 s.*exhausted"):
            pool.acquire(1, block=True, timeout=0.01)
        leases.pop().release()
        pool.acquire(1, block=False).release()
        leases.pop().release()


def test_a_size_that_exceeds_the_capacity_is_refused_at_once(store: MooncakeDistributedStore) -> None:
    for settings, capacity in (({"max_bytes": 64 * KIB}, 64 * KIB), ({}, 32 << 20)):
        with pool_of(store, block_on_exhaustion=True, **settings) as pool:
            pool.acquire(capacity).release()
            for size in (capacity + 1, (1 << 64) - 1):
                with pytest.raises(RuntimeError, match="capacity"):
                    pool.acquire(size)


def test_without_max_bytes_the_local_buffer_bounds_it(shared_pool: Master, make_store) -> None:
    with pool_of(make_store(shared_pool, buffer=1 << 20)) as pool:
        leases = [pool.acquire(1 << 20), pool.acquire(1 << 20)]
        with pytest.raises(RuntimeError, match="exhausted"):
            pool.acquire(1)
        for lease in leases:
            lease.release()
    with pool_of(make_store(shared_pool, buffer=0)) as pool, pool.acquire(4 << 20), pool.acquire(4 << 20):
        pass


def test_default_timeout(store: MooncakeDistributedStore) -> None:
    settings = {"max_regions": 1, "block_on_exhaustion": True, "default_timeout": 0.01}
    with pool_of(store, **settings) as pool, pool.acquire(1), pytest.raises(RuntimeError, match="timed out"):
        pool.acquire(1)


def test_a_waiting_thread_gets_what_is_released(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_regions=1, block_on_exhaustion=True) as pool:
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


def test_sizes_share_the_memory(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=256 * KIB) as pool:
        small = [pool.acquire(64 * KIB) for _ in range(4)]
        with pytest.raises(RuntimeError, match="exhausted"):
            pool.acquire(200 * KIB)
        assert len(pool._regions) == 4
        for lease in small:
            lease.release()
        with pool.acquire(200 * KIB) as large:
            assert large.size == 200 * KIB
            assert pool._regions.registered() <= 256 * KIB
        pool.acquire(1).release()


def test_what_may_be_lent_is_lent_though_the_free_ranges_are_short(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=256 * KIB, alignment=256 * KIB) as pool:
        quarters = [pool.acquire(64 * KIB) for _ in range(4)]
        quarters.pop(3).release()
        quarters.pop(1).release()
        with pool.acquire(128 * KIB):
            assert pool._regions.registered() == 384 * KIB
            with pytest.raises(RuntimeError, match="exhausted"):
                pool.acquire(1)
        pool.prewarm(1, 1)
        assert pool._regions.registered() == 256 * KIB, "it is gone with its buffer"
        for lease in quarters:
            lease.release()


def test_max_regions_bounds_what_is_lent(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_regions=2) as pool:
        leases = [pool.acquire(1), pool.acquire(128 * KIB)]
        with pytest.raises(RuntimeError, match="exhausted"):
            pool.acquire(1)
        leases.pop().release()
        leases.append(pool.acquire(1 << 20))
        assert len(pool._regions) == 2, "an idle one made room"
        for lease in leases:
            lease.release()
    with pool_of(store, max_regions=0) as pool, pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(1)


def test_bounds(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_size_class=1) as pool, pytest.raises(TypeError, match="size"):
        pool.acquire(1.5)
    for name in ("min_size_class", "alignment"):
        with pytest.raises(RuntimeError, match=name):
            pool_of(store, **{name: 0})
    for alignment in (1, 4, 12345, 3 * KIB):
        with pytest.raises(RuntimeError, match="alignment must be a power of two"):
            pool_of(store, alignment=alignment)
    pool_of(store, alignment=8).close()
    for name in ("max_bytes", "max_size_class", "prewarm_size", "prewarm_count", "max_regions"):
        with pytest.raises(TypeError, match=name):
            pool_of(store, **{name: -1})
    with pytest.raises(TypeError, match="block_on_exhaustion"):
        pool_of(store, block_on_exhaustion="yes")
    with pytest.raises(TypeError, match="default_timeout"):
        pool_of(store, default_timeout="soon")


def test_prewarm(store: MooncakeDistributedStore) -> None:
    with pool_of(store, max_bytes=512 * KIB, prewarm_size=64 * KIB, prewarm_count=4) as pool:
        assert pool._regions.registered() == 256 * KIB
        pool.prewarm(size=64 * KIB, count=8)
        assert pool._regions.registered() == 512 * KIB
        pool.prewarm(64 * KIB, count=1 << 40)
        assert pool._regions.registered() == 512 * KIB, "as many as may be"
        leases = [pool.acquire(64 * KIB) for _ in range(8)]
        for lease in leases:
            lease.release()


def test_release_with_a_live_view(store: MooncakeDistributedStore) -> None:
    with pool_of(store) as pool:
        lease = pool.acquire(100)
        whole = lease.buffer
        with pytest.raises(RuntimeError, match="exported views"):
            lease.release()
        part = whole[10:20]
        whole.release()
        with pytest.raises(RuntimeError, match="exported views"):
            lease.release()
        lease.buffer[10:12] = b"ok"
        assert bytes(part[:2]) == b"ok", "the lease goes on"
        part.release()
        lease.release()


def test_leaving_the_block_of_a_lease_with_a_live_view(store: MooncakeDistributedStore) -> None:
    with pool_of(store) as pool:
        lease = pool.acquire(100)
        with pytest.raises(RuntimeError, match="exported views"), lease:
            view = lease.buffer
        assert lease.ptr != 0
        del view
        lease.release()


def test_release_with_an_array_over_it(store: MooncakeDistributedStore) -> None:
    numpy = pytest.importorskip("numpy")
    with pool_of(store) as pool:
        lease = pool.acquire(4000)
        array = numpy.frombuffer(lease.buffer, dtype=numpy.float32)
        array[:] = 1.5
        with pytest.raises(RuntimeError, match="exported views"):
            lease.release()
        del array
        lease.release()


def test_close_with_active_leases(store: MooncakeDistributedStore) -> None:
    pool = pool_of(store)
    lease = pool.acquire(1)
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    lease.release()
    pool.close()
    pool.close()
    for use in (lambda: pool.acquire(1), lambda: pool.prewarm(1, 1)):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_close_wakes_who_waits(store: MooncakeDistributedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_of(store, block_on_exhaustion=True)
    waiting, errors = threading.Event(), []
    take = pool._take

    def seen(size: int) -> object:
        waiting.set()
        # The pool lends nothing: no lease keeps it from being closed.
        return take(size) if pool._closed else None

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
    with pool_of(store, max_regions=1) as pool:
        view = pool.acquire(10).buffer
        gc.collect()
        view[0] = 1
        with pytest.raises(RuntimeError, match="exhausted"):
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
    with buffers.acquire(1 << 20) as lease:
        ptr = lease.ptr  # of its region as well
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


def test_what_is_no_store_that_is_set_up() -> None:
    for store in (None, MooncakeDistributedStore()):
        with pytest.raises(RuntimeError, match="not initialized"):
            BufferPool(store)
    for store in (5, "store", object()):
        with pytest.raises(RuntimeError, match="needs a MooncakeDistributedStore"):
            BufferPool(store)


def test_a_store_that_was_closed_answers_for_the_overflow(shared_pool: Master, make_store) -> None:
    store = make_store(shared_pool)
    with BufferPool(store) as pool:
        assert store.close() == 0
        with pytest.raises(RuntimeError, match="overflow buffer.*-600"):
            pool.acquire(1)


def test_it_is_not_copied(store: MooncakeDistributedStore) -> None:
    with pool_of(store) as pool, pool.acquire(1) as lease:
        for one in (pool, lease):
            for clone in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be pickled or copied"):
                    clone(one)


def test_threads_share_it(store: MooncakeDistributedStore) -> None:
    """Each byte of a buffer has one owner at a time, and nothing is lost in the end."""
    errors: list[str] = []

    def work(mine: int) -> None:
        for i in range(300):
            size = (mine * 7919 + i * 104729) % (40 * KIB)
            lease = pool.acquire(size, timeout=60)
            lease.buffer[:] = bytes([mine]) * size
            if bytes(lease.buffer) != bytes([mine]) * size:
                errors.append(f"thread {mine}, buffer {i}")
            if i % 2:
                lease.release()
            del lease

    with pool_of(store, max_bytes=128 * KIB, block_on_exhaustion=True) as pool:
        threads = [threading.Thread(target=work, args=(mine,)) for mine in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        assert errors == []
        gc.collect()
        pool.acquire(128 * KIB, block=False).release()


def test_with_a_dummy_client(processes, shared_pool: Master, key: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup_dummy(0, 1 << 20, processes.local_service(shared_pool).address) == 0
    with BufferPool(store) as pool, pool.acquire(1000) as lease:
        lease.buffer[:4] = b"page"
        assert store.put_from(key, lease.ptr, 4) == 0
        assert store.get(key) == b"page"
    assert store.close() == 0
