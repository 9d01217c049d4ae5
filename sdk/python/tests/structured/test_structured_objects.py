"""Bundles, structured objects and DataProto batches over a store in memory: answers, errors, and what stays stored."""

import pytest

np = pytest.importorskip("numpy")

from structured_golden import Memory, equal, rows

from mooncake.structured_object_store import (
    BundleTransferPolicy,
    FieldSchema,
    MooncakeBundleTransfer,
    StructuredObjectPayload,
    export_dataproto_ref,
    import_dataproto_ref,
)


class Failing(Memory):
    """Refuses the put with this number."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    def put(self, key, value, config=None):
        self.left -= 1
        return -200 if self.left == 0 else super().put(key, value, config)


@pytest.fixture
def store():
    return Memory()


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store, "p", 16)


@pytest.mark.parametrize(
    "value",
    [
        {"k": np.arange(30), "b": b"bb", "s": np.array(["ab", "c"])},
        np.arange(6.0).reshape(2, 3),
        b"raw" * 20,
        {},
        {"empty": np.zeros((0, 3)), "gaps": np.arange(8)[::2], "turned": np.arange(6).reshape(2, 3).T},
    ],
)
def test_an_object_comes_back_and_leaves_nothing(transfer, store, value):
    ref = transfer.put_object(value)
    assert equal(transfer.get_object(ref), value)
    assert equal(transfer.get_object({"manifest_key": ref.manifest_key}), value)
    transfer.remove_bundle({"manifest_key": ref.manifest_key})
    assert store.values == {}
    transfer.remove_bundle({"manifest_key": ref.manifest_key})


@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_put_that_fails_leaves_nothing(at, workers):
    store = Failing(at)
    policy = BundleTransferPolicy(workers, "parallel" if workers > 1 else "auto")
    with pytest.raises(RuntimeError, match=r"put failed for p/default/\w+/\S+: -200"):
        MooncakeBundleTransfer(store, "p").put_bundle(b"m", {"a": b"1", "b": b"2"}, policy=policy)
    assert store.values == {}


@pytest.mark.parametrize("part", ["meta", "buffer/a/chunk/1", "manifest"])
def test_a_bundle_with_a_part_missing_or_cut_is_an_error(transfer, store, part):
    ref = transfer.put_object({"a": np.arange(10)})
    key = next(k for k in store.values if part in k)
    whole = store.values.pop(key)
    with pytest.raises(RuntimeError, match="get failed for"):
        transfer.get_object({"manifest_key": ref.manifest_key})
    store.values[key] = whole[:-1]
    with pytest.raises((RuntimeError, ValueError)):
        transfer.get_object({"manifest_key": ref.manifest_key})


def test_slices_and_destinations(transfer):
    ref = transfer.put_structured_object(
        StructuredObjectPayload({"m": 1}, {"a": np.arange(20).reshape(10, 2), "b": b"x"})
    )
    spec = transfer.read_spec(ref)
    got = transfer.materialize(spec.select_members(["a"]).slice_member("a", 0, 1, 8, 3))
    assert got.objects["a"].tolist() == [[2, 3], [8, 9], [14, 15]]
    assert got.metadata["m"] == 1
    out = np.zeros((3, 2), np.int64)
    got = transfer.materialize_into(spec.slice_member("a", 0, 4, 7), {"a": out})
    assert got.objects["a"] is out
    assert out.tolist() == [[8, 9], [10, 11], [12, 13]]
    with pytest.raises(ValueError, match=r"destination dtype mismatch: expected <i8, got <f8"):
        transfer.materialize_into(spec, {"a": np.zeros((10, 2))})
    with pytest.raises(ValueError, match="destination shape mismatch"):
        transfer.materialize_into(spec, {"a": np.zeros((9, 2), np.int64)})
    with pytest.raises(ValueError, match="structured bytes member b does not support slicing"):
        transfer.materialize(spec.slice_member("b", 0, 0, 1))
    with pytest.raises(KeyError, match="unknown bundle buffers"):
        transfer.materialize(spec.select_members(["no"]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t: t.put_object({"a/b": b"1"}), ValueError, "invalid bundle buffer name: 'a/b'"),
        (lambda t: t.put_object(b"1", partition=""), ValueError, "invalid bundle partition: ''"),
        (lambda t: t.put_object({"n": {"a": 1}}), TypeError, "n must be bytes-like, got dict"),
        (lambda t: t.put_bundle("m", {}), TypeError, "meta must be bytes-like, got str"),
        (lambda t: t.put_bundle(b"m", {"o": np.array([object()])}), TypeError, "o holds objects"),
        (lambda t: t.put_bundle(b"m", {}, chunk_bytes=0), ValueError, "chunk_bytes must be positive"),
        (lambda t: t.put_bundle(b"m", {}, max_inflight_put=0), ValueError, "max_inflight_put must be positive"),
        (lambda t: t.get_object({"manifest": {}}), ValueError, "bundle ref must include manifest_key"),
        (lambda t: t.put({"batch": {"a": np.arange(2), "b": np.arange(3)}}), ValueError, r"inconsistent.*\[2, 3\]"),
        (lambda t: t.put({"batch": {"a": np.arange(2)}}, type="x"), ValueError, "unsupported Mooncake payload type"),
        (lambda t: t.put({"non_tensor_batch": {"s": rows(1, "a")}}), ValueError, "no codec matched"),
        (lambda t: t.put({"non_tensor_batch": {"s": rows(None)}}), ValueError, "all rows are null"),
        (lambda t: t.get({}), ValueError, "not a Mooncake DataProto ref handle"),
        (lambda t: t.get(None), TypeError, "expected MooncakeDataProtoRef or DataProto handle, got NoneType"),
    ],
)
def test_what_cannot_be_is_refused_and_stores_nothing(transfer, store, call, error, text):
    with pytest.raises(error, match=text):
        call(transfer)
    assert store.values == {}


def test_flat_dicts(transfer):
    ref = transfer.put({"a": np.arange(2), "t": ["x", "y"], "n": 5, "other": [1, 2, 3]}, type="dict")
    assert {name: at.section for name, at in ref.field_index.items()} == {"a": "batch", "t": "non_tensor_batch"}
    assert equal(transfer.get(ref, type="dict"), {"n": 5, "other": [1, 2, 3], "a": np.arange(2), "t": ["x", "y"]})
    with pytest.raises(ValueError, match="ambiguous batch sizes"):
        transfer.put({"t": ["x"], "u": [1, 2]}, type="dict")
    schemas = {"u": FieldSchema("ndarray", metadata={"section": "meta_info"})}
    assert transfer.put({"t": ["x"], "u": [1, 2]}, type="dict", field_schemas=schemas).meta_info == {"u": [1, 2]}


def test_fields_are_appended_selected_replaced_and_removed(transfer, store):
    first = transfer.put({"batch": {"a": np.arange(3)}, "non_tensor_batch": {"s": rows("x", "y", "z")}})
    before = dict(store.values)
    joined = transfer.append_dataproto_fields(first, {"batch": {"b": np.ones(3)}}, stage="default")
    other = transfer.append_dataproto_fields(joined, {"batch": {"c": np.zeros(3)}}, stage="two")
    assert list(transfer.get(first)["batch"]) == ["a"]
    assert sorted(transfer.get(export_dataproto_ref(other), rows=[2])["batch"]) == ["a", "b", "c"]
    assert transfer.get(other, batch_fields=["b"])["non_tensor_batch"] == {}
    with pytest.raises(ValueError, match=r"DataProto fields already exist: \['a'\]"):
        transfer.append_dataproto_fields(other, {"batch": {"a": np.ones(3)}}, stage="three")
    with pytest.raises(ValueError, match=r"must include existing fields: \['b', 's'\]"):
        transfer.append_dataproto_fields(joined, {"batch": {"a": np.ones(3)}}, stage="default", overwrite=True)
    transfer.cleanup_dataproto_append(joined, other)
    transfer.cleanup_dataproto_append(first, joined)
    assert store.values == before
    transfer.cleanup_dataproto(import_dataproto_ref(export_dataproto_ref(first)))
    assert store.values == {}


def test_objects_are_put_in_one_group_that_the_caller_may_name():
    from mooncake.store import ReplicateConfig

    class Noting(Memory):
        def put(self, key, value, config=None):
            seen.append(config)
            return super().put(key, value)

    seen: list = []
    transfer = MooncakeBundleTransfer(Noting(), "p")
    config = ReplicateConfig()
    config.replica_num, config.session_ids = 2, ["chat"]
    ref = transfer.put({"batch": {"a": np.arange(2)}}, config=config)
    group = export_dataproto_ref(ref)["storage_group_id"]
    assert [(c.group_ids, c.replica_num, c.session_ids) for c in seen] == [([group], 2, ["chat"])] * 3
    assert config.group_ids is None
    seen.clear()
    config.group_ids = ["mine"]
    transfer.put({"batch": {"a": np.arange(2)}}, config=config)
    assert [c.group_ids for c in seen] == [["mine"]] * 3
