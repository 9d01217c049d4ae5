"""What the program serves: one plugin, described by its manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .contract import Policy
from .settings import decode

API = (1,)
"""The contract versions of kind evict that this module speaks."""


class Plugin:
    """A manifest, the dataclass of its settings, and how to make a policy from them."""

    def __init__(self, manifest: str | bytes, config: type, create: Callable[[Any], Policy]) -> None:
        self.manifest: dict[str, Any] = json.loads(manifest)
        self._config = config
        self._create = create
        if self.manifest.get("mooncake_plugin_manifest") != 1 or self.manifest.get("kind") != "evict":
            raise ValueError("the manifest is not one of format 1 and kind evict")
        if not set(API) & set(self.manifest["api"]):
            raise ValueError(
                f"the manifest names contract versions {self.manifest['api']}, this module speaks {list(API)}"
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
        """The contract versions that both the manifest and this module name, best first."""
        return sorted(set(API) & set(self.manifest["api"]), reverse=True)

    def create(self, settings: bytes) -> Policy:
        """Make a policy from the settings of a user: a JSON object, or nothing."""
        return self._create(decode(self._config, settings, self.id))
