"""Tensors split for tensor parallelism: one object for each rank, under "<key>_tp_<rank>"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._store.base import INVALID_PARAMS, StoreBase
from .axes import tp_key, tp_layout
from .boxes import split
from .io import Job, Objects, integer, job, key_text, key_texts, read, write
from .memory import full_piece, part, readable, shard_piece

if TYPE_CHECKING:
    from torch import Tensor

    from .._store.config import ReplicateConfig


class TPTensorMethods(StoreBase):
    """put, pub and get with tp_size. A tp_size of 1 is the plain method."""

    def put_tensor_with_tp(
        self, key: str, tensor: Tensor, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> int:
        """put_tensor_with_tp(key: str, tensor: torch.Tensor, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> int

        Splits the whole tensor along split_dim and stores the parts of all ranks, whatever tp_rank.
        """
        return self.pub_tensor_with_tp(key, tensor, None, tp_rank, tp_size, split_dim)

    def pub_tensor_with_tp(
        self,
        key: str,
        tensor: Tensor,
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """pub_tensor_with_tp(key: str, tensor: torch.Tensor, config: ReplicateConfig = ReplicateConfig(), tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> int

        put_tensor_with_tp with replicas and places as config says.
        """
        integer("tp_rank", tp_rank)
        return write(
            self, [tp_job(key_text(key), tensor, integer("tp_size", tp_size), integer("split_dim", split_dim))], config
        )[0]

    def batch_put_tensor_with_tp(
        self,
        base_keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """batch_put_tensor_with_tp(base_keys: list[str], tensors_list: list, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> list[int]

        put_tensor_with_tp of many; a number for each base key.
        """
        return self.batch_pub_tensor_with_tp(base_keys, tensors_list, None, tp_rank, tp_size, split_dim)

    def batch_pub_tensor_with_tp(
        self,
        base_keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """batch_pub_tensor_with_tp(base_keys: list[str], tensors_list: list, config: ReplicateConfig = ReplicateConfig(), tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> list[int]

        pub_tensor_with_tp of many; a number for each base key.
        """
        integer("tp_rank", tp_rank)
        size, dim = integer("tp_size", tp_size), integer("split_dim", split_dim)
        keys = key_texts(base_keys, "base_keys")
        if len(keys) != len(tensors_list):
            return [INVALID_PARAMS] * len(keys)
        return write(self, [tp_job(k, t, size, dim) for k, t in zip(keys, tensors_list)], config)

    def get_tensor_with_tp(self, key: str, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> Tensor | None:
        """get_tensor_with_tp(key: str, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0) -> torch.Tensor | None

        The part of tp_rank as it is stored; the whole tensor with a tp_size of 1.
        """
        integer("split_dim", split_dim)
        return read(self, [rank_key(key_text(key), integer("tp_rank", tp_rank), integer("tp_size", tp_size))])[0]

    def batch_get_tensor_with_tp(
        self, base_keys: Sequence[str], tp_rank: int = 0, tp_size: int = 1
    ) -> list[Tensor | None]:
        """batch_get_tensor_with_tp(base_keys: list[str], tp_rank: int = 0, tp_size: int = 1) -> list[torch.Tensor | None]

        get_tensor_with_tp of many.
        """
        rank, size = integer("tp_rank", tp_rank), integer("tp_size", tp_size)
        return read(self, [rank_key(k, rank, size) for k in key_texts(base_keys, "base_keys")])


def rank_key(key: str, rank: int, size: int) -> str:
    """Where get_tensor_with_tp reads."""
    return key if size <= 1 else tp_key(key, rank)


def tp_job(key: str, tensor: Any, size: int, dim: int) -> Job:
    """The objects of all ranks of one tensor."""
    return job(f"put of tensor {key!r} for {size} ranks", lambda: tp_objects(key, readable(tensor), size, dim))


def tp_objects(key: str, tensor: Tensor, size: int, dim: int) -> Objects:
    """As tp_job, of a readable tensor. LayoutError when it cannot be split into equal parts."""
    if size <= 1:
        return [(key, full_piece(tensor))]
    shape = tuple(tensor.shape)
    extent = split(shape, dim, 0, size).shape[dim]
    objects = []
    for rank in range(size):
        axes = tp_layout(rank, size, dim).records(extent)
        objects.append((tp_key(key, rank), shard_piece(part(tensor, dim, rank, size), shape, axes)))
    return objects
