"""Errors with the codes and classes of sdk/errs, which survive the way to the host."""

from __future__ import annotations

import enum

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2
from mooncake.plugin.v1 import plugin_pb2

MAX_TEXT = 4 << 10
"""The longest text of an error, in bytes of UTF-8; the rest is cut off."""


class Code(enum.IntEnum):
    """The codes that a policy has a use for; sdk/errs/code.go has all of them."""

    INTERNAL_ERROR = -1
    INVALID_VERSION = -300
    INVALID_PARAMS = -600
    UNAVAILABLE_IN_CURRENT_STATUS = -1010
    NOT_SUPPORTED = -1012


class Class(enum.IntEnum):
    """What the host may do about an error."""

    UNKNOWN = 0
    LOCAL_DEVICE = 3
    """Something of this machine failed."""
    PERMANENT = 4
    """The request is wrong and will fail everywhere."""


_GRPC = {
    Code.INTERNAL_ERROR: grpc.StatusCode.INTERNAL,
    Code.INVALID_VERSION: grpc.StatusCode.FAILED_PRECONDITION,
    Code.INVALID_PARAMS: grpc.StatusCode.INVALID_ARGUMENT,
    Code.UNAVAILABLE_IN_CURRENT_STATUS: grpc.StatusCode.FAILED_PRECONDITION,
    Code.NOT_SUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
}


class PluginError(Exception):
    """An error for the host: say what happened, to what, and what to do about it."""

    def __init__(self, code: Code, text: str, kind: Class | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.kind = kind if kind is not None else Class.LOCAL_DEVICE if code == Code.INTERNAL_ERROR else Class.PERMANENT


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
    detail.Pack(plugin_pb2.Error(code=int(error.code), **{"class": int(error.kind)}, message=text))
    code = _GRPC[error.code]
    status = status_pb2.Status(code=code.value[0], message=text, details=[detail])
    await context.abort(code, text, (("grpc-status-details-bin", status.SerializeToString()),))
