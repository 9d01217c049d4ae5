"""The store for asyncio: every method m of the store has a twin async_m.

The twin runs m in the event loop's default executor, so that the loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from .store import MooncakeDistributedStore

__all__ = ["MooncakeDistributedStoreAsync"]

_PREFIX = "async_"


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """MooncakeDistributedStoreAsync()

    A MooncakeDistributedStore with a coroutine function async_<method> for every method.
    """

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self, name[len(_PREFIX) :], None) if name.startswith(_PREFIX) else None
        if not callable(method):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")  # noqa: TRY004
        twin = _twin(method)
        # The twin holds the store: until one of them is collected, the other is not freed by counting alone.
        setattr(self, name, twin)
        return twin


def _twin(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(method)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(method, *args, **kwargs))

    return run
