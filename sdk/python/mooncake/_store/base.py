"""What all groups of methods of a store stand on. Private."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _native
from . import config as _config

if TYPE_CHECKING:
    from .config import ReplicateConfig

INVALID_PARAMS = -600
"""The code of calls that cannot be right, among them those before setup."""


class StoreBase:
    """The state of a store in Python: which object of the library it is.

    _handle is 0 until the first setup, so that the library is not loaded before. _ready is
    whether the last setup succeeded and close was not called since: without it methods answer
    by themselves.
    """

    _handle = 0
    _ready = False
    _staging = True  # whether setup was given memory for values that are not registered
    _local_buffer = 0  # bytes of that memory

    def _how(self, config: ReplicateConfig | None) -> tuple[Any, ...]:
        return _config.how(config)

    def _control(self, method: str, **args: Any) -> dict[str, Any]:
        """Asks the library by name; the answer has "code", which is negative where it failed."""
        return json.loads(_native.store_control(self._handle, method, json.dumps(args)))

    def _refuse(self, why: str) -> int:
        """Has a call fail for this reason, which last_error says."""
        return int(self._control("refuse", why=why)["code"])


def first_failure(codes: Iterable[int]) -> int:
    """The first negative code, else 0."""
    return next((code for code in codes if code < 0), 0)
