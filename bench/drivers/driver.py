"""A client of a pool in Python that does pieces of work which are measured.

It runs with any package that has mooncake.store: the one of this checkout and the published
wheel of the reference implementation do the same jobs with the same calls. The jobs and answers
are those of the Go package drive, beside it: a line of JSON each.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mooncake.store import MooncakeDistributedStore

AREA_BYTES = 16 << 20
MAX_THREADS = 64
MAX_CALLS = 20_000
# How often a set of processes is read again because it changed meanwhile.
SNAPSHOTS = 20
REMOVE_BATCH = 1000
FILL_BATCH = 1000
SET_BATCH = 16
KEY_BYTES = 46
RETRY_SECONDS = 0.005
# How many calls puts are ahead of a disk, and how long it may take for another object.
OFFLOAD_AHEAD = 8
OFFLOAD_SECONDS = 3.0
# How long objects may take to be there again once the pool takes puts.
RETURN_SECONDS = 10.0

Call = Callable[[int], None]
Phase = dict[str, float]


def set_bytes(size: int) -> int:
    """The size of the sets that get reads, for objects of a size."""
    return min(max(64 << 20, 32 * size), 256 << 20)


def set_key(size: int, i: int) -> str:
    """The key of an object of a set; all drivers agree on it."""
    return f"set/{size}/{i}"


def numbered(prefix: str, n: int) -> str:
    """A key of KEY_BYTES bytes."""
    return f"{prefix}/{n:0{KEY_BYTES - len(prefix) - 1}d}"


class Area:
    """Memory for objects: first what sets are put from, then that of each thread."""

    def __init__(self) -> None:
        self.bytes = (1 + MAX_THREADS) * AREA_BYTES
        self._block = mmap.mmap(-1, self.bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.base = ctypes.addressof(ctypes.c_ubyte.from_buffer(self._block))
        self._view = memoryview(self._block)
        self._view[:AREA_BYTES] = b"".join(bytes([i & 255]) * 4096 for i in range(AREA_BYTES >> 12))

    def of(self, thread: int, job: dict[str, Any]) -> int:
        """Where the memory of a thread for a call begins."""
        if job["size"] * job["count"] > AREA_BYTES or thread >= MAX_THREADS:
            raise ValueError(f"there are {MAX_THREADS} threads with {AREA_BYTES} bytes each")
        return self.base + (1 + thread) * AREA_BYTES

    def clear(self, start: int, size: int) -> None:
        """Fills memory with zeros."""
        ctypes.memset(start, 0, size)

    def check(self, start: int, size: int, count: int) -> None:
        """RuntimeError where one of the objects is not one of a set."""
        for i in range(count):
            at = start - self.base + i * size
            if self._view[at : at + size] != self._view[:size]:
                raise RuntimeError(f"an object of {size} bytes came back with other bytes than were put")


def stat_of(pid: int) -> tuple[int, float]:
    """The parent of a process, and the seconds that its children which have ended used on processors."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[1]), (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def clock(pid: int) -> float:
    """The seconds that a process has used on processors, with its threads that have ended."""
    return time.clock_gettime(~pid << 3 | 2)


def tree(pids: list[int]) -> list[int]:
    """The processes and all below them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            children.setdefault(stat_of(int(name))[0], []).append(int(name))
    found = list(dict.fromkeys(pids))
    for pid in found:
        found += [c for c in children.get(pid, []) if c not in found]
    return sorted(found)


class Meter:
    """Measures the processor time of this process, and of others with all below them, as Meter of the Go package cluster."""

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids
        self._rest = self._read()
        self._own = clock(os.getpid())

    def _read(self) -> float:
        """What all but this process by itself have used."""
        for _ in range(SNAPSHOTS):
            pids = tree(self.pids)
            try:
                used = sum(stat_of(pid)[1] + (0 if pid == os.getpid() else clock(pid)) for pid in pids)
            except OSError as e:
                if any(not os.path.exists(f"/proc/{pid}") for pid in self.pids):
                    raise RuntimeError(f"one of the processes {self.pids} has ended") from e
                continue
            if tree(self.pids) == pids:
                return used
        raise RuntimeError(f"processes below {self.pids} start and end all the time")

    def seconds(self) -> float:
        """What all of them have used since the start."""
        own = clock(os.getpid())
        return own - self._own + self._read() - self._rest


class Thread:
    """Makes calls of do, at most so many."""

    def __init__(self, do: Call, calls: int) -> None:
        self.do, self.calls = do, calls
        self.times: list[float] = []
        self.failure: BaseException | None = None

    def run(self, start: threading.Barrier, limit: float) -> None:
        """Works until all calls are made, or until the time is over where there is one."""
        start.wait()
        begin = before = time.perf_counter()
        try:
            for n in range(self.calls):
                self.do(n)
                now = time.perf_counter()
                self.times.append(now - before)
                before = now
                if limit and now - begin >= limit:
                    return
        except BaseException as e:  # noqa: BLE001
            self.failure = e


def together(threads: list[Thread], pids: list[int], limit: float = 0.0) -> Phase:
    """Has the threads work at once; microseconds of a call by share, seconds of all, also those of pids on processors."""
    start = threading.Barrier(len(threads) + 1)
    running = [threading.Thread(target=t.run, args=(start, limit)) for t in threads]
    for r in running:
        r.start()
    meter = Meter(pids)
    start.wait()
    begin = time.perf_counter()
    for r in running:
        r.join()
    seconds = time.perf_counter() - begin
    cpu = meter.seconds()
    for t in threads:
        if t.failure:
            raise t.failure
    times = sorted(s for t in threads for s in t.times)
    return {
        "calls": len(times), "seconds": seconds, "cpu": cpu,
        "p50": times[len(times) // 2] * 1e6, "p99": times[len(times) * 99 // 100] * 1e6,
    }  # fmt: skip


def check(got: Any, want: Any) -> None:
    """RuntimeError where a call did not do its work: its time would say nothing."""
    if got != want:
        raise RuntimeError(f"a call answered {got!r:.200}")


class Worker:
    """Does jobs."""

    def __init__(self, store: Any, area: Area) -> None:
        self.store, self.area = store, area
        self.puts = 0

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to a job."""
        jobs = {
            "prepare": self.prepare, "put": self.put, "get": self.get,
            "calls": self.calls, "fill": self.fill, "recover": self.recover, "offload": self.offload,
        }  # fmt: skip
        return {"phases": jobs[job["do"]](job)}

    def remove(self, keys: list[str]) -> None:
        """Removes objects, however many."""
        for at in range(0, len(keys), REMOVE_BATCH):
            some = keys[at : at + REMOVE_BATCH]
            check(self.store.batch_remove(some, True), [0] * len(some))

    def prepare(self, job: dict[str, Any]) -> dict[str, Phase]:
        """Touches the pool, then puts the sets."""
        warm = [f"warm/{i}" for i in range(job.get("warm", 0) // AREA_BYTES)]
        for key in warm:
            check(self.store.put_from(key, self.area.base, AREA_BYTES), 0)
        self.remove(warm)
        for s in job.get("sets", []):
            keys = [set_key(s["size"], i) for i in range(s["bytes"] // s["size"])]
            for at in range(0, len(keys), SET_BATCH):
                some = keys[at : at + SET_BATCH]
                n = len(some)
                check(self.store.batch_put_from(some, [self.area.base] * n, [s["size"]] * n), [0] * n)
        return {}

    def put(self, job: dict[str, Any]) -> dict[str, Phase]:
        """New objects, removed again without being timed."""
        size, count, n = job["size"], job["count"], job["threads"]
        calls = min(MAX_CALLS, max(1, job["limit"] // (n * count * size)))
        self.puts += 1
        keys = [[[f"py/{self.puts}/{t}/{c}/{i}" for i in range(count)] for c in range(calls)] for t in range(n)]
        for t in range(n):  # Untouched, all its pages would be one page of zeros, which stays in cache.
            self.area.clear(self.area.of(t, job), size * count)
        threads = [Thread(self.putter(keys[t], self.area.of(t, job), size, count), calls) for t in range(n)]
        try:
            return {"put": together(threads, job.get("pids", []), job["seconds"])}
        finally:
            for t, batches in zip(threads, keys, strict=True):
                self.remove([key for batch in batches[: len(t.times)] for key in batch])

    def putter(self, keys: list[list[str]], start: int, size: int, count: int) -> Call:
        """Puts the n-th batch, a batch of one with put_from."""
        store, ptrs, sizes, fine = self.store, [start + i * size for i in range(count)], [size] * count, [0] * count
        if count == 1:
            return lambda n: check(store.put_from(keys[n][0], start, size), 0)
        return lambda n: check(store.batch_put_from(keys[n], ptrs, sizes), fine)

    def get(self, job: dict[str, Any]) -> dict[str, Phase]:
        """Objects of a set, over and over."""
        size, count, n = job["size"], job["count"], job["threads"]
        batches = set_bytes(size) // (size * count)
        keys = [[set_key(size, c * count + i) for i in range(count)] for c in range(batches)]
        starts = [self.area.of(t, job) for t in range(n)]
        for start in starts:
            self.area.clear(start, size * count)
        threads = [
            Thread(self.getter(keys, t * batches // n, start, size, count), 1 << 30) for t, start in enumerate(starts)
        ]
        phase = together(threads, job.get("pids", []), job["seconds"])
        for start in starts:
            self.area.check(start, size, count)
        return {"get": phase}

    def getter(self, keys: list[list[str]], first: int, start: int, size: int, count: int) -> Call:
        """Gets the n-th batch after the first one, a batch of one with get_into."""
        store, ptrs, sizes, batches = self.store, [start + i * size for i in range(count)], [size] * count, len(keys)
        if count == 1:
            return lambda n: check(store.get_into(keys[(first + n) % batches][0], start, size), size)
        return lambda n: check(store.batch_get_into(keys[(first + n) % batches], ptrs, sizes), sizes)

    def calls(self, job: dict[str, Any]) -> dict[str, Phase]:
        """The life of small objects, one kind of call after the other."""
        count, n, repeat = job["count"], job["threads"], job["repeat"]
        size = 64
        keys = [
            [[numbered(f"calls/{t}", c * count + i) for i in range(count)] for c in range(repeat)] for t in range(n)
        ]
        store = self.store
        fine, there = [0] * count, [1] * count

        def exist(batch: list[str]) -> None:
            check(store.batch_is_exist(batch), there)

        def exist_one(batch: list[str]) -> None:
            check(store.is_exist(batch[0]), 1)

        def replicas(batch: list[str]) -> None:
            check(len(store.batch_get_replica_desc(batch)), count)

        def replicas_one(batch: list[str]) -> None:
            check(len(store.get_replica_desc(batch[0])), 1)

        def remove(batch: list[str]) -> None:
            check(store.batch_remove(batch, True), fine)

        def remove_one(batch: list[str]) -> None:
            check(store.remove(batch[0], True), 0)

        kinds = {"exist": exist, "replicas": replicas, "remove": remove}
        if count == 1:
            kinds = {"exist": exist_one, "replicas": replicas_one, "remove": remove_one}
        small, pids = {"size": size, "count": count}, job.get("pids", [])
        phases = {
            "put": together(
                [Thread(self.putter(keys[t], self.area.of(t, small), size, count), repeat) for t in range(n)], pids
            )
        }
        for name, call in kinds.items():
            phases[name] = together([Thread(self.each(call, keys[t]), repeat) for t in range(n)], pids)
        return phases

    @staticmethod
    def each(call: Callable[[list[str]], None], batches: list[list[str]]) -> Call:
        """The call for the n-th batch."""
        return lambda n: call(batches[n])

    def fill(self, job: dict[str, Any]) -> dict[str, Phase]:
        """Small objects, which stay."""
        size, first, end = job["size"], job.get("from", 0), job.get("from", 0) + job["keys"]
        start = self.area.of(0, {"size": size, "count": FILL_BATCH})
        for at in range(first, end, FILL_BATCH):
            keys = [numbered("fill", i) for i in range(at, min(at + FILL_BATCH, end))]
            self.putter([keys], start, size, len(keys))(0)
        return {}

    def recover(self, job: dict[str, Any]) -> dict[str, Phase]:
        """Puts and gets until both succeed, then counts the objects of the sets, until all are there or for a while."""
        size, begin, n = job["size"], time.perf_counter(), 0
        into = self.area.of(0, {"size": size, "count": 1})
        while True:
            n += 1
            key = f"recovered/{n}"
            if self.store.put_from(key, self.area.base, size) == 0 and self.store.get_into(key, into, size) == size:
                break
            if time.perf_counter() - begin > job["seconds"]:
                raise RuntimeError(f"no put and get succeeded within {job['seconds']} s")
            time.sleep(RETRY_SECONDS)
        pause = time.perf_counter() - begin
        wanted = sum(s["bytes"] // s["size"] for s in job["sets"])
        kept, until = self.there(job["sets"], into), time.perf_counter() + RETURN_SECONDS
        while kept < wanted and time.perf_counter() < until:
            time.sleep(RETRY_SECONDS)
            kept = self.there(job["sets"], into)
        none = {"seconds": 0.0, "p50": 0.0, "p99": 0.0, "cpu": 0.0}
        return {"pause": {**none, "calls": 1, "seconds": pause}, "kept": {**none, "calls": kept}}

    def offload(self, job: dict[str, Any]) -> dict[str, Phase]:
        """New objects until they are on a disk, and reads of those that are in memory no more."""
        size, count, self.puts = job["size"], job["count"], self.puts + 1
        keys = [f"offload/{self.puts}/{i}" for i in range(job["keys"])]
        pids = job.get("pids", [])
        meter, begin, ahead = Meter(pids), time.perf_counter(), OFFLOAD_AHEAD * count
        for at in range(0, len(keys), count):
            left = keys[at : at + count]
            while left:  # Memory is full until more is saved.
                n = len(left)
                codes = self.store.batch_put_from(left, [self.area.base] * n, [size] * n)
                left = [key for key, code in zip(left, codes, strict=True) if code != 0]
                if left and time.perf_counter() - begin > job["seconds"]:
                    raise RuntimeError(f"{left[0]} cannot be put")
            # What memory has to drop before it is saved is lost. One is asked for, as the question protects it from eviction.
            self.saved(keys[max(0, at - ahead) : max(0, at - ahead + 1)])
        saved, when = self.saved(keys)
        save_cpu = meter.seconds()
        if 2 * saved < len(keys):
            raise RuntimeError(f"{saved} of {len(keys)} objects are on a disk")
        where = self.store.batch_get_replica_desc(keys)
        cold = [key for key in keys if key in where and not any(r.is_memory_replica() for r in where[key])]
        cold = cold[: len(cold) // count * count]
        if not cold:
            raise RuntimeError(f"all {len(keys)} objects are in memory")
        start, sizes = self.area.of(0, job), [size] * count
        ptrs = [start + i * size for i in range(count)]
        self.area.clear(start, size * count)
        meter, first = Meter(pids), time.perf_counter()
        for at in range(0, len(cold), count):
            check(self.store.batch_get_into(cold[at : at + count], ptrs, sizes), sizes)
        seconds = time.perf_counter() - first
        cold_cpu = meter.seconds()
        self.area.check(start, size, count)
        none = {"p50": 0.0, "p99": 0.0}
        return {
            "save": {**none, "calls": saved, "seconds": when - begin, "cpu": save_cpu},
            "cold": {**none, "calls": len(cold), "seconds": seconds, "cpu": cold_cpu},
        }

    def saved(self, keys: list[str]) -> tuple[int, float]:
        """Waits until all objects are on a disk, or no more of them for a while: their number, and since when."""
        count, when = 0, time.perf_counter()
        while count < len(keys) and time.perf_counter() - when < OFFLOAD_SECONDS:
            where = self.store.batch_get_replica_desc(keys)
            now = sum(any(r.is_local_disk_replica() for r in where.get(key, [])) for key in keys)
            if now > count:
                count, when = now, time.perf_counter()
            else:
                time.sleep(RETRY_SECONDS)
        return count, when

    def there(self, sets: list[dict[str, int]], start: int) -> int:
        """How many objects of the sets can be read, with the bytes that were put."""
        found = 0
        for s in sets:
            size, keys = s["size"], [set_key(s["size"], i) for i in range(s["bytes"] // s["size"])]
            batch = min(SET_BATCH, AREA_BYTES // size)
            for at in range(0, len(keys), batch):
                some = keys[at : at + batch]
                ptrs = [start + i * size for i in range(len(some))]
                for ptr, got in zip(ptrs, self.store.batch_get_into(some, ptrs, [size] * len(some)), strict=True):
                    if got == size:
                        self.area.check(ptr, size, 1)
                        found += 1
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True, help="address of the master, host:port")
    parser.add_argument("--segment", type=int, default=0, help="memory to contribute, in bytes")
    parser.add_argument("--ssd", default="", help="folder on a disk for what is in that memory")
    args = parser.parse_args()
    store = MooncakeDistributedStore()
    disk = {"enable_ssd_offload": True, "ssd_offload_path": args.ssd} if args.ssd else {}
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", args.segment, 16 << 20, "tcp", "", args.master, **disk)
    if code != 0:
        sys.exit(f"driver.py: setup answered {code}")
    area = Area()
    if (code := store.register_buffer(area.base, area.bytes)) != 0:
        sys.exit(f"driver.py: register_buffer answered {code}")
    worker = Worker(store, area)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            answer = worker.do(json.loads(line))
        except Exception as e:  # noqa: BLE001
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)
    store.close()


if __name__ == "__main__":
    main()
