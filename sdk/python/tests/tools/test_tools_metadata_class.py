"""KVBootstrapServer in this process: over HTTP, and by its handler as upstream's tests call it."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from procs import Package, http

from mooncake import http_metadata_server
from mooncake.http_metadata_server import KVBootstrapServer, KVPoll, parse_args

pytest.importorskip("aiohttp")

RPC_META = "mooncake/rpc_meta/10.0.0.1:12384"


@pytest.fixture
def server() -> Iterator[KVBootstrapServer]:
    server = KVBootstrapServer(port=0, host="127.0.0.1")
    yield server
    server.close()


class Request:
    """As much of a request as the handler looks at."""

    def __init__(self, method: str, key: str | None = None, body: bytes = b"") -> None:
        self.method = method
        self.query = {} if key is None else {"key": key}
        self._body = body

    async def read(self) -> bytes:
        return self._body


def ask(server: KVBootstrapServer, method: str, key: str | None = None, body: bytes = b"") -> Any:
    return asyncio.run(server._handle_metadata(Request(method, key, body)))


def test_states() -> None:
    assert [(s.name, s.value) for s in KVPoll] == [
        ("Failed", 0),
        ("Bootstrapping", 1),
        ("WaitingForInput", 2),
        ("Transferring", 3),
        ("Success", 4),
    ]


def test_defaults_of_the_arguments() -> None:
    assert vars(parse_args([])) == {"port": 8080, "host": "0.0.0.0", "log_level": "INFO"}
    assert KVBootstrapServer(8080).host == "0.0.0.0"


def test_over_http(server: KVBootstrapServer, caplog: pytest.LogCaptureFixture) -> None:
    assert server.poll() is KVPoll.Failed
    with caplog.at_level(logging.INFO):
        thread = server.run()
    assert "HTTP Metadata Server started" in caplog.text
    assert server.poll() is KVPoll.Success
    url = f"http://127.0.0.1:{server.port}/metadata"
    assert http("GET", url) == (400, b"metadata key is required")
    assert http("GET", url + "?key=k") == (404, b"metadata not found")
    value = bytes(range(256)) * 4096
    assert http("PUT", url + "?key=%20k%20", value) == (200, b"metadata updated")
    assert http("GET", url + "?key=k") == (200, value)
    assert http("DELETE", url + "?key=k") == (200, b"metadata deleted")
    assert http("DELETE", url + "?key=k") == (404, b"metadata not found")
    assert http("POST", url + "?key=k", b"")[0] == 405
    server.close()
    server.close()
    assert not thread.is_alive()
    assert server.poll() is KVPoll.Failed


def test_a_port_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = KVBootstrapServer(taken.getsockname()[1], "127.0.0.1")
        with pytest.raises(OSError, match="address already in use"):
            server.run()
    assert "cannot serve on 127.0.0.1" in caplog.text
    assert "started" not in caplog.text
    assert server.thread is not None
    server.thread.join(10)
    assert not server.thread.is_alive()
    assert server.poll() is KVPoll.Failed


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("key", [None, "", "   "])
def test_a_key_is_required(server: KVBootstrapServer, method: str, key: str | None) -> None:
    answer = ask(server, method, key, b"value")
    assert (answer.status, answer.content_type, answer.text) == (400, "application/json", "metadata key is required")
    assert server.store == {}


def test_names_of_nodes_are_not_taken_over(server: KVBootstrapServer) -> None:
    assert ask(server, "PUT", RPC_META, b"1").status == 200
    assert ask(server, "PUT", RPC_META, b"1").status == 200, "the node itself says it again"
    other = ask(server, "PUT", RPC_META, b"2")
    assert (other.status, other.text) == (400, "Duplicate rpc_meta key not allowed")
    assert ask(server, "GET", RPC_META).body == b"1"
    assert ask(server, "DELETE", RPC_META).status == 200
    assert ask(server, "PUT", RPC_META, b"2").status == 200
    assert [ask(server, "PUT", "ram/node", v).status for v in (b"1", b"2")] == [200, 200]


def test_what_it_holds_is_bounded(server: KVBootstrapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in {"MAX_KEYS": 2, "MAX_KEY_SIZE": 4, "MAX_VALUE_SIZE": 10, "MAX_TOTAL_SIZE": 16}.items():
        monkeypatch.setattr(http_metadata_server, name, limit)
    assert ask(server, "PUT", "long-", b"v").status == 413
    assert ask(server, "PUT", "k", b"x" * 11).status == 413
    assert ask(server, "PUT", "k1", b"v").status == 200
    assert ask(server, "PUT", "k2", b"v").status == 200
    assert ask(server, "PUT", "k3", b"v").status == 507
    assert ask(server, "PUT", "k1", b"x" * 10).status == 200
    assert ask(server, "PUT", "k2", b"x" * 10).status == 507
    assert server.store == {"k1": b"x" * 10, "k2": b"v"}


def test_a_body_that_is_too_large(server: KVBootstrapServer) -> None:
    server.run()
    url = f"http://127.0.0.1:{server.port}/metadata?key=k"
    assert http("PUT", url, b"x" * http_metadata_server.MAX_VALUE_SIZE)[0] == 200
    try:
        assert http("PUT", url, b"x" * (http_metadata_server.MAX_VALUE_SIZE + 1))[0] == 413
    except OSError:
        pass  # It may end the connection while the rest is being sent.
    assert len(server.store["k"]) == http_metadata_server.MAX_VALUE_SIZE


def test_without_aiohttp_the_error_names_the_extra(package: Package) -> None:
    code = "from mooncake.http_metadata_server import KVBootstrapServer as K; K(0)"
    done = package.run("-S", "-c", code)
    assert "ImportError: KVBootstrapServer needs aiohttp" in done.stderr
    assert "mooncake-transfer-engine[http]" in done.stderr
