"""What every plugin serves, whatever its kind: its lifecycle, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc

from .errors import Code, PluginError, abort, clip, invalid, of
from .host import Health, Host, State
from .protocol import messages

if TYPE_CHECKING:
    from .plugin import Plugin

wire = messages("plugin")


class Kind:
    """The calls of one kind; each module of a kind has a subclass. `component` is the author's object."""

    name = ""
    """The name of the gRPC service."""
    api: tuple[int, ...] = (1,)
    """The contract versions that this package speaks."""

    def __init__(self, lifecycle: Lifecycle, log: logging.Logger) -> None:
        self.lifecycle, self.log = lifecycle, log

    async def start(self, component: Any, host: Host) -> None:
        """Start the component."""
        component.start(host)

    async def stop(self, component: Any, seconds: float) -> None:
        """Stop the component within about this time."""
        component.stop()


class Lifecycle:
    """Describes, configures, starts and stops the one component of this process."""

    def __init__(self, plugin: Plugin, log: logging.Logger, host: Host) -> None:
        self._plugin, self._log, self._host = plugin, log, host
        self._component: Any = None
        self._started = False
        self.kind = plugin.kind(self, log)

    def component(self) -> Any:
        """The component, once it is configured."""
        if self._component is None:
            raise PluginError(
                Code.UNAVAILABLE_IN_CURRENT_STATUS, f"{self._plugin.id}: the plugin is not configured yet"
            )
        return self._component

    async def stop(self, seconds: float) -> None:
        """Stop the component, if there is one, for a program that ends."""
        self._host.close()
        if self._component is not None:
            await self.kind.stop(self._component, seconds)

    async def Describe(self, request, context):
        return wire.DescribeResponse(
            manifest_json=json.dumps(self._plugin.manifest).encode(),
            settings_json=json.dumps(self._plugin.accepts).encode(),
        )

    async def Configure(self, request, context):
        async with answering(self._log, context):
            where = f"{self._plugin.id}: configure"
            if self._component is not None:
                text = f"{where}: the plugin is configured already; a new configuration needs a new process"
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, text)
            if request.api not in self._plugin.api:
                text = f"{where}: the host chose contract version {request.api}, the plugin speaks {self._plugin.api}"
                raise PluginError(Code.INVALID_VERSION, text)
            self._component = self._plugin.create(request.config_json)
            return wire.ConfigureResponse()

    async def Start(self, request, context):
        async with answering(self._log, context):
            component = self._component
            if component is None or self._started:
                text = f"{self._plugin.id}: start comes once, after configure"
                raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, text)
            self._started = True
            self._host.set_now(Health(State.STARTING))
            try:
                await self.kind.start(component, self._host)
            except Exception as e:
                self._host.set_now(Health(State.FAILED, str(e)))
                raise
            self._host.started()
            return wire.StartResponse()

    async def Stop(self, request, context):
        async with answering(self._log, context):
            if self._component is not None:
                left = context.time_remaining()
                await self.kind.stop(self._component, 30.0 if left is None else left)
            self._host.set_now(Health(State.STOPPED))
            return wire.StopResponse()

    async def WatchHealth(self, request, context) -> AsyncIterator[Any]:
        seen = 0
        while latest := await self._host.after(seen):
            health, seen = latest
            yield wire.WatchHealthResponse(state=health.state.value, reason=clip(health.reason))


def controller(done: asyncio.Event) -> grpc.GenericRpcHandler:
    """The service by which the host ends the process; both messages are empty."""

    async def shutdown(request: bytes, context: object) -> bytes:
        done.set()
        return b""

    handlers = {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}
    return grpc.method_handlers_generic_handler("plugin.GRPCController", handlers)


def columns(op: str, limit: int, n: int, *others: int) -> None:
    """Check that the columns of a message are equally long and not too long."""
    if n > limit:
        raise invalid(f"{op}: {n} items in one message, at most {limit} are allowed")
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
        await abort(context, of(e))
