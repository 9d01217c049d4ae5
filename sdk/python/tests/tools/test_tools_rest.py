"""Every route of the store service: of the program, and of the class in a Python process."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from procs import PATIENCE, SOURCE, Package
from restservice import IN_PROCESS, Master, Rest

SEGMENT_ID = r"\d+-\d+"
HAS_STORE = (SOURCE / "store.py").is_file() and (SOURCE / "libmooncake.so").is_file()


@pytest.fixture(
    params=[
        "program",
        pytest.param(
            "in_process", marks=pytest.mark.skipif(not HAS_STORE, reason="libmooncake.so is not built: make pydev")
        ),
    ]
)
def rest(request: pytest.FixtureRequest, package: Package) -> Rest:
    if request.param == "in_process":
        pytest.importorskip("aiohttp")
    start: Callable[[Package, Master], Rest] = getattr(Rest, request.param)
    return start(package, Master(package))


@pytest.fixture
def shm() -> Iterator[Path]:
    """A file of 32 MiB in /dev/shm."""
    path = Path("/dev/shm") / f"mooncake-test-{uuid4()}"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 32 << 20)
    yield path
    path.unlink()


def remove(rest: Rest, path: str) -> tuple[int, Any]:
    """Removes as soon as the lease of the last look at it is over."""
    end = time.monotonic() + 20
    while True:
        status, body = rest.ask("DELETE", path)
        if status == 200 or time.monotonic() > end:
            return status, body
        time.sleep(0.05)


def test_objects(rest: Rest) -> None:
    assert rest.ask("PUT", "/api/put", {"key": "a/b c", "value": "grüße"}) == (200, {"status": "success"})
    assert rest.raw("GET", "/api/get/a%2Fb%20c") == (200, "grüße".encode())
    assert rest.ask("PUT", "/api/put", {"key": "a/b c", "value": "other"})[0] == 200
    assert rest.raw("GET", "/api/get/a/b%20c") == (200, "grüße".encode()), "what is there stays"
    assert rest.ask("GET", "/api/exist/a/b%20c") == (200, {"exists": True})
    assert rest.ask("GET", "/api/exist/none") == (200, {"exists": False})
    assert remove(rest, "/api/remove/a/b%20c") == (200, {"status": "success"})
    assert rest.ask("GET", "/api/exist/a/b%20c") == (200, {"exists": False})


def test_remove_all_says_how_many(rest: Rest) -> None:
    for i in range(3):
        assert rest.ask("PUT", "/api/put", {"key": f"k{i}", "value": "v" * 1000})[0] == 200
    assert rest.ask("DELETE", "/api/remove_all") == (200, {"status": "success removed 3 keys"})
    assert rest.ask("DELETE", "/api/remove_all") == (200, {"status": "success removed 0 keys"})


# method, path, body, status, how the error begins
REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("PUT", "/api/put", {"key": "k"}, 400, "Missing key or value"),
    ("PUT", "/api/put", {"value": "v"}, 400, "Missing key or value"),
    ("PUT", "/api/put", {"key": "", "value": "v"}, 400, "Missing key or value"),
    ("PUT", "/api/put", {"key": "k", "value": 7}, 500, "PUT operation failed"),
    ("PUT", "/api/put", {"key": "k", "value": ""}, 500, "PUT operation failed"),
    ("PUT", "/api/put", [1], 500, "Invalid JSON body"),
    ("GET", "/api/get/none", None, 404, "Key not found"),
    ("DELETE", "/api/remove/none", None, 500, "Remove operation failed"),
    ("POST", "/api/mount", {}, 400, "Invalid size"),
    ("POST", "/api/mount", {"size": 0}, 400, "Invalid size"),
    ("POST", "/api/mount", {"size": -1}, 400, "Invalid size"),
    ("POST", "/api/mount", {"size": True}, 400, "Invalid size"),
    ("POST", "/api/mount", {"size": "1gb"}, 400, "Invalid size"),
    ("POST", "/api/mount", {"size": 4096, "protocol": 1}, 400, "Invalid parameters"),
    ("POST", "/api/unmount", {}, 400, "Missing segment_ids"),
    ("POST", "/api/unmount", {"segment_ids": []}, 400, "Missing segment_ids"),
    ("POST", "/api/unmount", {"segment_ids": ["no-id"]}, 500, "Unmount operation failed"),
    ("POST", "/api/unmount", {"segment_ids": ["x"], "grace_period_seconds": -1}, 400, "Invalid grace"),
    ("POST", "/api/mount_shm", {"size": 4096}, 400, "Invalid name"),
    ("POST", "/api/mount_shm", {"name": "../x", "size": 4096}, 400, "Invalid name"),
    ("POST", "/api/mount_shm", {"name": "..", "size": 4096}, 400, "Invalid name"),
    ("POST", "/api/mount_shm", {"name": "//x", "size": 4096}, 400, "Invalid name"),
    ("POST", "/api/mount_shm", {"name": "x"}, 400, "Invalid "),
    ("POST", "/api/mount_shm", {"name": "x", "size": 4096, "offset": -1}, 400, "Invalid offset"),
    ("POST", "/api/mount_shm", {"name": "mooncake-none", "size": 4096}, 500, "Mount shm operation failed"),
    ("POST", "/api/unmount_shm", {}, 400, "Missing segment_ids"),
    ("POST", "/api/unmount_local_disk", {"grace_period_seconds": 3601}, 400, "Invalid grace_period_seconds"),
    ("POST", "/api/unmount_local_disk", {"grace_period_seconds": True}, 400, "Invalid grace_period_seconds"),
    ("POST", "/api/reconfigure", {}, 400, "Invalid mode"),
    ("POST", "/api/reconfigure", {"mode": "both"}, 400, "Invalid mode"),
    ("POST", "/api/reconfigure", {"mode": "decode"}, 400, "Missing path or size"),
    ("POST", "/api/reconfigure", {"mode": "decode", "path": "/dev/shm/x"}, 400, "Missing path or size"),
    ("POST", "/api/reconfigure", {"mode": "DECODE", "path": "/dev/shm/x", "size": 0}, 400, "Invalid size"),
    ("POST", "/api/reconfigure", {"mode": "decode", "path": "/etc/passwd", "size": 4096}, 400, "Invalid parameters"),
    (
        "POST",
        "/api/reconfigure",
        {"mode": "decode", "path": "/dev/shm/../../etc/x", "size": 1},
        400,
        "Invalid parameters",
    ),
]


def test_what_is_refused(rest: Rest) -> None:
    for method, path, body, status, text in REFUSED:
        got, answer = rest.ask(method, path, body)
        assert (got, answer["error"][: len(text)]) == (status, text), (path, body, answer)
    assert rest.raw("POST", "/api/mount", b"{")[0] == 500
    assert rest.raw("POST", "/api/unmount_local_disk", b"{")[0] == 400
    assert rest.ask("POST", "/api/unmount_local_disk", {})[0] == 200, "there is nothing to unmount"
    assert rest.ask("PUT", "/api/put", {"key": "k", "value": "v"})[0] == 200, "it serves as before"


def test_mount_and_unmount(rest: Rest) -> None:
    status, mounted = rest.ask("POST", "/api/mount", {"size": 16 << 20, "protocol": "tcp", "location": "cpu:0"})
    assert (status, mounted["status"]) == (200, "success")
    assert mounted["allocated_size"] >= 16 << 20
    assert all(re.fullmatch(SEGMENT_ID, i) for i in mounted["segment_ids"])
    ids = {"segment_ids": mounted["segment_ids"]}
    assert rest.ask("POST", "/api/unmount", ids) == (200, {"status": "success"})
    again = rest.ask("POST", "/api/unmount", ids)
    assert again[0] == 500
    assert again[1]["error"].startswith("Unmount operation failed")


def test_mount_shm_and_unmount_shm(rest: Rest, shm: Path) -> None:
    status, mounted = rest.ask("POST", "/api/mount_shm", {"name": "/" + shm.name, "size": 16 << 20, "offset": 16 << 20})
    assert (status, mounted["status"]) == (200, "success")
    one, unknown = mounted["segment_ids"][0], "7-7"
    status, answer = rest.ask("POST", "/api/unmount_shm", {"segment_ids": [one, unknown]})
    assert (status, answer["failed_segment_ids"]) == (500, [unknown]), "each for itself"
    status, mounted = rest.ask("POST", "/api/mount_shm", {"name": shm.name, "size": 16 << 20})
    assert status == 200
    assert rest.ask("POST", "/api/unmount_shm", {"segment_ids": mounted["segment_ids"][0]}) == (
        200,
        {"status": "success"},
    )


def test_reconfigure_makes_before_it_breaks(rest: Rest, shm: Path) -> None:
    decode = {"mode": "decode", "path": str(shm), "size": 16 << 20}
    status, first = rest.ask("POST", "/api/reconfigure", decode)
    assert (status, first["status"], first["mode"]) == (200, "success", "decode")
    assert rest.ask("POST", "/api/reconfigure", decode) == (200, first), "the same again changes nothing"
    status, answer = rest.ask("POST", "/api/reconfigure", decode | {"path": "/dev/shm/mooncake-none"})
    assert (status, answer["mode"]) == (500, "decode")
    assert answer["error"].startswith("Reconfigure failed, the previous segments stay")
    status, second = rest.ask("POST", "/api/reconfigure", decode | {"offset": 16 << 20})
    assert status == 200
    assert second["segment_ids"] != first["segment_ids"]
    status, answer = rest.ask("POST", "/api/unmount_shm", {"segment_ids": first["segment_ids"]})
    assert status == 500, "the previous one is unmounted already"
    status, prefill = rest.ask("POST", "/api/reconfigure", {"mode": "prefill"})
    assert (status, prefill["mode"], prefill["segment_ids"]) == (200, "prefill", [])


def test_a_dead_master_is_no_missing_object(package: Package) -> None:
    for start in (Rest.program, Rest.in_process) if HAS_STORE else (Rest.program,):
        master = Master(package)
        rest = start(package, master)
        assert rest.ask("PUT", "/api/put", {"key": "k", "value": "v"})[0] == 200
        master.process.child.kill()
        master.process.child.wait(PATIENCE)
        for method, path in (("GET", "/api/get/k"), ("GET", "/api/get/none"), ("GET", "/api/exist/k")):
            status, answer = rest.ask(method, path)
            assert (status, answer["error_code"] < 0) == (500, True), (start, path, answer)


def test_a_signal_ends_it(rest: Rest) -> None:
    assert rest.process.end() == 0


@pytest.mark.skipif(not HAS_STORE, reason="libmooncake.so is not built: make pydev")
def test_the_class_waits_for_the_master(package: Package) -> None:
    pytest.importorskip("aiohttp")
    master = Master(package, later=True)
    process = package.start("-c", IN_PROCESS, "60", **master.env())
    process.wait_for("waiting for the master")
    master.start()
    assert Rest.of(process).ask("GET", "/api/exist/k") == (200, {"exists": False})


@pytest.mark.skipif(not HAS_STORE, reason="libmooncake.so is not built: make pydev")
def test_the_class_waits_no_longer_than_it_was_told(package: Package) -> None:
    pytest.importorskip("aiohttp")
    process = package.start("-c", IN_PROCESS, "0.5", **Master(package, later=True).env())
    process.wait_for("could not be set up in 0.5 s")
    assert process.child.wait(PATIENCE) == 1
