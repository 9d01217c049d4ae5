"""Arrays into one piece of host memory."""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, SupportsIndex

__all__ = ["concat_arrays_into"]


def concat_arrays_into(
    arrays: list[Any],
    dest_ptr: SupportsIndex,
    dest_capacity: SupportsIndex,
    start: SupportsIndex = 0,
    count: SupportsIndex = -1,
    /,
) -> int:
    """Copies arrays[start : start+count] to the address dest_ptr, one behind the other, and returns how many bytes
    that were. A negative count is all, a negative dest_capacity is no bound. Each array is copied as it is at that time, even
    if it overlaps its destination. TypeError for what is no array of numbers; ValueError, and nothing is
    copied, for an array with gaps, too small a destination, and an address that is no host memory, as that
    of a GPU. Releases the GIL while it copies.
    """
    if not isinstance(arrays, list):
        raise TypeError(f"arrays must be list, not {type(arrays).__name__}")
    dest, capacity = operator.index(dest_ptr), operator.index(dest_capacity)
    first, many = max(0, operator.index(start)), operator.index(count)
    chosen = range(first, len(arrays) if many < 0 else min(len(arrays), first + many))
    for i in chosen:
        _check(i, arrays[i])
    need = sum(arrays[i].nbytes for i in chosen)
    if 0 <= capacity < need:
        raise ValueError(f"destination buffer too small: need {need} bytes, got {capacity}")
    if need:
        _must_be_host(dest, need)
    at = dest
    for i in chosen:
        ctypes.memmove(at, arrays[i].ctypes.data, arrays[i].nbytes)
        at += arrays[i].nbytes
    return need


def _check(i: int, array: Any) -> None:
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"arrays[{i}] is not an ndarray")
    if array.dtype.hasobject:
        raise TypeError(f"arrays[{i}] holds objects, which have no bytes")
    if not array.flags.c_contiguous:
        raise ValueError(f"arrays[{i}] is not C-contiguous")


def _must_be_host(address: int, size: int) -> None:
    """ValueError where the first or the last byte is no memory of this process that the host can read."""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for at in (address, address + size - 1):
            if len(os.pread(memory, 1, at)) != 1:
                raise OSError
    except (OSError, OverflowError):
        raise ValueError(
            f"dest_ptr: {size} bytes at {address:#x} are no host memory; "
            "copy into host memory first and then to the device"
        ) from None
    finally:
        os.close(memory)
