"""Signatures at the beginning of docstrings, where upstream's extension has them. Private."""

from __future__ import annotations

import re
from types import FunctionType
from typing import TypeVar

_T = TypeVar("_T", type, FunctionType)

# Annotations, and what a docstring says for them.
_NAMES = {
    "Text": "str",
    "Keys": "list[str]",
    "SupportsIndex": "int",
    "Numbers": "list[int]",
    "_Ints": "list[int]",
    "Rows": "list[list[int]]",
    "Tensor": "torch.Tensor",
    "TaskId": "tuple[int, int]",
    "BytesLike": "bytes-like",
    "Sequence": "list",
    "Layouts": "list",
    "Partitions": "list",
}
_NAME = re.compile(r"\b(?:_native\.)?(\w+)")


def signed(documented: _T) -> _T:
    """Puts the signatures of a function, or of the public methods of a class, before their docstrings.

    A docstring that begins with a signature does not change.
    """
    methods = [documented] if isinstance(documented, FunctionType) else vars(documented).values()
    for method in methods:
        if isinstance(method, FunctionType) and (method is documented or not method.__name__.startswith("_")):
            text = method.__doc__ or ""
            if not text.startswith(f"{method.__name__}("):
                method.__doc__ = f"{method.__name__}({_parameters(method)}) -> {_type(method, 'return')}\n\n{text}"
    return documented


def _type(function: FunctionType, name: str) -> str:
    text = str(function.__annotations__.get(name, "")).replace("str | bytes", "Text")
    return _NAME.sub(lambda m: _NAMES.get(m[1], m[1]), text)


def _parameters(function: FunctionType) -> str:
    code, keywords = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(names[: code.co_argcount]), reversed(function.__defaults__ or ()))) | keywords
    out = []
    for i, name in enumerate(names):
        if i == code.co_argcount:
            star = f"*{code.co_varnames[len(names)]}" if code.co_flags & 0x04 else "*"
            kind = _type(function, star[1:])
            out.append(f"{star}: {kind}" if kind not in ("", "Any") else star)
        if name != "self":
            out.append(_parameter(name, _type(function, name), defaults))
        if i + 1 == code.co_posonlyargcount:
            out.append("/")
    return ", ".join(out)


def _parameter(name: str, kind: str, defaults: dict[str, object]) -> str:
    if name not in defaults:
        return f"{name}: {kind}" if kind != "Any" else name
    if defaults[name] is None:
        kind = kind.removesuffix(" | None")
    value = "ReplicateConfig()" if kind == "ReplicateConfig" else repr(defaults[name])
    return f"{name}: {kind} = {value}" if kind != "Any" else f"{name}={value}"
