"""The program mooncake-plugin-evict-python-lru; it is __main__ of the archive."""

import pkgutil

from mooncake_plugin import Plugin, serve
from python_lru import LRU, Config

serve(Plugin(pkgutil.get_data("python_lru", "manifest.json"), Config, LRU))
