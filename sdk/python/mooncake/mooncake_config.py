"""The settings of a client of the pool, from a JSON file or from the environment."""

import json
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_GLOBAL_SEGMENT_SIZE = 3355443200  # 3.125 GiB
DEFAULT_LOCAL_BUFFER_SIZE = 1073741824  # 1 GiB
DEFAULT_CLIENT_HTTP_PORT = 9300

KNOWN_PROTOCOLS = frozenset(
    [
        "tcp",
        "rdma",
        "efa",
        "nvmeof",
        "nvlink",
        "musa",
        "nvlink_intra",
        "hip",
        "barex",
        "cxl",
        "ascend",
        "ub",
        "ubshmem",
        "maca",
        "sunrise_link",
        "rpc_only",
    ]
)

_REQUIRED = ("local_hostname", "metadata_server", "master_server_address")
_UNITS = {"b": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4}
_SIZE = re.compile(r"(?P<number>.*?)\s*(?P<unit>[kmgt]?b|[kmgt])?", re.DOTALL)
_TRUE = frozenset(("true", "1", "yes", "on", "enable"))
_FALSE = frozenset(("false", "0", "no", "off", "disable", ""))

# Setting -> the variable that load_from_env reads it from. MOONCAKE_MASTER takes precedence.
_VARIABLES = {
    "local_hostname": "MOONCAKE_LOCAL_HOSTNAME",
    "metadata_server": "MOONCAKE_TE_META_DATA_SERVER",
    "global_segment_size": "MOONCAKE_GLOBAL_SEGMENT_SIZE",
    "local_buffer_size": "MOONCAKE_LOCAL_BUFFER_SIZE",
    "protocol": "MOONCAKE_PROTOCOL",
    "device_name": "MOONCAKE_DEVICE",
    "master_server_address": "MOONCAKE_MASTER",
    "enable_ssd_offload": "MOONCAKE_OFFLOAD_ENABLED",
    "ssd_offload_path": "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH",
    "tenant_id": "MOONCAKE_TENANT_ID",
    "enable_client_http_server": "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER",
    "client_http_port": "MOONCAKE_CLIENT_HTTP_PORT",
}


def _parse_segment_size(value: Any) -> int:
    """Bytes out of a number, or a text such as "4gb", "1.5 GB", "512m" or "1e9"; units are multiples of
    1024, and a fraction of a byte is cut off. Raises ValueError that shows the value.
    """
    if not isinstance(value, str):
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"invalid size {value!r}: must be a number or a text such as '4gb'") from None
    match = _SIZE.fullmatch(value.strip().lower())
    number = match["number"] if match else ""
    factor: int = 1024 ** _UNITS[(match["unit"] if match else None) or "b"]
    try:
        return int(number) * factor
    except ValueError:
        pass
    try:
        size = float(number) * factor
    except ValueError:
        size = math.nan
    if not math.isfinite(size):
        raise ValueError(f"invalid size {value!r}: must be a number and a unit out of b, kb, mb, gb, tb, such as '4gb'")
    return int(size)


def _parse_bool(value: Any) -> bool:
    """True for true, 1, yes, on, enable; False for false, 0, no, off, disable, "" and None, in any case.
    Raises ValueError for anything else.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(f"invalid bool {value!r}: must be one of true, 1, yes, on, enable, false, 0, no, off, disable")
    return text in _TRUE


def _read(source: Mapping[str, Any], name: str, parse: Callable[[Any], T], default: T, called: str | None = None) -> T:
    """What source says under the name, parsed; the ValueError of a wrong value names it as well."""
    if name not in source:
        return default
    try:
        return parse(source[name])
    except (TypeError, ValueError, OverflowError) as err:
        raise ValueError(f"Invalid {called or name}: {err}") from err


@dataclass
class MooncakeConfig:
    """What MooncakeDistributedStore.setup takes. Sizes are in bytes; a segment of 0 contributes no memory.

    A wrong value is a ValueError that names the setting. A protocol that is not known is only logged.
    """

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = DEFAULT_CLIENT_HTTP_PORT

    def __post_init__(self) -> None:
        if not isinstance(self.protocol, str) or not self.protocol.strip():
            raise ValueError(f"Invalid protocol {self.protocol!r}: must be a text that is not empty, such as 'tcp'")
        self.protocol = self.protocol.strip().lower()
        if self.protocol not in KNOWN_PROTOCOLS:
            known = ", ".join(sorted(KNOWN_PROTOCOLS))
            logger.warning("Unrecognised protocol %r is passed on as it is; known are %s", self.protocol, known)
        for name in ("global_segment_size", "local_buffer_size"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise ValueError(f"Invalid {name} {size!r}: must be a number of bytes that is not negative")
        for name in _REQUIRED:
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"Invalid {name} {text!r}: must be a text that is not empty")

    @classmethod
    def _make(cls, source: Mapping[str, Any], names: Mapping[str, str] | None = None) -> "MooncakeConfig":
        def read(name: str, parse: Callable[[Any], T], default: T) -> T:
            return _read(source, name, parse, default, names[name] if names else None)

        def text(value: Any) -> Any:  # __post_init__ refuses what is none
            return value

        return cls(
            local_hostname=read("local_hostname", text, "localhost"),
            metadata_server=read("metadata_server", text, "P2PHANDSHAKE"),
            global_segment_size=read("global_segment_size", _parse_segment_size, DEFAULT_GLOBAL_SEGMENT_SIZE),
            local_buffer_size=read("local_buffer_size", _parse_segment_size, DEFAULT_LOCAL_BUFFER_SIZE),
            protocol=read("protocol", text, "tcp"),
            device_name=read("device_name", text, ""),
            master_server_address=read("master_server_address", text, ""),
            enable_ssd_offload=read("enable_ssd_offload", _parse_bool, False),
            ssd_offload_path=read("ssd_offload_path", lambda v: "" if v is None else str(v), ""),
            tenant_id=read("tenant_id", lambda v: "default" if v is None else str(v), "default"),
            enable_client_http_server=read("enable_client_http_server", _parse_bool, False),
            client_http_port=read("client_http_port", int, DEFAULT_CLIENT_HTTP_PORT),
        )

    @staticmethod
    def from_file(file_path: str | os.PathLike[str]) -> "MooncakeConfig":
        """Reads a JSON object that has at least local_hostname, metadata_server and
        master_server_address. Keys that are not known are ignored. Raises OSError for a file that
        cannot be read, and ValueError for an error in it.
        """
        with open(file_path, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict):
            text = f"{os.fspath(file_path)}: must hold a JSON object, not {type(content).__name__}"
            raise ValueError(text)  # noqa: TRY004 - the file is wrong, not the caller's type
        for name in _REQUIRED:
            if name not in content:
                raise ValueError(f"Missing required config field: {name}")
        return MooncakeConfig._make(content)

    @staticmethod
    def load_from_env() -> "MooncakeConfig":
        """Reads the file that MOONCAKE_CONFIG_PATH names, and without it the variables, of which only
        MOONCAKE_MASTER is required. Raises ValueError where neither is set, and as from_file does.
        """
        path = os.getenv("MOONCAKE_CONFIG_PATH")
        if path:
            return MooncakeConfig.from_file(path)
        if not os.getenv("MOONCAKE_MASTER"):
            raise ValueError(
                "Neither the environment variable 'MOONCAKE_CONFIG_PATH' nor 'MOONCAKE_MASTER' is set. "
                "Set the first to a JSON file, or the second to host:port of the master."
            )
        given = {name: os.environ[variable] for name, variable in _VARIABLES.items() if variable in os.environ}
        return MooncakeConfig._make(given, _VARIABLES)
