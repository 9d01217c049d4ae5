"""What a plugin of Mooncake needs to be a program of its own, for authors in Python.

A policy is a class with the methods of `Policy`; `serve` is the whole main function::

    from mooncake_plugin import Plugin, serve

    serve(Plugin(manifest, Config, MyPolicy))

`serve` speaks the protocol of docs/plugins/python.md: handshake, mutual TLS, lifecycle,
health, logs and the calls of the contract. Kind evict is here; alloc goes the same way.

The methods of a policy are called one at a time, all on one thread, so that a policy
needs no lock. While one of them runs, no other call is answered: each should take
milliseconds, and nothing in it should wait.
"""

from .contract import Candidate, Event, Op, Policy, Stats, Verdict
from .errors import Class, Code, PluginError
from .host import Health, Host, State
from .plugin import Plugin
from .serve import serve

__all__ = [
    "Candidate",
    "Class",
    "Code",
    "Event",
    "Health",
    "Host",
    "Op",
    "Plugin",
    "PluginError",
    "Policy",
    "State",
    "Stats",
    "Verdict",
    "serve",
]
