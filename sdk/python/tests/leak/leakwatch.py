"""What this process holds: memory of C, Python and Go, and what the kernel keeps for it."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import urllib.request
from dataclasses import dataclass


class _MallInfo(ctypes.Structure):
    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = _MallInfo


@dataclass
class Held:
    """What is held at one moment."""

    resident: int
    """Bytes in RAM, without what is shared with other processes."""
    malloc: int
    """Bytes that C has, among them those of large objects of Python."""
    blocks: int
    """Blocks of Python."""
    objects: int
    """Objects of Go, with those that its collector has not found yet."""
    goroutines: int
    threads: int
    files: int


class Watch:
    """Looks at this process. metrics is the URL of the metrics of a store of it, for Go's part."""

    def __init__(self, metrics: str) -> None:
        self._metrics = metrics

    def _go(self) -> dict[str, float]:
        with urllib.request.urlopen(self._metrics, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:3] == "go_")}

    def now(self) -> Held:
        """What is held now."""
        go = self._go()
        gc.collect()
        with open("/proc/self/statm") as f:
            pages = [int(n) for n in f.read().split()]
        info = _libc.mallinfo2()
        return Held(
            resident=(pages[1] - pages[2]) * os.sysconf("SC_PAGESIZE"),
            malloc=info.uordblks + info.hblkhd,
            blocks=sys.getallocatedblocks(),
            objects=int(go["go_memstats_heap_objects"]),
            goroutines=int(go["go_goroutines"]),
            threads=len(os.listdir("/proc/self/task")),
            files=len(os.listdir("/proc/self/fd")),
        )


class Lowest:
    """The lowest of each that was seen: without what garbage collectors and calls in progress add."""

    def __init__(self) -> None:
        self.held: Held | None = None

    def add(self, now: Held) -> None:
        """Takes a moment in."""
        old = self.held or now
        self.held = Held(**{name: min(getattr(old, name), getattr(now, name)) for name in Held.__dataclass_fields__})
