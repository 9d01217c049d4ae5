"""What goes wrong easily with set-up, closing, forks and the end of the process: one function each."""

import gc
import pickle
import re
import time

import pytest
from memory import Memory
from processes import Master, free_port

from mooncake.store import MooncakeDistributedStore

INVALID = -600
SETUP_BOUND_S = 120.0


def test_before_setup_nothing_crashes() -> None:
    store = MooncakeDistributedStore()
    assert store.get("k") == b""
    assert store.get_batch(["k"]) == [b""]
    assert store.get_buffer("k") is None
    assert store.batch_get_buffer(["k"]) == [None]
    for call in (
        lambda: store.put("k", b"x"),
        lambda: store.upsert("k", b"x"),
        lambda: store.put_parts("k", b"x"),
        lambda: store.put_batch(["k"], [b"x"]),
        lambda: store.put_from("k", 4096, 1),
        lambda: store.put_from_with_metadata("k", 4096, 4096, 1, 1),
        lambda: store.get_into("k", 4096, 1),
        lambda: store.is_exist("k"),
        lambda: store.get_size("k"),
        lambda: store.remove("k"),
        lambda: store.remove_all(),
        lambda: store.remove_by_regex("k"),
        lambda: store.register_buffer(4096, 1),
        lambda: store.unregister_buffer(4096),
        lambda: store.batch_get_session_end(["k"]),
        lambda: store.create_copy_task("k", ["s"])[1],
        lambda: store.query_task((1, 2))[1],
    ):
        assert call() == INVALID
    for call in (store.batch_is_exist, store.batch_remove):
        assert call(["k", "l"]) == [INVALID] * 2
    for call in (store.batch_put_from, store.batch_upsert_from, store.batch_get_into):
        assert call(["k"], [4096], [1]) == [INVALID]
    for call in (store.batch_put_from_multi_buffers, store.batch_get_into_multi_buffers):
        assert call(["k"], [[4096]], [[1]]) == []
    assert store.batch_get_session_start(["k"]) == store.batch_put_session_end(["k"]) == []
    assert store.batch_put_session_start(["k"], [1]) == store.batch_put_session_revoke(["k"]) == []
    assert store.get_replica_desc("k") == []
    assert store.batch_get_replica_desc(["k"]) == {}
    assert store.mount_segment("/dev/shm/x", 4096) == {"ret": -1, "segment_ids": []}
    assert store.allocate_and_mount_segment(4096)["ret"] == -1
    assert store.unmount_segment(["x"]) == -1
    assert store.alloc_from_mem_pool(4096) == 0
    assert (store.health_check(), store.get_hostname(), store.close()) == (1, "", 0)
    assert "setup" in store.last_error()


def test_import_and_construction_start_nothing(run_python) -> None:
    ran = run_python(
        "import sys, threading, mooncake.store as ms\n"
        "from mooncake import _native\n"
        "s = ms.MooncakeDistributedStore(); c = ms.ReplicateConfig(); s.get('k'); s.put('k', b'x', c); s.close(); del s\n"
        "assert not _native.loaded() and threading.active_count() == 1\n"
        "heavy = {'torch', 'numpy', 'aiohttp', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'libmooncake' not in open('/proc/self/maps').read()\n"
        "print('fine')"
    )
    assert ran.stdout == "fine\n", ran.stderr


def test_localhost_with_p2phandshake_reaches_other_processes(pool: Master, make_store, processes) -> None:
    mine = make_store(pool, segment=32 << 20, host="localhost")
    assert re.fullmatch(r"localhost:\d+", mine.get_hostname())
    assert 12300 <= int(mine.get_hostname().partition(":")[2]) <= 14300
    other = processes.python(
        "import sys\n"
        "from mooncake.store import *\n"
        "s = MooncakeDistributedStore()\n"
        "print('set up', s.setup('localhost', 'P2PHANDSHAKE', 32 << 20, 16 << 20, 'tcp', '', sys.argv[1]))\n"
        "c = ReplicateConfig(); c.preferred_segment = s.get_hostname()\n"
        "print('put', s.put('from other', b'x' * 100000, c), flush=True)\n"
        "sys.stdin.readline()\n"
        "print('got', s.get('from here') == b'y' * 100000, flush=True)\n"
        "sys.stdin.readline()",
        pool.rpc,
    )
    assert other.wait_line("set up") == "set up 0"
    assert other.wait_line("put") == "put 0"
    assert mine.get("from other") == b"x" * 100000
    from mooncake.store import ReplicateConfig

    config = ReplicateConfig()
    config.preferred_segment = mine.get_hostname()
    assert mine.put("from here", b"y" * 100000, config) == 0
    other.tell("")
    assert other.wait_line("got") == "got True"
    other.tell("")
    assert other.wait() == 0


def test_setup_again_after_close(pool: Master, make_store) -> None:
    store = make_store(pool)
    for i in range(3):
        assert store.put(f"k{i}", b"x") == 0
        assert store.get(f"k{i}") == b"x"
        assert store.close() == 0
        assert store.get(f"k{i}") == b""
        assert (store.health_check(), store.get_hostname()) == (1, "")
        assert store.close() == 0
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", pool.rpc) == 0
    assert store.get("k0") == b"x"


def test_five_stores_in_one_process(master: Master, make_store) -> None:
    sizes = [2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20]
    stores = [make_store(master, segment=size) for size in sizes]
    assert len({s.get_hostname() for s in stores}) == 5
    for i, s in enumerate(stores):
        assert s.put(f"k{i}", bytes([i]) * 1000) == 0
    for s in stores:
        assert s.get_batch([f"k{i}" for i in range(5)]) == [bytes([i]) * 1000 for i in range(5)]
    assert stores[0].close() == 0
    assert stores[1].health_check() == 0


def test_a_segment_of_2_mib(master: Master, make_store) -> None:
    store = make_store(master, segment=2 << 20)
    assert store.put("k", bytes(1 << 20)) == 0
    assert len(store.get("k")) == 1 << 20


def test_setup_without_a_master_fails_in_time_and_can_be_repeated(pool: Master) -> None:
    store = MooncakeDistributedStore()
    began = time.monotonic()
    assert (
        store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", f"127.0.0.1:{free_port()}", max_wait_time=1)
        == -1
    )
    assert time.monotonic() - began < SETUP_BOUND_S
    assert store.last_error()
    assert (store.health_check(), store.get("k")) == (2, b"")
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", pool.rpc) == 0, store.last_error()
    assert store.put("k", b"x") == 0
    assert store.close() == 0


@pytest.mark.parametrize("size", [0, "0", "0.0 gb"])
def test_no_local_buffer_no_put_from_bytes(pool: Master, make_store, size: object) -> None:
    store = MooncakeDistributedStore()
    config = {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "global_segment_size": 0}
    assert store.setup(config | {"local_buffer_size": size, "master_server_addr": pool.rpc}) == 0
    for call in (store.put, store.upsert, store.put_parts, store.upsert_parts):
        assert call("k", b"x") == INVALID
    assert store.put_batch(["k"], [b"x"]) == INVALID
    assert "local_buffer_size" in store.last_error()
    assert store.is_exist("k") == 0
    memory = Memory(4096).register(store)
    memory[0:1] = b"x"
    assert store.put_from("k", memory.ptr, 1) == 0
    assert store.get_into("k", memory.ptr + 1, 10) == 1
    assert store.get_into("no", memory.ptr, 1) < 0
    assert "OBJECT_NOT_FOUND" in store.last_error()
    assert store.close() == 0
    assert make_store(pool, buffer=1 << 20).put("l", b"x") == 0
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", pool.rpc) == 0
    assert store.put("m", b"x") == INVALID
    assert store.close() == 0


def test_buffers_survive_their_store(pool: Master, make_store) -> None:
    store = make_store(pool)
    value = bytes(range(256)) * 4096
    assert store.put("k", value) == 0
    handle = store.get_buffer("k")
    view = memoryview(store.get_buffer("k"))
    assert store.close() == 0
    assert bytes(handle) == value
    del store, handle
    gc.collect()
    assert bytes(view) == value


def test_a_store_that_is_dropped_leaves_the_pool(master: Master) -> None:
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 8 << 20, 16 << 20, "tcp", "", master.rpc) == 0
    watcher = MooncakeDistributedStore()
    assert watcher.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", master.rpc) == 0
    assert watcher.put("k", b"x") == 0
    del store
    gc.collect()
    assert watcher.put("l", b"x") == -200, "no memory is left"
    assert watcher.close() == 0


def test_the_end_of_the_process_takes_its_memory_out_of_the_pool(master: Master, make_store, run_python) -> None:
    ran = run_python(
        "import sys\nfrom mooncake.store import *\n"
        "del MooncakeDistributedStore.__del__  # as for one that something else keeps to the end\n"
        "s = MooncakeDistributedStore()\n"
        "assert s.setup('127.0.0.1', 'P2PHANDSHAKE', 8 << 20, 1 << 20, 'tcp', '', sys.argv[1]) == 0\n"
        "assert s.put('k', b'x') == 0\n",
        master.rpc,
    )
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    store = make_store(master)
    assert store.is_exist("k") == 0, "its node said that it goes"
    assert store.put("l", b"x") == -200


FORK = """
import os, sys, signal
from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator
s = MooncakeDistributedStore()
{before}
pid = os.fork()
if pid == 0:
    signal.alarm(90)
    {child}
    sys.stdout.flush()
    os._exit(0)
print("child", os.waitpid(pid, 0)[1], flush=True)
"""


def test_a_child_that_uses_the_parents_store_gets_an_error(pool: Master, run_python) -> None:
    ran = run_python(
        FORK.format(
            before="assert s.setup('127.0.0.1', 'P2PHANDSHAKE', 8 << 20, 1 << 20, 'tcp', '', sys.argv[1]) == 0; s.put('k', b'x')",
            child=(
                "for call in (lambda: s.get('k'), lambda: s.put('k', b'x'), lambda: s.batch_is_exist(['k']), s.close, s.health_check,"
                " lambda: MooncakeDistributedStore().setup({'local_hostname': 'x'}), lambda: MooncakeHostMemAllocator().alloc(1)):\n"
                "        try: call(); print('no error', call)\n"
                "        except RuntimeError as e: assert 'fork' in str(e)\n"
                "    del s, call; print('refused')"
            ),
        )
        + "assert s.get('k') == b'x' and s.close() == 0; print('parent goes on')",
        pool.rpc,
    )
    assert ran.stdout.splitlines() == ["refused", "child 0", "parent goes on"], ran.stderr
    assert ran.stderr.count("Exception ignored") == 0, ran.stderr


def test_a_fork_before_setup_is_fine(pool: Master, run_python) -> None:
    ran = run_python(
        FORK.format(
            before="",
            child=(
                "assert s.setup('127.0.0.1', 'P2PHANDSHAKE', 0, 1 << 20, 'tcp', '', sys.argv[1]) == 0\n"
                "    assert s.put('k', b'x') == 0 and s.close() == 0; print('child works')"
            ),
        ),
        pool.rpc,
    )
    assert ran.stdout.splitlines() == ["child works", "child 0"], ran.stderr


def test_stores_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(MooncakeDistributedStore())


def test_subclasses_have_attributes_of_their_own() -> None:
    class Mine(MooncakeDistributedStore):
        def __init__(self) -> None:
            self.mine = 1  # without the initializer of the store

    store = Mine()
    assert (store.mine, store.get("k"), store.close()) == (1, b"", 0)
    store.other = 2
    assert vars(store)["other"] == 2


def test_with_block_closes(pool: Master) -> None:
    with MooncakeDistributedStore() as store:
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", pool.rpc) == 0
        assert repr(store.get_hostname()) in repr(store)
    assert store.health_check() == 1
    assert "not set up" in repr(store)
