"""Which bytes two parts have in common, against a model that moves element by element."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooncake._tensor.boxes import Box, fragment_count, fragments, overlap, split
from mooncake._tensor.layout import LayoutError

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


def places(box: Box) -> list[tuple[int, ...]]:
    """The elements of a box in the order of its data."""
    return list(product(*(range(s, s + n) for s, n in zip(box.start, box.shape))))


@st.composite
def box_in(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    start = tuple(draw(st.integers(0, n - 1)) for n in shape)
    return Box(start, tuple(draw(st.integers(1, n - s)) for s, n in zip(start, shape)))


@given(st.data(), shapes, st.sampled_from([1, 2, 4]))
def test_fragments_move_each_common_element_once(data: st.DataObject, shape: tuple[int, ...], itemsize: int) -> None:
    src, dst = data.draw(box_in(shape)), data.draw(box_in(shape))
    have, want = places(src), places(dst)
    got: dict[tuple[int, ...], tuple[int, ...]] = {}
    found = list(fragments(src, dst, itemsize))
    for f in found:
        assert f.size > 0 and f.size % itemsize == f.src % itemsize == f.dst % itemsize == 0
        for i in range(f.size // itemsize):
            at = want[f.dst // itemsize + i]
            assert at not in got
            got[at] = have[f.src // itemsize + i]
    assert got == {p: p for p in want if p in set(have)}
    assert len(found) == fragment_count(src, dst)


@given(st.data(), shapes)
def test_equal_parts_are_the_whole(data: st.DataObject, shape: tuple[int, ...]) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    size = data.draw(st.sampled_from([n for n in range(1, 7) if shape[dim] % n == 0]))
    parts = [split(shape, dim, rank, size) for rank in range(size)]
    whole = Box.whole(shape)
    assert sorted(p for part in parts for p in places(part)) == places(whole)
    assert all(overlap(a, b) is None for a in parts for b in parts if a is not b)


def test_what_is_contiguous_is_one_fragment() -> None:
    whole = Box.whole((8, 4, 2))
    assert list(fragments(split(whole.shape, 0, 1, 2), whole, 4)) == [(128, 0, 128)]
    assert list(fragments(whole, whole, 2)) == [(0, 0, 128)]
    assert fragment_count(split(whole.shape, 1, 1, 2), whole) == 8
    assert list(fragments(Box((), ()), Box((), ()), 8)) == [(0, 0, 8)]


@pytest.mark.parametrize(
    ("shape", "dim", "rank", "size"),
    [
        ((4,), 0, 0, 3),
        ((4,), 1, 0, 2),
        ((4,), -1, 0, 2),
        ((4,), 0, 2, 2),
        ((4,), 0, -1, 2),
        ((), 0, 0, 2),
        ((0,), 0, 0, 2),
    ],
)
def test_what_cannot_be_split_into_equal_parts(shape: tuple[int, ...], dim: int, rank: int, size: int) -> None:
    with pytest.raises(LayoutError):
        split(shape, dim, rank, size)
