"""Settings are decoded strictly over defaults, as for a plugin that is linked in."""

from __future__ import annotations

import dataclasses
import difflib
import json
from typing import Any

from .errors import invalid

MAX_BYTES = 1 << 20
"""The largest configuration, in bytes of JSON."""

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def schema(config: type) -> dict[str, Any]:
    """The JSON Schema of the settings that `decode` accepts, for the host. The metadata of a field has further
    keywords, such as `field(default=4, metadata={"minimum": 1, "maximum": 64})`; `decode` refuses what is
    beyond minimum and maximum and what is not in enum."""
    defaults = config()
    properties = {}
    for f in dataclasses.fields(config):
        value = getattr(defaults, f.name)
        kind = {"type": _TYPES[type(value)]} if type(value) in _TYPES else {}
        properties[f.name] = {**kind, "default": value, **f.metadata}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _bounded(config: type, made: Any) -> None:
    for f in dataclasses.fields(config):
        value, allowed = getattr(made, f.name), f.metadata
        low, high = allowed.get("minimum"), allowed.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            raise ValueError(f"{f.name} is {json.dumps(value)}, must be {bounds}")
        if "enum" in allowed and value not in allowed["enum"]:
            raise ValueError(f"{f.name} is {json.dumps(value)}, must be one of {json.dumps(allowed['enum'])}")


def decode(config: type, settings: bytes, plugin: str) -> Any:
    """Make a `config`, a dataclass with a default for each field, from a JSON object, and
    call its `validate` where it has one. Raises a PluginError that names the setting."""
    where = f"{plugin}: configuration"
    if len(settings) > MAX_BYTES:
        raise invalid(f"{where}: {len(settings)} bytes of settings, at most {MAX_BYTES} are allowed")
    tree: Any = {}
    if settings.strip():
        try:
            tree = json.loads(settings, parse_constant=_constant)
        except ValueError as e:
            raise invalid(f"{where}: the settings are not JSON: {e}") from None
        except RecursionError:
            raise invalid(f"{where}: the settings are nested too deeply") from None
    if not isinstance(tree, dict):
        raise invalid(f"{where}: the settings are not a JSON object")
    defaults = config()
    fields = {f.name: type(getattr(defaults, f.name)) for f in dataclasses.fields(config)}
    for key, value in tree.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1, 0)
            raise invalid(f'{where}: unknown setting "{key}"' + (f'; did you mean "{near[0]}"?' if near else ""))
        want = fields[key]
        if want is float and type(value) is int:
            tree[key] = _number(value, f"{where}: {key}")
        elif type(value) is not want:
            raise invalid(f"{where}: {key} is {json.dumps(value)}, want {_NAMES.get(want, want.__name__)}")
    made = config(**tree)
    try:
        _bounded(config, made)
        getattr(made, "validate", lambda: None)()
    except ValueError as e:
        raise invalid(f"{where}: {e}") from None
    return made


def _constant(text: str) -> Any:
    """Refuse NaN and the infinities, which Python reads but JSON does not have."""
    raise ValueError(f"{text} is not JSON")


def _number(value: int, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise invalid(f"{where} is too large for a number") from None
