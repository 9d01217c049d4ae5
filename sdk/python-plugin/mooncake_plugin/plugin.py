"""What the program serves: one plugin, described by its manifest."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

from .lifecycle import Kind
from .settings import decode, schema

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
        self.accepts = schema(config)
        """The JSON Schema of the settings that the program accepts, for the host."""
        self._compare()

    def _compare(self) -> None:
        """Compare the schema of the manifest with the dataclass."""
        said = self.manifest.get("config_schema", {}).get("properties", {})
        ours = self.accepts["properties"]
        for name in sorted(said.keys() | ours.keys()):
            if name not in ours or name not in said:
                where = "the manifest" if name in said else self._config.__name__
                raise ValueError(f'{self.id}: only {where} has the setting "{name}"')
            for key in ("default", "minimum", "maximum", "enum"):
                a, b = ours[name].get(key), said[name].get(key)
                if a is not None and (key != "default" or b is not None) and a != b:
                    raise ValueError(f'{self.id}: the {key} of "{name}" is {a!r}, the manifest says {b!r}')

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
