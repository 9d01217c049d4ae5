"""A store whose master comes later: setup waits, can be interrupted, and goes on trying after it gave up."""

import re
import signal
import threading
import time
from typing import Any

import pytest
from memory import Memory
from processes import WAIT_S, Master

from mooncake.store import MooncakeDistributedStore

INVALID, FAILED, RPC_FAIL = -600, -1, -900
SEGMENT, BUFFER = 16 << 20, 16 << 20


@pytest.fixture
def absent(master: Master) -> Master:
    """A master that is down, and can be started with restart()."""
    master.kill()
    return master


def arguments(master: Master) -> list[Any]:
    return ["127.0.0.1", "P2PHANDSHAKE", SEGMENT, BUFFER, "tcp", "", master.rpc]


def as_dict(master: Master, **more: Any) -> dict[str, Any]:
    names = (
        "local_hostname", "metadata_server", "global_segment_size", "local_buffer_size", "protocol", "rdma_devices", "master_server_addr",
    )  # fmt: skip
    return dict(zip(names, arguments(master), strict=True)) | more


PROGRAM = """
import signal, sys
from mooncake.store import MooncakeDistributedStore
signal.signal(signal.SIGINT, signal.default_int_handler)  # this process may have been started with the signal ignored
signal.signal(signal.SIGUSR1, lambda *_: print("handled", flush=True))
store = MooncakeDistributedStore()
try:
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", 16 << 20, 16 << 20, "tcp", "", sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", store.health_check(), store.get("k"), store.close(), flush=True)
else:
    print("code", code, store.put("k", b"value"), store.get("k"), flush=True)
"""


def test_setup_waits_for_the_master(absent: Master, processes) -> None:
    """What a handler of a signal does meanwhile does not end the wait."""
    program = processes.python(PROGRAM, absent.rpc)
    line = program.wait_line("waiting for the master")
    assert absent.rpc in line and "up_to=1m30s" in line and "refused" in line
    program.signal(signal.SIGUSR1)
    program.wait_line("handled")
    absent.restart()
    assert program.wait_line("code") == "code 0 0 b'value'"
    assert "the wait is over" in program.text()
    assert program.wait() == 0


def test_ctrl_c_ends_the_wait(absent: Master, processes) -> None:
    program = processes.python(PROGRAM, absent.rpc)
    program.wait_line("waiting for the master")
    program.signal(signal.SIGINT)
    assert program.wait_line("interrupted") == "interrupted 1 b'' 0"
    assert program.wait() == 0
    assert program.text().count("waiting for the master") == 1, "it did not wait for long after the signal"


def test_a_thread_that_waits_is_ended_by_close(absent: Master) -> None:
    store = MooncakeDistributedStore()
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(store.setup(*arguments(absent), max_wait_time=86400)))
    thread.start()
    while not store._handle:
        time.sleep(0.01)
    while thread.is_alive():  # the first close may come before setup began
        assert store.close() == 0
        thread.join(0.1)
    assert codes and codes[0] < 0
    assert store.health_check() == 1
    absent.restart()
    assert store.setup(*arguments(absent)) == 0, store.last_error()
    assert store.close() == 0


@pytest.mark.parametrize("form", ["positional", "dict", "entry of the dict"])
def test_a_setup_that_gave_up_is_completed_by_the_first_call_that_finds_the_master(absent: Master, form: str) -> None:
    store = MooncakeDistributedStore()
    if form == "positional":
        code = store.setup(*arguments(absent), max_wait_time=0)
    elif form == "dict":
        code = store.setup(as_dict(absent), max_wait_time=0.2)
    else:
        code = store.setup(as_dict(absent, max_wait_time="200ms"))
    assert code == FAILED
    assert "goes on trying" in store.last_error() and "refused" in store.last_error()

    name = store.get_hostname()
    assert re.fullmatch(r"127\.0\.0\.1:\d+", name), "the name does not change later"
    memory = Memory(8192)
    assert store.register_buffer(memory.ptr, 8192) == 0
    assert store.health_check() == 2
    assert store.get("k") == b"" and store.get_batch(["k"]) == [b""] and store.get_buffer("k") is None
    for call in (
        lambda: store.put("k", b"x"),
        lambda: store.put_from("k", memory.ptr, 4096),
        lambda: store.get_into("k", memory.ptr, 4096),
        lambda: store.is_exist("k"),
        lambda: store.get_size("k"),
        lambda: store.remove("k"),
        lambda: store.remove_all(),
    ):
        assert call() == RPC_FAIL
        assert "the master has not answered" in store.last_error()
    assert store.batch_is_exist(["a", "b"]) == [RPC_FAIL] * 2
    assert store.allocate_and_mount_segment(SEGMENT)["ret"] < 0

    absent.restart()
    memory[0:4096] = b"m" * 4096
    # A call that comes while a connection was refused a moment ago does not try again; the next one does.
    codes = calls_until_one_works(lambda: store.put_from("k", memory.ptr, 4096))
    assert set(codes) <= {RPC_FAIL}, "no call finds a pool without the memory of this store"
    assert store.get_into("k", memory.ptr + 4096, 4096) == 4096
    assert memory[4096:8192] == b"m" * 4096
    assert (store.get_hostname(), store.health_check()) == (name, 0)
    assert store.unregister_buffer(memory.ptr) == 0
    assert store.setup(*arguments(absent)) in (0, INVALID) and store.close() == 0


def calls_until_one_works(call: Any) -> list[int]:
    """The codes of the calls before the one that answers 0."""
    codes, end = [], time.monotonic() + WAIT_S
    while (code := call()) != 0:
        codes.append(code)
        assert time.monotonic() < end, codes[-3:]
        time.sleep(0.05)
    return codes


def test_setup_again_waits_again(absent: Master) -> None:
    """With the same arguments, the same store: what was registered stays so. With others, another one."""
    store = MooncakeDistributedStore()
    for _ in range(2):
        assert store.setup(*arguments(absent), max_wait_time=0) == FAILED
    name = store.get_hostname()
    memory = Memory(4096)
    assert store.register_buffer(memory.ptr, 4096) == 0
    absent.restart()
    assert store.setup(*arguments(absent)) == 0, store.last_error()
    assert (store.get_hostname(), store.unregister_buffer(memory.ptr)) == (name, 0)
    assert store.setup(*arguments(absent)) == INVALID, "it is set up"
    assert store.close() == 0
    absent.kill()
    assert store.setup(*arguments(absent), max_wait_time=0) == FAILED
    assert store.setup(as_dict(absent, global_segment_size=0), max_wait_time=0) == FAILED
    assert store.close() == 0
    assert (store.health_check(), store.get_hostname()) == (1, "")


def test_the_setting_bounds_the_wait(absent: Master, run_python) -> None:
    done = run_python(
        "import sys; from mooncake.store import MooncakeDistributedStore as S\n"
        "print(S().setup('127.0.0.1', 'P2PHANDSHAKE', 0, 0, 'tcp', '', sys.argv[1]))",
        absent.rpc,
        MOONCAKE_STORE_MAX_WAIT_TIME="1s",
    )
    assert (done.returncode, done.stdout) == (0, "-1\n"), done.stderr
    assert "up_to=1s" in done.stderr


def test_what_is_no_time() -> None:
    store = MooncakeDistributedStore()
    settings = {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_addr": "127.0.0.1:1"}
    for wrong in (-1, float("nan"), float("inf"), 1e9):
        assert store.setup(settings, max_wait_time=wrong) == INVALID
        assert "max_wait_time" in store.last_error()
    assert store.setup(settings | {"max_wait_time": "soon"}) == INVALID
    with pytest.raises(TypeError, match="^max_wait_time: expected a number"):
        store.setup(settings, max_wait_time=[])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="at most 13"):
        store.setup(*[""] * 14)


def test_a_name_that_does_not_resolve_yet_is_waited_for(run_python) -> None:
    """The name of a service in Kubernetes is there when its first pod is."""
    done = run_python(
        "from mooncake.store import MooncakeDistributedStore as S\n"
        "print(S().setup('127.0.0.1', 'P2PHANDSHAKE', 0, 0, 'tcp', '', 'master.invalid:50051', max_wait_time=1))"
    )
    assert done.stdout == "-1\n", done.stderr
    assert "waiting for the master" in done.stderr and "lookup master.invalid" in done.stderr
