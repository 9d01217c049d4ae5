"""Puts and gets of bytes, and the questions about keys."""

import array
import threading

import pytest

from mooncake.store import BufferHandle, MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore
MISSING = -704
INVALID = -600
LEASED = -706


@pytest.mark.parametrize(
    "value", [b"bytes", bytearray(b"bytes"), memoryview(b"xbytes")[1:], array.array("B", b"bytes")]
)
def test_put_takes_what_has_bytes(store: Store, key: str, value: object) -> None:
    assert store.put(key, value) == 0
    assert store.get(key) == b"bytes"


def test_put_positional_and_keyword(store: Store, key: str) -> None:
    assert store.put(key + "1", b"a", ReplicateConfig()) == 0
    assert store.put(key=key + "2", value=b"b", config=ReplicateConfig()) == 0
    assert store.put(key + "3", value=b"c") == 0
    assert store.get_batch([key + "1", key + "2", key + "3", key + "4"]) == [b"a", b"b", b"c", b""]


def test_values_of_wider_items_are_their_bytes(store: Store, key: str) -> None:
    value = array.array("I", range(100))
    assert store.put(key, value) == 0
    assert store.get(key) == value.tobytes()


def test_upsert_replaces(store: Store, key: str) -> None:
    assert store.upsert(key, b"one") == 0
    assert store.upsert(key=key, value=b"three") == 0
    assert store.get(key) == b"three"
    assert store.upsert_parts(key, b"a", b"b", config=ReplicateConfig()) == 0
    assert store.get(key) == b"ab"
    assert store.upsert_batch([key, key + "2"], [b"x", b"y"]) == 0
    assert store.upsert_batch(keys=[key], values=[b"z"], config=ReplicateConfig()) == 0
    assert store.get_batch([key, key + "2"]) == [b"z", b"y"]


def test_put_parts(store: Store, key: str) -> None:
    assert store.put_parts(key, b"meta", bytearray(b"data"), memoryview(b"end")) == 0
    assert store.get(key) == b"metadataend"
    assert store.put_parts(key + "2", b"x", config=ReplicateConfig()) == 0


def test_put_parts_refuses_other_memory(store: Store, key: str) -> None:
    for part in (array.array("I", [1]), memoryview(bytes(4)).cast("B", (2, 2))):
        with pytest.raises(RuntimeError, match="1-D bytes-like"):
            store.put_parts(key, b"x", part)
    with pytest.raises(TypeError, match=r"parts\[1\]"):
        store.put_parts(key, b"x", "text")
    assert store.is_exist(key) == 0


def test_put_batch_answers_one_code(store: Store, key: str) -> None:
    keys = [f"{key}{i}" for i in range(3)]
    assert store.put_batch(keys, [b"a", b"b", b"c"]) == 0
    assert store.put_batch(keys=keys, values=[b"x"] * 3, config=ReplicateConfig()) == 0
    assert store.get_batch(keys) == [b"a", b"b", b"c"]
    assert store.put_batch(keys, [b"a"]) == INVALID
    assert store.put_batch([], []) == 0
    assert store.put_batch([key + "8", key + "9"], [b"", b"x"]) == INVALID, "an empty value is refused"
    assert store.get(key + "9") == b"x", "the others are stored"


def test_get_of_nothing(store: Store, key: str) -> None:
    assert store.get(key) == b""
    assert "OBJECT_NOT_FOUND" in store.last_error()
    assert store.get_buffer(key) is None
    assert store.get_batch([]) == []
    assert store.batch_get_buffer([]) == []


def test_get_buffer(store: Store, key: str) -> None:
    assert store.put(key, b"0123456789") == 0
    handle = store.get_buffer(key)
    assert isinstance(handle, BufferHandle)
    assert (handle.size(), len(handle), bytes(handle)) == (10, 10, b"0123456789")
    view = memoryview(handle)
    assert (view.itemsize, view.ndim, view.c_contiguous, view.nbytes) == (1, 1, True, 10)
    assert handle.ptr() != 0
    found = store.batch_get_buffer([key, key + "no", key])
    assert [f and bytes(f) for f in found] == [b"0123456789", None, b"0123456789"]


def test_buffers_are_arrays_of_numpy(store: Store, key: str) -> None:
    numpy = pytest.importorskip("numpy")
    value = numpy.arange(1000, dtype=numpy.float32)
    assert store.put(key, value) == 0
    handle = store.get_buffer(key)
    read = numpy.frombuffer(handle, dtype=numpy.float32)
    del handle
    assert (read == value).all()
    assert store.put(key + "strided", value[::2]) == 0 if value[::2].flags.c_contiguous else True
    with pytest.raises(TypeError, match="value"):
        store.put(key + "strided", value[::2])
    assert store.remove(key, force=numpy.bool_(True)) == 0
    assert store.put_from(key, numpy.int64(value.ctypes.data), numpy.int64(400)) == 0


def test_exist_and_size(store: Store, key: str) -> None:
    assert (store.is_exist(key), store.get_size(key)) == (0, MISSING)
    assert store.put(key, bytes(1234)) == 0
    assert (store.is_exist(key), store.get_size(key)) == (1, 1234)
    assert store.batch_is_exist([key, key + "no", key]) == [1, 0, 1]
    assert store.batch_is_exist(keys=(key,)) == [1]
    assert store.batch_is_exist([]) == []


def test_keys_are_str_or_utf8_bytes(store: Store, key: str) -> None:
    assert store.put((key + "é").encode(), b"x") == 0
    assert store.get(key + "é") == b"x"
    for bad in (None, 7, bytearray(b"k"), ["k"]):
        for call in (store.get, store.is_exist, store.get_size, store.get_buffer, store.remove, store.get_replica_desc):
            with pytest.raises(TypeError, match="key"):
                call(bad)
        with pytest.raises(TypeError, match="key"):
            store.put(bad, b"x")


def test_lists_are_sequences(store: Store) -> None:
    for bad in ("text", b"bytes", 7, None, {"k"}):
        for call in (
            store.batch_is_exist,
            store.get_batch,
            store.batch_get_buffer,
            store.batch_remove,
            store.batch_get_replica_desc,
        ):
            with pytest.raises(TypeError, match="keys"):
                call(bad)
    with pytest.raises(TypeError, match=r"keys\[1\]"):
        store.batch_is_exist(["k", None])


def test_values_have_the_buffer_protocol(store: Store, key: str) -> None:
    for bad in ("text", 7, None, [1, 2], (b"x",)):
        for call in (store.put, store.upsert):
            with pytest.raises(TypeError, match="value"):
                call(key, bad)
    with pytest.raises(TypeError, match=r"values\[0\]"):
        store.put_batch([key], ["text"])
    with pytest.raises(TypeError, match="config"):
        store.put(key, b"x", {"replica_num": 1})


def test_positional_only_names_are_no_keywords(store: Store, key: str) -> None:
    for call in (store.get, store.get_buffer, store.is_exist, store.get_size):
        with pytest.raises(TypeError):
            call(key=key)
    for call in (store.get_batch, store.batch_get_buffer):
        with pytest.raises(TypeError):
            call(keys=[key])


def test_remove(store: Store, key: str) -> None:
    assert store.remove(key) == MISSING
    assert store.put(key, b"x") == 0
    assert store.remove(key) == 0, "no client has read it"
    assert store.put(key, b"x") == 0
    assert store.get(key) == b"x"
    assert store.remove(key=key, force=False) == LEASED
    assert store.remove(key, True) == 0
    with pytest.raises(TypeError, match="force"):
        store.remove(key, force="yes")
    assert store.put(key, b"x") == 0
    assert store.get(key) == b"x"
    assert store.remove(key, force=1) == 0


def test_batch_remove(store: Store, key: str) -> None:
    keys = [f"{key}{i}" for i in range(3)]
    assert store.put_batch(keys, [b"x"] * 3) == 0
    assert store.is_exist(keys[1]) == 1
    assert store.batch_remove([*keys, key + "no"]) == [0, LEASED, 0, MISSING]
    assert store.batch_remove(keys=keys, force=True) == [MISSING, 0, MISSING]
    assert store.batch_remove([]) == []


def test_remove_by_regex(store: Store, key: str) -> None:
    keys = [f"regex/{i}/x" for i in range(4)]
    assert store.put_batch(keys, [b"x"] * 4) == 0
    assert store.is_exist(keys[0]) == 1
    assert store.remove_by_regex("^regex/[0-1]/") == 1, "the other one has a lease"
    assert store.remove_by_regex(regex_pattern="^regex/.*x$", force=True) == 3
    assert store.remove_by_regex("^regex/") == 0
    assert store.remove_by_regex("(") == INVALID


def test_configurations_that_cannot_be(store: Store, key: str) -> None:
    def refused(**attributes: object) -> None:
        config = ReplicateConfig()
        for name, value in attributes.items():
            setattr(config, name, value)
        assert store.put(key, b"x", config) == INVALID, attributes
        assert store.put_batch([key], [b"x"], config) == INVALID, attributes
        assert store.upsert(key, b"x", config) == INVALID, attributes
        assert store.is_exist(key) == 0

    refused(prefer_alloc_in_same_node=True)
    refused(soft_pin_ttl_ms=1000)
    refused(group_ids=["a", "b"])
    refused(replica_num=0)


def test_configurations_that_can_be(store: Store, key: str) -> None:
    from mooncake.store import ObjectDataType, SoftPinAction

    config = ReplicateConfig()
    config.soft_pin_action, config.soft_pin_ttl_ms = SoftPinAction.ENABLE, 60_000
    config.with_hard_pin, config.data_type, config.group_ids = True, ObjectDataType.KVCACHE, ["g"]
    assert store.put(key, b"x", config) == 0, store.last_error()
    assert store.get(key) == b"x"
    config = ReplicateConfig()
    config.group_ids = ["g1", "g2"]
    assert store.put_batch([key + "1", key + "2"], [b"x", b"y"], config) == 0, store.last_error()


def test_a_success_clears_the_last_error_of_its_thread(store: Store, key: str) -> None:
    assert store.get(key + "none") == b""
    assert "OBJECT_NOT_FOUND" in store.last_error()
    assert "OBJECT_NOT_FOUND" in store.last_error()  # to ask is no call
    seen: list[str] = []

    def other() -> None:
        seen.append(store.last_error())
        assert store.put(key, b"x") == 0
        seen.append(store.last_error())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "OBJECT_NOT_FOUND" in seen[0]  # a thread without a call of its own sees the newest failure
    assert seen[1] == ""
    assert "OBJECT_NOT_FOUND" in store.last_error()  # the other one's success changed nothing here
    assert store.get(key) == b"x"
    assert store.last_error() == ""
