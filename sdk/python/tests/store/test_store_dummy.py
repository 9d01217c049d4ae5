"""A dummy client beside a real mooncake_client: memory is shared, no byte goes through a socket."""

import ctypes
import os
from collections.abc import Iterator

import pytest
from processes import LocalService, Master

from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator, get_alloc_func_addr, get_free_func_addr

INVALID = -600
MISSING = -704
SIZE = 4 << 20


@pytest.fixture(scope="module")
def service(module_processes, shared_pool: Master) -> LocalService:
    return module_processes.local_service(shared_pool)


@pytest.fixture
def dummy(service: LocalService) -> Iterator[MooncakeDistributedStore]:
    store = MooncakeDistributedStore()
    assert store.setup_dummy(0, 16 << 20, service.address) == 0, store.last_error()
    yield store
    assert store.close() == 0


def filled(ptr: int, size: int) -> memoryview:
    """size bytes at ptr, as an engine looks at its pages."""
    return memoryview((ctypes.c_ubyte * size).from_address(ptr)).cast("B")


def socket_bytes() -> int:
    """What this process has read and written by system calls: sockets and files, not shared memory."""
    with open("/proc/self/io") as f:
        counts = dict(line.split(": ") for line in f.read().splitlines())
    return int(counts["rchar"]) + int(counts["wchar"])


def test_bytes(dummy: MooncakeDistributedStore, store: MooncakeDistributedStore, key: str) -> None:
    assert dummy.health_check() == 0
    assert dummy.put(key, b"through the other process") == 0
    assert dummy.get(key) == b"through the other process"
    assert store.get(key) == b"through the other process"
    assert (dummy.is_exist(key), dummy.get_size(key)) == (1, 25)
    assert dummy.put_parts(key + "p", b"a", b"bc") == 0
    assert [b and bytes(b) for b in dummy.batch_get_buffer([key + "p", key + "no"])] == [b"abc", None]
    assert dummy.upsert(key, b"new") == 0
    assert dummy.get_batch([key]) == [b"new"]
    assert dummy.batch_remove([key, key + "no"], force=True) == [0, MISSING]
    assert store.is_exist(key) == 0


def test_what_was_read_can_be_written_to(dummy: MooncakeDistributedStore, key: str) -> None:
    """As with a store of its own: the object in the other process's memory stays as it is."""
    assert dummy.put(key, b"through" * 1000) == 0
    handle = dummy.get_buffer(key)
    assert handle is not None
    memoryview(handle)[:7] = b"written"
    assert bytes(handle) == b"written" + b"through" * 999
    assert dummy.get(key) == b"through" * 1000


def test_pages_are_moved_without_a_copy(
    dummy: MooncakeDistributedStore, store: MooncakeDistributedStore, key: str
) -> None:
    allocator = MooncakeHostMemAllocator()
    ptr = allocator.alloc(SIZE)
    assert ptr % os.sysconf("SC_PAGESIZE") == 0
    page = filled(ptr, SIZE)
    assert bytes(page[:8]) == bytes(8)
    value = os.urandom(SIZE // 4) * 4
    page[:] = value
    assert dummy.register_buffer(ptr, SIZE) == 0, dummy.last_error()
    before = socket_bytes()
    assert dummy.batch_put_from([key + "1", key + "2"], [ptr, ptr + SIZE // 2], [SIZE // 2] * 2) == [0, 0]
    page[:] = bytes(SIZE)
    assert dummy.batch_get_into([key + "1", key + "2", key + "no"], [ptr, ptr + SIZE // 2, ptr], [SIZE // 2] * 3) == [
        SIZE // 2
    ] * 2 + [MISSING]
    assert bytes(page) == value
    assert dummy.batch_put_from_multi_buffers([key + "m"], [[ptr, ptr + 100]], [[10, 10]]) == [0]
    assert dummy.batch_get_into_multi_buffers([key + "m"], [[ptr + 200, ptr + 300]], [[5, 15]]) == [20]
    assert bytes(page[200:205]) + bytes(page[300:315]) == value[0:10] + value[100:110]
    assert socket_bytes() - before < SIZE // 16, "8 MiB moved, but not through this process's sockets"
    assert store.get_size(key + "1") == SIZE // 2
    assert dummy.unregister_buffer(ptr) == 0
    del page
    assert allocator.free(ptr) == 0
    assert allocator.free(ptr) != 0, "only once"


def test_only_whole_allocations_can_be_registered(dummy: MooncakeDistributedStore) -> None:
    allocator = MooncakeHostMemAllocator()
    ptr = allocator.alloc(size=SIZE)
    assert dummy.register_buffer(ptr, SIZE // 2) != 0
    assert dummy.register_buffer(ptr + 4096, SIZE - 4096) != 0
    foreign = ctypes.create_string_buffer(4096)
    assert dummy.register_buffer(ctypes.addressof(foreign), 4096) != 0
    assert dummy.register_buffer(ptr, SIZE) == 0
    assert dummy.unregister_buffer(ptr) == 0
    assert allocator.free(ptr=ptr) == 0


def test_memory_of_the_pool_can_be_registered(dummy: MooncakeDistributedStore, key: str) -> None:
    """As SGLang and vLLM do with memory from upstream, which does not come registered."""
    ptr = dummy.alloc_from_mem_pool(SIZE)
    assert ptr
    assert [dummy.register_buffer(ptr, SIZE) for _ in range(2)] == [0, 0], dummy.last_error()
    assert dummy.register_buffer(ptr, SIZE // 2) < 0
    page = filled(ptr, SIZE)
    value = os.urandom(SIZE)
    page[:] = value
    assert dummy.put_from(key, ptr, SIZE) == 0
    page[:] = bytes(SIZE)
    assert dummy.get_into(key, ptr, SIZE) == SIZE
    assert bytes(page) == value
    assert dummy.unregister_buffer(ptr) == 0
    assert dummy.unregister_buffer(ptr) < 0
    assert dummy.register_buffer(ptr, SIZE) == 0


def test_ranges_and_sessions(dummy: MooncakeDistributedStore, key: str) -> None:
    allocator = MooncakeHostMemAllocator()
    ptr = allocator.alloc(SIZE)
    assert dummy.register_buffer(ptr, SIZE) == 0
    page = filled(ptr, SIZE)
    assert dummy.put(key, b"0123456789") == 0
    assert dummy.get_into_ranges([ptr], [[key]], [[[0, 100]]], [[[5, 0]]], [[[5, 3]]]) == [[[5, 3]]]
    assert bytes(page[0:5]) + bytes(page[100:103]) == b"56789012"
    assert dummy.batch_get_session_start([key]) == [0]
    assert dummy.batch_get_into_multi_buffer_ranges([key], [[ptr]], [[4]], [[2]]) == [4]
    assert bytes(page[0:4]) == b"2345"
    assert dummy.batch_get_session_end([key]) == 0
    assert dummy.batch_put_session_start([key + "w"], [4]) == [0]
    assert dummy.batch_put_from_multi_buffer_ranges([key + "w"], [[ptr, ptr + 2]], [[2, 2]], [[2, 0]]) == [4]
    assert dummy.batch_put_session_end([key + "w"]) == [0]
    assert dummy.get(key + "w") == b"4523"
    assert dummy.unregister_buffer(ptr) == 0
    del page
    allocator.free(ptr)


def test_no_segments_of_a_dummy_client(dummy: MooncakeDistributedStore) -> None:
    assert dummy.allocate_and_mount_segment(1 << 20)["ret"] < 0
    assert dummy.mount_segment("/dev/shm/x", 4096)["ret"] < 0
    assert dummy.unmount_segment(["x"]) < 0


def test_no_service_no_setup(service: LocalService) -> None:
    store = MooncakeDistributedStore()
    assert store.setup_dummy(mem_pool_size=0, local_buffer_size=0, server_address="127.0.0.1:1") == -1
    assert store.last_error()
    assert store.setup_dummy(1 << 30, 1 << 20, service.address) == 0
    assert store.put("again", b"x") == 0
    assert store.close() == 0
    for name, arguments in (
        ("mem_pool_size", (-1, 0, "x")),
        ("local_buffer_size", (0, 1.5, "x")),
        ("server_address", (0, 0, None)),
    ):
        with pytest.raises(TypeError, match=name):
            store.setup_dummy(*arguments)


def test_kill_of_the_service(processes, shared_pool: Master, key: str) -> None:
    service = processes.local_service(shared_pool)
    dummy = MooncakeDistributedStore()
    assert dummy.setup_dummy(0, 1 << 20, service.address) == 0
    ptr = MooncakeHostMemAllocator().alloc(4096)
    assert dummy.register_buffer(ptr, 4096) == 0
    assert dummy.put_from(key, ptr, 100) == 0
    service.kill()
    assert dummy.put_from(key + "2", ptr, 100) < 0
    assert dummy.get(key) == b""
    assert dummy.health_check() == 2
    ctypes.memset(ptr, 1, 4096)
    assert dummy.close() <= 0
    assert MooncakeHostMemAllocator().free(ptr) == 0


def test_allocator_functions_for_c() -> None:
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(get_alloc_func_addr())
    free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(get_free_func_addr())
    ptr = alloc(10_000)
    assert ptr
    ctypes.memset(ptr, 0x5A, 10_000)
    assert free(ptr) == 0
    assert free(ptr) != 0


def test_memory_there_cannot_be() -> None:
    with pytest.raises(RuntimeError, match="shared memory"):
        MooncakeHostMemAllocator().alloc(1 << 60)
    with pytest.raises(TypeError, match="size"):
        MooncakeHostMemAllocator().alloc(-1)
    with pytest.raises(TypeError, match="ptr"):
        MooncakeHostMemAllocator().free(None)
