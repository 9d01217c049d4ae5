"""Whole tensors, one object each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._store.base import INVALID_PARAMS, StoreBase
from .io import Job, job, key_text, key_texts, read, write
from .memory import full_piece, readable

if TYPE_CHECKING:
    from torch import Tensor

    from .._store.config import ReplicateConfig


class PlainTensorMethods(StoreBase):
    """put, upsert, pub and get of whole tensors."""

    def put_tensor(self, key: str, tensor: Tensor) -> int:
        """put_tensor(key: str, tensor: torch.Tensor) -> int

        Stores a tensor; 0 also where the key is there already, which is left as it is.
        """
        return write(self, [_job(key_text(key), tensor)])[0]

    def upsert_tensor(self, key: str, tensor: Tensor) -> int:
        """upsert_tensor(key: str, tensor: torch.Tensor) -> int

        Stores a tensor in place of what is there.
        """
        return write(self, [_job(key_text(key), tensor)], upsert=True)[0]

    def pub_tensor(self, key: str, tensor: Tensor, config: ReplicateConfig | None = None) -> int:
        """pub_tensor(key: str, tensor: torch.Tensor, config: ReplicateConfig = ReplicateConfig()) -> int

        put_tensor with replicas and places as config says.
        """
        return write(self, [_job(key_text(key), tensor)], config)[0]

    def upsert_pub_tensor(self, key: str, tensor: Tensor, config: ReplicateConfig | None = None) -> int:
        """upsert_pub_tensor(key: str, tensor: torch.Tensor, config: ReplicateConfig = ReplicateConfig()) -> int

        upsert_tensor with replicas and places as config says.
        """
        return write(self, [_job(key_text(key), tensor)], config, upsert=True)[0]

    def batch_put_tensor(self, keys: Sequence[str], tensors_list: Sequence[Tensor]) -> list[int]:
        """batch_put_tensor(keys: list[str], tensors_list: list) -> list[int]

        put_tensor of many; a number for each key.
        """
        return _batch(self, keys, tensors_list, None, False)

    def batch_upsert_tensor(self, keys: Sequence[str], tensors_list: Sequence[Tensor]) -> list[int]:
        """batch_upsert_tensor(keys: list[str], tensors_list: list) -> list[int]

        upsert_tensor of many; a number for each key.
        """
        return _batch(self, keys, tensors_list, None, True)

    def batch_pub_tensor(
        self, keys: Sequence[str], tensors_list: Sequence[Tensor], config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_pub_tensor(keys: list[str], tensors_list: list, config: ReplicateConfig = ReplicateConfig()) -> list[int]

        pub_tensor of many; a number for each key.
        """
        return _batch(self, keys, tensors_list, config, False)

    def batch_upsert_pub_tensor(
        self, keys: Sequence[str], tensors_list: Sequence[Tensor], config: ReplicateConfig | None = None
    ) -> list[int]:
        """batch_upsert_pub_tensor(keys: list[str], tensors_list: list, config: ReplicateConfig = ReplicateConfig()) -> list[int]

        upsert_pub_tensor of many; a number for each key.
        """
        return _batch(self, keys, tensors_list, config, True)

    def get_tensor(self, key: str) -> Tensor | None:
        """get_tensor(key: str) -> torch.Tensor | None

        The tensor, with memory of its own, or None where there is none.
        """
        return read(self, [key_text(key)])[0]

    def batch_get_tensor(self, keys: Sequence[str]) -> list[Tensor | None]:
        """batch_get_tensor(keys: list[str]) -> list[torch.Tensor | None]

        get_tensor of many.
        """
        return read(self, key_texts(keys))


def _job(key: str, tensor: Any) -> Job:
    return job(f"put of tensor {key!r}", lambda: [(key, full_piece(readable(tensor)))])


def _batch(store: StoreBase, keys: Any, tensors: Any, config: Any, upsert: bool) -> list[int]:
    keys = key_texts(keys)
    if len(keys) != len(tensors):
        return [INVALID_PARAMS] * len(keys)
    return write(store, [_job(k, t) for k, t in zip(keys, tensors)], config, upsert)
