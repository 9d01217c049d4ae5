"""A child of a process that had loaded the library is refused, and never hangs."""

from __future__ import annotations

from collections.abc import Callable

# Runs child() in a fork, which has to end by itself and with 0.
FORK = """
import signal, time
def fork(child):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        try:
            child()
            sys.stdout.flush()
        except SystemExit:
            raise  # of a child of this one
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(9)
        sys.exit(0)  # as a process ends: with all destructors
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, status
native = load(folder, name)
HOW = (1, 0, 0, 0, None, False, False, 0, None, [])
TEXT = "mooncake was used before fork; create the store in the child or start it with spawn"
"""

EVERY_CALL = """
calls = dict(
    last_error=(1,), store_new=(), store_setup=(1, "{}", False, 0), store_setup_dummy=(1, 1, 1, ""),
    store_close=(1,), store_is_setup=(1,), store_health=(1,), store_hostname=(1,), store_register=(1, 1, 1),
    store_unregister=(1, 1), store_put_parts=(1, "k", b"", HOW, 0), store_put_values=(1, ["k"], [b""], HOW, 0),
    store_put_from=(1, ["k"], [1], [1], HOW, 0), store_put_from_rows=(1, ["k"], [[1]], [[1]], HOW, 0),
    store_get_into=(1, ["k"], [1], [1]), store_get_into_rows=(1, ["k"], [[1]], [[1]]),
    store_get_ranges=(1, [1], [["k"]], [[[1]]], [[[1]]], [[[1]]]), store_get=(1, "k"), store_get_batch=(1, ["k"]),
    store_get_buffers=(1, ["k"]), store_exist=(1, ["k"]), store_size=(1, ["k"]), store_replicas=(1, ["k"], native.Replica), store_remove=(1, ["k"], False),
    store_clear_replicas=(1, ["k"], ""), store_remove_regex=(1, "k", False), store_remove_all=(1, False), store_get_session_start=(1, ["k"]),
    store_get_session_ranges=(1, ["k"], [[1]], [[1]], [[1]]), store_get_session_end=(1, ["k"]),
    store_put_session_start=(1, ["k"], [1], HOW), store_put_session_ranges=(1, ["k"], [[1]], [[1]], [[1]]),
    store_put_session_end=(1, ["k"]), store_put_session_revoke=(1, ["k"]), store_control=(1, "m", "{}"),
    host_alloc=(1,), host_free=(1,), alloc_func_addr=(), free_func_addr=(), engine_new=(),
    engine_initialize=(1, "{}"), engine_rpc_port=(1,), engine_register=(1, [1], [1], "*"),
    engine_unregister=(1, [1]), engine_transfer=(1, "h", 0, [], [], [], None),
    engine_submit=(1, "h", 0, [], [], []), engine_wait=(1, []), engine_check=(1, 1), engine_first_buffer=(1, "s"),
    engine_topology=("",), engine_notifies=(1,), engine_probe=(1, "p"), engine_alloc=(1, 1),
    engine_free_memory=(1, 1, 1),
)
needs_no_library = {"library", "loaded", "close_all", "store_free", "engine_free", "memory_read", "memory_write"}
everything = {n for n in dir(native) if not n.startswith("_") and callable(getattr(native, n))} - {"BufferHandle", "Replica"}
assert calls.keys() | needs_no_library == everything, calls.keys() ^ everything
"""


def test_every_function_refuses_in_the_child(script: Callable[..., str]) -> None:
    assert script(
        FORK
        + EVERY_CALL
        + """
native.store_new()
def child():
    for f, args in calls.items():
        try:
            getattr(native, f)(*args)
        except RuntimeError as e:
            assert str(e) == TEXT, e
        else:
            raise AssertionError(f + " worked in the child")
    assert native.loaded() is False
    print("refused", len(calls))
fork(child)
assert native.loaded() and native.store_exist(1, ["k"]) == [0]  # the parent works on
print("parent")
"""
    ).split() == ["refused", "54", "parent"]


def test_what_destructors_call_is_silent(script: Callable[..., str]) -> None:
    assert script(
        FORK
        + """
handles = native.store_get_buffers(1, ["a", "b"])
view = memoryview(handles[1])
alloc, free = native.alloc_func_addr(), native.free_func_addr()
def child():
    global view
    assert bytes(view) == b"b"  # memory of the parent is there as a copy
    view = None
    handles.clear()
    native.store_free(1); native.engine_free(1); native.close_all()
    import ctypes
    assert not ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(alloc)(10)
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(free)(0) == -1
    print("silent")
fork(child)
assert native.last_error(1).startswith("store_get_buffers")  # the parent's record
print("parent", len(handles))
"""
    ).split() == ["silent", "parent", "2"]


def test_a_fork_before_the_first_call_is_no_fork(script: Callable[..., str]) -> None:
    assert script(
        FORK
        + """
def child():
    assert native.store_new() == 1
    def grandchild():
        try: native.store_new()
        except RuntimeError as e: assert str(e) == TEXT
        else: raise AssertionError
        print("grandchild")
    fork(grandchild)
    print("child")
fork(child)
assert not native.loaded() and native.store_new() == 1
print("parent")
"""
    ).split() == ["grandchild", "child", "parent"]


def test_a_fork_after_loading_failed_is_no_fork(script: Callable[..., str], extension_folder: object) -> None:
    assert (
        script(
            FORK
            + """
def fails():
    try: native.store_new()
    except ImportError: print("ImportError")
fails()
fork(fails)
""",
            extension_folder,
        ).split()
        == ["ImportError"] * 2
    )


def test_multiprocessing_and_subprocess(script: Callable[..., str]) -> None:
    assert script(
        FORK
        + """
import multiprocessing, subprocess
native.store_new()
def work(q):
    try: native.store_new()
    except RuntimeError as e: q.put(str(e))
context = multiprocessing.get_context("fork")
q = context.SimpleQueue()
p = context.Process(target=work, args=(q,))
p.start()
assert q.get() == TEXT
p.join(120)
assert p.exitcode == 0, p.exitcode
assert subprocess.run(["true"]).returncode == 0
assert native.store_exist(1, ["k"]) == [0]
print("ok")
"""
    ).split() == ["ok"]
