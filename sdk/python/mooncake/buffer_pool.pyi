from typing import SupportsFloat, SupportsIndex, TypeAlias, final

from typing_extensions import Self

from .store import MooncakeDistributedStore

__all__ = [
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
]

BufferLeaseView: TypeAlias = memoryview

@final
class BufferLease:
    @property
    def ptr(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def buffer(self) -> memoryview: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, value: object, traceback: object, /) -> None: ...

class BufferPool:
    def __init__(
        self,
        store: MooncakeDistributedStore,
        max_bytes: SupportsIndex = 0,
        min_size_class: SupportsIndex = 65536,
        max_size_class: SupportsIndex | None = None,
        alignment: SupportsIndex = 8388608,
        block_on_exhaustion: bool = True,
        default_timeout: SupportsFloat | None = None,
        max_regions: SupportsIndex | None = None,
        prewarm_size: SupportsIndex | None = None,
        prewarm_count: SupportsIndex = 0,
    ) -> None: ...
    def acquire(
        self, size: SupportsIndex, block: bool | None = None, timeout: SupportsFloat | None = None
    ) -> BufferLease: ...
    def buffer(
        self, size: SupportsIndex, block: bool | None = None, timeout: SupportsFloat | None = None
    ) -> BufferLease: ...
    def prewarm(self, size: SupportsIndex, count: SupportsIndex) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def __del__(self) -> None: ...

RegisteredBufferPool = BufferPool
RegisteredBufferLease = BufferLease
RegisteredBufferLeaseView = BufferLeaseView
