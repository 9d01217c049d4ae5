"""DataProtoCatalog and DataProtoCatalogTransfer: which keys refer to which fragment, and when its bytes go."""

import pytest

np = pytest.importorskip("numpy")

from structured_golden import Memory

from mooncake.dataproto_catalog import DataProtoCatalog, DataProtoCatalogTransfer
from mooncake.structured_object_store import MooncakeBundleTransfer, export_dataproto_ref


@pytest.fixture
def store():
    return Memory()


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store, "x")


@pytest.fixture
def handle(transfer):
    def make(n=2, **batch):
        return export_dataproto_ref(transfer.put({"batch": batch or {"a": np.arange(n)}}, partition="p"))

    return make


def name_of(handle):
    return next(iter(handle["stage_refs"].values()))["manifest_key"]


def test_rows_are_found_by_key_and_field(handle):
    catalog, a, b = DataProtoCatalog(), handle(), handle(b=np.ones(2))
    answer = catalog.update("p", ["k1", "k2"], handle=a, tags=[{"t": 1}, {}])
    assert answer == {"keys": ["k1", "k2"], "tags": [{"t": 1}, {}], "fields": ["a"], "retired_handles": []}
    catalog.update("p", ["k1", "k3"], handle=b)
    found = catalog.resolve("p", ["k1"], ["b", "a"])
    groups = [{"fields": ["b"], "locations": [(name_of(b), 0)]}, {"fields": ["a"], "locations": [(name_of(a), 0)]}]
    assert found["field_groups"] == groups
    assert found["handles"] == {name_of(b): b, name_of(a): a}
    assert catalog.list() == {"p": {"k1": {"t": 1}, "k2": {}, "k3": {}}}
    with pytest.raises(ValueError, match=r"fields are not ready for key 'k2': \['b'\]"):
        catalog.resolve("p", ["k1", "k2"])
    assert catalog.remove("p", ["k1", "k2", "k3"]) == {"retired_handles": []}


@pytest.mark.parametrize(
    ("args", "more", "error", "text"),
    [
        (("p", ["k", "k"]), {"tags": [{}, {}]}, ValueError, "keys must be unique"),
        (("p", "ab"), {"tags": [{}, {}]}, ValueError, "keys must be a sequence"),
        (("", ["k"]), {"tags": [{}]}, ValueError, "partition must be a non-empty string"),
        (("p", ["k"]), {}, ValueError, "requires tags or a DataProto handle"),
        (("p", ["k"]), {"tags": [1]}, TypeError, "tags must be mappings"),
        (("p", ["k"]), {"tags": []}, ValueError, "tags must have the same length as keys"),
        (("p", ["k"]), {"handle": {}}, ValueError, "not a Mooncake DataProto ref handle"),
    ],
)
def test_wrong_arguments_change_nothing(args, more, error, text):
    catalog = DataProtoCatalog()
    with pytest.raises(error, match=text):
        catalog.update(*args, **more)
    assert catalog.list() == {}


def test_a_managed_fragment_is_retired_after_its_keys_and_readers(handle):
    catalog, h = DataProtoCatalog(), handle()
    first = catalog.publish("op", "p", ["k1", "k2"], handle=h)
    assert catalog.publish("op", "other", ["z"], tags=[{}]) == first
    token = catalog.resolve("p", ["k1"], pin=True)["read_token"]
    assert catalog.remove("p", ["k1", "k2"]) == {"retired_handles": []}
    with pytest.raises(RuntimeError, match=r"1 active read"):
        catalog.drain()
    assert catalog.release_read(token) == {"retired_handles": [h]}
    assert catalog.release_read(token) == {"retired_handles": [h]}
    assert catalog.ack_retired([h]) == {"retired_handles": []}
    assert catalog.drain() == {"retired_handles": []}
    with pytest.raises(RuntimeError, match="drained"):
        catalog.update("p", ["k"], tags=[{}])


def test_an_append_replaces_the_handle_once(transfer, handle):
    catalog, h = DataProtoCatalog(), handle()
    more = export_dataproto_ref(transfer.append_dataproto_fields(h, {"batch": {"z": np.ones(2)}}, stage="default"))
    catalog.publish("op", "p", ["k1", "k2"], handle=h)
    how = {"previous_handle": h, "handle": more}
    for keys, handle_ in ((["k1"], more), (["k2", "k1"], more), (["k1", "k2"], {**more, "batch_size": 3})):
        answer = catalog.publish_append("a", name_of(h), "p", keys, previous_handle=h, handle=handle_)
        assert answer == {"append_rejected": "appended DataProto handle changed fragment identity"}
    assert catalog.publish_append("a", name_of(h), "p", ["k1", "k2"], **how)["fields"] == ["a", "z"]
    stale = catalog.publish_append("b", name_of(h), "p", ["k1", "k2"], **how)
    assert stale == {"append_rejected": f"stale DataProto append handle: {name_of(h)!r}"}
    assert catalog.remove("p", ["k1", "k2"]) == {"retired_handles": [more]}


def test_bytes_go_with_the_last_reference(transfer, store):
    catalog = DataProtoCatalog()
    both = DataProtoCatalogTransfer(transfer, lambda name, *a, **k: getattr(catalog, name)(*a, **k))
    both.put({"batch": {"a": np.arange(2)}}, partition="p", keys=["k1", "k2"])
    found = both.resolve("p", ["k2"])
    ((name, handle_),) = found["handles"].items()
    both.append(name, handle_, {"batch": {"z": np.ones(2)}}, partition="p", keys=["k1", "k2"], stage="default")
    with pytest.raises(ValueError, match="stale DataProto append handle"):
        both.append(name, handle_, {"batch": {"y": np.ones(2)}}, partition="p", keys=["k1", "k2"], stage="default")
    newest = catalog.resolve("p", ["k1"])["handles"][name]
    assert sorted(transfer.get(newest)["batch"]) == ["a", "z"]
    both.remove("p", ["k1", "k2"])
    assert store.values
    both.release_read(found["read_token"])
    assert store.values == {}
    both.drain()
    both.close()


def test_a_publication_that_fails_stays_pending_and_a_refused_one_is_removed(transfer, store):
    catalog, down = DataProtoCatalog(), [ConnectionError("down")]

    def call(name, *args, **more):
        if down:
            raise down[0]
        return getattr(catalog, name)(*args, **more)

    both = DataProtoCatalogTransfer(transfer, call)
    with pytest.raises(ConnectionError):
        both.put({"batch": {"a": np.arange(1)}}, partition="p", keys=["k1"])
    with pytest.raises(RuntimeError, match="failed to publish pending DataProto fragment for 1 item"):
        both.close()
    down.clear()
    both.close()
    assert catalog.list() == {"p": {"k1": {}}}
    kept = dict(store.values)
    with pytest.raises(TypeError, match="tags must be mappings"):
        both.put({"batch": {"a": np.arange(1)}}, partition="p", keys=["k2"], tags=[5])
    assert store.values == kept
