"""Measures the Python package beside the same work in Go, and threads beside one another.

    python sdk/python/bench/measure.py                      # in a checkout after `make pydev`
    python sdk/python/bench/measure.py --only go,threads --rounds 9 --json
    python sdk/python/bench/measure.py --other VENV/bin/python   # beside another package
    python sdk/python/bench/measure.py --goals              # exit code 1 where a goal is missed

Whatever is compared does its work in turn, round by round, so that a busy machine slows all
of it down. A round is the median of its calls; what is printed are medians of the rounds, and
of the ratios of the rounds. Every client has 128 MiB of registered memory, the pool's 768 MiB
lie in another process, both ends meet over TCP of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pools import NODE_BYTES, Client, Pools, build

BATCHES = ((128, 1 << 20), (128, 4 << 10), (1, 4 << 10))
Row = dict[str, Any]
# The least ratio of a row, by group and name. They are for a quiet machine, and so no tests.
GOALS = {
    ("go", "put 128 x 1 MiB"): ("python", 0.9),
    ("go", "get 128 x 1 MiB"): ("python", 0.9),
    ("threads", "put_from 64 KiB, own memory"): ("4 threads", 1.5),
    ("threads", "get_into 64 KiB, own memory"): ("4 threads", 1.5),
}


def size_name(n: int) -> str:
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"


def calls_for(size: int, count: int) -> int:
    """Calls of a round: some tens of milliseconds of work."""
    return max(4, min(200, (128 << 20) // (size * count + (256 << 10))))


def in_turn(rounds: int, measured: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Rounds of each. The first one does not count, and the contenders take turns to begin."""
    out: dict[str, list[float]] = {name: [] for name in measured}
    names = list(measured)
    for n in range(rounds + 1):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            value = measured[name]()
            if n > 0:
                out[name].append(value)
    return out


def row(what: str, size: int, count: int, times: dict[str, list[float]], base: str) -> Row:
    """A line of the outcome: seconds of a call by who, and how much faster than base."""
    return {
        "what": what, "size": size, "count": count,
        "seconds": {who: median(t) for who, t in times.items()},
        "ratio": {
            who: median(b / a for a, b in zip(t, times[base], strict=True)) for who, t in times.items() if who != base
        },
    }  # fmt: skip


def compare(
    clients: dict[str, Client], base: str, rounds: int, batches: tuple[tuple[int, int], ...] = BATCHES
) -> list[Row]:
    """Puts and gets of batches, (objects, bytes of each), by several clients, beside base."""

    def each(client: Client, **job: Any) -> Callable[[], float]:
        return lambda: median(client.do(**job))

    rows = []
    for count, size in batches:
        for op in ("put", "get"):
            job = {"op": op, "size": size, "count": count, "calls": calls_for(size, count)}
            times = in_turn(rounds, {who: each(c, **job) for who, c in clients.items()})
            rows.append(row(f"{op} {count} x {size_name(size)}", size, count, times, base))
    return rows


def go(pools: Pools, rounds: int) -> list[Row]:
    """Python beside Go."""
    m = pools.master()
    return compare({"go": pools.go(m), "python": pools.python(m)}, "go", rounds)


def ways(pools: Pools, rounds: int) -> list[Row]:
    """The same from Python where the pool's memory is the client's own, and through shared memory."""
    m, own = pools.master(), pools.master(node=False)
    clients = {
        "python": pools.python(m),
        "own": pools.python(own, "--segment", str(NODE_BYTES)),
        "dummy": pools.dummy(m),
    }
    return compare(clients, "python", rounds)


def threads(pools: Pools, rounds: int, sizes: tuple[int, ...] = (4 << 10, 64 << 10, 1 << 20)) -> list[Row]:
    """Four threads of one interpreter beside one, an object a call; puts with their removals."""
    m, own = pools.master(), pools.master(node=False)
    clients = {"own memory": pools.python(own, "--segment", str(NODE_BYTES)), "tcp": pools.python(m)}
    names = {"put_one": "put_from", "get_one": "get_into"}

    def each(client: Client, threads: int, **job: Any) -> Callable[[], float]:
        return lambda: client.do(**job, threads=threads)[0] / (job["calls"] * threads)

    rows = []
    for size in sizes:
        for op, name in names.items():
            for where, client in clients.items():
                job = {"op": op, "size": size, "count": 1, "calls": calls_for(size, 1)}
                times = in_turn(rounds, {"1 thread": each(client, 1, **job), "4 threads": each(client, 4, **job)})
                rows.append(row(f"{name} {size_name(size)}, {where}", size, 1, times, "1 thread"))
    return rows


def other(pools: Pools, rounds: int, python: str) -> list[Row]:
    """This package beside another, each with its own master and node."""
    clients = {"other": pools.other(python), "python": pools.python(pools.master())}
    return compare(clients, "other", rounds)


def show(title: str, rows: list[Row]) -> None:
    """A table: time of a call, GB/s, and the ratio to the first of a line."""
    print(f"\n{title}")
    for r in rows:
        cells = []
        for who, seconds in r["seconds"].items():
            rate = r["size"] * r["count"] / seconds / 1e9
            ratio = f", x {r['ratio'][who]:.2f}" if who in r["ratio"] else ""
            cells.append(f"{who}: {seconds * 1e6:.0f} us, {rate:.2f} GB/s{ratio}")
        print(f"  {r['what']:<28}" + "   ".join(f"{c:<40}" for c in cells).rstrip())


def missed(out: dict[str, Any]) -> list[str]:
    """The goals that the rows of these groups do not reach, in words."""
    return [
        f"{what}: {ratio:.2f}, and the goal is {least}"
        for (group, what), (who, least) in GOALS.items()
        for r in out.get(group, [])
        if r["what"] == what and (ratio := r["ratio"][who]) < least
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="go,ways,threads", help="which of go, ways, threads; comma-separated")
    parser.add_argument("--other", default="", help="an interpreter that has another package with mooncake.store")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--goals", action="store_true", help="exit code 1 where a goal is missed")
    args = parser.parse_args()
    groups: dict[str, Callable[[Pools, int], list[Row]]] = {"go": go, "ways": ways, "threads": threads}
    wanted = [w for w in args.only.split(",") if w]
    if wrong := [w for w in wanted if w not in groups]:
        parser.error(f"--only: {', '.join(wrong)}")
    if args.rounds < 1:
        parser.error("--rounds: at least 1")
    work: dict[str, Callable[[Pools, int], list[Row]]] = {w: groups[w] for w in wanted}
    if args.other:
        work["other"] = lambda pools, rounds: other(pools, rounds, args.other)
    out: dict[str, Any] = {"rounds": args.rounds, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="mooncake-bench-") as folder:
        build(Path(folder))
        if not args.json:
            print(f"medians of {args.rounds} rounds, {out['cores']} cores, load {out['load']:.1f}")
        for name, measure in work.items():
            with Pools(Path(folder)) as pools:
                out[name] = measure(pools, args.rounds)
            if not args.json:
                show(name, out[name])
    if args.json:
        json.dump(out, sys.stdout, indent=1)
        print()
    if args.goals and (lines := missed(out)):
        sys.exit("missed goals\n  " + "\n  ".join(lines))


if __name__ == "__main__":
    main()
