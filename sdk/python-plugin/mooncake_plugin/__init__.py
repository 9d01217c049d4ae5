"""What a plugin of Mooncake needs to be a program of its own, for authors in Python.

A plugin is an object of its kind (`evict.Policy`, `alloc.Allocator` or `tier.Store`), a dataclass with
its settings, and a manifest. `serve` is the whole main function::

    from mooncake_plugin import Plugin, serve

    serve(Plugin(manifest, Config, MyPolicy))

`serve` speaks the protocol of docs/plugins/languages.md: handshake, mutual TLS, lifecycle, health, logs
and the calls of the kind. `python -m mooncake_plugin.build` makes the program.
"""

from .errors import Class, Code, PluginError
from .host import Health, Host, State
from .plugin import Plugin
from .serve import serve

__all__ = ["Class", "Code", "Health", "Host", "Plugin", "PluginError", "State", "serve"]
