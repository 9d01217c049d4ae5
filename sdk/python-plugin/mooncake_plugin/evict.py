"""The kind evict: the contract of eviction policies, as sdk/evict states it, and its calls.

A policy ranks objects and never deletes them. The master tells it what happened (record), asks
for victims (propose) and reports which of them it evicted (resolve), because only the master
knows leases, pins and unfinished writes.

An object is unknown, ranked, or proposed. An insert makes it ranked; propose makes ranked
objects proposed; resolve makes proposed ones unknown (evicted) or ranked again
(retained). A remove makes it unknown from either state.

The methods of a policy are called one at a time, all on one thread, so that a policy needs no
lock. While one of them runs, no other call is answered: each should take milliseconds, and
nothing in it should wait.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import invalid
from .lifecycle import Kind, answering, columns
from .protocol import messages

if TYPE_CHECKING:
    from .host import Host

wire = messages("evict")

MAX_ITEMS = 32 << 10
"""Events, verdicts or candidates in one message."""


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

    def set_capacity(self, capacity: int) -> None:
        """Hear how many bytes of memory the pool has from now on. Unknown before the first call."""

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


class Evict(Kind):
    """Carries the calls of the contract. It refuses calls that break the contract."""

    name = "mooncake.evict.v1.EvictService"

    async def Record(self, request, context):
        async with answering(self.log, context):
            policy = self.lifecycle.component()
            n = len(request.ops)
            columns("evict record", MAX_ITEMS, n, len(request.ids), len(request.sizes), len(request.parents))
            prints = request.fingerprints or (0,) * n
            columns("evict record", MAX_ITEMS, n, len(prints))
            if unknown := set(request.ops) - {1, 2, 3}:
                raise invalid(f"evict record: an event has the unknown operation {min(unknown)}")
            if request.HasField("capacity"):
                policy.set_capacity(request.capacity)
            policy.record(list(map(Event, request.ops, request.ids, request.sizes, request.parents, prints)))
            return wire.RecordResponse()

    async def Propose(self, request, context):
        async with answering(self.log, context):
            policy = self.lifecycle.component()
            if request.max_candidates > MAX_ITEMS:
                text = f"{request.max_candidates} candidates wanted, at most {MAX_ITEMS} go into one message"
                raise invalid("evict propose: " + text)
            found: list[Candidate] = []
            if request.bytes and request.max_candidates:
                found = policy.propose(request.bytes, request.max_candidates)
            left = context.time_remaining()
            if left is not None and left <= 0:
                # The host will not receive these candidates, so it would never resolve them.
                policy.resolve([Verdict(c.id, False) for c in found])
                found = []
            return wire.ProposeResponse(ids=[c.id for c in found], sizes=[c.size for c in found])

    async def Resolve(self, request, context):
        async with answering(self.log, context):
            policy = self.lifecycle.component()
            columns("evict resolve", MAX_ITEMS, len(request.ids), len(request.evicted))
            if any(v > 1 for v in request.evicted):
                raise invalid(f"evict resolve: a verdict has the value {max(request.evicted)}, want 0 or 1")
            policy.resolve([Verdict(i, bool(e)) for i, e in zip(request.ids, request.evicted, strict=True)])
            return wire.ResolveResponse()

    async def Stats(self, request, context):
        async with answering(self.log, context):
            s = self.lifecycle.component().stats()
            return wire.StatsResponse(objects=s.objects, bytes=s.bytes % 2**64, proposed=s.proposed)
