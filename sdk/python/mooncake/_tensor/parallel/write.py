"""Which objects a writer with a parallelism stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..axes import PARALLEL_MANIFEST, WRITER_MANIFEST, AxisSpec, Layout, layout_of, writer_key, writer_of
from ..boxes import split
from ..into import object_at
from ..io import Job, Objects, job
from ..layout import METADATA_SIZE, TP, Axis, LayoutError, Manifest, Shape
from ..memory import Piece, full_piece, metadata_at, metadata_of, part, readable, shard_piece, tensor_at

if TYPE_CHECKING:
    from torch import Tensor


def tensor_job(key: str, tensor: Any, parallelism: Any, partition: Any) -> Job:
    """The objects of one tensor that is handed over as such."""

    def plan() -> Objects:
        layout, writer = _request(parallelism, partition)
        own = readable(tensor)
        if writer is not None:
            return _writer_objects(key, own, writer)
        if layout is None:
            return [(key, full_piece(own))]
        if layout.only_tp:
            return _own_part(key, own, layout)
        tp = layout.tp
        if tp is None:
            return [(layout.key(key), shard_piece(own, tuple(own.shape), layout.records(0)))]
        objects = _ranks(key, own, layout, tp, [tp.rank])
        return objects + [_manifest(key + PARALLEL_MANIFEST, own, tuple(own.shape), tp)]

    return job(f"put of tensor {key!r}", plan)


def memory_job(key: str, ptr: int, size: int, parallelism: Any, partition: Any) -> Job:
    """The objects of one tensor that lies at ptr with its metadata."""

    def plan() -> Objects:
        layout, writer = _request(parallelism, partition)
        metadata = metadata_at(ptr, size)
        if writer is not None:
            return _writer_objects(key, tensor_at(metadata, ptr + METADATA_SIZE), writer)
        if layout is None:
            return object_at(key, ptr, size)
        own = tensor_at(metadata, ptr + METADATA_SIZE)
        tp, stored = layout.tp, metadata.axis(TP)
        if tp is None:
            return [(layout.key(key), shard_piece(own, tuple(own.shape), layout.records(0)))]
        if stored is not None:
            _check_own(stored, tp)
            return [(layout.key(key), shard_piece(own, metadata.global_shape, layout.records(own.shape[tp.dim])))]
        return _ranks(key, own, layout, tp, range(tp.size))

    return job(f"put of tensor {key!r}", plan)


def _request(parallelism: Any, partition: Any) -> tuple[Layout | None, AxisSpec | None]:
    if parallelism is not None and partition is not None:
        raise LayoutError("a writer_partition and a parallelism cannot be combined; leave one out")
    layout = None if parallelism is None else layout_of(parallelism)
    return layout, None if partition is None else writer_of(partition)


def _check_own(stored: Axis, asked: AxisSpec) -> None:
    if (stored.rank, stored.size, stored.split_dim) != (asked.rank, asked.size, asked.split_dim):
        raise LayoutError(
            f"the memory holds part {stored.rank} of {stored.size} along {stored.split_dim}, "
            f"not part {asked.rank} of {asked.size} along {asked.split_dim}"
        )


def _own_part(key: str, own: Tensor, layout: Layout) -> Objects:
    """With TP alone the tensor is the part itself, and the whole is size times as large."""
    tp = layout.axes[0]
    shape = tuple(own.shape)
    if not 0 <= tp.dim < len(shape):
        raise LayoutError(f"a tensor of shape {shape} has no dimension {tp.dim}")
    extent = shape[tp.dim]
    whole = shape[: tp.dim] + (extent * tp.size,) + shape[tp.dim + 1 :]
    shard = shard_piece(own, whole, layout.records(extent))
    return [(layout.key(key), shard), _manifest(key + PARALLEL_MANIFEST, own, whole, tp)]


def _ranks(key: str, whole: Tensor, layout: Layout, tp: AxisSpec, ranks: Iterable[int]) -> Objects:
    """The parts of some ranks of a whole tensor."""
    shape = tuple(whole.shape)
    extent = split(shape, tp.dim, 0, tp.size).shape[tp.dim]
    objects = []
    for rank in ranks:
        place = layout.with_tp(rank, tp.size, tp.dim)
        shard = shard_piece(part(whole, tp.dim, rank, tp.size), shape, place.records(extent))
        objects.append((place.key(key), shard))
    return objects


def _writer_objects(key: str, whole: Tensor, writer: AxisSpec) -> Objects:
    shape = tuple(whole.shape)
    own = part(whole, writer.dim, writer.rank, writer.size)
    shard = shard_piece(own, shape, (writer.record(own.shape[writer.dim]),))
    manifest = _manifest(key + WRITER_MANIFEST, whole, shape, writer)
    return [(writer_key(key, writer.rank, writer.size, writer.dim), shard), manifest]


def _manifest(key: str, tensor: Tensor, shape: Shape, axis: AxisSpec) -> tuple[str, Piece]:
    manifest = Manifest(metadata_of(tensor).dtype, shape, axis.dim, axis.size)
    return key, Piece(manifest.pack())
