"""Tensors of a group of processes: TP, DP, EP and PP in one request.

With TP alone a writer passes its own part; with TP and others, or a writer_partition,
the whole tensor, of which its part is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..._arguments import number
from ..._signatures import signed
from ..._store.base import INVALID_PARAMS, StoreBase
from ..io import key_text, key_texts, numbers
from ..io import write as puts  # The module write has that name here.
from .read import read_target
from .write import memory_job, tensor_job

if TYPE_CHECKING:
    from torch import Tensor

    from ..._store.config import ReplicateConfig
    from ..parallelism import ParallelAxis, ReadTarget, TensorParallelism

    Layouts = Sequence[TensorParallelism | None]
    Partitions = Sequence[ParallelAxis | None]


@signed
class ParallelTensorMethods(StoreBase):
    """*_with_parallelism and *_with_parallelism_from, *_with_parallelism_into."""

    def put_tensor_with_parallelism(
        self,
        key: str,
        tensor: Tensor,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: ParallelAxis | None = None,
    ) -> int:
        """Stores this process's part; the whole tensor where neither is given."""
        return puts(self, [tensor_job(key_text(key), tensor, parallelism, writer_partition)], config)[0]

    def upsert_tensor_with_parallelism(
        self,
        key: str,
        tensor: Tensor,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: ParallelAxis | None = None,
    ) -> int:
        """As put_tensor_with_parallelism, and replaces an existing object."""
        return puts(self, [tensor_job(key_text(key), tensor, parallelism, writer_partition)], config, upsert=True)[0]

    def batch_put_tensor_with_parallelism(
        self,
        keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        parallelisms: Layouts | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Partitions | None = None,
    ) -> list[int]:
        """put_tensor_with_parallelism of many; a number for each key."""
        return _batch(self, tensor_job, keys, [tensors_list], parallelisms, config, writer_partitions, False)

    def batch_upsert_tensor_with_parallelism(
        self,
        keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        parallelisms: Layouts | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Partitions | None = None,
    ) -> list[int]:
        """upsert_tensor_with_parallelism of many; a number for each key."""
        return _batch(self, tensor_job, keys, [tensors_list], parallelisms, config, writer_partitions, True)

    def put_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: ParallelAxis | None = None,
    ) -> int:
        """Of [metadata][data] in the caller's memory. A whole tensor is split for all TP ranks, a part is stored unchanged."""
        only = memory_job(
            key_text(key), number("buffer_ptr", buffer_ptr), number("size", size), parallelism, writer_partition
        )
        return puts(self, [only], config)[0]

    def upsert_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: ParallelAxis | None = None,
    ) -> int:
        """As put_tensor_with_parallelism_from, and replaces an existing object."""
        only = memory_job(
            key_text(key), number("buffer_ptr", buffer_ptr), number("size", size), parallelism, writer_partition
        )
        return puts(self, [only], config, upsert=True)[0]

    def batch_put_tensor_with_parallelism_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        parallelisms: Layouts | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Partitions | None = None,
    ) -> list[int]:
        """put_tensor_with_parallelism_from of many; a number for each key."""
        return _batch(self, memory_job, keys, [buffer_ptrs, sizes], parallelisms, config, writer_partitions, False)

    def batch_upsert_tensor_with_parallelism_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        parallelisms: Layouts | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Partitions | None = None,
    ) -> list[int]:
        """upsert_tensor_with_parallelism_from of many; a number for each key."""
        return _batch(self, memory_job, keys, [buffer_ptrs, sizes], parallelisms, config, writer_partitions, True)

    def get_tensor_with_parallelism(self, key: str, target: ReadTarget | None = None) -> Tensor | None:
        """What target selects, assembled from stored parts if it is not stored in this form."""
        return read_target(self, key_text(key), target)

    def batch_get_tensor_with_parallelism(
        self, keys: Sequence[str], targets: Sequence[ReadTarget | None] | None = None
    ) -> list[Tensor | None]:
        """get_tensor_with_parallelism of many; None for all where the lists have different lengths."""
        keys = key_texts(keys)
        wanted = [None] * len(keys) if targets is None else targets
        if not isinstance(wanted, (list, tuple)) or len(wanted) != len(keys):
            return [None] * len(keys)
        return [read_target(self, k, t) for k, t in zip(keys, wanted)]

    def get_tensor_with_parallelism_into(
        self, key: str, buffer_ptr: int, size: int, target: ReadTarget | None = None
    ) -> Tensor | None:
        """get_tensor_with_parallelism into the caller's memory, with metadata of what was asked for."""
        return read_target(self, key_text(key), target, (number("buffer_ptr", buffer_ptr), number("size", size)))

    def batch_get_tensor_with_parallelism_into(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        targets: Sequence[ReadTarget | None] | None = None,
    ) -> list[Tensor | None]:
        """get_tensor_with_parallelism_into of many; None for all where the lists have different lengths."""
        keys = key_texts(keys)
        wanted = [None] * len(keys) if targets is None else targets
        if not isinstance(wanted, (list, tuple)) or not len(keys) == len(buffer_ptrs) == len(sizes) == len(wanted):
            return [None] * len(keys)
        memory = zip(numbers("buffer_ptrs", buffer_ptrs), numbers("sizes", sizes))
        return [read_target(self, k, t, m) for k, t, m in zip(keys, wanted, memory)]


def _batch(
    store: StoreBase,
    make: Callable[..., Any],
    keys: Any,
    columns: list[Any],
    parallelisms: Any,
    config: Any,
    partitions: Any,
    upsert: bool,
) -> list[int]:
    keys = key_texts(keys)
    for given in (parallelisms, partitions):
        if given is not None and not isinstance(given, (list, tuple)):
            return [INVALID_PARAMS] * len(keys)
    rows = [*columns, *([None] * len(keys) if given is None else given for given in (parallelisms, partitions))]
    if any(len(row) != len(keys) for row in rows):
        return [INVALID_PARAMS] * len(keys)
    if len(columns) == 2:
        rows[:2] = numbers("buffer_ptrs", columns[0]), numbers("sizes", columns[1])
    return puts(store, [make(*each) for each in zip(keys, *rows)], config, upsert)
