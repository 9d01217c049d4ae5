"""Errors with the codes and classes of sdk/errs, which survive the way to the host."""

from __future__ import annotations

import enum
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

from .protocol import messages

MAX_TEXT = 4 << 10
"""The longest text of an error, in bytes of UTF-8; the rest is cut off."""
MAX_ITEM_TEXT = 512
"""The longest text of an error of one item of a batch."""


class Code(enum.IntEnum):
    """The codes that a plugin has a use for; sdk/errs/code.go has all of them."""

    INTERNAL_ERROR = -1
    SEGMENT_NOT_FOUND = -101
    NO_AVAILABLE_HANDLE = -200
    INVALID_VERSION = -300
    INVALID_PARAMS = -600
    INVALID_WRITE = -700
    OBJECT_NOT_FOUND = -704
    CHECKSUM_MISMATCH = -801
    RPC_FAIL = -900
    RPC_TIMEOUT = -901
    UNAVAILABLE_IN_CURRENT_STATUS = -1010
    NOT_SUPPORTED = -1012
    FILE_OPEN_FAIL = -1101
    FILE_READ_FAIL = -1102
    FILE_WRITE_FAIL = -1103


class Class(enum.IntEnum):
    """What the host may do about an error."""

    UNKNOWN = 0
    LOCAL_DEVICE = 3
    """Something of this machine failed."""
    PERMANENT = 4
    """The request is wrong and will fail everywhere."""


_GRPC = {
    Code.SEGMENT_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.OBJECT_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.NO_AVAILABLE_HANDLE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.INVALID_VERSION: grpc.StatusCode.FAILED_PRECONDITION,
    Code.INVALID_PARAMS: grpc.StatusCode.INVALID_ARGUMENT,
    Code.RPC_FAIL: grpc.StatusCode.UNAVAILABLE,
    Code.RPC_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    Code.UNAVAILABLE_IN_CURRENT_STATUS: grpc.StatusCode.FAILED_PRECONDITION,
    Code.NOT_SUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
}
_LOCAL = {Code.INTERNAL_ERROR, Code.FILE_OPEN_FAIL, Code.FILE_READ_FAIL, Code.FILE_WRITE_FAIL}


class PluginError(Exception):
    """An error for the host: say what happened, to what, and what to do about it."""

    def __init__(self, code: Code, text: str, kind: Class | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.kind = kind if kind is not None else Class.LOCAL_DEVICE if code in _LOCAL else Class.PERMANENT

    def message(self, limit: int = MAX_ITEM_TEXT) -> Any:
        """The error as a message of the wire."""
        text = clip(str(self), limit)
        return messages("plugin").Error(code=int(self.code), **{"class": int(self.kind)}, message=text)


def of(error: Exception) -> PluginError:
    """Give any exception a code."""
    if isinstance(error, PluginError):
        return error
    return PluginError(Code.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def invalid(text: str) -> PluginError:
    """The error for a request that breaks the contract."""
    return PluginError(Code.INVALID_PARAMS, text)


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Cut text to what fits, at the border of a character."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


async def abort(context: grpc.aio.ServicerContext, error: PluginError) -> None:
    """End a call with an error. The host finds code and class in the status' details."""
    text = clip(str(error))
    detail = any_pb2.Any()
    detail.Pack(error.message(MAX_TEXT))
    code = _GRPC.get(error.code, grpc.StatusCode.INTERNAL)
    status = status_pb2.Status(code=code.value[0], message=text, details=[detail])
    await context.abort(code, text, (("grpc-status-details-bin", status.SerializeToString()),))
