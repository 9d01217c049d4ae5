"""Moves objects of tensors between memory and the store, and folds the answers.

Errors stay with their key: a number for a write, None for a read. The reason is logged to
"mooncake.store".
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .._arguments import number, string, strings
from .._store.base import INVALID_PARAMS, StoreBase
from .layout import METADATA_SIZE, LayoutError, TensorMetadata, head_of
from .memory import Piece, metadata_at, new_bytes, shaped, tensor_at

if TYPE_CHECKING:
    from torch import Tensor

# What one key of a call writes: its objects, or the code of a refusal.
Objects = list[tuple[str, Piece]]
Job = Objects | int


def refused(what: str, why: object) -> int:
    """Logs why a tensor could not be moved; the code of a wrong argument."""
    import logging

    logging.getLogger("mooncake.store").warning("%s: %s", what, why)
    return INVALID_PARAMS


def key_text(key: Any, name: str = "key") -> str:
    """A key as str, so that suffixes can follow."""
    return string(name, key)


def key_texts(keys: Any, name: str = "keys") -> list[str]:
    return strings(name, keys)


def integer(name: str, value: Any) -> int:
    """value, an int that may have a sign."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}") from None


def numbers(name: str, values: Any) -> list[int]:
    """Addresses or sizes."""
    return [number(f"{name}[{i}]", v) for i, v in enumerate(values)]


def job(what: str, plan: Callable[[], Objects]) -> Job:
    """The objects of one key, or the code of a refusal."""
    try:
        return plan()
    except LayoutError as e:
        return refused(what, e)


def write(store: StoreBase, jobs: Sequence[Job], config: Any = None, upsert: bool = False) -> list[int]:
    """Writes all objects of all keys in one call. A key's answer is the first failure of its objects."""
    how = _how_of_objects(store._how(config), jobs)
    flags = _native.MAY_PREFER_NODE | (_native.UPSERT if upsert else _native.PUT)
    objects = [o for j in jobs if not isinstance(j, int) for o in j]
    if not store._ready:
        return [INVALID_PARAMS] * len(jobs)
    heads = ctypes.create_string_buffer(b"".join(piece.head for _, piece in objects) or b"\0")
    keys, ptrs, sizes, at = [], [], [], ctypes.addressof(heads)
    for key, piece in objects:
        rows = [(at, len(piece.head)), (piece.ptr, piece.size)]
        at += len(piece.head)
        keys.append(key)
        ptrs.append([ptr for ptr, size in rows if size])
        sizes.append([size for _, size in rows if size])
    codes = _native.store_put_from_rows(store._handle, keys, ptrs, sizes, how, flags) if keys else []
    answers = iter(codes if len(codes) == len(keys) else [INVALID_PARAMS] * len(keys))
    return [j if isinstance(j, int) else _first_failure([next(answers) for _ in j]) for j in jobs]


def _first_failure(codes: list[int]) -> int:
    return next((c for c in codes if c != 0), 0)


def _how_of_objects(how: tuple[Any, ...], jobs: Sequence[Job]) -> tuple[Any, ...]:
    """group_ids has one for each key; the objects of a key are all of its group."""
    groups = how[8]
    if groups is None or len(groups) != len(jobs):
        return how
    spread = [g for g, j in zip(groups, jobs) if not isinstance(j, int) for _ in j]
    return how[:8] + (spread,) + how[9:]


def read(store: StoreBase, keys: Sequence[str]) -> list[Tensor | None]:
    """The tensors of whole objects, in memory of their own."""
    return [None if found is None else found[1] for found in read_objects(store, keys)]


def read_objects(store: StoreBase, keys: Sequence[str]) -> list[tuple[TensorMetadata, Tensor] | None]:
    """As read, with their metadata.

    The sizes are asked for first, so that the data go straight where they stay: what the
    library lends may be read-only and is too dear to be kept as long as a tensor.
    """
    if not keys or not store._ready:
        return [None] * len(keys)
    memory = _memory_for(store, keys)
    heads = ctypes.create_string_buffer(METADATA_SIZE * len(keys))
    wanted, ptrs, sizes = [], [], []
    for i, data in memory.items():
        rows = [(ctypes.addressof(heads) + i * METADATA_SIZE, METADATA_SIZE), (data.data_ptr(), data.numel())]
        wanted.append(keys[i])
        ptrs.append([ptr for ptr, size in rows if size])
        sizes.append([size for _, size in rows if size])
    got = _native.store_get_into_rows(store._handle, wanted, ptrs, sizes) if wanted else []
    found: list[tuple[TensorMetadata, Tensor] | None] = [None] * len(keys)
    for (i, data), size in zip(memory.items(), got):
        if size < 0:
            continue
        try:
            metadata = TensorMetadata.parse(head_of(heads, i), size)
            found[i] = metadata, shaped(metadata, data)
        except LayoutError as e:
            refused(f"get of tensor {keys[i]!r}", e)
    return found


def _memory_for(store: StoreBase, keys: Sequence[str]) -> dict[int, Tensor]:
    """Memory for the data of the objects that are there, by their place in keys."""
    memory = {}
    for i, size in enumerate(_native.store_size(store._handle, keys)):
        if size < 0:
            continue
        try:
            if size < METADATA_SIZE:
                raise LayoutError(f"{size} bytes are too few for the metadata of a tensor")
            memory[i] = new_bytes(size - METADATA_SIZE)
        except LayoutError as e:
            refused(f"get of tensor {keys[i]!r}", e)
    return memory


def read_into(store: StoreBase, keys: Sequence[str], ptrs: list[int], sizes: list[int]) -> list[Tensor | None]:
    """Reads whole objects to the caller's memory: tensors over it, which do not own it."""
    if not keys or not store._ready:
        return [None] * len(keys)
    got = _native.store_get_into(store._handle, keys, ptrs, sizes)
    return [_tensor_over(*each) for each in zip(keys, ptrs, got)]


def _tensor_over(key: str, ptr: int, size: int) -> Tensor | None:
    if size < 0:
        return None
    try:
        return tensor_at(metadata_at(ptr, size), ptr + METADATA_SIZE)
    except LayoutError as e:
        refused(f"get of tensor {key!r}", e)
        return None
