"""What MooncakeStoreService answers, request by request, as JSON on standard output.

Run as ``python store_service_cases.py MASTER PID SHM`` by any interpreter that has aiohttp and a
mooncake package: ours, or upstream's with a master of its own. PID is the master's, which is
killed on the way, and SHM the name of a file of 32 MiB in /dev/shm. It asserts nothing.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

from mooncake.mooncake_store_service import MooncakeStoreService

MIB = 1 << 20

# What callers look for in the text of an error.
WORDS = (
    "Exist check failed", "GET operation failed", "Invalid mode", "Invalid grace_period_seconds", "Invalid size",
    "Key not found", "Missing key or value", "Missing segment_ids", "Mount failed", "PUT operation failed",
    "Remove operation failed", "RemoveAll operation failed", "Unmount failed", "crashed",
    "keeping previous decode segments", "name or size", "path or size", "ret=", "rolled back to prefill",
)  # fmt: skip

ANSWERS: dict[str, Any] = {}


def note(name: str, answer: Any) -> None:
    """Keeps an answer under a name of its own."""
    assert name not in ANSWERS, name
    ANSWERS[name] = answer


def seen(status: int, content_type: str, body: bytes) -> dict[str, Any]:
    """What counts of an answer: no numbers of segments, and of a text the words that callers look for."""
    if content_type != "application/json":
        return {"http": status, "type": content_type, "body": body.decode() if status == 200 else ""}
    content = json.loads(body)
    text = content.get("error")
    answer: dict[str, Any] = {"http": status, "keys": sorted(content)}
    if text is None:
        return answer | {k: v for k, v in content.items() if k in ("status", "mode", "exists")}
    if "mode" in content:
        answer["mode"] = content["mode"]
    if "failed_segment_ids" in content:
        answer["failed"] = len(content["failed_segment_ids"])
    return answer | {"words": [w for w in WORDS if w in text]}


class Store:
    """A store that does as it is told, and that notes what it is asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.mount_code = self.code = 0
        self.stuck: set[str] = set()
        self.there: list[int] = [1]
        self.value: Any = b"page"
        self.crash = False
        self._next = 0

    def _did(self, *call: Any) -> int:
        if self.crash:
            raise RuntimeError("the store crashed")
        self.calls.append(list(call))
        return self.code

    def put(self, key: str, value: bytes) -> int:
        return self._did("put", key, value.decode())

    def get(self, key: str) -> Any:
        self._did("get", key)
        return self.value

    def is_exist(self, key: str) -> int:
        self._did("is_exist", key)
        return self.there.pop(0) if len(self.there) > 1 else self.there[0]

    def remove(self, key: str) -> int:
        return self._did("remove", key)

    def remove_all(self) -> int:
        return self._did("remove_all")

    def _segment(self) -> str:
        self._next += 1
        return f"new-{self._next}"

    def mount_segment(self, path: str, size: int, offset: int, protocol: str, location: str) -> dict[str, Any]:
        self._did("mount_segment", path, size, offset, protocol, location)
        return {"ret": self.mount_code, "segment_ids": [] if self.mount_code else [self._segment()]}

    def allocate_and_mount_segment(self, size: int, protocol: str, location: str) -> dict[str, Any]:
        self._did("allocate", size, protocol, location)
        ids = [] if self.mount_code else [self._segment()]
        return {"ret": self.mount_code, "segment_ids": ids, "allocated_size": size}

    def unmount_segment(self, segment_ids: list[str], *grace_period: int) -> int:
        return -1 if self.stuck & set(segment_ids) else self._did("unmount", *segment_ids)

    def unmount_and_free_segment(self, segment_ids: list[str], *grace_period: int) -> int:
        return self._did("free", segment_ids, *grace_period)

    def unmount_local_disk_segment(self, grace_period: int) -> int:
        return self._did("local disk", grace_period)

    def close(self) -> int:
        self.calls.append(["close"])
        return 0


class Request:
    """As much of a request as handlers look at."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self.match_info = {"key": "k"}

    async def json(self) -> Any:
        if isinstance(self._body, Exception):
            raise self._body
        return self._body


def bare(**state: Any) -> Any:
    """A service as tests and wrappers make one: without its constructor."""
    service = MooncakeStoreService.__new__(MooncakeStoreService)
    service.store = Store()
    service.config = SimpleNamespace(protocol="tcp")
    service.current_mode = "prefill"
    service.mounted_segment_ids = []
    service.last_mount_info = {}
    service._state_lock = asyncio.Lock()
    for name, value in state.items():
        target, attribute = (service.store, name[6:]) if name.startswith("store_") else (service, name)
        setattr(target, attribute, value)
    return service


async def ask(name: str, service: Any, route: str, body: Any = None) -> None:
    """Asks a handler, and notes what it answers, what the store was asked, and what the service knows then."""
    response = await getattr(service, f"handle_{route}")(Request(body))
    answer = seen(response.status, response.content_type, response.body)
    if service.store is not None:
        answer["asked"], service.store.calls = service.store.calls, []
    answer["state"] = [service.current_mode, list(service.mounted_segment_ids), sorted(service.last_mount_info)]
    note(name, answer)


BODIES: dict[str, list[Any]] = {
    "put": [{"key": "k", "value": "ü"}, {"key": "k"}, {"value": "v"}, {"key": "", "value": "v"},
            {"key": "k", "value": ""}, {"key": "k", "value": None}, {"key": "k", "value": 7}, {}],
    "get": [None], "exist": [None], "remove": [None], "remove_all": [None],
    "mount": [{"size": 4096}, {"size": 4096, "protocol": "rdma", "location": "cpu:0"}, {}, {"size": 0}, {"size": -1},
              {"size": 1.5}, {"size": "4096"}, {"size": True}, {"size": None}],
    "unmount": [{"segment_ids": ["a", "b"]}, {"segment_ids": "a", "grace_period_seconds": 3}, {}, {"segment_ids": []},
                {"segment_ids": ""}],
    "mount_shm": [{"name": "f", "size": 4096}, {"name": "/f", "size": 4096, "offset": 64, "location": "cpu:0"}, {},
                  {"name": "f"}, {"size": 4096}, {"name": "", "size": 1}, {"name": "..", "size": 1},
                  {"name": "a/b", "size": 1}, {"name": "//f", "size": 1}, {"name": 7, "size": 1}],
    "unmount_shm": [{"segment_ids": ["a"]}, {"segment_ids": "a"}, {}, {"segment_ids": []}],
    "unmount_local_disk": [{}, {"grace_period_seconds": 5}, {"grace_period_seconds": 3600},
                           {"grace_period_seconds": 3601}, {"grace_period_seconds": -1},
                           {"grace_period_seconds": True}, {"grace_period_seconds": "5"}],
    "reconfigure": [{"mode": "decode", "path": "/dev/shm/f", "size": 4096},
                    {"mode": "DECODE", "path": "/dev/shm/f", "size": 4096, "offset": 64, "location": "cpu:0"},
                    {"mode": "prefill"}, {"mode": "Prefill"}, {}, {"mode": "both"}, {"mode": ""}, {"mode": "decode"},
                    {"mode": "decode", "path": "/dev/shm/f"}, {"mode": "decode", "size": 4096},
                    {"mode": "decode", "path": "", "size": 4096}],
}  # fmt: skip


async def with_a_fake_store() -> None:
    for route, bodies in BODIES.items():
        for body in bodies:
            await ask(f"{route} {json.dumps(body)}", bare(), route, body)
        first = bodies[0]
        await ask(f"{route}: the store fails", bare(store_code=-1, store_mount_code=-1, store_there=[-1]), route, first)
        await ask(f"{route}: the store raises", bare(store_crash=True), route, first)
        await ask(f"{route}: there is no store", bare(store=None), route, first)
        if first is not None:
            bad = json.JSONDecodeError("crashed", "{", 1)
            await ask(f"{route}: malformed JSON", bare(), route, bad)
            await ask(f"{route}: no object", bare(), route, [1])
    for name, there, value in (
        ("is not there", [0], b""), ("is empty", [1], b""), ("goes meanwhile", [1, 0], b""),
        ("goes with the master", [1, -1], b""), ("is not read", [1], None),
    ):  # fmt: skip
        await ask(f"get: the object {name}", bare(store_there=there, store_value=value), "get")
    await ask("exist: the object is not there", bare(store_there=[0]), "exist")
    await reconfigurations()


async def reconfigurations() -> None:
    def decode(size: int) -> dict[str, Any]:
        return {"mode": "decode", "path": "/dev/shm/f", "size": size}

    prefill = {"mode": "prefill"}
    service = bare()
    await ask("grow: first", service, "reconfigure", decode(4096))
    await ask("grow: larger", service, "reconfigure", decode(8192))
    await ask("grow: smaller", service, "reconfigure", decode(1024))
    service.store.mount_code = -1
    await ask("grow: the mount fails", service, "reconfigure", decode(2048))
    service.store.mount_code, service.store.stuck = 0, {"new-3"}
    await ask("grow: the unmount fails", service, "reconfigure", decode(512))
    await ask("grow: the unmount fails again", service, "reconfigure", decode(256))
    service.store.stuck = set()
    await ask("grow: the unmount works again", service, "reconfigure", decode(128))
    await ask("grow: prefill", service, "reconfigure", prefill)
    await ask("grow: prefill again", service, "reconfigure", prefill)
    service = bare(current_mode="decode", mounted_segment_ids=["a"], last_mount_info=decode(1))
    service.store.stuck = {"a"}
    await ask("prefill: the unmount fails", service, "reconfigure", prefill)
    service.store.stuck = set()
    await ask("prefill: the unmount works", service, "reconfigure", prefill)
    service = bare(store_mount_code=-1)
    await ask("decode: the first mount fails", service, "reconfigure", decode(1))
    service = bare(current_mode="decode", mounted_segment_ids=["a", "b"], store_stuck={"b"})
    await ask("unmount_shm: one of two", service, "unmount_shm", {"segment_ids": ["a", "b"]})
    service.store.stuck = set()
    await ask("unmount_shm: the last", service, "unmount_shm", {"segment_ids": ["b"]})
    service = bare()
    both = (service.handle_reconfigure(Request(decode(size))) for size in (4096, 8192, 1024, 2048))
    statuses = [r.status for r in await asyncio.gather(*both)]
    calls = [c[0] for c in service.store.calls]
    note("reconfigure: four at once", [statuses, sorted(calls), len(service.mounted_segment_ids)])


class Http:
    """Requests to the routes of a service."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    async def __call__(self, name: str, method: str, path: str, body: Any = None) -> Any:
        """Asks, and notes the answer; its JSON."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        status, kind, content = await asyncio.to_thread(self._ask, method, path, data)
        note(name, seen(status, kind, content))
        return json.loads(content) if kind == "application/json" else content

    def _ask(self, method: str, path: str, data: Any) -> tuple[int, str, bytes]:
        request = urllib.request.Request(self._base + path, data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as r:
                return r.status, r.headers.get_content_type(), r.read()
        except urllib.error.HTTPError as err:
            with err:
                return err.code, err.headers.get_content_type(), err.read()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


async def with_a_pool(pid: int, shm: str) -> None:
    service = MooncakeStoreService()
    note("real: start", await service.start_store_service(max_wait_time=60))
    port = free_port()
    note("real: serve", await service.start_http_service(port))
    http = Http(port)
    await http("real: put", "PUT", "/api/put", {"key": "k", "value": "grüße"})
    await http("real: put again", "PUT", "/api/put", {"key": "k", "value": "other"})
    await http("real: put nothing", "PUT", "/api/put", {"key": "none", "value": ""})
    await http("real: get", "GET", "/api/get/k")
    await http("real: exist", "GET", "/api/exist/k")
    await http("real: remove what is read", "DELETE", "/api/remove/k")
    await http("real: get none", "GET", "/api/get/none")
    await http("real: exist none", "GET", "/api/exist/none")
    await http("real: remove none", "DELETE", "/api/remove/none")
    await http("real: key with a slash", "PUT", "/api/put", {"key": "a/b", "value": "slash"})
    await http("real: get a%2Fb", "GET", "/api/get/a%2Fb")
    await http("real: malformed JSON", "PUT", "/api/put", b"{")
    await http("real: malformed JSON of unmount_local_disk", "POST", "/api/unmount_local_disk", b"{")
    await http("real: no such method", "POST", "/api/put", b"{}")
    await http("real: no such path", "GET", "/api/none")
    await http("real: no key", "GET", "/api/get/")
    mounted = await http("real: mount", "POST", "/api/mount", {"size": 16 * MIB})
    ids = mounted["segment_ids"]
    await http("real: unmount", "POST", "/api/unmount", {"segment_ids": ids})
    await http("real: unmount again", "POST", "/api/unmount", {"segment_ids": ids})
    await http("real: unmount no ID", "POST", "/api/unmount", {"segment_ids": ["no ID"]})
    mounted = await http("real: mount_shm", "POST", "/api/mount_shm", {"name": shm, "size": 16 * MIB})
    await http("real: mount_shm none", "POST", "/api/mount_shm", {"name": shm + "-none", "size": 16 * MIB})
    ids = mounted["segment_ids"]
    await http("real: unmount_shm", "POST", "/api/unmount_shm", {"segment_ids": ids[0]})
    await http("real: unmount_shm again", "POST", "/api/unmount_shm", {"segment_ids": ids[0]})
    await http("real: a size that is text", "POST", "/api/mount_shm", {"name": shm, "size": "16mb"})
    await http("real: an offset below 0", "POST", "/api/mount_shm", {"name": shm, "size": 4096, "offset": -1})
    await http(
        "real: a grace period that is text", "POST", "/api/unmount", {"segment_ids": ids, "grace_period_seconds": "1"}
    )
    await http("real: segments by a number", "POST", "/api/unmount", {"segment_ids": 7})
    await http("real: a mode that is a number", "POST", "/api/reconfigure", {"mode": 7})
    await http("real: a path elsewhere", "POST", "/api/reconfigure", {"mode": "decode", "path": "/none", "size": 4096})
    decode = {"mode": "decode", "path": f"/dev/shm/{shm}", "size": 16 * MIB}
    await http("real: decode", "POST", "/api/reconfigure", decode)
    await http("real: decode the other half", "POST", "/api/reconfigure", decode | {"offset": 16 * MIB})
    await http("real: decode none", "POST", "/api/reconfigure", decode | {"path": f"/dev/shm/{shm}-none"})
    await http("real: decode grows", "POST", "/api/reconfigure", decode | {"size": 32 * MIB})
    await http("real: decode shrinks", "POST", "/api/reconfigure", decode)
    await http("real: prefill", "POST", "/api/reconfigure", {"mode": "prefill"})
    note("real: segments of decode", service.mounted_segment_ids)
    os.kill(pid, signal.SIGKILL)
    await http("dead: get", "GET", "/api/get/k")
    await http("dead: exist", "GET", "/api/exist/k")
    await http("dead: put", "PUT", "/api/put", {"key": "l", "value": "v"})
    await http("dead: remove", "DELETE", "/api/remove/k")
    await http("dead: remove_all", "DELETE", "/api/remove_all")
    await http("dead: mount", "POST", "/api/mount", {"size": 16 * MIB})
    await http("dead: decode", "POST", "/api/reconfigure", decode)
    await http("dead: prefill", "POST", "/api/reconfigure", {"mode": "prefill"})
    await service.stop()
    note("stopped", [service.store])


async def run(pid: int, shm: str) -> None:
    await with_a_fake_store()
    await with_a_pool(pid, shm)


def main(master: str, pid: str, shm: str) -> None:
    logging.basicConfig(level=logging.ERROR)
    os.environ |= {
        "MOONCAKE_MASTER": master, "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE", "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "33554432",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "16777216",
        "MOONCAKE_STORE_REST_FILES": "/dev/shm/",  # without it ours mounts none
    }  # fmt: skip
    asyncio.run(run(int(pid), shm))
    print("ANSWERS " + json.dumps(ANSWERS))


if __name__ == "__main__":
    main(*sys.argv[1:])
