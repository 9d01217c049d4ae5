"""Which bytes two parts of one tensor have in common.

A box is a part of a tensor: for each dimension where it begins and how far it reaches. Its
data are contiguous in the order of rows. Plain numbers: nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from .layout import LayoutError, Shape, count_of


class Box(NamedTuple):
    """A part of a tensor, in elements."""

    start: Shape
    shape: Shape

    @classmethod
    def whole(cls, shape: Shape) -> Box:
        return cls((0,) * len(shape), shape)


class Fragment(NamedTuple):
    """Bytes that are contiguous in both boxes."""

    dst: int
    src: int
    size: int


def split(shape: Shape, dim: int, rank: int, size: int) -> Box:
    """Part rank of size equal parts along dim. LayoutError when there are no such."""
    if not 0 <= dim < len(shape) or not 0 <= rank < size:
        raise LayoutError(f"no part {rank} of {size} along dimension {dim} of a tensor of shape {tuple(shape)}")
    if shape[dim] % size or (shape[dim] == 0 and size > 1):
        raise LayoutError(f"dimension {dim} of {tuple(shape)} cannot be split into {size} equal parts")
    extent = shape[dim] // size
    start = tuple(rank * extent if d == dim else 0 for d in range(len(shape)))
    return Box(start, shape[:dim] + (extent,) + shape[dim + 1 :])


def overlap(a: Box, b: Box) -> Box | None:
    """What is in both, or None."""
    start = tuple(map(max, a.start, b.start))
    end = tuple(min(s + n, t + m) for s, n, t, m in zip(a.start, a.shape, b.start, b.shape))
    shape = tuple(e - s for s, e in zip(start, end))
    return Box(start, shape) if all(n > 0 for n in shape) else None


def _run(common: Box, src: Box, dst: Box) -> int:
    """The first dimension from which on the common part is contiguous in both boxes."""
    dim = len(common.shape)
    while dim > 0:
        dim -= 1
        if common.shape[dim] != src.shape[dim] or common.shape[dim] != dst.shape[dim]:
            break
    return dim


def fragment_count(src: Box, dst: Box) -> int:
    """How many fragments there would be."""
    common = overlap(src, dst)
    return count_of(common.shape[: _run(common, src, dst)]) if common else 0


def fragments(src: Box, dst: Box, itemsize: int) -> Iterator[Fragment]:
    """The bytes of src that belong into dst, with their places in the data of each."""
    common = overlap(src, dst)
    if common is None:
        return
    run = _run(common, src, dst)
    size = count_of(common.shape[run:]) * itemsize
    for place in product(*(range(s, s + n) for s, n in zip(common.start[:run], common.shape[:run]))):
        at = place + common.start[run:]
        yield Fragment(_offset(dst, at) * itemsize, _offset(src, at) * itemsize, size)


def _offset(box: Box, at: Shape) -> int:
    n = 0
    for start, extent, place in zip(box.start, box.shape, at):
        n = n * extent + place - start
    return n
