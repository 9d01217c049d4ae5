"""The contract of eviction policies, as sdk/evict states it.

A policy ranks objects and never deletes them. The master tells it what happened (record), asks
for victims (propose) and reports which of them it evicted (resolve), because only the master
knows leases, pins and unfinished writes.

An object is unknown, ranked, or proposed. An insert makes it ranked; propose makes ranked
objects proposed; resolve makes proposed ones unknown (evicted) or ranked again
(retained). A remove makes it unknown from either state.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .host import Host


class Op(enum.IntEnum):
    """What happened to an object."""

    INSERT = 1
    """It became readable. An id that is already known counts as an access."""
    ACCESS = 2
    """It was read. An unknown id is ignored."""
    REMOVE = 3
    """It was removed for another reason than eviction. An unknown id is ignored."""


class Event(NamedTuple):
    """One thing that happened to one object. Numbers are below 2**64, sizes in bytes."""

    op: int
    id: int
    """Never 0 for an object; never used again while the policy may still know it."""
    size: int = 0
    """Set on an insert."""
    parent: int = 0
    """The page before it in the prompt; 0 where there is none or it is not known."""
    fingerprint: int = 0
    """Set on an insert: a hash of the key, by which one can see that an object came back."""


class Candidate(NamedTuple):
    """A proposed victim."""

    id: int
    size: int


class Verdict(NamedTuple):
    """What the master decided about a candidate."""

    id: int
    evicted: bool
    """False: the object stays, ranked after all others."""


class Stats(NamedTuple):
    """What a policy holds."""

    objects: int
    """Known objects, proposed ones included."""
    bytes: int
    """The sum of their sizes; `serve` sends it modulo 2**64."""
    proposed: int
    """Proposed and not yet resolved."""


class Policy(ABC):
    """Ranks objects for eviction. Its constructor acquires nothing but memory.

    Whatever a method raises reaches the host as an error: a `PluginError` with its code,
    anything else as INTERNAL_ERROR with a traceback in the log.
    """

    def start(self, host: Host) -> None:
        """Acquire what the policy needs, or raise with nothing left behind."""

    def stop(self) -> None:
        """Free everything. At any time, also before start, and more than once."""

    @abstractmethod
    def record(self, events: Sequence[Event]) -> None:
        """Apply events, in order."""

    @abstractmethod
    def propose(self, wanted: int, limit: int) -> list[Candidate]:
        """Propose victims, best first, until their sizes add up to `wanted` bytes, there
        are `limit` of them, or none is left. None is proposed again before its verdict."""

    @abstractmethod
    def resolve(self, verdicts: Sequence[Verdict]) -> None:
        """Hear what became of candidates. One that is not proposed is ignored."""

    @abstractmethod
    def stats(self) -> Stats:
        """Count."""
