"""Tensors in the caller's memory: [metadata][data], the form they have in the store.

Pointers are ints; the memory is the caller's and should be registered with register_buffer.
Tensors that are returned lie over it and do not own it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import number
from .._store.base import INVALID_PARAMS, StoreBase
from .io import Job, Objects, integer, job, key_text, key_texts, numbers, read_into, write
from .layout import METADATA_SIZE
from .memory import Piece, metadata_at, tensor_at
from .tp import rank_key, tp_objects

if TYPE_CHECKING:
    from torch import Tensor


class IntoTensorMethods(StoreBase):
    """get_*_into, put_*_from and upsert_*_from."""

    def get_tensor_into(self, key: str, buffer_ptr: int, size: int) -> Tensor | None:
        """get_tensor_into(key: str, buffer_ptr: int, size: int) -> torch.Tensor | None

        Reads into size bytes at buffer_ptr; None where there is none or it does not fit.
        """
        return read_into(self, [key_text(key)], [number("buffer_ptr", buffer_ptr)], [number("size", size)])[0]

    def batch_get_tensor_into(self, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]) -> list[Any]:
        """batch_get_tensor_into(keys: list[str], buffer_ptrs: list[int], sizes: list[int]) -> list

        get_tensor_into of many; -600 for each key where the lists have different lengths.
        """
        return _batch_into(self, key_texts(keys), buffer_ptrs, sizes)

    def get_tensor_with_tp_into(
        self, key: str, buffer_ptr: int, size: int, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> Tensor | None:
        """get_tensor_with_tp_into(key: str, buffer_ptr: int, size: int, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> torch.Tensor | None

        get_tensor_with_tp into the caller's memory.
        """
        integer("split_dim", split_dim)
        key = rank_key(key_text(key), integer("tp_rank", tp_rank), integer("tp_size", tp_size))
        return read_into(self, [key], [number("buffer_ptr", buffer_ptr)], [number("size", size)])[0]

    def batch_get_tensor_with_tp_into(
        self,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list[Any]:
        """batch_get_tensor_with_tp_into(base_keys: list[str], buffer_ptrs: list[int], sizes: list[int], tp_rank: int = 0, tp_size: int = 1) -> list

        batch_get_tensor_with_tp into the caller's memory.
        """
        rank, parts = integer("tp_rank", tp_rank), integer("tp_size", tp_size)
        keys = [rank_key(k, rank, parts) for k in key_texts(base_keys, "base_keys")]
        return _batch_into(self, keys, buffer_ptrs, sizes)

    def put_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """put_tensor_from(key: str, buffer_ptr: int, size: int) -> int

        Stores the size bytes at buffer_ptr, which must be exactly a tensor with its metadata.
        """
        return write(self, [_job(key_text(key), number("buffer_ptr", buffer_ptr), number("size", size))])[0]

    def upsert_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """upsert_tensor_from(key: str, buffer_ptr: int, size: int) -> int

        put_tensor_from in place of what is there.
        """
        return write(self, [_job(key_text(key), number("buffer_ptr", buffer_ptr), number("size", size))], upsert=True)[
            0
        ]

    def batch_put_tensor_from(self, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """batch_put_tensor_from(keys: list[str], buffer_ptrs: list[int], sizes: list[int]) -> list[int]

        put_tensor_from of many; a number for each key.
        """
        return _batch_from(self, key_texts(keys), buffer_ptrs, sizes, False)

    def batch_upsert_tensor_from(
        self, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]
    ) -> list[int]:
        """batch_upsert_tensor_from(keys: list[str], buffer_ptrs: list[int], sizes: list[int]) -> list[int]

        upsert_tensor_from of many; a number for each key.
        """
        return _batch_from(self, key_texts(keys), buffer_ptrs, sizes, True)

    def put_tensor_with_tp_from(
        self, key: str, buffer_ptr: int, size: int, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> int:
        """put_tensor_with_tp_from(key: str, buffer_ptr: int, size: int, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> int

        put_tensor_with_tp of the whole tensor at buffer_ptr: the parts of all ranks are stored.
        """
        integer("tp_rank", tp_rank)
        only = _tp_job(
            key_text(key),
            number("buffer_ptr", buffer_ptr),
            number("size", size),
            integer("tp_size", tp_size),
            integer("split_dim", split_dim),
        )
        return write(self, [only])[0]

    def batch_put_tensor_with_tp_from(
        self,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """batch_put_tensor_with_tp_from(base_keys: list[str], buffer_ptrs: list[int], sizes: list[int], tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> list[int]

        put_tensor_with_tp_from of many; a number for each base key.
        """
        integer("tp_rank", tp_rank)
        parts, dim = integer("tp_size", tp_size), integer("split_dim", split_dim)
        keys = key_texts(base_keys, "base_keys")
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(keys)
        memory = zip(keys, numbers("buffer_ptrs", buffer_ptrs), numbers("sizes", sizes))
        return write(self, [_tp_job(k, p, n, parts, dim) for k, p, n in memory])


def object_at(key: str, ptr: int, size: int) -> Objects:
    """The object at ptr as it is. LayoutError when it is no tensor."""
    metadata_at(ptr, size)
    return [(key, Piece(b"", ptr, size))]


def _job(key: str, ptr: int, size: int) -> Job:
    return job(f"put of tensor {key!r}", lambda: object_at(key, ptr, size))


def _tp_job(key: str, ptr: int, size: int, parts: int, dim: int) -> Job:
    def plan() -> Objects:
        if parts <= 1:
            return object_at(key, ptr, size)
        return tp_objects(key, tensor_at(metadata_at(ptr, size), ptr + METADATA_SIZE), parts, dim)

    return job(f"put of tensor {key!r} for {parts} ranks", plan)


def _batch_into(store: StoreBase, keys: list[str], ptrs: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    if not len(keys) == len(ptrs) == len(sizes):
        return [INVALID_PARAMS] * len(keys)
    return read_into(store, keys, numbers("buffer_ptrs", ptrs), numbers("sizes", sizes))


def _batch_from(
    store: StoreBase, keys: list[str], ptrs: Sequence[int], sizes: Sequence[int], upsert: bool
) -> list[int]:
    if not len(keys) == len(ptrs) == len(sizes):
        return [INVALID_PARAMS] * len(keys)
    memory = zip(keys, numbers("buffer_ptrs", ptrs), numbers("sizes", sizes))
    return write(store, [_job(*each) for each in memory], upsert=upsert)
