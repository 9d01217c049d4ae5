"""What MooncakeStoreService answers when the store fails, which no real store does on demand."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from processes import free_port
from procs import Package, eventually
from restservice import Master, Rest

from mooncake import mooncake_store_service
from mooncake.mooncake_config import MooncakeConfig
from mooncake.mooncake_store_service import MooncakeStoreService

pytest.importorskip("aiohttp")


class Store:
    """A store whose answers a test decides, and that says what it was asked."""

    def __init__(self) -> None:
        self.code = 0
        self.broken: set[str] = set()
        self.size = 0
        self.calls: list[tuple[Any, ...]] = []

    def _did(self, *call: Any) -> int:
        self.calls.append(call)
        return self.code

    def put(self, key: str, value: bytes) -> int:
        return self._did("put", key, value)

    def get(self, key: str) -> bytes:
        return b""

    def get_size(self, key: str) -> int:
        return self.size

    def is_exist(self, key: str) -> int:
        return self._did("is_exist", key) or 1

    def remove(self, key: str) -> int:
        return self._did("remove", key)

    def remove_all(self) -> int:
        return self._did("remove_all")

    def allocate_and_mount_segment(self, size: int, protocol: str, location: str) -> dict[str, Any]:
        return {"ret": self._did("allocate", size, protocol, location), "segment_ids": ["1-1"], "allocated_size": 4096}

    def unmount_and_free_segment(self, ids: list[str], grace: int) -> int:
        return self._did("free", ids, grace)

    def mount_segment(self, path: str, size: int, offset: int, protocol: str, location: str) -> dict[str, Any]:
        return {"ret": self._did("mount", path, size, offset, protocol, location), "segment_ids": ["2-2"]}

    def unmount_segment(self, ids: list[str], grace: int = 0) -> int:
        return -1 if set(ids) & self.broken else self._did("unmount", ids, grace)

    def unmount_local_disk_segment(self, grace: int) -> int:
        return self._did("disk", grace)


class Request:
    """As much of a request as the handlers look at."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self.match_info = {"key": "k"}

    async def json(self) -> Any:
        return self._body


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> MooncakeStoreService:
    """A service as upstream's tests make one: without its constructor. It may mount every file."""
    monkeypatch.setenv("MOONCAKE_STORE_REST_FILES", "/dev/shm/")
    made = MooncakeStoreService.__new__(MooncakeStoreService)
    made.store = Store()
    made.config = SimpleNamespace(protocol="tcp")
    made.current_mode = "prefill"
    made.mounted_segment_ids = []
    made.last_mount_info = {}
    made._state_lock = asyncio.Lock()
    return made


def ask(handler: Any, body: Any = None) -> tuple[int, Any]:
    answer = asyncio.run(handler(Request(body)))
    if answer.content_type != "application/json":
        return answer.status, answer.body
    return answer.status, json.loads(answer.text)


@pytest.mark.parametrize(
    ("handler", "body", "text"),
    [
        ("handle_put", {"key": "k", "value": "v"}, "PUT operation failed"),
        ("handle_exist", None, "Exist check failed"),
        ("handle_remove", None, "Remove operation failed"),
        ("handle_remove_all", None, "RemoveAll operation failed"),
        ("handle_mount", {"size": 1}, "Mount operation failed"),
        ("handle_unmount", {"segment_ids": "1-1"}, "Unmount operation failed"),
        ("handle_mount_shm", {"name": "x", "size": 1}, "Mount shm operation failed"),
        ("handle_unmount_local_disk", {}, "Unmount local disk operation failed"),
        ("handle_reconfigure", {"mode": "decode", "path": "/dev/shm/x", "size": 1}, "Reconfigure failed, the previous"),
    ],
)
def test_an_error_code_is_passed_on(service: MooncakeStoreService, handler: str, body: Any, text: str) -> None:
    service.store.code = -800
    status, answer = ask(getattr(service, handler), body)
    assert (status, answer["error_code"]) == (500, -800)
    assert answer["error"].startswith(text)


def test_what_a_store_is_asked(service: MooncakeStoreService) -> None:
    assert ask(service.handle_put, {"key": "k", "value": "ü"})[0] == 200
    assert ask(service.handle_mount, {"size": 7, "location": "cpu:1"})[1]["allocated_size"] == 4096
    assert ask(service.handle_unmount, {"segment_ids": ["1-1"], "grace_period_seconds": 4})[0] == 200
    shm = {"name": "/x", "size": 8, "offset": 9, "protocol": "rdma", "location": "cpu:0"}
    assert ask(service.handle_mount_shm, shm) == (200, {"status": "success", "segment_ids": ["2-2"]})
    assert ask(service.handle_unmount_local_disk, {"grace_period_seconds": 3600})[0] == 200
    assert service.store.calls == [
        ("put", "k", "ü".encode()),
        ("allocate", 7, "tcp", "cpu:1"),
        ("free", ["1-1"], 4),
        ("mount", "/dev/shm/x", 8, 9, "rdma", "cpu:0"),
        ("disk", 3600),
    ]


def test_only_allowed_files_are_mounted(
    service: MooncakeStoreService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def mount(name: str) -> tuple[int, Any]:
        return ask(service.handle_mount_shm, {"name": name, "size": 1})

    def decode(name: str) -> tuple[int, Any]:
        return ask(service.handle_reconfigure, {"mode": "decode", "path": f"/dev/shm/{name}", "size": 1})

    monkeypatch.delenv("MOONCAKE_STORE_REST_FILES")
    for answered in (mount("kv-0"), decode("kv-0")):
        assert answered[0] == 403, "none is by default"
        assert "MOONCAKE_STORE_REST_FILES" in answered[1]["detail"]
    prefix = f"mooncake-{uuid4()}"
    monkeypatch.setenv("MOONCAKE_STORE_REST_FILES", f"/dev/shm/other,, /dev/shm/{prefix}")
    link = Path("/dev/shm") / f"{prefix}-link"
    link.symlink_to(tmp_path / "elsewhere")
    try:
        for name in ("kv-0", link.name):
            assert (mount(name)[0], decode(name)[0]) == (403, 403), name
    finally:
        link.unlink()
    assert service.store.calls == []
    assert (mount(f"{prefix}-0")[0], decode(f"{prefix}-1")[0]) == (200, 200)
    assert [call[1] for call in service.store.calls] == [f"/dev/shm/{prefix}-0", f"/dev/shm/{prefix}-1"]


def test_an_empty_object_is_there(service: MooncakeStoreService) -> None:
    assert ask(service.handle_get) == (200, b"")
    service.store.size = 4
    status, answer = ask(service.handle_get)
    assert (status, answer["error"]) == (500, "GET operation failed"), "its bytes cannot be read"


def test_a_store_that_raises(service: MooncakeStoreService) -> None:
    service.store = None
    status, answer = ask(service.handle_remove_all)
    assert status == 500
    assert answer["error"].startswith("RemoveAll operation failed: 'NoneType' object")


def test_segments_that_stay_are_remembered(service: MooncakeStoreService) -> None:
    decode = {"mode": "decode", "path": "/dev/shm/x", "size": 1}
    service.current_mode, service.mounted_segment_ids = "decode", ["1-1"]
    service.store.broken = {"1-1"}
    status, answer = ask(service.handle_reconfigure, decode)
    assert (status, answer["segment_ids"], answer["mode"]) == (200, ["2-2", "1-1"], "decode"), "both are mounted"
    assert ask(service.handle_reconfigure, decode)[1]["segment_ids"] == ["2-2", "1-1"], "still"
    assert [call[0] for call in service.store.calls] == ["mount"], "the same again mounts nothing"
    status, answer = ask(service.handle_reconfigure, {"mode": "prefill"})
    assert (status, answer["mode"], answer["failed_segment_ids"]) == (500, "decode", ["1-1"])
    assert ask(service.handle_reconfigure, decode)[0] == 200
    service.store.broken = set()
    status, answer = ask(service.handle_unmount_shm, {"segment_ids": ["1-1"], "grace_period_seconds": 3})
    assert (status, service.current_mode, service.mounted_segment_ids) == (200, "decode", ["2-2"])
    assert service.store.calls[-1] == ("unmount", ["1-1"], 3)
    assert ask(service.handle_unmount_shm, {"segment_ids": "2-2"})[0] == 200
    assert (service.current_mode, service.mounted_segment_ids, service.last_mount_info) == ("prefill", [], {})


def test_the_settings_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", "m:50051")
    service = MooncakeStoreService(cli_config={"local_hostname": "n", "unknown": "x"})
    assert isinstance(service.config, MooncakeConfig)
    assert (service.config.local_hostname, service.port) == ("n", 0)
    assert not hasattr(service.config, "unknown")


def test_sync_main_is_the_program_where_aiohttp_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []

    def execute(alias: str) -> None:
        became.append(alias)
        raise SystemExit(0)

    monkeypatch.setattr("mooncake.mooncake_store_service.find_spec", lambda _: None)
    monkeypatch.setattr("mooncake._binary.execute", execute)
    with pytest.raises(SystemExit):
        mooncake_store_service.sync_main()
    assert became == ["mooncake_store_service"]


def test_main_serves_until_a_signal(package: Package) -> None:
    """All of it together, as a wrapper runs it."""
    port = free_port()
    code = "import sys, mooncake.mooncake_store_service as m; sys.exit(m.sync_main())"
    process = package.start(
        "-c", code, "--port", str(port), "-Dglobal_segment_size=16mb", "--define", "local_hostname=127.0.0.1",
        **Master(package).env(),
    )  # fmt: skip
    rest = Rest(process, port)
    eventually(lambda: rest.ask("GET", "/api/exist/none")[0] == 200)
    assert rest.ask("PUT", "/api/put", {"key": "k", "value": "v"})[0] == 200
    assert process.end() == 0
