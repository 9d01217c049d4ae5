"""concat_arrays_into: the same answers as upstream's, and errors where upstream would copy pointers or crash."""

import pytest

np = pytest.importorskip("numpy")

from mooncake._fast_copy import concat_arrays_into

ARRAYS = [np.arange(1, 4, dtype=np.int32), np.arange(4, 6, dtype=np.int32)]


@pytest.mark.parametrize(
    ("rest", "copied", "content"),
    [
        ((32,), 20, [1, 2, 3, 4, 5, 5, 6, 7]),
        ((20,), 20, [1, 2, 3, 4, 5, 5, 6, 7]),
        ((-1,), 20, [1, 2, 3, 4, 5, 5, 6, 7]),
        ((32, 1), 8, [4, 5, 2, 3, 4, 5, 6, 7]),
        ((32, 0, 9), 20, [1, 2, 3, 4, 5, 5, 6, 7]),
        ((32, -1, 1), 12, [1, 2, 3, 3, 4, 5, 6, 7]),
        ((32, 0, 0), 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        ((32, 3, 1), 0, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_bytes_and_count(rest, copied, content):
    out = np.arange(8, dtype=np.int32)
    assert concat_arrays_into(ARRAYS, out.ctypes.data, *rest) == copied
    assert out.tolist() == content


def test_an_array_may_overlap_its_destination():
    out = np.arange(8, dtype=np.int32)
    assert concat_arrays_into([out[:4]], out.ctypes.data + 4, 28) == 16
    assert out.tolist() == [0, 0, 1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    ("arrays", "capacity", "error", "text"),
    [
        (ARRAYS, 19, ValueError, "destination buffer too small: need 20 bytes, got 19"),
        ([ARRAYS[0], b"1234"], 32, TypeError, r"arrays\[1\] is not an ndarray"),
        ([np.arange(6)[::2]], 32, ValueError, r"arrays\[0\] is not C-contiguous"),
        ([np.array([object()])], 32, TypeError, r"arrays\[0\] holds objects"),
        (tuple(ARRAYS), 32, TypeError, "must be list, not tuple"),
    ],
)
def test_what_is_refused_copies_nothing(arrays, capacity, error, text):
    out = np.arange(8, dtype=np.int32)
    with pytest.raises(error, match=text):
        concat_arrays_into(arrays, out.ctypes.data, capacity)
    assert out.tolist() == list(range(8))


@pytest.mark.parametrize("address", [0, 1 << 46, (1 << 64) - 8, -1])
def test_an_address_that_is_no_host_memory_is_refused(address):
    """As that of a GPU: nothing of this process lies there."""
    with pytest.raises(ValueError, match="no host memory; copy into host memory first"):
        concat_arrays_into(ARRAYS, address, 20)
    assert concat_arrays_into([], address, 0) == 0
