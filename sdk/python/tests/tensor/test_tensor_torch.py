"""Tensors as bytes and back, without a store."""

from __future__ import annotations

import ctypes
import gc

import pytest
from tensor_golden import METADATA
from tensor_torch import HERE, object_of, same, sample, torch

from mooncake.store import _deserialize_tensor, _serialize_tensor, _tensor_metadata_size

CASES = [c for c in METADATA if c["dtype"] in HERE]


def test_the_size_of_metadata() -> None:
    assert _tensor_metadata_size() == 304


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['dtype']}{c['shape']}")
def test_metadata_are_those_of_upstream(case: dict) -> None:
    tensor = torch.zeros(case["shape"], dtype=getattr(torch, case["dtype"]))
    head, ptr, size, owner = _serialize_tensor(tensor)
    assert head.hex() == case["hex"]
    assert (ptr, size) == (tensor.data_ptr(), tensor.numel() * tensor.element_size())
    assert owner is tensor


@pytest.mark.parametrize("dtype", HERE)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 4), (1,) * 8], ids=str)
def test_what_is_serialized_is_deserialized(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = sample(shape, dtype)
    assert same(_deserialize_tensor(object_of(tensor)), tensor)


def test_a_tensor_that_is_not_contiguous_is_copied() -> None:
    tensor = sample((4, 6)).T
    _head, ptr, size, owner = _serialize_tensor(tensor)
    assert ptr == owner.data_ptr() != tensor.data_ptr() and owner.is_contiguous() and size == 48
    assert same(_deserialize_tensor(object_of(tensor)), tensor)


def test_a_deserialized_tensor_owns_writable_memory() -> None:
    tensor = _deserialize_tensor(object_of(sample((64, 64))))
    gc.collect()
    tensor += 1
    assert same(tensor, sample((64, 64)) + 1)


def test_gradients_negations_and_subclasses() -> None:
    assert same(_deserialize_tensor(object_of(torch.ones(3, requires_grad=True))), torch.ones(3))
    assert same(_deserialize_tensor(object_of(torch.nn.Parameter(torch.ones(3)))), torch.ones(3))
    imaginary = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert imaginary.is_neg()
    assert same(_deserialize_tensor(object_of(imaginary)), torch.tensor([-2.0, -4.0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: 3,
        lambda: None,
        lambda: [1.0],
        lambda: torch.zeros(2, dtype=torch.complex64),
        lambda: torch.zeros((1,) * 9),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.empty(3, device="meta"),
        lambda: torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8),
    ],
    ids=["int", "None", "list", "complex", "9 dimensions", "sparse", "meta", "quantized"],
)
def test_what_cannot_be_serialized(make: object) -> None:
    with pytest.raises(ValueError, match="unsupported tensor"):
        _serialize_tensor(make())


def test_what_cannot_be_deserialized() -> None:
    data = object_of(sample())
    for wrong in (b"", b"x" * 400, data[:-1], data + b"x", data[:304], b"\0" + data[1:]):
        with pytest.raises(ValueError, match="invalid serialized"):
            _deserialize_tensor(wrong)
    for wrong in ("x", bytearray(data), None):
        with pytest.raises(TypeError, match="data"):
            _deserialize_tensor(wrong)


def test_a_dtype_that_this_pytorch_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = object_of(torch.zeros(2, dtype=torch.bfloat16))
    monkeypatch.delattr(torch, "bfloat16")
    with pytest.raises(ValueError, match="has no bfloat16"):
        _deserialize_tensor(data)
    for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"):
        monkeypatch.delattr(torch, name, raising=False)
    for kind in (torch.int32, torch.int64, torch.bool, torch.float16):
        assert same(_deserialize_tensor(object_of(torch.ones(2).to(kind))), torch.ones(2).to(kind))


def test_the_memory_that_was_handed_out_is_the_tensors() -> None:
    tensor = sample((8,))
    _head, ptr, _size, _owner = _serialize_tensor(tensor)
    ctypes.memmove(ptr, (ctypes.c_int16 * 1)(99), 2)
    assert tensor[0] == 99
