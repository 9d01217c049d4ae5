"""Bytes of bundles to and from the store: chunks, ranges of chunks, registered destinations. Private."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .types import (
    AUTO_PARALLEL_MIN_BYTES,
    AUTO_PARALLEL_MIN_CHUNKS,
    BundleTransferPolicy,
    RawDestination,
    TensorObject,
)

# The attributes of a ReplicateConfig, so that a copy can be changed and the caller's stays as it is.
_CONFIG_FIELDS = (
    "replica_num",
    "nof_replica_num",
    "dfs_replica_num",
    "soft_pin_action",
    "soft_pin_ttl_ms",
    "with_hard_pin",
    "preferred_segments",
    "preferred_nof_segments",
    "preferred_segment",
    "prefer_alloc_in_same_node",
    "data_type",
    "group_ids",
    "session_ids",
)


class Piece(NamedTuple):
    """One key and the value to put there."""

    key: str
    value: memoryview | TensorObject

    def size(self) -> int:
        return self.value.size if isinstance(self.value, TensorObject) else self.value.nbytes


class Fragment(NamedTuple):
    """Bytes of one stored chunk, and where in the destination they go."""

    key: str
    chunk_bytes: int
    source: int
    size: int
    to: int


def bytes_view(value: Any, name: str) -> memoryview:
    """value as contiguous bytes; TypeError that names it where it has none."""
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, got {type(value).__name__}") from None
    if view.format in ("O", "P"):
        raise TypeError(f"{name} holds objects, which have no bytes; give it as a non-tensor field")
    if not view.nbytes:
        return memoryview(b"")
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def chunked(base: str, view: memoryview, chunk_bytes: int) -> tuple[dict[str, Any], list[Piece]]:
    """How the manifest describes the value at base, and the pieces to put."""
    if view.nbytes <= chunk_bytes:
        pieces = [Piece(base, view)] if view.nbytes else []
    else:
        starts = range(0, view.nbytes, chunk_bytes)
        pieces = [Piece(f"{base}/chunk/{i}", view[at : at + chunk_bytes]) for i, at in enumerate(starts)]
    return entry(base, pieces), pieces


def entry(base: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    """How the manifest describes the value at base that consists of pieces."""
    return {
        "key": base,
        "bytes": sum(p.size() for p in pieces),
        "chunks": [{"key": p.key, "bytes": p.size()} for p in pieces],
    }


def fragments(described: Mapping[str, Any], start: int = 0, size: int | None = None, to: int = 0) -> Iterator[Fragment]:
    """The parts of a stored value's chunks that bytes start to start+size lie in."""
    end = described["bytes"] if size is None else start + size
    at = 0
    for chunk in described["chunks"]:
        first, last = max(start, at), min(end, at + chunk["bytes"])
        if first < last:
            yield Fragment(chunk["key"], chunk["bytes"], first - at, last - first, to + first - start)
        at += chunk["bytes"]


def config_in_group(config: Any, group: str | None) -> Any:
    """A configuration that names the group, unless the caller named one; as given where it cannot."""
    if group is None:
        return config
    if config is None:
        from ..store import ReplicateConfig

        config = ReplicateConfig()
    elif getattr(config, "group_ids", None) or not hasattr(config, "group_ids"):
        return config
    own = type(config)()
    for name in _CONFIG_FIELDS:
        if hasattr(config, name):
            setattr(own, name, getattr(config, name))
    own.group_ids = [group]
    return own


class Transport:
    """Puts, gets and removes through one store. As thread-safe as the store."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def put(self, pieces: Sequence[Piece], policy: BundleTransferPolicy, config: Any) -> None:
        """Puts all pieces, or removes those that it put and raises."""
        done: list[str] = []

        def one(piece: Piece) -> None:
            self._put_one(piece, config)
            done.append(piece.key)

        try:
            if policy.max_inflight_put > 1 and _in_parallel(pieces, policy):
                with ThreadPoolExecutor(policy.max_inflight_put) as workers:
                    list(workers.map(one, pieces))
            else:
                for piece in pieces:
                    one(piece)
        except BaseException:
            self.remove(done, must=False)
            raise

    def _put_one(self, piece: Piece, config: Any) -> None:
        args: tuple[Any, ...]
        if isinstance(piece.value, TensorObject):
            call = getattr(self.store, "put_from", None)
            if call is None:
                raise RuntimeError("put_from is unavailable")
            args = (piece.key, piece.value.ptr, piece.value.size)
        else:
            call, args = self.store.put, (piece.key, piece.value)
        code = call(*args) if config is None else call(*args, config=config)
        if code != 0:
            raise RuntimeError(f"put failed for {piece.key}: {code}")

    def remove(self, keys: Sequence[str], must: bool = True) -> None:
        """Removes keys, also leased ones; a key that is not there is no error."""
        failed = []
        for key in keys:
            code = self.store.remove(key, True)
            if code not in (0, -704):
                failed.append(f"{key}: {code}")
        if failed and must:
            raise RuntimeError(f"remove failed for {', '.join(failed)}")

    def manifest(self, key: str) -> dict[str, Any]:
        """The manifest at key; ValueError where it is none that this version reads."""
        stored = bytes(self.store.get(key))
        if not stored:
            raise RuntimeError(f"get failed for {key}: the bundle is not there; it was removed or evicted")
        found = json.loads(stored)
        if not isinstance(found, dict) or found.get("version") != 1 or found.get("layout") != "bundle":
            raise ValueError(f"{key} holds no bundle manifest of version 1")
        return found

    def read(self, described: Mapping[str, Any]) -> bytes:
        """A stored value."""
        if len(described["chunks"]) == 1:
            chunk = described["chunks"][0]
            return self._whole(chunk["key"], chunk["bytes"])
        memory = bytearray(described["bytes"])
        self.read_into(list(fragments(described)), memory)
        return bytes(memory)

    def read_into(self, parts: Sequence[Fragment], memory: Any, registered: bool = False) -> None:
        """Reads parts to memory, a writable buffer or a RawDestination, in one call where the store can."""
        if not parts:
            return
        raw = memory if isinstance(memory, RawDestination) else _address_of(memory)
        if not self._read_ranges(parts, raw, registered or raw.pre_registered):
            for part in parts:
                value = self._whole(part.key, part.chunk_bytes)
                ctypes.memmove(raw.ptr + part.to, value[part.source : part.source + part.size], part.size)

    def _read_ranges(self, parts: Sequence[Fragment], raw: RawDestination, registered: bool) -> bool:
        ranges = getattr(self.store, "get_into_ranges", None)
        if ranges is None:
            return False
        if not registered and self.store.register_buffer(raw.ptr, raw.size) != 0:
            return False
        by_key: dict[str, list[Fragment]] = {}
        for part in parts:
            by_key.setdefault(part.key, []).append(part)
        groups = list(by_key.values())
        try:
            found = ranges(
                [raw.ptr],
                [list(by_key)],
                [[[p.to for p in group] for group in groups]],
                [[[p.source for p in group] for group in groups]],
                [[[p.size for p in group] for group in groups]],
            )
        finally:
            if not registered:
                self.store.unregister_buffer(raw.ptr)
        for group, sizes in zip(groups, found[0], strict=True):
            for part, got in zip(group, sizes, strict=True):
                if got != part.size:
                    raise RuntimeError(f"get failed for {part.key}: expected {part.size} bytes, got {got}")
        return True

    def _whole(self, key: str, size: int) -> bytes:
        value = bytes(self.store.get(key))
        if len(value) != size:
            raise RuntimeError(f"get failed for {key}: expected {size} bytes, got {len(value)}")
        return value


def _in_parallel(pieces: Sequence[Piece], policy: BundleTransferPolicy) -> bool:
    if policy.put_mode != "auto":
        return policy.put_mode == "parallel"
    return len(pieces) >= AUTO_PARALLEL_MIN_CHUNKS and sum(p.size() for p in pieces) >= AUTO_PARALLEL_MIN_BYTES


def _address_of(memory: Any) -> RawDestination:
    view = memoryview(memory).cast("B")
    return RawDestination(ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes, view)
