"""Puts a tensor, or a part of one, together from parts that are stored."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import _native
from .._store.base import StoreBase
from .axes import Layout
from .boxes import Box, fragment_count, fragments, overlap, split
from .io import refused
from .layout import DTYPES, METADATA_SIZE, TP, LayoutError, Shape, TensorMetadata, head_of
from .memory import tensor_in

if TYPE_CHECKING:
    from torch import Tensor

# Ranges are read where they save as many bytes as their registration is worth, and are not
# so many that whole parts are cheaper.
MIN_SAVED = 64 << 10
MAX_FRAGMENTS = 1024


class Source(NamedTuple):
    """A tensor that is stored in equal parts along split_dim; one key is the whole."""

    dtype: int
    shape: Shape
    split_dim: int
    keys: Sequence[str]
    places: Sequence[Layout] | None  # of the parts, where their axes are to be compared

    @property
    def parts(self) -> int:
        return len(self.keys)

    def box(self, rank: int) -> Box:
        if self.parts == 1:
            return Box.whole(self.shape)
        return split(self.shape, self.split_dim, rank, self.parts)

    def fits(self, rank: int, metadata: TensorMetadata) -> bool:
        """Whether an object with these metadata is part rank."""
        if (metadata.dtype, metadata.global_shape, metadata.shape) != (self.dtype, self.shape, self.box(rank).shape):
            return False
        if self.places is not None:
            return self.places[rank].describes(metadata)
        axis = metadata.axis(TP)
        return self.parts == 1 or (
            axis is not None and (axis.rank, axis.size, axis.split_dim) == (rank, self.parts, self.split_dim)
        )


class Wanted(NamedTuple):
    """The part that is asked for, and the metadata that it gets."""

    metadata: TensorMetadata
    box: Box


def assemble(store: StoreBase, source: Source, wanted: Wanted, dst: Tensor) -> bool:
    """Fills dst, contiguous and of the wanted shape. False when a part is missing or another one."""
    if wanted.metadata.nbytes == 0:
        return True
    commons = ((r, overlap(source.box(r), wanted.box)) for r in range(source.parts))
    ranks = {r: common for r, common in commons if common is not None}
    done = _by_ranges(store, source, wanted, dst, ranks)
    return _by_parts(store, source, wanted, dst, ranks) if done is None else done


# ranks: those of which something is wanted, with what that is.


def _by_parts(store: StoreBase, source: Source, wanted: Wanted, dst: Tensor, ranks: dict[int, Box]) -> bool:
    handles = _native.store_get_buffers(store._handle, [source.keys[r] for r in ranks])
    for (rank, common), handle in zip(ranks.items(), handles):
        if handle is None:
            refused("get of a tensor from parts", f"{source.keys[rank]!r} is missing")
            return False
        metadata, part = tensor_in(handle)
        if not source.fits(rank, metadata):
            refused("get of a tensor from parts", f"{source.keys[rank]!r} is not part {rank} of {source.parts}")
            return False
        _view(dst, wanted.box, common).copy_(_view(part, source.box(rank), common))
    return len(handles) == len(ranks)


def _view(tensor: Tensor, box: Box, common: Box) -> Tensor:
    """What is common, in the tensor of box."""
    for dim, (start, extent) in enumerate(zip(common.start, common.shape)):
        tensor = tensor.narrow(dim, start - box.start[dim], extent)
    return tensor


def _by_ranges(store: StoreBase, source: Source, wanted: Wanted, dst: Tensor, ranks: dict[int, Box]) -> bool | None:
    """Reads only what is wanted, straight into dst. None when that is no gain or cannot be done."""
    itemsize = DTYPES[source.dtype][1]
    stored = sum(_bytes(source.box(r), itemsize) for r in ranks)
    if stored - wanted.metadata.nbytes < MIN_SAVED:
        return None
    if sum(fragment_count(source.box(r), wanted.box) for r in ranks) > MAX_FRAGMENTS:
        return None
    keys = [source.keys[r] for r in ranks]
    cuts = [list(fragments(source.box(r), wanted.box, itemsize)) for r in ranks]
    sizes = [[[METADATA_SIZE]] * len(keys), [[f.size for f in cut] for cut in cuts]]
    heads = ctypes.create_string_buffer(METADATA_SIZE * len(keys))
    with (
        _Registered(store, ctypes.addressof(heads), len(heads)),
        _Registered(store, dst.data_ptr(), wanted.metadata.nbytes),
    ):
        got = _native.store_get_ranges(
            store._handle,
            [ctypes.addressof(heads), dst.data_ptr()],
            [keys, keys],
            [[[i * METADATA_SIZE] for i in range(len(keys))], [[f.dst for f in cut] for cut in cuts]],
            [[[0]] * len(keys), [[METADATA_SIZE + f.src for f in cut] for cut in cuts]],
            sizes,
        )
    if got != sizes:
        return None
    for i, rank in enumerate(ranks):
        if not source.fits(rank, TensorMetadata.parse(head_of(heads, i))):
            refused("get of a tensor from parts", f"{keys[i]!r} is not part {rank} of {source.parts}")
            return False
    return True


def _bytes(box: Box, itemsize: int) -> int:
    n = itemsize
    for extent in box.shape:
        n *= extent
    return n


def read_metadata(store: StoreBase, key: str) -> TensorMetadata | None:
    """The metadata of the object at key, without its data where that can be done."""
    head = ctypes.create_string_buffer(METADATA_SIZE)
    at = ctypes.addressof(head)
    with _Registered(store, at, METADATA_SIZE):
        got = _native.store_get_ranges(store._handle, [at], [[key]], [[[0]]], [[[0]]], [[[METADATA_SIZE]]])
    try:
        if got == [[[METADATA_SIZE]]]:
            return TensorMetadata.parse(head.raw)
        handle = _native.store_get_buffers(store._handle, [key])[0]
        return None if handle is None else tensor_in(handle)[0]
    except LayoutError:
        return None


class _Registered:
    """Memory that is registered while it is read into. Where it is already, or cannot be, the read tells."""

    def __init__(self, store: StoreBase, ptr: int, size: int) -> None:
        self._handle, self._ptr, self._size = store._handle, ptr, size

    def __enter__(self) -> None:
        self._own = _native.store_register(self._handle, self._ptr, self._size) == 0

    def __exit__(self, *_: object) -> None:
        if self._own:
            _native.store_unregister(self._handle, self._ptr)
