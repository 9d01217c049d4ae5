"""The plugin of the tests: evict/sample-lru."""

import pkgutil

from mooncake_plugin import Plugin, serve

from .policy import LRU, Config

__all__ = ["LRU", "Config", "main"]


def main() -> None:
    """The program."""
    serve(Plugin(pkgutil.get_data(__name__, "manifest.json"), Config, LRU))
