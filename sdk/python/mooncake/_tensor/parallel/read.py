"""Answers a ReadTarget: finds what is stored under a key and puts the wanted part together.

Looked for in this order: the very part that is asked for; parts that a manifest tells of;
parts without a manifest, by the metadata of the first; the parts of a writer_partition; the
whole tensor. The first that is there completely and fits is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import _native
from ..._store.base import StoreBase
from ..assemble import Source, Wanted, assemble, read_metadata
from ..axes import PARALLEL_MANIFEST, WRITER_MANIFEST, Layout, layout_of, tp_layout, writer_key
from ..boxes import Box, split
from ..io import read, read_into, read_objects, refused
from ..layout import METADATA_SIZE, TP, LayoutError, Manifest, TensorMetadata
from ..memory import metadata_at, new_tensor, tensor_at

if TYPE_CHECKING:
    from torch import Tensor

    Memory = tuple[int, int]


# What a manifest tells is believed only so far: it must not make keys without end.
_MAX_PARTS = 1 << 16


def read_target(store: StoreBase, key: str, target: Any, memory: Memory | None = None) -> Tensor | None:
    """The tensor that target asks for; into memory, an address and a size, where given."""
    if not store._ready:
        return None
    try:
        mode, layout = _request(target)
        if layout is None:
            found = _whole(store, key, memory)
            return found if found is not None or mode != "full" else _from_parts(store, key, None, True, memory)
        if mode != "full" or layout.tp is None:
            found = _exact(store, layout.key(key), layout, memory)
            if found is not None or mode == "as_stored" or layout.tp is None:
                return found
        return _from_parts(store, key, layout, mode == "full", memory)
    except LayoutError as e:
        refused(f"get of tensor {key!r}", e)
        return None


def _request(target: Any) -> tuple[str, Layout | None]:
    if target is None:
        return "as_stored", None
    mode = str(getattr(target, "mode", None)).lower()
    parallelism = getattr(target, "parallelism", None)
    if mode not in ("as_stored", "shard", "full"):
        raise LayoutError(f"read mode {mode!r} is not as_stored, shard or full")
    if parallelism is None and mode == "shard":
        raise LayoutError("reading a shard needs a parallelism that says which")
    return mode, None if parallelism is None else layout_of(parallelism)


def _whole(store: StoreBase, key: str, memory: Memory | None) -> Tensor | None:
    return read(store, [key])[0] if memory is None else read_into(store, [key], [memory[0]], [memory[1]])[0]


def _exact(store: StoreBase, key: str, layout: Layout, memory: Memory | None) -> Tensor | None:
    """The object at key where it is the part that layout says."""
    if memory is None:
        found = read_objects(store, [key])[0]
        return found[1] if found is not None and layout.describes(found[0]) else None
    ptr, size = memory
    got = _native.store_get_into(store._handle, [key], [ptr], [size])[0]
    if got < 0:
        return None
    metadata = metadata_at(ptr, got)
    return tensor_at(metadata, ptr + METADATA_SIZE) if layout.describes(metadata) else None


def _from_parts(store: StoreBase, key: str, layout: Layout | None, full: bool, memory: Memory | None) -> Tensor | None:
    for source in _sources(store, key, layout):
        try:
            wanted = _wanted(source, None if full else layout)
        except LayoutError as e:
            refused(f"get of tensor {key!r} from {source.parts} parts", e)
            continue
        tensor = _into(store, source, wanted, memory)
        if tensor is not None:
            return tensor
    return None


def _wanted(source: Source, layout: Layout | None) -> Wanted:
    if layout is None:
        return Wanted(TensorMetadata.full(source.dtype, source.shape), Box.whole(source.shape))
    tp = layout.tp
    assert tp is not None  # Parts are looked for by who has a TP axis only.
    box = split(source.shape, tp.dim, tp.rank, tp.size)
    axes = layout.records(box.shape[tp.dim])
    return Wanted(TensorMetadata(source.dtype, box.shape, source.shape, axes, is_shard=True), box)


def _into(store: StoreBase, source: Source, wanted: Wanted, memory: Memory | None) -> Tensor | None:
    metadata = wanted.metadata
    if memory is None:
        tensor = new_tensor(metadata)
        return tensor if assemble(store, source, wanted, tensor) else None
    ptr, size = memory
    if not ptr or size < METADATA_SIZE + metadata.nbytes:
        raise LayoutError(f"{size} bytes are too few for the {METADATA_SIZE + metadata.nbytes} that were asked for")
    tensor = tensor_at(metadata, ptr + METADATA_SIZE)
    if not assemble(store, source, wanted, tensor):
        return None
    ctypes.memmove(ptr, metadata.pack(), METADATA_SIZE)
    return tensor


def _sources(store: StoreBase, key: str, layout: Layout | None) -> Iterator[Source]:
    """What may be stored under key, for layout or for any. At most four."""
    own = layout or tp_layout(0, 1, 0)
    manifest, writers = _manifests(store, [key + PARALLEL_MANIFEST, key + WRITER_MANIFEST])
    if manifest is not None:
        yield _parts_of(key, own, manifest)
    first = _first_part(store, key, own)
    if first is not None and first != manifest:
        yield _parts_of(key, own, first)
    if not own.only_tp:
        return
    if writers is not None:
        _bounded(writers)
        keys = [writer_key(key, r, writers.parts, writers.split_dim) for r in range(writers.parts)]
        yield Source(writers.dtype, writers.global_shape, writers.split_dim, keys, None)
    whole = read_metadata(store, key)
    if whole is not None and not whole.is_shard:
        yield Source(whole.dtype, whole.shape, 0, [key], None)


def _manifests(store: StoreBase, keys: list[str]) -> list[Manifest | None]:
    handles = _native.store_get_buffers(store._handle, keys)
    found: list[Manifest | None] = []
    for key, handle in zip(keys, handles):
        try:
            found.append(None if handle is None else Manifest.parse(bytes(handle)))
        except LayoutError as e:
            refused(f"get of manifest {key!r}", e)
            found.append(None)
    return found


def _first_part(store: StoreBase, key: str, layout: Layout) -> Manifest | None:
    """What a manifest would say, from the metadata of rank 0."""
    tp = layout.tp
    assert tp is not None
    metadata = read_metadata(store, layout.with_tp(0, tp.size, tp.dim).key(key))
    axis = metadata.axis(TP) if metadata is not None else None
    if metadata is None or axis is None or axis.split_dim < 0:
        return None
    if axis.rank != 0 or metadata.global_shape[axis.split_dim] % axis.size:
        return None
    return Manifest(metadata.dtype, metadata.global_shape, axis.split_dim, axis.size)


def _parts_of(key: str, layout: Layout, manifest: Manifest) -> Source:
    _bounded(manifest)
    places = [layout.with_tp(r, manifest.parts, manifest.split_dim) for r in range(manifest.parts)]
    return Source(manifest.dtype, manifest.global_shape, manifest.split_dim, [p.key(key) for p in places], places)


def _bounded(manifest: Manifest) -> None:
    if manifest.parts > _MAX_PARTS:
        raise LayoutError(f"a tensor of {manifest.parts} parts; at most {_MAX_PARTS} are put together")
