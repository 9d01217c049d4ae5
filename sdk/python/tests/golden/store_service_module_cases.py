"""What the module mooncake_store_service has, and what main does, as JSON on standard output.

Run as ``python store_service_module_cases.py`` by any interpreter that has aiohttp and a mooncake
package, ours or upstream's. It asserts nothing.
"""

# ruff: noqa: B023 - a call is made before the loop around it goes on

import asyncio
import json
import os
import signal
import socket
from types import SimpleNamespace
from typing import Any
from unittest import mock

from mooncake import mooncake_store_service
from mooncake.mooncake_store_service import MooncakeStoreService

MODULE = "mooncake.mooncake_store_service"

ANSWERS: dict[str, Any] = {}


def note(name: str, answer: Any) -> None:
    """Keeps an answer under a name of its own."""
    assert name not in ANSWERS, name
    ANSWERS[name] = answer


async def patched() -> None:
    """What a test sets in the module, or in the class, is what counts."""
    with mock.patch(f"{MODULE}._shm_name_to_path", return_value="/dev/shm/patched") as path:
        service = configured()
        service.store = mock.MagicMock()
        service.store.mount_segment.return_value = {"ret": 0, "segment_ids": ["new"]}
        request = mock.MagicMock(json=mock.AsyncMock(return_value={"name": "f", "size": 1}))
        note("patch: _shm_name_to_path", (await service.handle_mount_shm(request)).status)
        note("patch: what is mounted", list(service.store.mount_segment.call_args.args))
        note("patch: _shm_name_to_path was asked", [list(c.args) for c in path.call_args_list])
    with mock.patch(f"{MODULE}.MooncakeDistributedStore") as made:
        made.return_value.setup.side_effect = [-1, RuntimeError("not yet"), 0]
        service = configured()
        with mock.patch("asyncio.sleep", quick):
            done = await service.start_store_service(max_wait_time=60)
        setup = made.return_value.setup.call_args_list
        note("patch: MooncakeDistributedStore", [done, made.call_count, service.store is made.return_value])
        note("patch: what setup is asked", [len(setup[0].args), sorted(setup[0].args[0]), sorted(setup[0].kwargs)])
        made.return_value.close.return_value = 0
        await service.stop()
        note("patch: after stop", [service.store, made.return_value.close.called])
        await service.stop()
    for name in ("web", "MooncakeConfig", "asyncio", "logging", "signal", "time"):
        with mock.patch(f"{MODULE}.{name}"):
            pass
        note(f"patch: {name}", hasattr(mooncake_store_service, name))
    shm = mooncake_store_service._shm_name_to_path
    for name in ("f", "/f", "", "/", ".", "..", "/..", "a/b", "../f", None, 7, b"f"):
        note(f"_shm_name_to_path({name!r})", shm(name))
    note("the largest grace period", mooncake_store_service._MAX_UNMOUNT_LOCAL_DISK_GRACE_PERIOD_SECONDS)


async def quick(seconds: float = 0, result: Any = None) -> Any:
    """asyncio.sleep that does not."""
    return result


def configured(**settings: Any) -> Any:
    """A service by its constructor, with settings from the environment."""
    return MooncakeStoreService(cli_config=settings)


async def starts() -> None:
    made: list[Any] = []
    closed: list[Any] = []

    def fails(code: int, during: Any = None) -> Any:
        class Failing:
            def setup(self, config: dict[str, Any]) -> int:
                made.append(self)
                if during:
                    during()
                return code

            def close(self) -> int:
                closed.append(self)
                return 0

        made.clear()
        return mock.patch(f"{MODULE}.MooncakeDistributedStore", Failing)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    service = configured()
    with fails(-1):
        note("start: no time", [await service.start_store_service(max_wait_time=0), len(made)])
        note("start: no master", [await service.start_store_service(max_wait_time=0.1), len(made)])
    with fails(0, lambda: loop.call_soon_threadsafe(stop.set)):
        note("start: stopped during setup", [await service.start_store_service(5, stop), service.store is None])
        note("start: the store is closed", [store in closed for store in made])
        note("start: stopped before", [await service.start_store_service(5, shutdown_event=stop), len(made)])
    stop.clear()
    with fails(-1):
        loop.call_later(0.05, stop.set)
        note("start: stopped between attempts", [await service.start_store_service(60, stop), len(made)])
    for name, settings in {
        "text": {"global_segment_size": "16mb"}, "unknown": {"no_such_setting": 1}, "none": {},
        "host": {"local_hostname": "other"},
    }.items():  # fmt: skip
        config = configured(**settings).config
        note(
            f"settings: {name}", [config.global_segment_size, config.local_hostname, hasattr(config, "no_such_setting")]
        )
    note("settings: keywords", bool(MooncakeStoreService(config_path=None, cli_config=None).config))
    new = configured()
    note("settings: state", [new.store, new.current_mode, new.mounted_segment_ids, new.last_mount_info])
    for name, call in {
        "a file that is not there": lambda: MooncakeStoreService("/nonexistent/mooncake.json"),
        "no settings": lambda: mock.patch.dict(os.environ, clear=True)(MooncakeStoreService)(),
    }.items():
        try:
            note(f"settings: {name}", bool(call()))
        except Exception as err:  # noqa: BLE001
            note(f"settings: {name}", [c.__name__ for c in type(err).__mro__ if issubclass(c, Exception)])
    taken = socket.create_server(("0.0.0.0", 0))
    try:
        note("start: the port is taken", await configured().start_http_service(taken.getsockname()[1]))
    except OSError as err:
        note("start: the port is taken", type(err).__name__)
    taken.close()


async def runs() -> None:
    """main, with everything that it uses set by a test."""
    arguments = SimpleNamespace(config="f", define=["a=b", "c=d=e", "wrong"], port=1234, max_wait_time=7.0)
    for name, started, stopped in (("serves", True, False), ("fails", False, False), ("is stopped", False, True)):
        order: list[str] = []
        service = mock.MagicMock()
        events: list[asyncio.Event] = []

        async def start(max_wait_time: float, shutdown_event: asyncio.Event) -> bool:
            order.append(f"start {max_wait_time}")
            if stopped:
                shutdown_event.set()
            return started

        async def serve(*args: Any) -> bool:
            order.append(f"serve {args}")
            events[0].set()
            return True

        async def stop() -> None:
            order.append("stop")

        service.start_store_service, service.start_http_service, service.stop = start, serve, stop
        with mock.patch.multiple(
            MODULE,
            parse_arguments=lambda: arguments,
            MooncakeStoreService=lambda *args: order.append(f"make {args}") or service,
            _install_shutdown_signal_handlers=lambda loop, event: events.append(event) or order.append("handlers"),
            _unblock_shutdown_signals=lambda: None,
        ):
            try:
                order.append(f"returns {await mooncake_store_service.main()}")
            except Exception as err:  # noqa: BLE001
                order.append(f"raises {type(err).__name__}")
        note(f"main {name}", order)
    event = asyncio.Event()
    mooncake_store_service._install_shutdown_signal_handlers(asyncio.get_running_loop(), event)
    mooncake_store_service._unblock_shutdown_signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        event.clear()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(event.wait(), 60)
        note(f"{number.name} is a shutdown", event.is_set())
        asyncio.get_running_loop().remove_signal_handler(number)
    loop = mock.MagicMock()
    loop.add_signal_handler.side_effect = NotImplementedError
    with mock.patch("signal.signal") as handle:
        mooncake_store_service._install_shutdown_signal_handlers(loop, event)
        note("a loop without signals", sorted(c.args[0].name for c in handle.call_args_list))

    async def answer(request: Any) -> str:
        return f"answer to {request}"

    note("_timed_handler", await mooncake_store_service._timed_handler("NAME", answer)("a request"))
    ran = mock.MagicMock(return_value=None)
    with mock.patch("asyncio.run", ran), mock.patch(f"{MODULE}.main", mock.MagicMock()):
        note("sync_main runs main", [mooncake_store_service.sync_main(), ran.call_count])
    with mock.patch("sys.argv", ["x"]):
        note("flags: none", sorted(vars(mooncake_store_service.parse_arguments()).items()))
    given = ["x", "--config", "f", "-D", "a=b", "--define=c=d", "-De=f", "--port", "1", "--max-wait-time", "2"]
    with mock.patch("sys.argv", given):
        note("flags: all", sorted(vars(mooncake_store_service.parse_arguments()).items()))


async def run() -> None:
    await patched()
    await starts()
    await runs()


def main() -> None:
    os.environ["MOONCAKE_MASTER"] = "127.0.0.1:1"
    os.environ["MOONCAKE_STORE_REST_FILES"] = "/dev/shm/"  # without it ours mounts none
    asyncio.run(run())
    print("ANSWERS " + json.dumps(ANSWERS))


if __name__ == "__main__":
    main()
