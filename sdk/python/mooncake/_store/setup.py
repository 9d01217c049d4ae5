"""The two forms of MooncakeDistributedStore.setup, as the library's settings. Private.

A TypeError names the one argument that is wrong and no other: callers look for names of
optional arguments in it and try again without those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .. import _arguments as arguments

_REQUIRED = object()
_ZERO = re.compile(r"\s*0+(\.0*)?\s*[a-zA-Z]*\s*")  # a size of no bytes


def _port(name: str, value: Any) -> int:
    # A wrong port is an answer of setup, not a TypeError, as in the form with a dict.
    return value if isinstance(value, int) and not isinstance(value, bool) else arguments.number(name, value)


# Of the positional form, in order: name, check, default. engine is no setting.
_FIELDS: tuple[tuple[str, Any, Any], ...] = (
    ("local_hostname", arguments.string, _REQUIRED),
    ("metadata_server", arguments.string, _REQUIRED),
    ("global_segment_size", arguments.number, _REQUIRED),
    ("local_buffer_size", arguments.number, _REQUIRED),
    ("protocol", arguments.string, _REQUIRED),
    ("rdma_devices", arguments.string, _REQUIRED),
    ("master_server_addr", arguments.string, _REQUIRED),
    ("engine", None, None),
    ("enable_ssd_offload", arguments.flag, False),
    ("ssd_offload_path", arguments.string, ""),
    ("tenant_id", arguments.string, "default"),
    ("enable_client_http_server", arguments.flag, False),
    ("client_http_port", _port, 9300),
)


_WAIT = "max_wait_time"  # the one argument that is by keyword only, in seconds


class Settings:
    """What setup was asked for: text is JSON for the library, staging whether there is a local buffer.

    local_buffer is its bytes, as the text that was given.
    """

    def __init__(self, settings: dict[str, str], positional: bool, engine: int) -> None:
        self.text, self.positional, self.engine = json.dumps(settings), positional, engine
        self.local_buffer = settings.get("local_buffer_size", "16 MB")
        self.staging = not _ZERO.fullmatch(self.local_buffer)


def bytes_of(size: str) -> int:
    """The bytes of a size that setup has accepted, such as "4 GB"."""
    from ..mooncake_config import _parse_segment_size

    return _parse_segment_size(size)


def parse(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Settings:
    """The settings in the arguments of setup."""
    kwargs = dict(kwargs)
    wait = kwargs.pop(_WAIT, None)
    more = {} if wait is None else {_WAIT: _seconds(_WAIT, wait)}
    if args and isinstance(args[0], Mapping):
        return _from_dict(args[0], args[1:], kwargs, more)
    if "config" in kwargs and not args:
        rest = {name: value for name, value in kwargs.items() if name != "config"}
        return _from_dict(kwargs["config"], (), rest, more)
    given = _bind(args, kwargs)
    engine = _engine(given.pop("engine"))
    settings = {name: _as_text(check(name, given[name])) for name, check, _ in _FIELDS if name in given}
    return Settings(settings | more, True, engine)


def _from_dict(config: Any, more: tuple[Any, ...], kwargs: dict[str, Any], wait: dict[str, str]) -> Settings:
    if not isinstance(config, Mapping):
        raise TypeError(f"config: expected a dict, got {type(config).__name__}")
    if more or kwargs:
        what = next(iter(kwargs), None)
        raise TypeError(
            f"setup() got an unexpected keyword argument {what!r} beside the dict"
            if what
            else "setup() takes nothing beside the dict"
        )
    return Settings({str(name): str(value) for name, value in config.items()} | wait, False, 0)


def _bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [name for name, _, _ in _FIELDS]
    if len(args) > len(names):
        raise TypeError(f"setup() takes at most {len(names)} arguments, {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise TypeError(f"setup() got an unexpected keyword argument {name!r}")
        if name in given:
            raise TypeError(f"setup() got multiple values for argument {name!r}")
        given[name] = value
    for name, _, default in _FIELDS:
        if name not in given:
            if default is _REQUIRED:
                raise TypeError(f"setup() missing required argument {name!r}")
            given[name] = default
    return given


def _seconds(name: str, value: Any) -> str:
    # What is no time, such as -1, is an answer of setup.
    try:
        return str(float(value))
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number of seconds or None, got {type(value).__name__}") from None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _engine(engine: Any) -> int:
    if engine is None:
        return 0
    from ..engine import InnerTransferEngine

    if not isinstance(engine, InnerTransferEngine):
        raise TypeError(f"engine: expected what TransferEngine.get_engine() gives, got {type(engine).__name__}")
    return engine._handle
