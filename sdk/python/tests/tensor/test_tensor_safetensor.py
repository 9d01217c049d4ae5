"""Tensors between the store and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensor_torch import same, sample, torch

safetensors = pytest.importorskip(
    "safetensors.torch", reason="reads and writes files: needs safetensors, pip install safetensors"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_tensor_is_saved_under_its_key(store: Any, folder: Path) -> None:
    for name, tensor in (("saved", sample()), ("scalar", torch.tensor(2.5)), ("half", sample((3, 5), "bfloat16"))):
        assert store.put_tensor(name, tensor) == 0
        assert store.save_tensor_to_safetensor(name) == 0
        assert store.save_tensor_to_safetensor(key=name, file_name=name + ".safetensors") == 0
        for file in (name, name + ".safetensors"):
            found = safetensors.load_file(folder / file)
            assert list(found) == [name] and same(found[name], tensor)


def test_what_cannot_be_saved_is_a_code(store: Any, folder: Path) -> None:
    assert store.save_tensor_to_safetensor("never put", "x") == -1100
    assert list(folder.iterdir()) == []
    assert store.put_tensor("put", sample()) == 0
    assert store.save_tensor_to_safetensor("put", str(folder / "no such folder" / "x")) == -600
    with pytest.raises(TypeError, match="file_name"):
        store.save_tensor_to_safetensor("put", 5)


@pytest.mark.parametrize(
    ("arguments", "name", "found"),
    [
        ({"file_name": "two.st"}, "two.st", "A"),
        ({"key": "B", "file_name": "two.st"}, "B", "B"),
        ({"key": "C", "file_name": "two.st"}, "C", "A"),
    ],
)
def test_a_tensor_is_loaded_and_stored(
    store: Any, caplog: pytest.LogCaptureFixture, arguments: dict[str, str], name: str, found: str
) -> None:
    saved = {"A": torch.ones(2), "B": torch.zeros(3)}
    safetensors.save_file(saved, "two.st")
    assert same(store.load_tensor_from_safetensor(**arguments), saved[found])
    assert same(store.get_tensor(name), saved[found])
    assert ("took the first one" in caplog.text) == (name == "C")
    assert same(store.load_tensor_from_safetensor(arguments.get("key"), arguments["file_name"]), saved[found])


def test_what_cannot_be_loaded_is_none(store: Any, folder: Path) -> None:
    safetensors.save_file({}, "none.st")
    (folder / "bad.st").write_bytes(b"no")
    safetensors.save_file({"A": torch.ones(2)}, "one.st")
    for file in ("none.st", "bad.st", "absent.st"):
        assert store.load_tensor_from_safetensor("K", file) is None
    assert store.load_tensor_from_safetensor("", "one.st") is None
    assert store.is_exist("K") == 0
    with pytest.raises(TypeError, match="file_name"):
        store.load_tensor_from_safetensor("K")
