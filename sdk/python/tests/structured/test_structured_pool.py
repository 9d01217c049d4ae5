"""Structured objects in a pool: chunks, ranges of registered memory, a buffer pool, tensors."""

import ctypes

import pytest

np = pytest.importorskip("numpy")

from structured_golden import DATA, equal

from mooncake.store import BufferPool
from mooncake.structured_object_store import MooncakeBundleTransfer, raw_destination


@pytest.mark.parametrize("name", sorted(DATA))
def test_every_kind_of_field_comes_back(store, key, name):
    transfer = MooncakeBundleTransfer(store, key, 64)
    ref = transfer.put(DATA[name])
    assert equal(transfer.get(ref), {"batch": {}, "non_tensor_batch": {}, "meta_info": {}, **DATA[name]})
    transfer.cleanup_dataproto(ref)
    assert store.remove_by_regex(f"^{key}/.*", True) == 0


def test_large_arrays_whole_in_rows_and_into_memory_of_the_caller(store, key):
    transfer = MooncakeBundleTransfer(store, key, 1 << 16)
    array = np.arange(1 << 18, dtype=np.int64).reshape(1 << 10, -1)
    ref = transfer.put({"batch": {"a": array}})
    assert np.array_equal(transfer.get(ref)["batch"]["a"], array)
    for numbers in ([1023, 0, 511, 0], slice(100, 900), slice(3, None, 7)):
        assert np.array_equal(transfer.get(ref, rows=numbers)["batch"]["a"], array[numbers])
    memory = (ctypes.c_ubyte * array.nbytes)()
    assert store.register_buffer(ctypes.addressof(memory), array.nbytes) == 0
    into = raw_destination(ctypes.addressof(memory), array.nbytes, memory, pre_registered=True)
    got = transfer.get(ref, destinations={"a": into})["batch"]["a"]
    assert got.ctypes.data == ctypes.addressof(memory)
    assert np.array_equal(got, array)
    assert store.unregister_buffer(ctypes.addressof(memory)) == 0
    with pytest.raises(ValueError, match="its destination has 8"):
        transfer.get(ref, destinations={"a": raw_destination(ctypes.addressof(memory), 8, memory)})


def test_results_lie_in_a_buffer_pool_until_they_are_released(store, key):
    with BufferPool(store, max_bytes=1 << 22, alignment=1 << 16, block_on_exhaustion=False) as pool:
        transfer = MooncakeBundleTransfer(store, key, 1 << 14, pool)
        ref = transfer.put({"batch": {"a": np.arange(1 << 14)}})
        got = transfer.get(ref)
        assert np.array_equal(got["batch"]["a"], np.arange(1 << 14))
        with pytest.raises(RuntimeError, match="active leases"):
            pool.close()
        transfer.release_result(got)
        transfer.release_result(got)


def test_tensors(store, key):
    torch = pytest.importorskip("torch", reason="moves tensors: needs PyTorch, pip install torch")
    transfer = MooncakeBundleTransfer(store, key, 512)
    tensor = torch.arange(4096, dtype=torch.int64).reshape(64, 64)
    ref = transfer.put({"batch": {"t": tensor, "h": torch.ones(64, dtype=torch.bfloat16)}})
    got = transfer.get(ref)["batch"]
    assert torch.equal(got["t"], tensor)
    assert got["h"].dtype == torch.bfloat16
    assert torch.equal(transfer.get(ref, rows=[63, 5])["batch"]["t"], tensor[[63, 5]])
    assert torch.equal(transfer.get_object(transfer.put_object(torch.tensor(5.0))), torch.tensor(5.0))
