"""The bytes of metadata and manifests, without PyTorch."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_golden import METADATA, OBJECTS

from mooncake._tensor.layout import (
    DTYPES,
    METADATA_SIZE,
    Axis,
    LayoutError,
    Manifest,
    TensorMetadata,
    dtype_number,
)

NO_DIM = struct.pack("<q", -1)


def hand_made(**change: int) -> bytes:
    """A tensor of int16, (4, 2), part 3 of 4 along dimension 1 of one of (4, 8), number for number."""
    f = {"magic": 0x4D4F4F4E, "version": 1, "size": 304, "dtype": 4, "ndim": 2, "kind": 1, "data": 304, "nbytes": 16}
    f |= {
        "whole0": 4,
        "whole1": 8,
        "part0": 4,
        "part1": 2,
        "rest": -1,
        "axes": 1,
        "axis": 1,
        "place": 0,
        "rank": 3,
        "count": 4,
        "dim": 1,
    } | change
    head = struct.pack("<I", f["magic"]) + struct.pack("<HH", f["version"], f["size"])
    head += struct.pack("<ii", f["dtype"], f["ndim"]) + struct.pack("<II", f["kind"], 0)
    head += struct.pack("<QQ", f["data"], f["nbytes"])
    head += struct.pack("<qq", f["whole0"], f["whole1"]) + struct.pack("<q", f["rest"]) + 5 * NO_DIM
    head += struct.pack("<qq", f["part0"], f["part1"]) + 6 * NO_DIM
    head += struct.pack("<II", f["axes"], 0)
    head += struct.pack("<iiiiiiq", f["axis"], f["place"], f["rank"], f["count"], f["dim"], 0, 2)
    return head + bytes(3 * 32)


SHARD = TensorMetadata(4, (4, 2), (4, 8), (Axis(1, 3, 4, 1, 0, 2),), is_shard=True)


def test_the_bytes_of_a_shard_are_these() -> None:
    assert len(hand_made()) == METADATA_SIZE == 304
    assert SHARD.pack() == hand_made()
    assert TensorMetadata.parse(hand_made(), 304 + 16) == SHARD


@pytest.mark.parametrize("case", METADATA, ids=lambda c: f"{c['dtype']}{c['shape']}")
def test_metadata_are_those_of_upstream(case: dict) -> None:
    made = TensorMetadata.full(dtype_number(case["dtype"]), tuple(case["shape"]))
    assert made.pack().hex() == case["hex"]
    assert TensorMetadata.parse(bytes.fromhex(case["hex"])) == made


@pytest.mark.parametrize("case", OBJECTS, ids=lambda c: f"{c['case']}: {c['key']}")
def test_objects_of_upstream_are_read_and_come_out_the_same(case: dict) -> None:
    data = bytes.fromhex(case["hex"])
    if case["key"].endswith("_manifest"):
        assert Manifest.parse(data).pack() == data
    else:
        assert TensorMetadata.parse(data, len(data)).pack() == data[:METADATA_SIZE]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"magic": 0x4D4F4F4F}, "not a tensor"),
        ({"version": 2}, "version 2"),
        ({"size": 303}, "303 bytes"),
        ({"data": 305}, "data at 305"),
        ({"dtype": 15}, "dtype number 15"),
        ({"dtype": -1}, "dtype number -1"),
        ({"ndim": 9}, "9 dimensions"),
        ({"ndim": -1}, "-1 dimensions"),
        ({"ndim": 1}, "not one of 1 dimensions"),
        ({"ndim": 3}, "not one of 3 dimensions"),
        ({"rest": 0}, "not one of 2 dimensions"),
        ({"kind": 2}, "layout kind 2"),
        ({"kind": 0}, "full tensor with axes"),
        ({"kind": 0, "axes": 0}, "two shapes"),
        ({"nbytes": 17}, "17 bytes of data"),
        ({"part0": -4, "part1": -2}, "not one of 2 dimensions"),
        ({"part0": 1, "part1": 8, "whole1": 7}, "larger than the tensor"),
        ({"part0": 2**62, "whole0": 2**62}, "bytes of data"),
        ({"axes": 5}, "5 axes"),
        ({"axes": 2}, "axis 1"),
        ({"axis": 4}, "kind 4"),
        ({"rank": 4}, "rank 4 of 4"),
        ({"rank": -1}, "rank -1 of 4"),
        ({"dim": 2}, "split_dim 2"),
        ({"dim": -2}, "split_dim -2"),
    ],
)
def test_wrong_metadata_are_refused_with_the_reason(change: dict[str, int], word: str) -> None:
    with pytest.raises(LayoutError, match=word):
        TensorMetadata.parse(hand_made(**change))


def test_the_size_of_the_object_must_agree() -> None:
    for size in (303, 319, 321):
        with pytest.raises(LayoutError, match=f"object of {size} bytes"):
            TensorMetadata.parse(hand_made(), size)
    with pytest.raises(LayoutError, match="303 bytes are too few"):
        TensorMetadata.parse(hand_made()[:303])


def test_what_there_is_no_room_for_is_refused() -> None:
    with pytest.raises(LayoutError, match="9 dimensions"):
        TensorMetadata.full(0, (1,) * 9).pack()
    with pytest.raises(LayoutError, match="complex64"):
        dtype_number("complex64")


shapes = st.lists(st.integers(0, 9), max_size=8).map(tuple)


@st.composite
def metadata(draw: st.DrawFn) -> TensorMetadata:
    dtype = draw(st.integers(0, len(DTYPES) - 1))
    whole = draw(shapes)
    if draw(st.booleans()):
        return TensorMetadata.full(dtype, whole)
    part = tuple(draw(st.integers(0, n)) for n in whole)
    axes = []
    for kind in draw(st.lists(st.integers(0, 3), unique=True, max_size=4)):
        size = draw(st.integers(1, 2**31 - 1))
        dim = draw(st.integers(-1, len(whole) - 1))
        number = st.integers(-(2**31), 2**31 - 1)
        axes.append(Axis(kind, draw(st.integers(0, size - 1)), size, dim, draw(number), draw(number)))
    return TensorMetadata(dtype, part, whole, tuple(axes), is_shard=True)


@given(metadata())
def test_what_is_written_is_read(made: TensorMetadata) -> None:
    assert TensorMetadata.parse(made.pack(), METADATA_SIZE + made.nbytes) == made


@given(shapes.filter(len), st.data())
def test_a_manifest_that_is_written_is_read(shape: tuple[int, ...], data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.sampled_from([n for n in range(1, 10) if shape[dim] % n == 0]))
    made = Manifest(data.draw(st.integers(0, 14)), shape, dim, count)
    assert len(made.pack()) == 96
    assert Manifest.parse(made.pack()) == made
    with pytest.raises(LayoutError):
        Manifest.parse(made.pack()[:-1])


@given(st.binary(max_size=400), st.none() | st.integers(0, 2**64))
def test_any_bytes_are_metadata_or_refused(data: bytes, size: int | None) -> None:
    try:
        TensorMetadata.parse(data, size)
    except LayoutError:
        pass


@given(metadata(), st.lists(st.tuples(st.integers(0, 303), st.integers(0, 255)), min_size=1, max_size=4))
def test_spoilt_metadata_are_refused_or_mean_what_they_say(made: TensorMetadata, spoils: list[tuple[int, int]]) -> None:
    data = bytearray(made.pack())
    for at, value in spoils:
        data[at] = value
    try:
        found = TensorMetadata.parse(bytes(data))
    except LayoutError:
        return
    assert TensorMetadata.parse(found.pack()) == found
    assert all(n >= 0 for n in found.shape) and found.nbytes >= 0
    assert struct.unpack_from("<Q", data, 32)[0] == found.nbytes


@given(st.binary(min_size=96, max_size=96), st.booleans())
def test_any_bytes_are_a_manifest_or_refused(data: bytes, with_magic: bool) -> None:
    if with_magic:
        data = struct.pack("<IHH", 0x574D414E, 1, 96) + data[8:]
    try:
        found = Manifest.parse(data)
    except LayoutError:
        return
    assert found.global_shape[found.split_dim] % found.parts == 0
