"""The kind tier: what an author of a storage tier writes, a `Store`.

The contract is that of sdk/tier. This package does what every tier needs: it maps the memory of the
host, takes operations and gives out their completions, in order, urgent ones first, at their deadlines;
it computes and compares the checksums (CRC-32C). A store moves bytes.

`write` and `read` run on WORKERS threads, and the other methods on threads of their own: a store needs a
lock. Each may wait for the storage. A method that raises a `PluginError` fails its operation with that
code, and anything else fails it with FILE_READ_FAIL or FILE_WRITE_FAIL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .host import Host

MAX_KEY = 2048
"""The length of the longest key in bytes."""

Locator = tuple[int, int, int, int]
"""The place of a record, which only the store interprets: four numbers below 2**64, not all 0. A
locator is never given to another record of the volume, also after forget and wipe."""

Cursor = tuple[int, int]
"""Where a scan goes on; (0, 0) begins one."""


Commit = Callable[[], None]
"""Settles that a write keeps its record, or raises."""


class Record(NamedTuple):
    """One version of one key."""

    key: bytes
    epoch: int
    put: int
    """epoch and put order the versions of a key."""
    size: int
    """The length of the value in bytes, at least 1."""
    sum: int | None
    """The checksum of the value, None for a record without one."""

    def expected_by(self, want: Record) -> bool:
        """Whether this record is the one that a reader expects."""
        same_sum = self.sum is None or want.sum is None or self.sum == want.sum
        return self[:4] == want[:4] and same_sum


class Found(NamedTuple):
    """A record that a scan found."""

    record: Record
    at: Locator


class Volume(NamedTuple):
    """What a store opened."""

    id: bytes
    """16 bytes that name the storage across restarts and machines."""
    generation: int
    """Counts the calls of wipe over the life of the volume."""
    capacity: int
    """How many bytes the records may take together, as `space` counts them."""
    max_record: int
    """The size of the largest value."""
    align: int = 1
    """A power of two. Reads and writes that are aligned to it need no copy."""


class Stats(NamedTuple):
    """What a store holds."""

    used: int
    records: int
    capacity: int
    largest_free: int
    """The size of the largest value for which there is space, whatever its key."""


class Store(ABC):
    """Keeps records. Its constructor acquires nothing but memory."""

    @abstractmethod
    def open(self, host: Host) -> None:
        """Open the volume and find its records, or raise with nothing left behind."""

    @abstractmethod
    def close(self) -> None:
        """Make everything durable and close the volume. Comes once, after `open`, when no other call runs."""

    @abstractmethod
    def volume(self) -> Volume:
        """What was opened, with the current generation."""

    @abstractmethod
    def space(self, key: int, size: int) -> int:
        """How much of the capacity a record takes, from the lengths of its key and value. Does not wait."""

    @abstractmethod
    def write(self, record: Record, value: Sequence[memoryview], commit: Commit) -> Locator:
        """Keep a new record, and leave those that are there. Call `commit` when the bytes are at the
        storage, just before a read or a scan can find the record; if it raises, keep nothing. Without
        space, raise NO_AVAILABLE_HANDLE. The memory may not be used once this returned."""

    @abstractmethod
    def read(self, record: Record, at: Locator, offset: int, into: Sequence[memoryview]) -> Record:
        """Copy the value from `offset` on into the memory, and return the record that is there. Raise
        OBJECT_NOT_FOUND if it is not the expected one. The memory may not be used once this returned."""

    @abstractmethod
    def forget(self, at: Sequence[Locator]) -> None:
        """End records. Ignore unknown locators. A read that has begun goes on."""

    @abstractmethod
    def scan(self, start: Cursor, limit: int) -> tuple[list[Found], Cursor]:
        """Up to `limit` records from `start` on, those that were written last first, and where to go
        on. An empty list at the end."""

    @abstractmethod
    def flush(self) -> None:
        """Return when all that completed before survives a crash."""

    @abstractmethod
    def wipe(self) -> None:
        """End all records and add 1 to the generation, durably. No write runs meanwhile."""

    @abstractmethod
    def stats(self) -> Stats:
        """The current counts."""
