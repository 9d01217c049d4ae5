"""Memory for dummy clients, and where memory is placed. Private; import from mooncake.store."""

from __future__ import annotations

import os
from typing import SupportsIndex

from .. import _arguments as arguments
from .. import _native


class MooncakeHostMemAllocator:
    """MooncakeHostMemAllocator()

    Memory of this process that a mooncake_client of this host can map, so that its transports
    work on it without a copy.
    """

    __module__ = "mooncake.store"

    def alloc(self, size: SupportsIndex) -> int:
        """alloc(size: int) -> int

        The address of at least size bytes, zeroed. RuntimeError where there is no memory.
        """
        ptr = _native.host_alloc(arguments.number("size", size))
        if not ptr:
            raise RuntimeError(f"no shared memory of {size} bytes: {_native.last_error(0)}")
        return ptr

    def free(self, ptr: SupportsIndex) -> int:
        """free(ptr: int) -> int

        Gives back what alloc gave: 0, or a negative code. Unregister it from stores before.
        """
        return _native.host_free(arguments.number("ptr", ptr))


def get_alloc_func_addr() -> int:
    """get_alloc_func_addr() -> int

    The address of a C function void *(size_t size) as MooncakeHostMemAllocator.alloc; NULL
    where there is no memory.
    """
    return _native.alloc_func_addr()


def get_free_func_addr() -> int:
    """get_free_func_addr() -> int

    The address of a C function int (void *ptr) as MooncakeHostMemAllocator.free.
    """
    return _native.free_func_addr()


def bind_to_numa_node(node: SupportsIndex) -> None:
    """bind_to_numa_node(node: int) -> None

    Lets this thread, and threads it starts, run on the CPUs of one NUMA node only, so that
    memory they touch first lies there. Without effect, but for a warning, where there is no
    such node or its CPUs are not allowed.
    """
    number = arguments.number("node", node, bits=31)
    try:
        with open(f"/sys/devices/system/node/node{number}/cpulist", encoding="ascii") as f:
            os.sched_setaffinity(0, _cpus(f.read()))
    except (OSError, ValueError) as e:
        import warnings

        warnings.warn(f"bind_to_numa_node({number}): {e}; threads run where they did", RuntimeWarning, stacklevel=2)


def _cpus(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    if not cpus:
        raise ValueError("the node has no CPUs")
    return cpus


for _public in (get_alloc_func_addr, get_free_func_addr, bind_to_numa_node):
    _public.__module__ = "mooncake.store"
del _public
