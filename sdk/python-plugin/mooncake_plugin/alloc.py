"""The kind alloc: the contract of allocators, as sdk/alloc states it, and its calls.

An allocator works on numbers, never on memory: it hands out extents of spaces. The master makes a
space for every segment that a node contributes, and decides in which spaces an object may go. The
allocator decides where inside.

Errors concern one item of a batch: raise a `PluginError` with NO_AVAILABLE_HANDLE if nothing fits,
SEGMENT_NOT_FOUND for an unknown space, INVALID_PARAMS for what could never work, and INVALID_WRITE
for a free of what is not allocated. An error changes nothing.

The methods are called one at a time, all on one thread, as those of a policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import PluginError, invalid, of
from .lifecycle import Kind, answering, columns
from .protocol import messages

if TYPE_CHECKING:
    from .host import Host

wire = messages("alloc")

MAX_ITEMS = 4 << 10
"""Requests or extents in one message."""
MAX_SPACES = 128 << 10
"""Candidate spaces of all requests in one message."""


class Extent(NamedTuple):
    """An allocated range of a space, in bytes."""

    space: int
    offset: int
    size: int
    """As it was asked for. The allocator may set aside more, see Stats."""


class Request(NamedTuple):
    """A request for one extent."""

    size: int
    align: int
    """A power of two, or 0 for no wish. The offset is a multiple of it. An allocator must honour at
    least 4096, and may refuse more with INVALID_PARAMS."""
    candidates: Sequence[int]
    """The spaces to try, in order. The first that fits is taken."""


class Stats(NamedTuple):
    """One space, in bytes and counts."""

    size: int
    requested: int
    """The sum of the live extents, as requested."""
    reserved: int
    """The sum that they occupy, rounding included."""
    extents: int
    largest_free: int
    """The largest size that a request without alignment would get now, or a lower bound."""


class Allocator(ABC):
    """Hands out extents of spaces. Its constructor acquires nothing but memory."""

    def start(self, host: Host) -> None:
        """Acquire what the allocator needs, or raise with nothing left behind."""

    def stop(self) -> None:
        """Free everything. At any time, also before start, and more than once."""

    @abstractmethod
    def add_space(self, space: int, size: int) -> None:
        """Make a space known. INVALID_PARAMS for size 0 or a space that is known."""

    @abstractmethod
    def remove_space(self, space: int) -> None:
        """Forget a space with all its extents. SEGMENT_NOT_FOUND if it is unknown."""

    @abstractmethod
    def alloc(self, request: Request) -> Extent:
        """Hand out an extent. Live extents of a space never overlap and lie inside it."""

    @abstractmethod
    def free(self, extent: Extent) -> None:
        """Free an extent, exactly as `alloc` returned it."""

    @abstractmethod
    def reserve(self, extent: Extent) -> None:
        """Take exactly this extent, which an earlier process with the same settings handed out.
        INVALID_WRITE if it overlaps a live one or leaves its space, NO_AVAILABLE_HANDLE if this
        allocator could never have handed it out."""

    @abstractmethod
    def stats(self, space: int) -> Stats:
        """Describe a space. SEGMENT_NOT_FOUND if it is unknown."""


class Alloc(Kind):
    """Carries the calls of the contract."""

    name = "mooncake.alloc.v1.AllocService"

    async def AddSpace(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            return wire.AddSpaceResponse(error=self._failure(allocator.add_space, request.space, request.size))

    async def RemoveSpace(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            return wire.RemoveSpaceResponse(error=self._failure(allocator.remove_space, request.space))

    async def Alloc(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            columns("alloc", MAX_ITEMS, len(request.items))
            if sum(len(i.candidates) for i in request.items) > MAX_SPACES:
                raise invalid(f"alloc: more than {MAX_SPACES} candidate spaces in one message")
            answer = wire.AllocResponse()
            given = []
            for item in request.items:
                result = answer.results.add()
                try:
                    extent = allocator.alloc(Request(item.size, item.align, item.candidates))
                    result.extent.CopyFrom(wire.Extent(**extent._asdict()))
                    given.append(extent)
                except Exception as e:  # noqa: BLE001
                    result.error.CopyFrom(self._told(e))
            left = context.time_remaining()
            if left is not None and left <= 0:
                # The host will not learn of these extents, so that it would never free them.
                for extent in given:
                    allocator.free(extent)
            return answer

    async def Free(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            return wire.FreeResponse(errors=self._each("alloc free", request.extents, allocator.free))

    async def Reserve(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            return wire.ReserveResponse(errors=self._each("alloc reserve", request.extents, allocator.reserve))

    async def Stats(self, request, context):
        async with answering(self.log, context):
            allocator = self.lifecycle.component()
            try:
                return wire.StatsResponse(**allocator.stats(request.space)._asdict())
            except PluginError as e:
                return wire.StatsResponse(error=e.message())

    def _each(self, op: str, extents: Sequence[Any], call: Callable[[Extent], None]) -> list[Any]:
        """Do something with every extent; one error for each, or none if nothing failed."""
        columns(op, MAX_ITEMS, len(extents))
        failures = [self._failure(call, Extent(e.space, e.offset, e.size)) for e in extents]
        if not any(failures):
            return []
        return [f or messages("plugin").Error() for f in failures]

    def _failure(self, call: Callable[..., None], *args: Any) -> Any:
        try:
            call(*args)
        except Exception as e:  # noqa: BLE001
            return self._told(e)
        return None

    def _told(self, e: Exception) -> Any:
        if not isinstance(e, PluginError):
            self.log.exception("a call failed")
        return of(e).message()
