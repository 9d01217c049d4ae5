"""The main function of a plugin program."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from . import log as logs
from . import process
from .host import Host
from .lifecycle import Lifecycle, controller
from .plugin import Plugin
from .protocol import service

MAX_MESSAGE = 4 << 20
"""The largest gRPC message in bytes, either way."""
STOP_SECONDS = 1.0
"""How long calls in progress have when the host ends the process."""

HELP = """{binary} is a plugin of Mooncake, {id} {version}: {summary}.

Usage:
  {binary} --manifest   print the manifest as JSON
  {binary} --version    print the version
  {binary} --help       print this text

mooncake starts it from a plugin folder (plugins.dirs, --plugin-dir).
"""

BY_HAND = """{binary} is a plugin of Mooncake, {id} {version}: {summary}.
It is started by mooncake and does nothing when it is run by hand.
Put it into a plugin folder and see what mooncake finds there:
  mooncake plugins list --plugin-dir DIR
Try --help for what it can tell about itself.
"""


def serve(plugin: Plugin) -> None:
    """Answer the flags, or serve until the host ends the conversation. Does not return."""
    code = _run(plugin, sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # A thread that a storage holds does not keep the process.


def _run(plugin: Plugin, args: list[str]) -> int:
    m = plugin.manifest
    words = {"binary": plugin.binary, "id": plugin.id, "version": m["version"], "summary": m["summary"]}
    if args:
        answers = {
            "--manifest": json.dumps(m, indent=2) + "\n",
            "--version": f"{plugin.id} {m['version']} (contract {m['api']})\n",
            "--help": HELP.format(**words),
            "-h": HELP.format(**words),
        }
        if len(args) == 1 and args[0] in answers:
            sys.stdout.write(answers[args[0]])
            return process.EXIT_OK
        sys.stderr.write(f"{plugin.binary}: unknown arguments {args}; try --help\n")
        return process.EXIT_USAGE
    env = dict(os.environ)
    if env.get(process.COOKIE[0]) != process.COOKIE[1]:
        sys.stderr.write(BY_HAND.format(**words))
        return process.EXIT_USAGE
    return asyncio.run(_serve(plugin, env))


async def _serve(plugin: Plugin, env: dict[str, str]) -> int:
    log = logs.logger(env.get(process.LOG_LEVEL, ""))
    stdout = process.keep_stdout_for_handshake()
    process.watch_host(env)
    version = process.negotiate(env.get(process.VERSIONS, ""), plugin.api)

    done = asyncio.Event()
    host = Host(log, asyncio.get_running_loop())
    lifecycle = Lifecycle(plugin, log, host)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", MAX_MESSAGE),
        ]
    )
    checks = health.aio.HealthServicer()
    await checks.set("plugin", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    server.add_generic_rpc_handlers(
        (
            service("mooncake.plugin.v1.LifecycleService", lifecycle),
            service(lifecycle.kind.name, lifecycle.kind),
            controller(done),
        )
    )

    folder = env.get(process.SOCKETS) or tempfile.mkdtemp(prefix="plugin")
    path = os.path.join(folder, "plugin.sock")
    cert = ""
    if client_cert := env.get(process.CLIENT_CERT):
        credentials, cert = process.server_credentials(client_cert.encode())
        server.add_secure_port(f"unix:{path}", credentials)
    else:
        log.error("the host sent no certificate; this plugin does not serve without one")
        return process.EXIT_FAILURE
    await server.start()
    os.write(stdout, f"1|{version}|unix|{path}|grpc|{cert}\n".encode())

    await done.wait()
    host.close()
    await server.stop(STOP_SECONDS)
    try:
        await lifecycle.stop(STOP_SECONDS)
    except Exception:
        log.exception("the plugin did not stop cleanly")
        return process.EXIT_FAILURE
    return process.EXIT_OK
