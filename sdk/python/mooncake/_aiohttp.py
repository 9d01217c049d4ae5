"""aiohttp, for the two classes that serve HTTP in a Python process; nothing else needs it."""

from types import ModuleType


def web(who: str) -> ModuleType:
    """web(who: str) -> ModuleType

    The module aiohttp.web. Raises ImportError that says how to get it, and that ``who`` asks.
    """
    try:
        from aiohttp import web as module
    except ImportError as err:
        raise ImportError(
            f"{who} needs aiohttp, which is not installed: pip install 'mooncake-transfer-engine[http]'. "
            "The console scripts work without it."
        ) from err
    return module
