"""The tensor methods of MooncakeDistributedStore, and the functions beside them.

The class takes them in with TensorMethods. Importing this loads no PyTorch.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .into import IntoTensorMethods
from .layout import METADATA_SIZE, LayoutError, TensorMetadata
from .memory import full_piece, readable, tensor_at
from .parallel import ParallelTensorMethods
from .plain import PlainTensorMethods
from .safetensor import SafetensorMethods
from .tp import TPTensorMethods


class TensorMethods(PlainTensorMethods, TPTensorMethods, IntoTensorMethods, ParallelTensorMethods, SafetensorMethods):
    """All tensor methods. The class they are part of has _handle and _how(config)."""


def _tensor_metadata_size() -> int:
    """_tensor_metadata_size() -> int

    Bytes of metadata before the data of a tensor.
    """
    return METADATA_SIZE


def _serialize_tensor(tensor: Any) -> tuple[bytes, int, int, Any]:
    """_serialize_tensor(tensor: torch.Tensor) -> tuple

    Metadata, address and size of the data, and the tensor that owns that memory. ValueError
    for what cannot be stored.
    """
    try:
        owner = readable(tensor)
        piece = full_piece(owner)
    except LayoutError as e:
        raise ValueError(f"unsupported tensor for Mooncake tensor serialization: {e}") from None
    same = tensor.data_ptr() == piece.ptr and not tensor.requires_grad
    return piece.head, piece.ptr, piece.size, tensor if same else owner


def _deserialize_tensor(data: bytes) -> Any:
    """_deserialize_tensor(data: bytes) -> torch.Tensor

    A tensor with memory of its own from metadata and data. ValueError when they are none.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"data must be bytes, not {type(data).__name__}")
    try:
        metadata = TensorMetadata.parse(data, len(data))
        memory = ctypes.create_string_buffer(data[METADATA_SIZE:] or b"\0")
        return tensor_at(metadata, ctypes.addressof(memory), memory)
    except LayoutError as e:
        raise ValueError(f"invalid serialized Mooncake tensor payload: {e}") from None
