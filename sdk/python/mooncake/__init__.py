"""Mooncake: memory of many machines as one pool for the KV cache of LLM inference.

mooncake.store has the store, mooncake.engine the transfer engine.
"""

from __future__ import annotations

import pkgutil
import sys
from typing import TYPE_CHECKING, Any

from . import _absent

if TYPE_CHECKING:
    from .buffer_pool import BufferPool, RegisteredBufferPool

# Packages of other distributions may add modules to this one.
__path__ = pkgutil.extend_path(__path__, __name__)
_absent.install()


def _refuse_other_builds() -> None:
    """ImportError where the extension is of a Python with the GIL and this one has none: it would crash."""
    from importlib.util import find_spec

    found = find_spec("._native", __name__)
    if found and str(found.origin).endswith(".abi3.so"):
        raise ImportError(
            f"{found.origin} was built for a Python with the GIL, and {sys.executable} is free-threaded; install "
            f"mooncake-transfer-engine with this Python, or run make pydev PYTHON={sys.executable} in a checkout"
        )


if "t" in getattr(sys, "abiflags", ""):
    _refuse_other_builds()

__all__ = ["BufferPool", "RegisteredBufferPool"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import buffer_pool

        return getattr(buffer_pool, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
