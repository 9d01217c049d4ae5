"""The messages and services of the wire, from the published .proto files.

The package carries them as one compiled file. The classes are made from it when they are first
needed, in a pool of their own, so that no generated code has to fit the installed protobuf.
"""

from __future__ import annotations

import functools
import pathlib
import pkgutil
from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _compiled() -> bytes:
    """The compiled file: of the package, or of the sdk around a checkout of it."""
    try:
        data = pkgutil.get_data(__package__, "protocol.binpb")
    except OSError:
        data = None
    return data or (pathlib.Path(__file__).resolve().parents[2] / "proto/plugins.binpb").read_bytes()


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(_compiled()).file:
        pool.Add(file)
    return pool


@functools.cache
def messages(package: str) -> SimpleNamespace:
    """The message classes of a kind by their names: `messages("evict").RecordRequest`."""
    file = _pool().FindFileByName(f"mooncake/{package}/v1/{package}.proto")
    return SimpleNamespace(
        **{name: message_factory.GetMessageClass(d) for name, d in file.message_types_by_name.items()}
    )


def service(name: str, implementation: Any) -> grpc.GenericRpcHandler:
    """Serve the methods of a service: a coroutine of the implementation for each."""
    handlers = {}
    for method in _pool().FindServiceByName(name).methods:
        kinds = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        handlers[method.name] = kinds[method.client_streaming, method.server_streaming](
            getattr(implementation, method.name),
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(name, handlers)


def stub(name: str, channel: grpc.Channel) -> SimpleNamespace:
    """Call the methods of a service over a channel; for tests, which are the host."""
    calls = {}
    for method in _pool().FindServiceByName(name).methods:
        kinds = {
            (False, False): channel.unary_unary,
            (False, True): channel.unary_stream,
            (True, True): channel.stream_stream,
        }
        calls[method.name] = kinds[method.client_streaming, method.server_streaming](
            f"/{name}/{method.name}",
            request_serializer=message_factory.GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )
    return SimpleNamespace(**calls)
