"""The gRPC services: lifecycle, the calls of the contract, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

import grpc
from mooncake.evict.v1 import evict_pb2, evict_pb2_grpc
from mooncake.plugin.v1 import plugin_pb2, plugin_pb2_grpc

from .contract import Candidate, Event, Policy, Verdict
from .errors import Code, PluginError, abort, clip, invalid
from .host import Health, Host, State
from .plugin import Plugin

MAX_ITEMS = 32 << 10
"""Events, verdicts or candidates in one message."""


class Lifecycle(plugin_pb2_grpc.LifecycleServiceServicer):
    """Describes, configures, starts and stops the one policy of this process."""

    def __init__(self, plugin: Plugin, log: logging.Logger, host: Host) -> None:
        self._plugin, self._log, self._host = plugin, log, host
        self._policy: Policy | None = None
        self._started = False

    def policy(self) -> Policy:
        """The policy, once it is configured."""
        if self._policy is None:
            raise PluginError(
                Code.UNAVAILABLE_IN_CURRENT_STATUS, f"{self._plugin.id}: the plugin is not configured yet"
            )
        return self._policy

    def stop(self) -> None:
        """Stop the policy, if there is one, for a program that ends."""
        self._host.close()
        if self._policy is not None:
            self._policy.stop()

    async def Describe(self, request, context):
        return plugin_pb2.DescribeResponse(manifest_json=json.dumps(self._plugin.manifest).encode())

    async def Configure(self, request, context):
        async with answering(self._log, context):
            where = f"{self._plugin.id}: configure"
            if self._policy is not None:
                text = f"{where}: the plugin is configured already; a new configuration needs a new process"
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, text)
            if request.api not in self._plugin.api:
                text = f"{where}: the host chose contract version {request.api}, the plugin speaks {self._plugin.api}"
                raise PluginError(Code.INVALID_VERSION, text)
            self._policy = self._plugin.create(request.config_json)
            return plugin_pb2.ConfigureResponse()

    async def Start(self, request, context):
        async with answering(self._log, context):
            policy = self._policy
            if policy is None or self._started:
                text = f"{self._plugin.id}: start comes once, after configure"
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, text)
            self._started = True
            self._host.set_now(Health(State.STARTING))
            try:
                policy.start(self._host)
            except Exception as e:
                self._host.set_now(Health(State.FAILED, str(e)))
                raise
            self._host.started()
            return plugin_pb2.StartResponse()

    async def Stop(self, request, context):
        async with answering(self._log, context):
            if self._policy is not None:
                self._policy.stop()
            self._host.set_now(Health(State.STOPPED))
            return plugin_pb2.StopResponse()

    async def WatchHealth(self, request, context) -> AsyncIterator[plugin_pb2.WatchHealthResponse]:
        seen = 0
        while latest := await self._host.after(seen):
            health, seen = latest
            yield plugin_pb2.WatchHealthResponse(state=health.state.value, reason=clip(health.reason))


class Evict(evict_pb2_grpc.EvictServiceServicer):
    """Carries the calls of the contract. It refuses calls that break the contract."""

    def __init__(self, lifecycle: Lifecycle, log: logging.Logger) -> None:
        self._lifecycle, self._log = lifecycle, log

    async def Record(self, request, context):
        async with answering(self._log, context):
            policy = self._lifecycle.policy()
            n = len(request.ops)
            columns("evict record", n, len(request.ids), len(request.sizes), len(request.parents))
            prints = request.fingerprints or (0,) * n
            columns("evict record", n, len(prints))
            if unknown := set(request.ops) - {1, 2, 3}:
                raise invalid(f"evict record: an event has the unknown operation {min(unknown)}")
            policy.record(list(map(Event, request.ops, request.ids, request.sizes, request.parents, prints)))
            return evict_pb2.RecordResponse()

    async def Propose(self, request, context):
        async with answering(self._log, context):
            policy = self._lifecycle.policy()
            if request.max_candidates > MAX_ITEMS:
                text = f"{request.max_candidates} candidates wanted, at most {MAX_ITEMS} go into one message"
                raise invalid("evict propose: " + text)
            found: list[Candidate] = []
            if request.bytes and request.max_candidates:
                found = policy.propose(request.bytes, request.max_candidates)
            left = context.time_remaining()
            if left is not None and left <= 0:
                # The host will not receive these candidates, so it would never resolve them.
                policy.resolve([Verdict(c.id, False) for c in found])
                found = []
            return evict_pb2.ProposeResponse(ids=[c.id for c in found], sizes=[c.size for c in found])

    async def Resolve(self, request, context):
        async with answering(self._log, context):
            policy = self._lifecycle.policy()
            columns("evict resolve", len(request.ids), len(request.evicted))
            if any(v > 1 for v in request.evicted):
                raise invalid(f"evict resolve: a verdict has the value {max(request.evicted)}, want 0 or 1")
            policy.resolve([Verdict(i, bool(e)) for i, e in zip(request.ids, request.evicted, strict=True)])
            return evict_pb2.ResolveResponse()

    async def Stats(self, request, context):
        async with answering(self._log, context):
            s = self._lifecycle.policy().stats()
            return evict_pb2.StatsResponse(objects=s.objects, bytes=s.bytes % 2**64, proposed=s.proposed)


def controller(done: asyncio.Event) -> grpc.GenericRpcHandler:
    """The service by which the host ends the process; both messages are empty."""

    async def shutdown(request: bytes, context: object) -> bytes:
        done.set()
        return b""

    handlers = {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}
    return grpc.method_handlers_generic_handler("plugin.GRPCController", handlers)


def columns(op: str, n: int, *others: int) -> None:
    """Check that the columns of a message are equally long and not too long."""
    if n > MAX_ITEMS:
        raise invalid(f"{op}: {n} items in one message, at most {MAX_ITEMS} are allowed")
    for o in others:
        if o != n:
            raise invalid(f"{op}: columns have {n} and {o} items, want equally many")


@contextlib.asynccontextmanager
async def answering(log: logging.Logger, context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """Turn what a handler raises into the status of its call."""
    try:
        yield
    except PluginError as e:
        await abort(context, e)
    except (asyncio.CancelledError, grpc.aio.AbortError):
        raise
    except Exception as e:
        log.exception("a call failed")
        await abort(context, PluginError(Code.INTERNAL_ERROR, f"{type(e).__name__}: {e}"))
