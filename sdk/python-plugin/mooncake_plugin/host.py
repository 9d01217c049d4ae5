"""What a policy gets from the program that it runs in."""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import NamedTuple


class State(str, enum.Enum):
    """Where a plugin stands, as `mooncake plugins list` shows it."""

    AVAILABLE = "available"
    STARTING = "starting"
    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    STOPPED = "stopped"


class Health(NamedTuple):
    """A state with its reason, empty for ok."""

    state: State
    reason: str = ""


class Host:
    """Valid from `Policy.start` until `Policy.stop` returns. `report` may be called on any
    thread."""

    def __init__(self, logger: logging.Logger, loop: asyncio.AbstractEventLoop) -> None:
        self.logger = logger
        self._loop = loop
        self._changed = asyncio.Condition()
        self._health = Health(State.AVAILABLE)
        self._version = 1
        self._closed = False
        self._notifying: set[asyncio.Task[None]] = set()

    def report(self, health: Health) -> None:
        """Tell the host about a change of health. Does not wait."""
        self._loop.call_soon_threadsafe(self._set, health)

    def set_now(self, health: Health) -> None:
        """`report` for callers on the loop's thread."""
        self._set(health)

    def started(self) -> None:
        """Become ok, unless the policy reported its own health while it started."""
        if self._health.state == State.STARTING:
            self._set(Health(State.OK))

    def close(self) -> None:
        """End all watching."""
        self._closed = True
        self._notify()

    def _set(self, health: Health) -> None:
        self._health = health
        self._version += 1
        self._notify()

    def _notify(self) -> None:
        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = self._loop.create_task(notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    async def after(self, seen: int) -> tuple[Health, int] | None:
        """Wait for a report later than number `seen`; None once watching has ended. A watcher
        that is slower than the changes sees only the latest."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self._version != seen)
        return None if self._closed else (self._health, self._version)
