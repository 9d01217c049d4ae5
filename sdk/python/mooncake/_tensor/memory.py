"""Tensors of PyTorch as memory, and memory as tensors.

PyTorch is imported by what makes a tensor, and by nothing else: who has a tensor has it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from .boxes import split
from .layout import DTYPES, METADATA_SIZE, Axis, LayoutError, Shape, TensorMetadata, count_of, dtype_number

if TYPE_CHECKING:
    from torch import Tensor


class Piece(NamedTuple):
    """One object to be written: head, then size bytes at ptr, which owner keeps alive."""

    head: bytes
    ptr: int = 0
    size: int = 0
    owner: Any = None


def readable(tensor: Any) -> Tensor:
    """The tensor itself where its memory can be sent as it is, else a contiguous copy of this host.

    LayoutError when it is no tensor or has no memory in rows.
    """
    torch: Any = sys.modules.get("torch")
    kind: Any = getattr(torch, "Tensor", None)
    if kind is None or not isinstance(tensor, kind):
        raise LayoutError(f"a torch.Tensor is needed, not {type(tensor).__name__}")
    name = str(tensor.dtype).removeprefix("torch.")
    dtype_number(name)
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise LayoutError(f"a {tensor.layout} tensor on {tensor.device} has no rows in memory; make it dense first")
    try:
        own = tensor.detach().resolve_neg().cpu().contiguous()
        if own.numel() == 0 or own.data_ptr():
            return own
    except (RuntimeError, NotImplementedError) as e:
        raise LayoutError(f"the memory of a {type(tensor).__name__} cannot be read: {e}") from None
    raise LayoutError(f"a {type(tensor).__name__} has no memory")


def metadata_of(tensor: Tensor) -> TensorMetadata:
    """Of a readable tensor, as a full one."""
    name = str(tensor.dtype).removeprefix("torch.")
    return TensorMetadata.full(dtype_number(name), tuple(tensor.shape))


def full_piece(tensor: Tensor) -> Piece:
    """An object of a whole readable tensor."""
    return _piece(tensor, metadata_of(tensor))


def shard_piece(tensor: Tensor, global_shape: Shape, axes: tuple[Axis, ...]) -> Piece:
    """An object of a readable tensor that is a part of one of global_shape."""
    whole = metadata_of(tensor)
    return _piece(tensor, TensorMetadata(whole.dtype, whole.shape, global_shape, axes, is_shard=True))


def _piece(tensor: Tensor, metadata: TensorMetadata) -> Piece:
    return Piece(metadata.pack(), tensor.data_ptr(), metadata.nbytes, tensor)


def part(tensor: Tensor, dim: int, rank: int, size: int) -> Tensor:
    """Part rank of size equal parts along dim, contiguous: without a copy along dimension 0."""
    box = split(tuple(tensor.shape), dim, rank, size)
    return tensor.narrow(dim, box.start[dim], box.shape[dim]).contiguous()


def metadata_at(ptr: int, size: int) -> TensorMetadata:
    """Reads the metadata of an object of size bytes at ptr, which the caller vouches for."""
    if not ptr or size < METADATA_SIZE:
        raise LayoutError(f"{size} bytes at {ptr:#x} are no tensor with its metadata")
    return TensorMetadata.parse(ctypes.string_at(ptr, METADATA_SIZE), size)


def tensor_at(metadata: TensorMetadata, ptr: int, owner: Any = None) -> Tensor:
    """A tensor over the data at ptr, which owner keeps alive as long as the tensor is.

    LayoutError when this PyTorch has no such dtype.
    """
    import torch

    dtype = _dtype_of(metadata)
    if metadata.nbytes == 0:
        return torch.empty(metadata.shape, dtype=dtype)
    memory = (ctypes.c_char * metadata.nbytes).from_address(ptr)
    memory.owner = owner  # type: ignore[attr-defined]
    return torch.frombuffer(memory, dtype=dtype, count=count_of(metadata.shape)).reshape(metadata.shape)


def new_tensor(metadata: TensorMetadata) -> Tensor:
    """A tensor with memory of its own and nothing in it yet. LayoutError when there is no memory for it."""
    return shaped(metadata, new_bytes(metadata.nbytes))


def new_bytes(size: int) -> Tensor:
    """Memory of PyTorch, as a tensor of bytes. LayoutError when there is none."""
    import torch

    try:
        return torch.empty(size, dtype=torch.uint8)
    except RuntimeError as e:
        raise LayoutError(f"no memory for a tensor of {size} bytes: {e}") from None


def shaped(metadata: TensorMetadata, data: Tensor) -> Tensor:
    """The bytes of data as the tensor that metadata tell of, over the same memory."""
    return data[: metadata.nbytes].view(_dtype_of(metadata)).reshape(metadata.shape)


def _dtype_of(metadata: TensorMetadata) -> Any:
    import torch

    name = DTYPES[metadata.dtype][0]
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise LayoutError(f"PyTorch {torch.__version__} has no {name}; a newer one does")
    return dtype


def tensor_in(handle: Any) -> tuple[TensorMetadata, Tensor]:
    """The tensor in a BufferHandle, over its memory. LayoutError when it holds none."""
    metadata = metadata_at(handle.ptr(), handle.size())
    return metadata, tensor_at(metadata, handle.ptr() + METADATA_SIZE, handle)
