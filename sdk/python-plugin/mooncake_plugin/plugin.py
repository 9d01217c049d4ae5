"""What the program serves: one plugin, described by its manifest."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable
from typing import Any

from .lifecycle import Kind
from .settings import decode

# A kind is imported only if it is used: tier needs a library that the others do not.
_KINDS = {"evict": (".evict", "Evict"), "alloc": (".alloc", "Alloc"), "tier": (".tierservice", "Tier")}


class Plugin:
    """A manifest, the dataclass of its settings, and how to make the plugin's object from them: an
    `evict.Policy`, an `alloc.Allocator` or a `tier.Store`. Raises ValueError if the settings in the
    manifest are not those of the dataclass."""

    def __init__(self, manifest: str | bytes | None, config: type, create: Callable[[Any], Any]) -> None:
        self.manifest: dict[str, Any] = json.loads(manifest or b"{}")
        self._config = config
        self._create = create
        if self.manifest.get("mooncake_plugin_manifest") != 1 or self.manifest.get("kind") not in _KINDS:
            raise ValueError(f"the manifest is not one of format 1 and a kind of {', '.join(_KINDS)}")
        module, name = _KINDS[self.manifest["kind"]]
        self.kind: type[Kind] = getattr(importlib.import_module(module, __package__), name)
        if not self.api:
            names = self.manifest["api"]
            raise ValueError(f"the manifest names contract versions {names}, this package speaks {self.kind.api}")
        self._compare()

    def _compare(self) -> None:
        """Compare the schema of the manifest with the dataclass."""
        schema = self.manifest.get("config_schema", {}).get("properties", {})
        defaults = config_defaults(self._config)
        for name in sorted(schema.keys() | defaults.keys()):
            if name not in defaults or name not in schema:
                where = "the manifest" if name in schema else self._config.__name__
                raise ValueError(f'{self.id}: only {where} has the setting "{name}"')
            if "default" in schema[name] and schema[name]["default"] != defaults[name]:
                said = schema[name]["default"]
                raise ValueError(
                    f'{self.id}: the default of "{name}" is {defaults[name]!r}, the manifest says {said!r}'
                )

    @property
    def id(self) -> str:
        """kind/name."""
        return f"{self.manifest['kind']}/{self.manifest['name']}"

    @property
    def binary(self) -> str:
        """The name that the file must have."""
        return f"mooncake-plugin-{self.manifest['kind']}-{self.manifest['name']}"

    @property
    def api(self) -> list[int]:
        """The contract versions that both the manifest and this package name, best first."""
        return sorted(set(self.kind.api) & set(self.manifest["api"]), reverse=True)

    def create(self, settings: bytes) -> Any:
        """Make the object from the settings of a user: a JSON object, or nothing."""
        return self._create(decode(self._config, settings, self.id))


def config_defaults(config: type) -> dict[str, Any]:
    """The settings of a dataclass with their defaults."""
    made = config()
    return {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
