"""The command lines and probes of KEP-74 and of SGLang, on loopback."""

import json
import os
import re
import socket
from pathlib import Path

import pytest
from processes import free_port
from procs import Package, eventually, http
from restservice import Master

MASTER = (
    "mooncake_master --rpc_address $(POD_IP) --rpc_port 50051 --http_metadata_server_host $(POD_IP) "
    "--http_metadata_server_port 8080 {enable}--metrics_port 9003"
)
STORES = [
    "python -m mooncake.mooncake_store_service --port 8080",
    "python3 -m mooncake.mooncake_store_service --port 8088",
]


def line(text: str, ports: dict[str, int]) -> str:
    """The line as Kubernetes makes it for a pod of 127.0.0.1, with ports that are free."""
    text = text.replace("$(POD_IP)", "127.0.0.1")
    for given, port in ports.items():
        text = re.sub(rf"\b{given}\b", str(port), text)
    return text


def connects(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


@pytest.mark.parametrize("store_line", STORES)
def test_master_and_stores(package: Package, binary: Path, store_line: str) -> None:
    ports = {name: free_port() for name in ("50051", "8080", "9003")}
    master = package.shell(line(MASTER.format(enable="--enable_http_metadata_server "), ports))
    metadata, admin = f"http://127.0.0.1:{ports['8080']}/metadata", f"http://127.0.0.1:{ports['9003']}"
    eventually(lambda: connects(ports["50051"]) and connects(ports["8080"]) and connects(ports["9003"]))
    assert http("GET", metadata)[0] == 400, "SGLang's readiness loop asks without a key"
    assert http("GET", admin + "/get_all_segments") == (200, b""), "no store is there yet"

    stores = []
    for _ in range(3):
        port = free_port()
        env = {
            "MOONCAKE_MASTER": f"127.0.0.1:{ports['50051']}",
            "MOONCAKE_TE_META_DATA_SERVER": metadata,
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": "67108864",
            "MOONCAKE_LOCAL_BUFFER_SIZE": "4194304",
            "MOONCAKE_PROTOCOL": "tcp",
            "MOONCAKE_DEVICE": "",
            "MC_MS_AUTO_DISC": "0",
            "POD_IP": "127.0.0.1",
        }
        stores.append(package.shell(line(store_line, {store_line.split()[-1]: port}), **env))
        eventually(lambda port=port: connects(port))
    segments = http("GET", admin + "/get_all_segments")[1].decode().split()
    assert len(segments) == len(set(segments)) == 3
    assert all(re.fullmatch(r"localhost:\d+", s) for s in segments), "local_hostname is left at its default"
    for process in [*stores, master]:
        assert os.path.samefile(process.exe(), binary), "what the container's first process became"
        assert process.end() == 0


def test_the_keps_own_snippet_has_no_metadata_server(package: Package) -> None:
    ports = {name: free_port() for name in ("50051", "8080", "9003")}
    master = package.shell(line(MASTER.format(enable=""), ports))
    eventually(lambda: connects(ports["50051"]) and connects(ports["9003"]))
    with pytest.raises(OSError, match="refused"):
        connects(ports["8080"])
    assert master.end() == 0


def test_a_store_with_a_file(package: Package, binary: Path, tmp_path: Path) -> None:
    master = Master(package)
    config = tmp_path / "store.json"
    config.write_text(
        json.dumps(
            {
                "local_hostname": "absent.invalid",
                "metadata_server": f"http://127.0.0.1:{master.metadata}/metadata",
                "master_server_address": f"127.0.0.1:{master.rpc}",
                "global_segment_size": "64mb",
                "local_buffer_size": 0,
                "protocol": "tcp",
                "device_name": "",
            }
        )
    )
    port = free_port()
    args = ["-m", "mooncake.mooncake_store_service", "--config", str(config), "--port", str(port), "--max-wait-time=20"]
    store = package.start(*args, "--define=local_hostname=127.0.0.1")
    eventually(lambda: connects(port))
    assert os.path.samefile(store.exe(), binary), "the process that was started is the binary"
    assert http("GET", f"http://127.0.0.1:{master.admin}/get_all_segments")[1].startswith(b"127.0.0.1:")
    assert store.end() == 0


def test_without_a_master_the_store_says_what_is_missing(package: Package) -> None:
    done = package.run("-m", "mooncake.mooncake_store_service", "--port", "0")
    assert done.returncode == 1
    assert "MOONCAKE_MASTER" in done.stderr


def test_a_master_that_does_not_come_ends_the_wait(package: Package) -> None:
    args = ["-m", "mooncake.mooncake_store_service", "--port", str(free_port()), "--max-wait-time", "1"]
    done = package.run(*args, MOONCAKE_MASTER=f"127.0.0.1:{free_port()}", MOONCAKE_GLOBAL_SEGMENT_SIZE="16mb")
    assert done.returncode != 0
    assert "master" in done.stderr


def test_the_scripts_need_no_other_package(package: Package) -> None:
    """-S leaves out site-packages: a machine that has the package only."""
    done = package.run("-S", "-m", "mooncake.mooncake_store_service", "--version")
    assert done.returncode == 0, done.stderr
    code = "import sys, mooncake.mooncake_store_service, mooncake.http_metadata_server; print('mooncake.store' in sys.modules)"
    assert package.run("-S", "-c", code).stdout == "False\n", "nothing of the store is loaded for it"
