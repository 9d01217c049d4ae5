"""MessagePack of the values that rows of fields are made of: null, bool, int, float, str, bytes, list, dict. Private.

https://github.com/msgpack/msgpack/blob/master/spec.md describes the format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 128
# The largest value of each form and the tag that goes before it.
_UINTS = ((0xFF, 0xCC, ">B"), (0xFFFF, 0xCD, ">H"), (0xFFFFFFFF, 0xCE, ">I"), ((1 << 64) - 1, 0xCF, ">Q"))
_INTS = ((1 << 7, 0xD0, ">b"), (1 << 15, 0xD1, ">h"), (1 << 31, 0xD2, ">i"), (1 << 63, 0xD3, ">q"))
_STRS = ((0xFF, 0xD9, ">B"), (0xFFFF, 0xDA, ">H"), (0xFFFFFFFF, 0xDB, ">I"))
_BINS = ((0xFF, 0xC4, ">B"), (0xFFFF, 0xC5, ">H"), (0xFFFFFFFF, 0xC6, ">I"))
_ARRAYS = ((0xFFFF, 0xDC, ">H"), (0xFFFFFFFF, 0xDD, ">I"))
_MAPS = ((0xFFFF, 0xDE, ">H"), (0xFFFFFFFF, 0xDF, ">I"))


def pack(value: Any) -> bytes:
    """value as MessagePack. TypeError for another type, ValueError for what is too large or too deep."""
    out = bytearray()
    _pack(value, out, 0)
    return bytes(out)


def unpack(data: bytes) -> Any:
    """The value that data is; ValueError where it is not exactly one."""
    value, end = _Unpacker(data).value(0, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow a MessagePack value of {end} bytes")
    return value


def _pack(value: Any, out: bytearray, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"a value is nested deeper than {_MAX_DEPTH} levels")
    kind = type(value)
    if value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is int:
        _pack_int(value, out)
    elif kind is float:
        out += struct.pack(">Bd", 0xCB, value)
    elif kind is str:
        data = value.encode()
        _head(len(data), out, _STRS, 0xA0, 31)
        out += data
    elif kind in (bytes, bytearray):
        _head(len(value), out, _BINS, 0, -1)
        out += value
    elif kind is list:
        _head(len(value), out, _ARRAYS, 0x90, 15)
        for item in value:
            _pack(item, out, depth + 1)
    elif kind is dict:
        _head(len(value), out, _MAPS, 0x80, 15)
        for key, item in value.items():
            _pack(key, out, depth + 1)
            _pack(item, out, depth + 1)
    else:
        raise TypeError(f"can not serialize {kind.__name__!r} object")


def _pack_int(value: int, out: bytearray) -> None:
    if -32 <= value < 128:
        out.append(value & 0xFF)
    elif value >= 0:
        _head(value, out, _UINTS, 0, -1)
    else:
        for largest, tag, form in _INTS:
            if -value <= largest:
                out.append(tag)
                out += struct.pack(form, value)
                return
        raise ValueError(f"the integer {value} is beyond 64 bits")


def _head(size: int, out: bytearray, forms: tuple[tuple[int, int, str], ...], short: int, most: int) -> None:
    if size <= most:
        out.append(short | size)
        return
    for largest, tag, form in forms:
        if size <= largest:
            out.append(tag)
            out += struct.pack(form, size)
            return
    raise ValueError(f"{size} is too large for MessagePack")


class _Unpacker:
    """Reads values; every read is checked against the end of data."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > _MAX_DEPTH:
            raise ValueError(f"a MessagePack value is nested deeper than {_MAX_DEPTH} levels")
        tag = self.bytes(at, 1)[0]
        at += 1
        if tag < 0x80:
            return tag, at
        if tag >= 0xE0:
            return tag - 0x100, at
        if tag < 0x90:
            return self.map(tag & 15, at, depth)
        if tag < 0xA0:
            return self.list(tag & 15, at, depth)
        if tag < 0xC0:
            return self.text(tag & 31, at, depth)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag], at
        if tag in _NUMBERS:
            form = _NUMBERS[tag]
            size = struct.calcsize(form)
            return struct.unpack(form, self.bytes(at, size))[0], at + size
        if tag in _SIZED:
            form, read = _SIZED[tag]
            size = struct.calcsize(form)
            return read(self, struct.unpack(form, self.bytes(at, size))[0], at + size, depth)
        raise ValueError(f"MessagePack tag {tag:#04x} is not one of those that fields are stored with")

    def bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self.data):
            raise ValueError(f"a MessagePack value ends at byte {len(self.data)}, {at + size} bytes are needed")
        return self.data[at : at + size]

    def raw(self, size: int, at: int, depth: int) -> tuple[Any, int]:
        return bytes(self.bytes(at, size)), at + size

    def text(self, size: int, at: int, depth: int) -> tuple[Any, int]:
        return self.bytes(at, size).decode(), at + size

    def list(self, size: int, at: int, depth: int) -> tuple[Any, int]:
        items = []
        for _ in range(size):
            item, at = self.value(at, depth + 1)
            items.append(item)
        return items, at

    def map(self, size: int, at: int, depth: int) -> tuple[Any, int]:
        found = {}
        for _ in range(size):
            key, at = self.value(at, depth + 1)
            if isinstance(key, (list, dict)):
                raise ValueError("a MessagePack map has a key that is a list or a map")  # noqa: TRY004
            found[key], at = self.value(at, depth + 1)
        return found, at


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCA: ">f", 0xCB: ">d", **{tag: form for _, tag, form in (*_UINTS, *_INTS)}}
_Read = Callable[[_Unpacker, int, int, int], tuple[Any, int]]
_SIZED: dict[int, tuple[str, _Read]] = {
    tag: (form, read)
    for forms, read in (
        (_STRS, _Unpacker.text),
        (_BINS, _Unpacker.raw),
        (_ARRAYS, _Unpacker.list),
        (_MAPS, _Unpacker.map),
    )
    for _, tag, form in forms
}
