"""Members of structured objects: arrays, tensors and bytes, to pieces and back, whole or in rows. Private."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._tensor.layout import DTYPES, METADATA_SIZE, TensorMetadata
from .transport import Fragment, Piece, Transport, bytes_view, chunked, entry, fragments
from .types import RawDestination, StructuredMemberSlice, TensorObject


class Member(NamedTuple):
    """What the manifest and the metadata say about a member, and what is to be put."""

    described: dict[str, Any]
    spec: dict[str, Any]
    pieces: list[Piece]


class Rows(NamedTuple):
    """Which rows of a member to read: start, start+step, ... up to but not with end."""

    start: int
    end: int
    step: int

    def count(self) -> int:
        return max(0, -(-(self.end - self.start) // self.step))


def is_tensor(value: Any) -> bool:
    """Whether value is a torch.Tensor. Loads no PyTorch."""
    return any(c.__module__.partition(".")[0] == "torch" and c.__name__ == "Tensor" for c in type(value).__mro__)


def encode(name: str, base: str, value: Any, chunk_bytes: int) -> Member:
    """value as the member name at key base. TypeError where it has no bytes."""
    if isinstance(value, TensorObject):
        return _encode_object(base, value)
    if is_tensor(value):
        return _encode_tensor(name, base, value, chunk_bytes)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"{name} holds objects, which have no bytes; give it as a non-tensor field")
        array = np.ascontiguousarray(value)
        described, pieces = chunked(base, memoryview(array.reshape(-1).view(np.uint8)), chunk_bytes)
        return Member(described, {"encoding": "ndarray", "dtype": array.dtype.str, "shape": list(array.shape)}, pieces)
    described, pieces = chunked(base, bytes_view(value, name), chunk_bytes)
    return Member(described, {"encoding": "bytes"}, pieces)


def _encode_object(base: str, value: TensorObject) -> Member:
    metadata = TensorMetadata.parse(ctypes.string_at(value.ptr, METADATA_SIZE), value.size)
    pieces = [Piece(base, value)]
    described = {**entry(base, pieces), "metadata_bytes": METADATA_SIZE}
    return Member(described, _tensor_spec(*DTYPES[metadata.dtype], metadata.shape), pieces)


def _encode_tensor(name: str, base: str, tensor: Any, chunk_bytes: int) -> Member:
    if getattr(tensor, "is_nested", False):
        raise TypeError(f"{name} is a nested tensor; give its rows as an object array in non_tensor_batch")
    dtype = str(tensor.dtype).removeprefix("torch.")
    spec = _tensor_spec(dtype, tensor.element_size(), tensor.shape)
    if tensor.dim() == 0:
        import torch

        file = io.BytesIO()
        torch.save(tensor.detach().cpu(), file)
        described, pieces = chunked(base, file.getbuffer(), chunk_bytes)
        return Member({**described, "format": "torch_save"}, spec, pieces)
    from ..store import _serialize_tensor

    head, ptr, size, owner = _serialize_tensor(tensor.detach().cpu().contiguous())
    stored = bytearray(len(head) + size)
    stored[: len(head)] = head
    if size:
        ctypes.memmove((ctypes.c_char * size).from_buffer(stored, len(head)), ptr, size)
    del owner
    described, pieces = chunked(base, memoryview(stored), chunk_bytes)
    return Member({**described, "metadata_bytes": len(head)}, spec, pieces)


def _tensor_spec(dtype: str, itemsize: int, shape: Sequence[int]) -> dict[str, Any]:
    return {"encoding": "torch_tensor", "dtype": f"torch.{dtype}", "shape": list(shape), "element_size": itemsize}


class Reader:
    """Reads members of one bundle. memory, where given, makes the memory that arrays lie in."""

    def __init__(self, transport: Transport, buffers: Mapping[str, Any], pool: Any = None) -> None:
        self.transport, self.buffers, self.pool = transport, buffers, pool

    def rows(self, name: str, spec: Mapping[str, Any], piece: StructuredMemberSlice | None) -> Rows | None:
        """The slice of a member in numbers; None is the whole member."""
        if piece is None:
            return None
        if spec["encoding"] == "bytes":
            raise ValueError(f"structured bytes member {name} does not support slicing")
        if piece.axis != 0:
            raise ValueError(f"structured member {name} can be sliced on axis 0 only, got axis {piece.axis}")
        if not spec["shape"]:
            raise ValueError(f"structured member {name} has no rows to slice")
        if piece.step <= 0:
            raise ValueError(f"the slice of structured member {name} needs a positive step, got {piece.step}")
        if spec["encoding"] == "torch_tensor" and piece.step != 1:
            raise ValueError("structured tensor slicing currently requires step=1")
        start, end, step = slice(piece.start, piece.end, piece.step).indices(spec["shape"][0])
        return Rows(start, max(start, end), step)

    def read(
        self, name: str, spec: Mapping[str, Any], piece: StructuredMemberSlice | None = None, into: Any = None
    ) -> Any:
        """A member, or rows of it, in memory of its own, or in the memory of into."""
        rows = self.rows(name, spec, piece)
        described = self.buffers[name]
        if spec["encoding"] == "ndarray":
            return self._array(name, spec, described, rows, into)
        if into is not None:
            what = "bytes" if spec["encoding"] == "bytes" else "tensor"
            raise ValueError(f"structured {what} member {name} does not support materialize_into")
        if spec["encoding"] == "bytes":
            return self.transport.read(described)
        if spec["encoding"] == "torch_tensor":
            return self._tensor(spec, described, rows)
        raise ValueError(
            f"structured member {name} has encoding {spec['encoding']!r}, which this version does not read"
        )

    def take(self, name: str, spec: Mapping[str, Any], indices: Sequence[int], into: Any = None) -> Any:
        """The rows of a member with these numbers, in this order; only they are read."""
        described = self.buffers[name]
        if described.get("format") == "torch_save" or not spec.get("shape"):
            raise ValueError(f"structured member {name} has no rows to select")
        row = _row_bytes(spec)
        head = described.get("metadata_bytes", 0)
        parts = [p for n, i in enumerate(indices) for p in fragments(described, head + i * row, row, n * row)]
        shape = (len(indices), *spec["shape"][1:])
        if spec["encoding"] == "torch_tensor":
            return self._tensor_of(spec, parts, shape)
        return self._array_of(name, np.dtype(spec["dtype"]), shape, parts, into)

    def _array(
        self, name: str, spec: Mapping[str, Any], described: Mapping[str, Any], rows: Rows | None, into: Any
    ) -> Any:
        dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
        if rows is None:
            return self._array_of(name, dtype, shape, list(fragments(described)), into)
        row = _row_bytes(spec)
        shape = (rows.count(), *shape[1:])
        if rows.step == 1:
            return self._array_of(
                name, dtype, shape, list(fragments(described, rows.start * row, shape[0] * row)), into
            )
        return self.take(name, spec, range(rows.start, rows.end, rows.step), into)

    def _array_of(
        self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], parts: list[Fragment], into: Any
    ) -> Any:
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if isinstance(into, RawDestination):
            if into.size < size:
                raise ValueError(f"structured ndarray field {name} needs {size} bytes, its destination has {into.size}")
            self.transport.read_into(parts, into)
            memory = (ctypes.c_ubyte * size).from_address(into.ptr)
            memory.owner = into.owner
            return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)
        if into is not None:
            array = _destination(name, into, dtype, shape)
        elif self.pool is not None and size:
            return self._lent(dtype, shape, size, parts)
        else:
            array = np.empty(shape, dtype)
        if size:
            self.transport.read_into(parts, array.reshape(-1).view(np.uint8))
        return array

    def _lent(self, dtype: np.dtype[Any], shape: tuple[int, ...], size: int, parts: list[Fragment]) -> Any:
        lease = self.pool.acquire(size)
        try:
            self.transport.read_into(parts, RawDestination(lease.ptr, size, lease, True))
        except BaseException:
            lease.release()
            raise
        memory = (ctypes.c_ubyte * size).from_address(lease.ptr)
        array = np.frombuffer(memory, np.uint8).view(dtype).reshape(shape).view(LentArray)
        array.lease = lease
        return array

    def _tensor(self, spec: Mapping[str, Any], described: Mapping[str, Any], rows: Rows | None) -> Any:
        if described.get("format") == "torch_save":
            import torch

            return torch.load(io.BytesIO(self.transport.read(described)), weights_only=True)
        head, shape = described["metadata_bytes"], tuple(spec["shape"])
        start = 0
        if rows is not None:
            start, shape = rows.start * _row_bytes(spec), (rows.count(), *shape[1:])
        size = spec["element_size"] * int(np.prod(shape, dtype=np.int64))
        return self._tensor_of(spec, list(fragments(described, head + start, size)), shape)

    def _tensor_of(self, spec: Mapping[str, Any], parts: list[Fragment], shape: tuple[int, ...]) -> Any:
        import torch

        dtype = getattr(torch, spec["dtype"].removeprefix("torch."))
        tensor = torch.empty(shape, dtype=dtype)
        size = tensor.numel() * tensor.element_size()
        if size:
            self.transport.read_into(parts, RawDestination(tensor.data_ptr(), size, tensor))
        return tensor


class LentArray(np.ndarray):
    """An array in memory of a BufferPool. It keeps the lease, until release_result or its own end."""

    lease: Any = None

    def __array_finalize__(self, of: Any) -> None:
        self.lease = getattr(of, "lease", None)  # a view keeps the memory, too


def _row_bytes(spec: Mapping[str, Any]) -> int:
    itemsize = spec.get("element_size") or np.dtype(spec["dtype"]).itemsize
    return itemsize * int(np.prod(spec["shape"][1:], dtype=np.int64))


def _destination(name: str, into: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if not isinstance(into, np.ndarray):
        array = np.frombuffer(into, dtype)
        into = array[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    if into.dtype != dtype:
        raise ValueError(
            f"structured ndarray field {name} destination dtype mismatch: expected {dtype.str}, got {into.dtype.str}"
        )
    if into.shape != shape:
        raise ValueError(
            f"structured ndarray field {name} destination shape mismatch: expected {shape}, got {into.shape}"
        )
    if not into.flags.c_contiguous or not into.flags.writeable:
        raise ValueError(f"structured ndarray field {name} needs a writable destination without gaps")
    return into
