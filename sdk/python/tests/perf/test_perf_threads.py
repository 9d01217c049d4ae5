"""Threads of one interpreter are in the library at the same time."""

from __future__ import annotations

import signal
import sys
import threading
import time

from memory import Memory
from processes import WAIT_S, Master

THREADS = 4
SIZE = 64 << 10


def test_threads_wait_in_the_library_together(processes, master: Master, make_store) -> None:
    """While the node stands still four gets wait for it, and Python and other calls go on."""
    node = processes.node(master, "64MB", "--shared_memory=off")  # its memory alone could be read all the same
    store = make_store(master)
    memory = Memory(THREADS * SIZE).register(store)
    at = [memory.ptr + i * SIZE for i in range(THREADS)]
    assert store.batch_put_from([f"k{i}" for i in range(THREADS)], at, [SIZE] * THREADS) == [0] * THREADS
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: answers.append(store.get_into(f"k{i}", at[i], SIZE)))
        for i in range(THREADS)
    ]

    def inside() -> int:
        frames = sys._current_frames()
        return sum(frames[t.ident].f_code.co_name == "get_into" for t in threads if t.ident in frames)

    node.process.signal(signal.SIGSTOP)
    try:
        for t in threads:
            t.start()
        end = time.monotonic() + WAIT_S
        while inside() < THREADS and time.monotonic() < end:
            time.sleep(0.001)
        for i in range(20):  # each of these lets go of the GIL; a thread that only waited for it would go on
            assert store.is_exist(f"k{i % THREADS}") == 1
            assert inside() == THREADS
        assert answers == []
    finally:
        node.process.signal(signal.SIGCONT)
        for t in threads:
            t.join(WAIT_S)
    assert answers == [SIZE] * THREADS
