"""The forms of setup, and the TypeErrors that callers read names from."""

import re
import urllib.request
from typing import Any

import pytest
from processes import Master, free_port

from mooncake._store import setup as _setup
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore

INVALID = -600
REQUIRED = (
    "local_hostname",
    "metadata_server",
    "global_segment_size",
    "local_buffer_size",
    "protocol",
    "rdma_devices",
    "master_server_addr",
)
OPTIONAL = (
    "engine",
    "enable_ssd_offload",
    "ssd_offload_path",
    "tenant_id",
    "enable_client_http_server",
    "client_http_port",
)


def arguments(master: Master) -> list[Any]:
    return ["127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", master.rpc]


def works(store: MooncakeDistributedStore, key: str) -> bool:
    fine = store.put(key, b"x") == 0 and store.get(key) == b"x"
    return store.close() == 0 and fine


@pytest.mark.parametrize("positional", [0, 3, 7, 8])
def test_positional_keyword_and_mixed(shared_pool: Master, key: str, positional: int) -> None:
    values = dict(zip((*REQUIRED, "engine"), [*arguments(shared_pool), None], strict=True))
    given = list(values.values())[:positional]
    rest = {name: value for i, (name, value) in enumerate(values.items()) if i >= positional}
    store = MooncakeDistributedStore()
    assert store.setup(*given, **rest) == 0, store.last_error()
    assert works(store, key)


def test_all_thirteen(shared_pool: Master, key: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup(*arguments(shared_pool), None, False, "", "default", False, 9300) == 0
    assert works(store, key)


@pytest.mark.parametrize("as_keyword", [False, True])
def test_dict(shared_pool: Master, key: str, as_keyword: bool) -> None:
    config = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "1.5 mb",
        "local_buffer_size": 16 << 20,
        "protocol": "tcp",
        "rdma_devices": "",
        "master_server_addr": shared_pool.rpc,
        "enable_ssd_offload": False,
        "enable_client_http_server": "no",
        "client_http_port": 9300,
        "something": object(),
    }
    store = MooncakeDistributedStore()
    assert (store.setup(config=config) if as_keyword else store.setup(config)) == 0, store.last_error()
    assert works(store, key)


@pytest.mark.parametrize(
    "changed",
    [
        {"local_hostname": ""},
        {"metadata_server": ""},
        {"global_segment_size": "50%"},
        {"global_segment_size": -1},
        {"global_segment_size": 1023},
        {"local_buffer_size": "2 TB"},
        {"local_buffer_size": "much"},
        {"enable_client_http_server": True, "client_http_port": 0},
        {"enable_client_http_server": "True", "client_http_port": "http"},
    ],
)
def test_dict_that_cannot_be(shared_pool: Master, changed: dict[str, Any]) -> None:
    config = dict(zip(REQUIRED, arguments(shared_pool), strict=True))
    store = MooncakeDistributedStore()
    assert store.setup(config | changed) == INVALID
    assert store.last_error()
    assert (
        store.setup(
            {k: v for k, v in config.items() if k not in changed}
            | {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE"}
        )
        == 0
    )
    assert store.close() == 0


def test_missing_keys_of_the_dict() -> None:
    assert MooncakeDistributedStore().setup({}) == INVALID
    assert MooncakeDistributedStore().setup({"local_hostname": "127.0.0.1"}) == INVALID


def test_positional_form_that_cannot_be(shared_pool: Master) -> None:
    store = MooncakeDistributedStore()
    assert store.setup("", *arguments(shared_pool)[1:]) == INVALID
    assert store.setup(*arguments(shared_pool), enable_client_http_server=True, client_http_port=70000) == INVALID
    assert store.setup(*arguments(shared_pool)) == 0
    assert store.close() == 0


@pytest.mark.parametrize("name", ["tenant", "enable_something_new", "client_http_ports"])
def test_an_unknown_keyword_is_named_and_no_other(shared_pool: Master, name: str) -> None:
    with pytest.raises(TypeError) as e:
        MooncakeDistributedStore().setup(*arguments(shared_pool), **{name: 1})
    assert name in str(e.value)
    assert not [n for n in (*REQUIRED, *OPTIONAL) if n in str(e.value) and n not in name]


WRONG = [
    ("local_hostname", None),
    ("metadata_server", 7),
    ("global_segment_size", "4gb"),
    ("global_segment_size", -1),
    ("local_buffer_size", 1.5),
    ("protocol", None),
    ("rdma_devices", None),
    ("master_server_addr", 50051),
    ("engine", "engine"),
    ("engine", TransferEngine()),
    ("enable_ssd_offload", "True"),
    ("ssd_offload_path", None),
    ("tenant_id", None),
    ("enable_client_http_server", "yes"),
    ("client_http_port", "9300"),
    ("client_http_port", None),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_named_and_no_other(name: str, value: object) -> None:
    given = dict(zip(REQUIRED, ["127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:1"], strict=True)) | {
        name: value
    }
    with pytest.raises(TypeError) as e:
        MooncakeDistributedStore().setup(**given)
    assert re.search(rf"\b{name}\b", str(e.value))
    assert not [n for n in (*REQUIRED, *OPTIONAL) if n != name and n in str(e.value)], str(e.value)


def test_arguments_that_do_not_bind() -> None:
    store = MooncakeDistributedStore()
    with pytest.raises(TypeError, match="master_server_addr"):
        store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "")
    with pytest.raises(TypeError, match="local_hostname"):
        store.setup()
    with pytest.raises(TypeError, match="protocol"):
        store.setup("h", "P2PHANDSHAKE", 0, 0, "tcp", "", "m", protocol="tcp")
    with pytest.raises(TypeError, match="13"):
        store.setup(*range(14))
    with pytest.raises(TypeError, match="config"):
        store.setup(config="text")
    with pytest.raises(TypeError, match="tenant_id"):
        store.setup({}, tenant_id="x")
    with pytest.raises(TypeError):
        store.setup({}, 1)


def test_retry_that_drops_what_the_error_names(shared_pool: Master, key: str) -> None:
    """What SGLang does: an older package does not know all keywords."""
    store, optional = MooncakeDistributedStore(), {"tenant_id": "default", "not_yet_known": 1, "client_http_port": 9300}
    for _ in range(3):
        try:
            code = store.setup(*arguments(shared_pool), None, **optional)
            break
        except TypeError as e:
            dropped = [name for name in optional if name in str(e)]
            assert dropped == ["not_yet_known"]
            for name in dropped:
                del optional[name]
    assert code == 0
    assert works(store, key)


def test_settings_for_the_library() -> None:
    import json

    s = _setup.parse(("h", b"P2PHANDSHAKE", 0, 1, "tcp", "", "m:1"), {"enable_client_http_server": True})
    assert (s.positional, s.engine) == (True, 0)
    assert json.loads(s.text)["enable_client_http_server"] == "true"
    assert json.loads(s.text)["metadata_server"] == "P2PHANDSHAKE"
    s = _setup.parse(({"local_hostname": "h", 5: None, "x": 1.5},), {})
    assert (s.positional, json.loads(s.text)) == (False, {"local_hostname": "h", "5": "None", "x": "1.5"})


def test_engine_is_shared_and_outlives_the_store(shared_pool: Master, key: str) -> None:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    store = MooncakeDistributedStore()
    assert store.setup(name, "P2PHANDSHAKE", 4 << 20, 16 << 20, "tcp", "", shared_pool.rpc, engine.get_engine()) == 0, (
        store.last_error()
    )
    assert store.put(key, b"x" * 1000) == 0
    assert store.get(key) == b"x" * 1000
    assert store.close() == 0
    assert engine.send_probe(name) == 0
    assert (
        store.setup(name, "P2PHANDSHAKE", 4 << 20, 16 << 20, "tcp", "", shared_pool.rpc, engine=engine.get_engine())
        == 0
    )
    del engine
    assert works(store, key + "2")


def test_http_server_of_the_client(shared_pool: Master) -> None:
    port = free_port()
    store = MooncakeDistributedStore()
    assert store.setup(*arguments(shared_pool), enable_client_http_server=True, client_http_port=port) == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
        assert b"healthy" in answer.read()
    assert store.close() == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60)


def test_init_all_is_setup_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    store = MooncakeDistributedStore()
    monkeypatch.setattr(store, "setup", lambda *args: seen.extend(args) or 0)
    assert store.init_all("tcp", "", 1 << 20) == 0
    assert seen == ["localhost:12345", "127.0.0.1:2379", 1 << 20, 1 << 30, "tcp", "", "127.0.0.1:50051"]
    with pytest.raises(TypeError):
        store.init_all(protocol="tcp", device_name="", mount_segment_size=1)
    with pytest.raises(TypeError):
        store.init_all("tcp", "")
