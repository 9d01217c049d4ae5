from collections.abc import Callable, Coroutine
from typing import Any

from .store import MooncakeDistributedStore

__all__ = ["MooncakeDistributedStoreAsync"]

class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    # async_<method> for every method of the store, with its parameters.
    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]: ...
