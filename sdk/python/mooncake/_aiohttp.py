"""aiohttp, for the two classes that serve HTTP in a Python process; nothing else needs it."""

from types import ModuleType


def web(user: str) -> ModuleType:
    """The module aiohttp.web. Raises ImportError that says how to install it, and that ``user`` needs it."""
    try:
        from aiohttp import web as module
    except ImportError as err:
        raise ImportError(
            f"{user} needs aiohttp, which is not installed: pip install 'mooncake-transfer-engine[http]'. "
            "The console scripts work without it."
        ) from err
    return module
