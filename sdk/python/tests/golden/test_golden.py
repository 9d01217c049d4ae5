"""BufferPool and MooncakeStoreService, compared with upstream's call by call.

The scripts ``*_cases.py`` make the calls and print the answers; the files ``*.json`` are what they
print with upstream's package 0.3.13.post1. Where UPSTREAM_MOONCAKE_PYTHON names an interpreter
that has it, with its mooncake_master beside it, the scripts run there as well, and have to print what
the files say; with UPSTREAM_MOONCAKE_RECORD the files are written first.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from processes import Process, clean_environment, free_port

SCRIPTS = ["buffer_pool", "store_service", "store_service_module"]
HERE = Path(__file__).parent
SCRIPT_S = 300  # bound on a script
UPSTREAM = os.environ.get("UPSTREAM_MOONCAKE_PYTHON")

TYPE_ERROR = {"raises": ["TypeError", "Exception"], "words": []}
NAMES_IT = "an argument of a wrong type is a TypeError that names it"
BAD_REQUEST = "a field of a wrong type is the request's fault, and the store is not asked"


def bad_request(*words: str) -> dict[str, Any]:
    """The answer to a request that is wrong."""
    return {"http": 400, "keys": ["error"], "words": list(words)}


# Where ours answers otherwise on purpose: the answer, and why.
DIFFERENT: dict[str, dict[str, tuple[Any, str]]] = {
    "buffer_pool": {
        "fill max_bytes=1 MiB": (
            {"returns": [1, "exhausted"]},
            "max_bytes counts below the size of the local buffer, too",
        ),
        "BufferPool min_size_class=0": (
            {"raises": ["RuntimeError", "Exception"], "words": ["positive"]},
            "the text names the one argument that is wrong",
        ),
        "BufferPool default_timeout=-1": (
            {"raises": ["RuntimeError", "Exception"], "words": ["non-negative"]},
            "refused by the constructor, where upstream waits for the first acquire",
        ),
        "BufferPool without a local buffer": ({"returns": None}, "its memory is not that of the local buffer"),
        **{
            name: (TYPE_ERROR, NAMES_IT)
            for name in (
                "BufferPool max_size_class=-1", "BufferPool max_size_class='a'", "BufferPool max_regions=-1",
                "BufferPool max_regions='a'", "BufferPool default_timeout='soon'", "BufferPool prewarm_size=-1",
                "exhausted {'timeout': 'soon'}", "exhausted {'block': 'yes', 'timeout': 0.01}",
                "exhausted {'block': [], 'timeout': 0.01}",
            )
        },
    },
    "store_service_module": {},
    "store_service": {
        'unmount {"segment_ids": ""}': (bad_request("Missing segment_ids"), "the empty text is the ID of no segment"),
        "real: a size that is text": (bad_request("name or size"), BAD_REQUEST),
        "real: an offset below 0": (bad_request(), BAD_REQUEST),
        "real: a grace period that is text": (bad_request("Invalid grace_period_seconds"), BAD_REQUEST),
        "real: segments by a number": (bad_request("Missing segment_ids"), BAD_REQUEST),
        "real: a mode that is a number": (bad_request("Invalid mode"), BAD_REQUEST),
        "real: a path elsewhere": (bad_request(), "who reaches the port could have any file overwritten"),
    },
}  # fmt: skip


def source(script: str) -> str:
    """The text of a script, to be run with -c."""
    pytest.importorskip("aiohttp")
    return (HERE / f"{script}_cases.py").read_text()


def answers(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a script has printed."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert (done.returncode, len(lines)) == (0, 1), done.stderr[-4000:]
    return json.loads(lines[0].removeprefix("ANSWERS "))


def agrees(theirs: Any, ours: Any) -> bool:
    """Whether a caller of upstream's finds in our answer what it finds in theirs; ours may say more."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return bool(theirs == ours)
    if "raises" in theirs:
        return theirs["raises"][0] in ours.get("raises", []) and set(theirs["words"]) <= set(ours["words"])
    more = ("keys", "words")
    return all(set(v) <= set(ours.get(k, [])) if k in more else ours.get(k) == v for k, v in theirs.items())


@pytest.fixture
def shm() -> Iterator[Path]:
    """A file of 32 MiB in /dev/shm."""
    path = Path("/dev/shm") / f"mooncake-test-{uuid4()}"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 32 << 20)
    yield path
    path.unlink()


def recorded(script: str) -> dict[str, Any]:
    return json.loads((HERE / f"{script}.json").read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_ours_answers_as_upstream_does(script: str, processes: Any, run_python: Any, shm: Path) -> None:
    master = processes.master("--default_kv_lease_ttl=600000")
    ours = answers(run_python(source(script), master.rpc, str(master.process.pid), shm.name))
    theirs, different = recorded(script), DIFFERENT[script]
    assert set(ours) == set(theirs)
    wrong = {
        name: {"upstream": theirs[name], "ours": ours[name]}
        for name in theirs
        if not agrees(different[name][0] if name in different else theirs[name], ours[name])
    }
    assert wrong == {}
    same = [name for name in different if agrees(theirs[name], ours[name])]
    assert same == [], "these are no differences"


@pytest.mark.skipif(not UPSTREAM, reason="UPSTREAM_MOONCAKE_PYTHON names no interpreter with upstream's package")
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_records_are_upstreams(script: str, tmp_path: Path, shm: Path) -> None:
    assert UPSTREAM
    port, metrics = free_port(), free_port()
    master = Process(
        [
            Path(UPSTREAM).parent / "mooncake_master", f"--rpc_port={port}", f"--metrics_port={metrics}",
            "--default_kv_lease_ttl=600000", "--logtostderr",
        ],
        tmp_path,
    )  # fmt: skip
    try:
        master.wait_line("Master admin server started")
        command = [UPSTREAM, "-c", source(script), f"127.0.0.1:{port}", str(master.pid), shm.name]
        theirs = answers(
            subprocess.run(
                command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=SCRIPT_S,
                check=False,
            )
        )  # fmt: skip
    finally:
        master.kill()
        master.stop()
    if os.environ.get("UPSTREAM_MOONCAKE_RECORD"):
        lines = [f"  {json.dumps(name)}: {json.dumps(theirs[name], ensure_ascii=False)}" for name in theirs]
        (HERE / f"{script}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert theirs == recorded(script)
