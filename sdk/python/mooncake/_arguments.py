"""Checks of single arguments, with a TypeError that begins with the argument's name. Private.

Lists are checked by _native.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

Text = str | bytes


def text(name: str, value: Any) -> Text:
    """value, which is str or bytes."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name}: expected str or bytes, got {type(value).__name__}")
    return value


def string(name: str, value: Any) -> str:
    """value as str: bytes are UTF-8."""
    value = text(name, value)
    try:
        if isinstance(value, bytes):
            return value.decode()
        value.encode()
        return value
    except UnicodeError:
        raise TypeError(f"{name}: expected text that has a UTF-8 form") from None


def strings(name: str, value: Any) -> list[str]:
    """value, a sequence of texts, as a new list of str."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"{name}: expected a list of str, got {type(value).__name__}")
    return [string(f"{name}[{i}]", v) for i, v in enumerate(value)]


def number(name: str, value: Any, bits: int = 64) -> int:
    """value as a number without a sign: an int or what has __index__."""
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}") from None
    if not 0 <= n < 1 << bits:
        raise TypeError(f"{name}: expected an int from 0 to 2**{bits}-1")
    return n


def flag(name: str, value: Any) -> bool:
    """value as bool: a bool, a number, or None for False; a text or a list is none."""
    if value is None or hasattr(type(value), "__bool__"):
        return bool(value)
    raise TypeError(f"{name}: expected a bool, got {type(value).__name__}")


def positive(name: str, value: Any) -> int:
    """value as a number that is not 0; RuntimeError where it is."""
    n = number(name, value)
    if n == 0:
        raise RuntimeError(f"{name} must be positive")
    return n


def seconds(name: str, value: Any) -> float | None:
    """value as seconds, or None for None; RuntimeError for a negative one."""
    if value is None:
        return None
    try:
        limit = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number of seconds or None, got {type(value).__name__}") from None
    if not limit >= 0:
        raise RuntimeError(f"{name} must be non-negative")
    return limit
