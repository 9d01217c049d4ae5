"""Names, keywords and defaults of the tensor methods are those of upstream; nothing is loaded early."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooncake.store import MooncakeDistributedStore

METHODS = json.loads((Path(__file__).parent / "golden" / "signatures.json").read_text())["methods"]
REQUIRED = inspect.Parameter.empty


@pytest.mark.parametrize("name", METHODS)
def test_a_method_can_be_called_as_upstreams(name: str) -> None:
    own = list(inspect.signature(getattr(MooncakeDistributedStore, name)).parameters.values())[1:]
    for parameter, (keyword, default) in zip(own, METHODS[name], strict=True):
        assert parameter.name == keyword
        if (name, keyword) == ("load_tensor_from_safetensor", "file_name"):
            continue  # Required, but it follows one with a default: the call itself refuses its absence.
        if default is None:
            assert parameter.default is REQUIRED
        elif default == "ReplicateConfig()":
            assert parameter.default is None
        else:
            assert repr(parameter.default) == default
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("name", METHODS)
def test_a_docstring_begins_with_the_signature(name: str) -> None:
    first = inspect.getdoc(getattr(MooncakeDistributedStore, name)).splitlines()[0]
    assert first.startswith(f"{name}(") and ") -> " in first
    for keyword, default in METHODS[name]:
        assert f"{keyword}: " in first
        assert default is None or f"= {default}" in first


def test_there_are_no_calls_for_cuda_memory() -> None:
    assert {n for n in dir(MooncakeDistributedStore) if "tensor" in n} == set(METHODS)


def test_the_import_loads_no_tensor_library(run_python: Callable[..., Any]) -> None:
    code = "import sys, mooncake.store; assert not {'torch', 'numpy', 'safetensors'} & set(sys.modules)"
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_without_pytorch_writes_are_codes_and_misses_none(run_python: Callable[..., Any]) -> None:
    code = """
import sys
sys.modules["torch"] = None
from mooncake.store import MooncakeDistributedStore, _serialize_tensor
s = MooncakeDistributedStore()
assert s.put_tensor("k", 3) == -600 and s.get_tensor("k") is None
try:
    _serialize_tensor(3)
except ValueError as e:
    assert "torch.Tensor is needed" in str(e), e
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
