"""Stored objects have upstream's keys and bytes, and what upstream stored is read. golden/objects.json is upstream's."""

import base64
import json
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from structured_golden import DATA, Memory, equal, stored

from mooncake.structured_object_store import MooncakeBundleTransfer, export_dataproto_ref

GOLDEN = json.loads((Path(__file__).parent / "golden" / "objects.json").read_text())


@pytest.mark.parametrize("name", sorted(DATA))
def test_keys_and_bytes_are_those_of_upstream(name):
    store = Memory()
    assert stored(MooncakeBundleTransfer(store, "p", 512), store, DATA[name], export_dataproto_ref) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(DATA))
def test_what_upstream_stored_is_read(name):
    store = Memory()
    store.values = {key: base64.b64decode(value) for key, value in GOLDEN[name]["keys"].items()}
    want = {"batch": {}, "non_tensor_batch": {}, "meta_info": {}, **DATA[name]}
    got = MooncakeBundleTransfer(store, "p").get(GOLDEN[name]["handle"])
    assert equal(got, want), f"{got} is not {want}"


@pytest.mark.parametrize("name", sorted(DATA))
def test_selected_rows_of_what_upstream_stored(name):
    store = Memory()
    store.values = {key: base64.b64decode(value) for key, value in GOLDEN[name]["keys"].items()}
    transfer, handle = MooncakeBundleTransfer(store, "p"), GOLDEN[name]["handle"]
    whole, last = transfer.get(handle), handle["batch_size"] - 1
    for rows, numbers in (([last, 0], [last, 0]), (slice(1, None), range(1, last + 1)), ([-1], [last]), ([], [])):
        got = transfer.get(handle, rows=rows)
        for section in ("batch", "non_tensor_batch"):
            assert equal(got[section], {k: v[list(numbers)] for k, v in whole[section].items()}), (name, rows)
