"""The methods of a store whose values are bytes, and those about keys. Private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _arguments as arguments
from .. import _native
from .base import INVALID_PARAMS, StoreBase, first_failure

if TYPE_CHECKING:
    from .config import ReplicateConfig

Text = str | bytes
Keys = Sequence[Text]

_NO_STAGING = (
    "setup was given a local_buffer_size of 0, so values cannot be put from memory that is not registered; "
    "give it a size, or use register_buffer and put_from"
)


class BytesMethods(StoreBase):
    """Puts, gets and the questions about keys."""

    def put(self, key: Text, value: Any, config: ReplicateConfig | None = None) -> int:
        """put(key: str, value: bytes-like, config: ReplicateConfig = ReplicateConfig()) -> int

        Stores value: 0, or a negative code. A key that is there already keeps its bytes, and that
        is a success; upsert replaces them.
        """
        return self._put("value", key, value, config, _native.PUT)

    def upsert(self, key: Text, value: Any, config: ReplicateConfig | None = None) -> int:
        """upsert(key: str, value: bytes-like, config: ReplicateConfig = ReplicateConfig()) -> int

        Stores value in place of what is there: 0, or a negative code.
        """
        return self._put("value", key, value, config, _native.UPSERT)

    def put_parts(self, key: Text, *parts: Any, config: ReplicateConfig | None = None) -> int:
        """put_parts(key: str, *parts: bytes-like, config: ReplicateConfig = ReplicateConfig()) -> int

        Stores the parts as one object: 0, or a negative code. RuntimeError where a part is not
        one-dimensional memory of bytes.
        """
        return self._put_parts(key, parts, config, _native.PUT)

    def upsert_parts(self, key: Text, *parts: Any, config: ReplicateConfig | None = None) -> int:
        """upsert_parts(key: str, *parts: bytes-like, config: ReplicateConfig = ReplicateConfig()) -> int

        As put_parts, in place of what is there.
        """
        return self._put_parts(key, parts, config, _native.UPSERT)

    def put_batch(self, keys: Keys, values: Sequence[Any], config: ReplicateConfig | None = None) -> int:
        """put_batch(keys: list[str], values: list[bytes-like], config: ReplicateConfig = ReplicateConfig()) -> int

        Stores one value for each key: 0, or the code of the first that failed.
        """
        return self._put_batch(keys, values, config, _native.PUT)

    def upsert_batch(self, keys: Keys, values: Sequence[Any], config: ReplicateConfig | None = None) -> int:
        """upsert_batch(keys: list[str], values: list[bytes-like], config: ReplicateConfig = ReplicateConfig()) -> int

        As put_batch, in place of what is there.
        """
        return self._put_batch(keys, values, config, _native.UPSERT)

    def get(self, key: Text, /) -> bytes:
        """get(key: str, /) -> bytes

        The object, or b"" where it is not there or cannot be read; last_error says why.
        """
        return _native.store_get(self._handle, key) if self._ready else b""

    def get_batch(self, keys: Keys, /) -> list[bytes]:
        """get_batch(keys: list[str], /) -> list[bytes]

        For each key the object, or b"".
        """
        return _native.store_get_batch(self._handle, keys) if self._ready else [b""] * len(keys)

    def get_buffer(self, key: Text, /) -> _native.BufferHandle | None:
        """get_buffer(key: str, /) -> BufferHandle | None

        The object as a buffer of its own, which outlives the store, or None.
        """
        return _native.store_get_buffers(self._handle, [arguments.text("key", key)])[0] if self._ready else None

    def batch_get_buffer(self, keys: Keys, /) -> list[_native.BufferHandle | None]:
        """batch_get_buffer(keys: list[str], /) -> list[BufferHandle | None]

        For each key what get_buffer gives.
        """
        return _native.store_get_buffers(self._handle, keys) if self._ready else [None] * len(keys)

    def is_exist(self, key: Text, /) -> int:
        """is_exist(key: str, /) -> int

        1 where the object can be read, 0 where not, or a negative code. Keeps it from being
        removed for as long as a read does.
        """
        return _native.store_exist(self._handle, [arguments.text("key", key)])[0] if self._ready else INVALID_PARAMS

    def batch_is_exist(self, keys: Keys) -> list[int]:
        """batch_is_exist(keys: list[str]) -> list[int]

        For each key what is_exist gives.
        """
        return _native.store_exist(self._handle, keys) if self._ready else [INVALID_PARAMS] * len(keys)

    def get_size(self, key: Text, /) -> int:
        """get_size(key: str, /) -> int

        The size of the object in bytes, or a negative code; -704 where it is not there.
        """
        return _native.store_size(self._handle, [arguments.text("key", key)])[0] if self._ready else INVALID_PARAMS

    def remove(self, key: Text, force: bool = False) -> int:
        """remove(key: str, force: bool = False) -> int

        Removes the object: 0, or a negative code. Without force one that somebody has read, or
        asked for, within the master's lease time stays: -706.
        """
        now = arguments.flag("force", force)
        return (
            _native.store_remove(self._handle, [arguments.text("key", key)], now)[0] if self._ready else INVALID_PARAMS
        )

    def batch_remove(self, keys: Keys, force: bool = False) -> list[int]:
        """batch_remove(keys: list[str], force: bool = False) -> list[int]

        For each key what remove gives.
        """
        now = arguments.flag("force", force)
        return _native.store_remove(self._handle, keys, now) if self._ready else [INVALID_PARAMS] * len(keys)

    def remove_by_regex(self, regex_pattern: Text, force: bool = False) -> int:
        """remove_by_regex(regex_pattern: str, force: bool = False) -> int

        Removes the objects in whose keys the expression is found: how many, or a negative code.
        """
        now = arguments.flag("force", force)
        return _native.store_remove_regex(self._handle, regex_pattern, now) if self._ready else INVALID_PARAMS

    def remove_all(self, force: bool = False) -> int:
        """remove_all(force: bool = False) -> int

        Removes every object, without force those without a lease: how many, or a negative code.
        """
        now = arguments.flag("force", force)
        return _native.store_remove_all(self._handle, now) if self._ready else INVALID_PARAMS

    def _put(self, name: str, key: Text, value: Any, config: ReplicateConfig | None, flags: int) -> int:
        if isinstance(value, (list, tuple)):  # _native takes them for parts
            raise TypeError(f"{name}: expected an object with the buffer protocol, got {type(value).__name__}")
        return self._write(key, value, config, flags)

    def _put_parts(self, key: Text, parts: tuple[Any, ...], config: ReplicateConfig | None, flags: int) -> int:
        for i, part in enumerate(parts):
            try:
                view = memoryview(part)
            except TypeError:
                raise TypeError(
                    f"parts[{i}]: expected an object with the buffer protocol, got {type(part).__name__}"
                ) from None
            if view.ndim != 1 or view.itemsize != 1:
                raise RuntimeError("parts must be 1-D bytes-like")
        return self._write(key, parts, config, flags)

    def _write(self, key: Text, parts: Any, config: ReplicateConfig | None, flags: int) -> int:
        how = self._how(config)
        if not self._ready:
            return INVALID_PARAMS
        return (
            _native.store_put_parts(self._handle, key, parts, how, flags)
            if self._staging
            else self._refuse(_NO_STAGING)
        )

    def _put_batch(self, keys: Keys, values: Sequence[Any], config: ReplicateConfig | None, flags: int) -> int:
        how = self._how(config)
        if not self._ready or len(keys) != len(values):
            return INVALID_PARAMS
        if not self._staging:
            return self._refuse(_NO_STAGING)
        return first_failure(_native.store_put_values(self._handle, keys, values, how, flags))
