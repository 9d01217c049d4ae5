"""The policy itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from mooncake_plugin import Host
from mooncake_plugin.evict import Candidate, Event, Op, Policy, Stats, Verdict


@dataclass
class Config:
    """The plugin's part of the configuration."""

    count_reads: bool = True
    """A read makes an object young again; False makes the policy first in, first out."""


class LRU(Policy):
    """Two maps from id to size: ranked objects, the next victim first, and proposed ones."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._ranked: OrderedDict[int, int] = OrderedDict()
        self._proposed: dict[int, int] = {}

    def start(self, host: Host) -> None:
        """Nothing to acquire."""
        host.logger.info("least recently used, in Python", extra={"attrs": {"count_reads": self._config.count_reads}})

    def record(self, events: Sequence[Event]) -> None:
        """An access to a proposed object changes nothing: a retained object is the youngest anyway."""
        ranked, proposed = self._ranked, self._proposed
        for op, id, size, _, _ in events:
            if op == Op.REMOVE:
                ranked.pop(id, None)
                proposed.pop(id, None)
            elif id in ranked:
                if self._config.count_reads:
                    ranked.move_to_end(id)
            elif op == Op.INSERT and id not in proposed and id != 0:
                ranked[id] = size

    def propose(self, wanted: int, limit: int) -> list[Candidate]:
        """Oldest first."""
        found: list[Candidate] = []
        total = 0
        while total < wanted and len(found) < limit and self._ranked:
            id, size = self._ranked.popitem(last=False)
            self._proposed[id] = size
            found.append(Candidate(id, size))
            total += size
        return found

    def resolve(self, verdicts: Sequence[Verdict]) -> None:
        """A retained object is the youngest."""
        for id, evicted in verdicts:
            size = self._proposed.pop(id, None)
            if size is not None and not evicted:
                self._ranked[id] = size

    def stats(self) -> Stats:
        """Sums are made when they are asked for, which is seldom."""
        total = sum(self._ranked.values()) + sum(self._proposed.values())
        return Stats(len(self._ranked) + len(self._proposed), total, len(self._proposed))
