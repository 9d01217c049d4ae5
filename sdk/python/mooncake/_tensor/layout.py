"""What stands before the data of a tensor in the store, and in the manifests of split tensors.

An object is 304 bytes of metadata and then the data, contiguous in the order of rows. All
numbers are little-endian. Nothing here needs PyTorch.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

MAGIC = 0x4D4F4F4E
VERSION = 1
METADATA_SIZE = 304
MAX_DIMS = 8
MAX_AXES = 4
FULL, SHARD = 0, 1
DP, TP, EP, PP = 0, 1, 2, 3

MANIFEST_MAGIC = 0x574D414E
MANIFEST_SIZE = 96

# The place in this list is the number in the metadata; the names are attributes of torch.
DTYPES: tuple[tuple[str, int], ...] = (
    ("float32", 4),
    ("float64", 8),
    ("int8", 1),
    ("uint8", 1),
    ("int16", 2),
    ("uint16", 2),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("bool", 1),
    ("float16", 2),
    ("bfloat16", 2),
    ("float8_e4m3fn", 1),
    ("float8_e5m2", 1),
)

_HEADER = struct.Struct("<IHHiiIIQQ")  # magic, version, size, dtype, ndim, kind, 0, data offset, data bytes
_SHAPE = struct.Struct("<8q")  # -1 where there is no such dimension
_COUNT = struct.Struct("<II")
_AXIS = struct.Struct("<6iq")  # kind, place, rank, size, split_dim, member, extent
_MANIFEST = struct.Struct("<IHHiiiiQ8q")  # magic, version, size, dtype, ndim, split_dim, count, 0, shape

Shape = tuple[int, ...]


class LayoutError(ValueError):
    """Bytes that are no tensor, or a tensor or a layout that the store has no form for."""


class Axis(NamedTuple):
    """One axis of parallelism, as it is stored."""

    kind: int
    rank: int
    size: int
    split_dim: int = -1
    member: int = 0  # the expert of EP, the stage of PP
    extent: int = 0  # of a TP shard along split_dim


def count_of(shape: Shape) -> int:
    """The number of elements of a shape; 1 for no dimensions."""
    n = 1
    for extent in shape:
        n *= extent
    return n


def dtype_number(name: str) -> int:
    """The number of a dtype by its name in torch. LayoutError when there is none."""
    for number, (known, _) in enumerate(DTYPES):
        if known == name:
            return number
    raise LayoutError(
        f"a tensor of dtype {name} cannot be stored; convert it to one of float, bfloat16, integer or bool"
    )


class TensorMetadata(NamedTuple):
    """The metadata of one object. shape is of the data that follow, global_shape of the whole tensor."""

    dtype: int
    shape: Shape
    global_shape: Shape
    axes: tuple[Axis, ...] = ()
    is_shard: bool = False

    @classmethod
    def full(cls, dtype: int, shape: Shape) -> TensorMetadata:
        return cls(dtype, shape, shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return count_of(self.shape) * DTYPES[self.dtype][1]

    def axis(self, kind: int) -> Axis | None:
        return next((a for a in self.axes if a.kind == kind), None)

    def pack(self) -> bytes:
        """The 304 bytes. LayoutError for more dimensions than there is room for."""
        kind = SHARD if self.is_shard else FULL
        head = (MAGIC, VERSION, METADATA_SIZE, self.dtype, len(self.shape), kind, 0, METADATA_SIZE, self.nbytes)
        axes = [_AXIS.pack(a.kind, i, *a[1:]) for i, a in enumerate(self.axes)]
        axes += [bytes(_AXIS.size)] * (MAX_AXES - len(axes))
        shapes = _SHAPE.pack(*_padded(self.global_shape)) + _SHAPE.pack(*_padded(self.shape))
        return _HEADER.pack(*head) + shapes + _COUNT.pack(len(self.axes), 0) + b"".join(axes)

    @classmethod
    def parse(cls, head: bytes, size: int | None = None) -> TensorMetadata:
        """Reads the metadata at the start of head and checks all of it.

        size is that of the whole object; None where it is not known. LayoutError says what is wrong.
        """
        if len(head) < METADATA_SIZE:
            raise LayoutError(f"{len(head)} bytes are too few for the metadata of a tensor, which has {METADATA_SIZE}")
        magic, version, own, dtype, ndim, kind, _, offset, nbytes = _HEADER.unpack_from(head)
        if magic != MAGIC:
            raise LayoutError(f"not a tensor: begins with {magic:#010x} and not with {MAGIC:#010x}")
        if (version, own, offset) != (VERSION, METADATA_SIZE, METADATA_SIZE):
            raise LayoutError(f"metadata of version {version} and {own} bytes, data at {offset}: not a form known here")
        _check_dtype(dtype, ndim)
        if kind not in (FULL, SHARD):
            raise LayoutError(f"layout kind {kind} is neither full nor shard")
        global_shape = _unpadded(_SHAPE.unpack_from(head, 40), ndim)
        shape = _unpadded(_SHAPE.unpack_from(head, 104), ndim)
        found = cls(dtype, shape, global_shape, _axes(head, ndim), kind == SHARD)
        found._check_shapes(nbytes)
        if size is not None and size != METADATA_SIZE + nbytes:
            raise LayoutError(f"an object of {size} bytes, but its metadata tell of {METADATA_SIZE} + {nbytes}")
        return found

    def _check_shapes(self, nbytes: int) -> None:
        if self.is_shard:
            if any(part > whole for part, whole in zip(self.shape, self.global_shape)):
                raise LayoutError(f"a shard of {self.shape} is larger than the tensor of {self.global_shape}")
        elif self.axes or self.shape != self.global_shape:
            raise LayoutError("a full tensor with axes or with two shapes")
        if nbytes != self.nbytes:
            raise LayoutError(f"{nbytes} bytes of data, but {self.shape} of {DTYPES[self.dtype][0]} are {self.nbytes}")


class Manifest(NamedTuple):
    """How a tensor was split, stored beside its shards."""

    dtype: int
    global_shape: Shape
    split_dim: int
    parts: int

    def pack(self) -> bytes:
        head = (
            MANIFEST_MAGIC,
            VERSION,
            MANIFEST_SIZE,
            self.dtype,
            len(self.global_shape),
            self.split_dim,
            self.parts,
            0,
        )
        return _MANIFEST.pack(*head, *_padded(self.global_shape))

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """LayoutError when data are no manifest."""
        if len(data) != MANIFEST_SIZE:
            raise LayoutError(f"a manifest has {MANIFEST_SIZE} bytes, not {len(data)}")
        magic, version, own, dtype, ndim, split_dim, parts, _, *shape = _MANIFEST.unpack(data)
        if (magic, version, own) != (MANIFEST_MAGIC, VERSION, MANIFEST_SIZE):
            raise LayoutError(f"not a manifest: begins with {magic:#010x}, version {version}, {own} bytes")
        _check_dtype(dtype, ndim)
        global_shape = _unpadded(tuple(shape), ndim)
        if not 0 <= split_dim < ndim or parts < 1 or global_shape[split_dim] % parts:
            raise LayoutError(f"{global_shape} is not split into {parts} equal parts along dimension {split_dim}")
        return cls(dtype, global_shape, split_dim, parts)


def head_of(heads: Any, place: int) -> bytes:
    """The metadata at a place in memory of many, an array of ctypes."""
    return bytes(memoryview(heads).cast("B")[place * METADATA_SIZE : (place + 1) * METADATA_SIZE])


def _check_dtype(dtype: int, ndim: int) -> None:
    if not 0 <= dtype < len(DTYPES):
        raise LayoutError(f"dtype number {dtype} is not known")
    if not 0 <= ndim <= MAX_DIMS:
        raise LayoutError(f"{ndim} dimensions, where there can be 0 to {MAX_DIMS}")


def _padded(shape: Shape) -> Shape:
    if len(shape) > MAX_DIMS:
        raise LayoutError(f"a tensor of {len(shape)} dimensions cannot be stored; there can be {MAX_DIMS}")
    return shape + (-1,) * (MAX_DIMS - len(shape))


def _unpadded(stored: Shape, ndim: int) -> Shape:
    shape, rest = stored[:ndim], stored[ndim:]
    if any(extent < 0 for extent in shape) or any(extent != -1 for extent in rest):
        raise LayoutError(f"shape {stored} is not one of {ndim} dimensions")
    return shape


def _axes(head: bytes, ndim: int) -> tuple[Axis, ...]:
    count, _ = _COUNT.unpack_from(head, 168)
    if count > MAX_AXES:
        raise LayoutError(f"{count} axes, where there can be {MAX_AXES}")
    found: list[Axis] = []
    for i in range(count):
        kind, _, *rest = _AXIS.unpack_from(head, 176 + i * _AXIS.size)
        axis = Axis(kind, *rest)
        if kind not in (DP, TP, EP, PP) or any(kind == other.kind for other in found):
            raise LayoutError(f"axis {i} has kind {kind}, which is unknown or there already")
        if not 0 <= axis.rank < axis.size or not -1 <= axis.split_dim < ndim:
            raise LayoutError(f"axis {i} has rank {axis.rank} of {axis.size} and split_dim {axis.split_dim}")
        found.append(axis)
    return tuple(found)
