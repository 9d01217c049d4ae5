"""What mooncake.engine is made of besides its main class. Private."""

import enum
import operator
from typing import Any, SupportsIndex

from .. import _native


class TransferOpcode(enum.IntEnum):
    """Members:

    Read
        from the peer to this process

    Write
        from this process to the peer
    """

    Read = 0
    Write = 1

    def __str__(self) -> str:
        return f"TransferOpcode.{self.name}"


class TransferNotify:
    """TransferNotify() or TransferNotify(name: str, msg: str)

    A message to the peer, delivered once the bytes of a transfer have arrived. Both texts are
    read as str; what is not UTF-8 in them is kept as surrogateescape.
    """

    __slots__ = ("_msg", "_name")
    _name: str
    _msg: str

    def __init__(self, *args: str | bytes, **kwargs: str | bytes) -> None:
        given: dict[str, str | bytes] = dict(zip(("name", "msg"), args, strict=False))
        twice = [name for name in kwargs if name in given]
        unknown = [name for name in kwargs if name not in ("name", "msg")]
        given.update(kwargs)
        if len(args) > 2 or twice or unknown or len(given) == 1:
            what = ", ".join(repr(name) for name in twice or unknown or kwargs) or f"{len(args)} arguments"
            raise TypeError(f"TransferNotify takes nothing, or name and msg once each; it was given {what}")
        self.name = given.get("name", "")
        self.msg = given.get("msg", "")

    @property
    def name(self) -> str:
        """Who says it."""
        return self._name

    @name.setter
    def name(self, value: str | bytes) -> None:
        self._name = _as_str("name", value)

    @property
    def msg(self) -> str:
        """What is said."""
        return self._msg

    @msg.setter
    def msg(self, value: str | bytes) -> None:
        self._msg = _as_str("msg", value)

    def __repr__(self) -> str:
        return f"TransferNotify(name={self._name!r}, msg={self._msg!r})"


class InnerTransferEngine:
    """An initialized engine, to be given to MooncakeDistributedStore.setup. It cannot be made by hand.

    The engine lives as long as one of these does: the TransferEngine has one, and so has every
    store that shares it. Destroying the last one tears the engine down.
    """

    __slots__ = ("__weakref__", "_handle")
    _handle: int

    def __init__(self) -> None:
        raise TypeError("InnerTransferEngine cannot be constructed; TransferEngine.get_engine() gives one")

    @classmethod
    def _create(cls) -> "InnerTransferEngine":
        inner = cls.__new__(cls)
        inner._handle = _native.engine_new()
        return inner

    def __del__(self, _free: Any = _native.engine_free) -> None:
        handle = getattr(self, "_handle", 0)
        if handle:
            self._handle = 0
            _free(handle)


def number(name: str, value: SupportsIndex) -> int:
    """value as an address or size of 64 bits. TypeError naming it where it is none."""
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}") from None
    if not 0 <= n < 1 << 64:
        raise TypeError(f"{name}: {n} is not an unsigned number of 64 bits")
    return n


def text(name: str, value: str | bytes) -> str | bytes:
    """value, which is a text. TypeError naming it where it is none."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name}: expected a str, got {type(value).__name__}")
    return value


def opcode_number(value: TransferOpcode) -> int:
    """The number of an opcode. TypeError naming the argument where it is none."""
    if not isinstance(value, TransferOpcode):
        raise TypeError(f"opcode: expected TransferOpcode.Read or TransferOpcode.Write, got {value!r}")
    return int(value)


def notify_pair(value: TransferNotify | None) -> tuple[bytes, bytes] | None:
    """The texts of a notification, or None. TypeError naming the argument where it is none."""
    if value is None:
        return None
    if not isinstance(value, TransferNotify):
        raise TypeError(f"notify: expected a TransferNotify or None, got {type(value).__name__}")
    return value.name.encode("utf-8", "surrogateescape"), value.msg.encode("utf-8", "surrogateescape")


def _as_str(name: str, value: str | bytes) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        return value
    raise TypeError(f"{name}: expected a str, got {type(value).__name__}")


for _public in (TransferOpcode, TransferNotify, InnerTransferEngine):
    _public.__module__ = "mooncake.engine"
del _public
