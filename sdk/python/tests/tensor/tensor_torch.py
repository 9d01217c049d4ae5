"""PyTorch for the tests that need it, and what they compare with. Importing this skips a file without PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="moves tensors: needs PyTorch, pip install torch")

from mooncake._tensor.layout import DTYPES
from mooncake.store import _serialize_tensor

# An older PyTorch does not have all of them.
HERE = [name for name, _ in DTYPES if hasattr(torch, name)]


def sample(shape: tuple[int, ...] = (4, 8), dtype: str = "int16") -> Any:
    """A tensor of different values; of other bytes than zeros for any dtype."""
    count = 1
    for n in shape:
        count *= n
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return (torch.arange(count) % 3 == 0).reshape(shape)
    itemsize = dict(DTYPES)[dtype]
    data = (torch.arange(count * itemsize) % 97).to(torch.uint8)
    if dtype in ("int16", "int64", "float32"):
        return torch.arange(count).to(kind).reshape(shape)
    return data.view(kind).reshape(shape)


def same(a: Any, b: Any) -> bool:
    """Equal in dtype, shape and bytes."""
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return _bytes(a) == _bytes(b)


def _bytes(tensor: Any) -> bytes:
    own = tensor.detach().contiguous()
    return ctypes.string_at(own.data_ptr(), own.numel() * own.element_size()) if own.numel() else b""


def object_of(tensor: Any) -> bytes:
    """The object that a tensor is in the store."""
    head, ptr, size, _owner = _serialize_tensor(tensor)
    return head + (ctypes.string_at(ptr, size) if size else b"")


class Memory:
    """Registered memory of this process."""

    def __init__(self, store: Any, size: int) -> None:
        self.size = size
        self.raw = ctypes.create_string_buffer(size)
        self.ptr = ctypes.addressof(self.raw)
        self._store = store
        assert store.register_buffer(self.ptr, size) == 0

    def load(self, data: bytes, at: int = 0) -> int:
        """Puts data there and returns how many bytes they are."""
        ctypes.memmove(self.ptr + at, data, len(data))
        return len(data)

    def close(self) -> None:
        assert self._store.unregister_buffer(self.ptr) == 0


@pytest.fixture
def memory(store: Any) -> Iterator[Memory]:
    m = Memory(store, 1 << 16)
    yield m
    m.close()
