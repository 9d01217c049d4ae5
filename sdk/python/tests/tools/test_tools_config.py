"""MooncakeConfig: files, variables, and what is refused."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooncake import mooncake_config
from mooncake.mooncake_config import (
    DEFAULT_GLOBAL_SEGMENT_SIZE,
    DEFAULT_LOCAL_BUFFER_SIZE,
    MooncakeConfig,
    _parse_bool,
    _parse_segment_size,
)

LEAST = {"local_hostname": "node-1", "metadata_server": "P2PHANDSHAKE", "master_server_address": "m:50051"}
GIVEN = {
    "local_hostname": "node-1:12345",
    "metadata_server": "http://m:8080/metadata",
    "global_segment_size": 1 << 30,
    "local_buffer_size": 1 << 20,
    "protocol": "rdma",
    "device_name": "mlx5_0,mlx5_1",
    "master_server_address": "m:50051",
    "enable_ssd_offload": True,
    "ssd_offload_path": "/nvme/kv",
    "tenant_id": "team-a",
    "enable_client_http_server": True,
    "client_http_port": 19300,
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment around the tests counts."""
    for name in ("MOONCAKE_CONFIG_PATH", *mooncake_config._VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)


def file(tmp_path: Path, content: Any) -> str:
    path = tmp_path / "store.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_defaults() -> None:
    assert (DEFAULT_GLOBAL_SEGMENT_SIZE, DEFAULT_LOCAL_BUFFER_SIZE) == (3355443200, 1073741824)


def test_every_field_of_a_file(tmp_path: Path) -> None:
    assert vars(MooncakeConfig.from_file(file(tmp_path, GIVEN))) == GIVEN


def test_a_file_needs_three_fields(tmp_path: Path) -> None:
    config = MooncakeConfig.from_file(file(tmp_path, LEAST))
    assert vars(config) == LEAST | {
        "global_segment_size": 3355443200,
        "local_buffer_size": 1073741824,
        "protocol": "tcp",
        "device_name": "",
        "enable_ssd_offload": False,
        "ssd_offload_path": "",
        "tenant_id": "default",
        "enable_client_http_server": False,
        "client_http_port": 9300,
    }
    for name in LEAST:
        with pytest.raises(ValueError, match=f"Missing required config field: {name}"):
            MooncakeConfig.from_file(file(tmp_path, {k: v for k, v in LEAST.items() if k != name}))


def test_null_is_the_default_where_upstream_says_so(tmp_path: Path) -> None:
    config = MooncakeConfig.from_file(file(tmp_path, LEAST | {"ssd_offload_path": None, "tenant_id": None}))
    assert (config.ssd_offload_path, config.tenant_id) == ("", "default")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"protocol": ""}, "Invalid protocol"),
        ({"protocol": "  "}, "Invalid protocol"),
        ({"protocol": None}, "Invalid protocol"),
        ({"protocol": 7}, "Invalid protocol"),
        ({"global_segment_size": -1}, "global_segment_size"),
        ({"global_segment_size": "much"}, "global_segment_size.*much"),
        ({"global_segment_size": None}, "global_segment_size"),
        ({"local_buffer_size": -1024}, "local_buffer_size"),
        ({"local_buffer_size": "-1kb"}, "local_buffer_size"),
        ({"local_hostname": " "}, "local_hostname"),
        ({"metadata_server": ""}, "metadata_server"),
        ({"master_server_address": None}, "master_server_address"),
        ({"enable_ssd_offload": "maybe"}, "enable_ssd_offload.*maybe"),
        ({"enable_client_http_server": 2}, "enable_client_http_server"),
        ({"client_http_port": "http"}, "client_http_port.*http"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MooncakeConfig.from_file(file(tmp_path, LEAST | more))


def test_a_file_that_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON object"):
        MooncakeConfig.from_file(file(tmp_path, [1]))
    with pytest.raises(OSError, match="absent"):
        MooncakeConfig.from_file(str(tmp_path / "absent.json"))


@pytest.mark.parametrize(
    ("text", "is_"), [("RDMA", "rdma"), ("  Tcp ", "tcp"), ("nvlink_intra", "nvlink_intra"), ("rpc_only", "rpc_only")]
)
def test_known_protocols_are_lowered_without_a_warning(text: str, is_: str, caplog: pytest.LogCaptureFixture) -> None:
    assert MooncakeConfig(**(GIVEN | {"protocol": text})).protocol == is_
    assert not caplog.records


def test_an_unknown_protocol_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger=mooncake_config.logger.name):
        assert MooncakeConfig(**(GIVEN | {"protocol": "RMDA"})).protocol == "rmda"
    assert "Unrecognised protocol" in caplog.text


def test_the_environment_needs_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Neither .*'MOONCAKE_CONFIG_PATH' nor 'MOONCAKE_MASTER' is set"):
        MooncakeConfig.load_from_env()
    monkeypatch.setenv("MOONCAKE_MASTER", "m:50051")
    config = MooncakeConfig.load_from_env()
    assert (config.local_hostname, config.metadata_server, config.protocol) == ("localhost", "P2PHANDSHAKE", "tcp")
    assert (config.global_segment_size, config.local_buffer_size) == (3355443200, 1073741824)
    assert config.master_server_address == "m:50051"


def test_every_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, variable in mooncake_config._VARIABLES.items():
        monkeypatch.setenv(variable, str(GIVEN[name]))
    assert vars(MooncakeConfig.load_from_env()) == GIVEN


def test_the_file_of_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", "other:1")
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", file(tmp_path, LEAST))
    assert MooncakeConfig.load_from_env().master_server_address == "m:50051"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_MASTER", "m:50051")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "50%")
    with pytest.raises(ValueError, match="MOONCAKE_GLOBAL_SEGMENT_SIZE.*50%"):
        MooncakeConfig.load_from_env()


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1024, 1024),
        (0, 0),
        (1.5, 1),
        ("1024", 1024),
        ("  2048  ", 2048),
        ("4096b", 4096),
        ("4096B", 4096),
        ("1kb", 1 << 10),
        ("512k", 512 << 10),
        ("1.5kb", 1536),
        ("512MB", 512 << 20),
        ("1m", 1 << 20),
        ("3GB", 3 << 30),
        ("1g", 1 << 30),
        ("1.5gb", 3 << 29),
        ("  3 gb  ", 3 << 30),
        ("16 GB", 16 << 30),
        ("1tb", 1 << 40),
        ("1t", 1 << 40),
        ("1.5", 1),
        ("1e9", 10**9),
        ("50gb", 50 << 30),
        ("17179869184", 1 << 34),
    ],
)
def test_sizes(value: Any, size: int) -> None:
    assert _parse_segment_size(value) == size


@pytest.mark.parametrize(
    "value", ["", "   ", "gb", "mb", "abc", "1 g b", "1gib", "inf", "nan", "infinity gb", None, [], "4gb!"]
)
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(ValueError, match="invalid size"):
        _parse_segment_size(value)


@given(
    number=st.integers(0, 1 << 60),
    unit=st.sampled_from(["", "b", "k", "kb", "m", "mb", "g", "gb", "t", "tb"]),
    upper=st.booleans(),
    blanks=st.text(" \t", max_size=3),
)
def test_whole_numbers_are_exact(number: int, unit: str, upper: bool, blanks: str) -> None:
    power = "bkmgt".index(unit[0]) if unit else 0
    text = f"{blanks}{number}{blanks}{unit.upper() if upper else unit}{blanks}"
    assert _parse_segment_size(text) == number * 1024**power


@given(st.text(max_size=20) | st.from_regex(r"\s*[0-9.eE+-]*\s*[kKmMgGtT]?[bB]?\s*", fullmatch=True))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    try:
        size = _parse_segment_size(text)
    except ValueError as err:
        assert "invalid size" in str(err)
    else:
        assert isinstance(size, int)


@pytest.mark.parametrize("value", [True, 1, "1", "true", "True", "YES", " on ", "enable"])
def test_true(value: Any) -> None:
    assert _parse_bool(value) is True


@pytest.mark.parametrize("value", [False, 0, None, "", " ", "0", "false", "False", "no", "off", "Disable"])
def test_false(value: Any) -> None:
    assert _parse_bool(value) is False


@pytest.mark.parametrize("value", ["maybe", "tru", 2, "-1", 1.5, [], "ja"])
def test_neither(value: Any) -> None:
    with pytest.raises(ValueError, match="invalid bool"):
        _parse_bool(value)
