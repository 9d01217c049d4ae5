"""A client of a pool in Python, for measure.py; runs with any package that has mooncake.store.

It reads one piece of work as JSON from each line of its standard input and answers with a
line of JSON. cmd/libmooncake/internal/goclient does the same in Go.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mooncake.store import MooncakeDistributedStore

Call = Callable[[], object]


class Worker:
    """Does jobs. base is where its registered memory of room bytes begins."""

    def __init__(self, store: Any, base: int, room: int) -> None:
        self.store, self.base, self.room = store, base, room

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        """The seconds of each call of a job, or of all threads together where it has threads."""
        threads = job.get("threads", 0)
        if job["size"] * job["count"] * max(threads, 1) > self.room:
            raise ValueError(f"it is more than the registered memory of {self.room} bytes")
        if not threads:
            return {"seconds": self.timed(*self.calls(job, 0), job["calls"])}
        return {"seconds": [self.at_once(job, threads)]}

    def calls(self, job: dict[str, Any], number: int) -> tuple[Call, Call]:
        """What is timed, and what follows without being timed; the memory is that of a thread.

        What is read stays in the pool: its memory is not free as soon as it is removed.
        """
        op, size, count = job["op"], job["size"], job["count"]
        keys = [f"py/{op}/{number}/{size}/{i}" for i in range(count)]
        base = self.base + number * size * count
        ptrs, sizes = [base + i * size for i in range(count)], [size] * count
        value = ctypes.string_at(base, size)
        store = self.store

        def put() -> None:
            check(store.batch_put_from(keys, ptrs, sizes), [0] * count)

        def get() -> None:
            check(store.batch_get_into(keys, ptrs, sizes), sizes)

        def put_one() -> None:
            check(store.put_from(keys[0], base, size), 0)

        def get_one() -> None:
            check(store.get_into(keys[0], base, size), size)

        def put_bytes() -> None:
            check(store.put(keys[0], value), 0)

        def get_bytes() -> None:
            check(len(store.get(keys[0])), size)

        def remove() -> None:
            check(store.batch_remove(keys, True), [0] * count)

        ops: dict[str, Call] = {f.__name__: f for f in (put, get, put_one, get_one, put_bytes, get_bytes)}
        call = ops[op]
        if call in (put, put_one, put_bytes):
            return call, remove
        if store.batch_is_exist(keys) != [1] * count:
            put()
        return call, lambda: None

    def timed(self, call: Call, after: Call, calls: int) -> list[float]:
        seconds = []
        for _ in range(calls):
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
            after()
        return seconds

    def at_once(self, job: dict[str, Any], threads: int) -> float:
        """Seconds until all threads have made all their calls, puts with their removals."""
        work = [self.calls(job, n) for n in range(threads)]
        start = threading.Barrier(threads + 1)
        failures: list[BaseException] = []

        def run(call: Call, after: Call) -> None:
            start.wait()
            try:
                for _ in range(job["calls"]):
                    call()
                    after()
            except BaseException as e:  # noqa: BLE001
                failures.append(e)

        running = [threading.Thread(target=run, args=w) for w in work]
        for t in running:
            t.start()
        start.wait()
        begin = time.perf_counter()
        for t in running:
            t.join()
        if failures:
            raise failures[0]
        return time.perf_counter() - begin


def check(got: Any, want: Any) -> None:
    """RuntimeError where a call did not do its work: its time would say nothing."""
    if got != want:
        raise RuntimeError(f"a call answered {got!r:.200}")


def memory(args: argparse.Namespace) -> tuple[int, Any]:
    """Memory that is there, page by page, and what holds it."""
    if args.dummy:
        from mooncake.store import MooncakeHostMemAllocator

        allocator = MooncakeHostMemAllocator()
        base = allocator.alloc(args.memory)
        held = (allocator, (ctypes.c_ubyte * args.memory).from_address(base))
        ctypes.memset(base, 1, args.memory)
        return base, held
    block = mmap.mmap(-1, args.memory, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = (ctypes.c_ubyte * args.memory).from_buffer(block)
    base = ctypes.addressof(array)
    ctypes.memset(base, 1, args.memory)
    return base, array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="127.0.0.1:50051", help="address of the master, host:port")
    parser.add_argument("--metadata", default="P2PHANDSHAKE")
    parser.add_argument("--protocol", default="tcp")
    parser.add_argument("--dummy", default="", help="address of a mooncake_client to go through")
    parser.add_argument("--segment", type=int, default=0, help="memory to contribute, in bytes")
    parser.add_argument("--memory", type=int, default=128 << 20, help="registered memory, in bytes; 0: only contribute")
    args = parser.parse_args()
    store = MooncakeDistributedStore()
    if args.dummy:
        code = store.setup_dummy(args.memory, 64 << 20, args.dummy)
    else:
        code = store.setup("127.0.0.1", args.metadata, args.segment, 16 << 20, args.protocol, "", args.master)
    if code != 0:
        sys.exit(f"client.py: setup answered {code}")
    worker = None
    if args.memory:
        base, _held = memory(args)
        if (code := store.register_buffer(base, args.memory)) != 0:
            sys.exit(f"client.py: register_buffer answered {code}")
        worker = Worker(store, base, args.memory)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if worker:
            print(json.dumps(worker.do(json.loads(line))), flush=True)
    store.close()


if __name__ == "__main__":
    main()
