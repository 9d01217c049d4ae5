"""Objects to store, and what a store has after that: keys and bytes, with numbers for the ids.

Run with upstream's wheel and numpy, this writes golden/objects.json: python structured_golden.py golden/objects.json
"""

from __future__ import annotations

import base64
import json
import re
import sys
from typing import Any

import numpy as np


class Memory:
    """A store in a dict, with the four calls that a bundle store must have."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.removed: list[str] = []

    def put(self, key: str, value: Any, config: Any = None) -> int:
        self.values.setdefault(key, bytes(value))
        return 0

    def get(self, key: str) -> bytes:
        return self.values.get(key, b"")

    def is_exist(self, key: str) -> int:
        return int(key in self.values)

    def remove(self, key: str, force: bool = False) -> int:
        self.removed.append(key)
        return 0 if self.values.pop(key, None) is not None else -704


def rows(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    for i, v in enumerate(values):
        array[i] = v
    return array


DATA: dict[str, dict[str, Any]] = {
    "arrays": {"batch": {"a": np.arange(6).reshape(3, 2), "f": np.ones((3, 0), np.float16)}, "meta_info": {"m": [1]}},
    "large": {"batch": {"a": np.arange(3 * 40, dtype=np.int64).reshape(3, 40)}},
    "texts": {"non_tensor_batch": {"s": rows("x", None, "\u00e9")}},
    "bytes": {"non_tensor_batch": {"s": rows(b"x", None, b"")}},
    "numbers": {"non_tensor_batch": {"s": rows(1, None, 3), "f": rows(1.5, 2.5, None), "b": rows(True, False, True)}},
    "lists": {"non_tensor_batch": {"s": rows([1, 2], [3]), "n": rows([[1, 2], [3, 4]], [[5, 6]])}},
    "ragged": {"non_tensor_batch": {"s": rows(np.arange(2), np.arange(3)), "t": rows(np.ones(1, np.float32), None)}},
    "values": {"non_tensor_batch": {"s": rows({"a": 1, "b": [None, "x", -200, 2.5, True]}, {"c": {"d": "e" * 40}})}},
    "nested": {"non_tensor_batch": {"s": rows({"t": np.ones(1), "n": None, "m.[": [1, "x"]}, {"t": np.ones(2)})}},
    "nested_lists": {"non_tensor_batch": {"s": rows([{"t": np.ones(1)}], [{"t": np.ones(2)}, {"t": np.ones(3)}])}},
    "media": {"non_tensor_batch": {"s": rows([b"im", b"ages"], [])}},
}


def equal(a: Any, b: Any) -> bool:
    """Equal in type, dtype, shape and value, at any depth."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return all(map(equal, a.tolist(), b.tolist())) if a.dtype.hasobject else a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return len(a) == len(b) and all(map(equal, a, b)) if isinstance(a, list) else a == b


def numbered(text: str, ids: dict[str, str]) -> str:
    """text with id-0, id-1, ... for the ids in it, in the order in which they came up."""
    return re.sub("[0-9a-f]{32}", lambda m: ids.setdefault(m.group(), f"id-{len(ids)}"), text)


def stored(transfer: Any, store: Memory, data: Any, handle_of: Any) -> dict[str, Any]:
    """What putting data leaves in store, and its handle."""
    ref = transfer.put(data)
    ids: dict[str, str] = {}
    keys = {numbered(k, ids): base64.b64encode(_plain(k, v, ids)).decode() for k, v in store.values.items()}
    return {"keys": keys, "handle": json.loads(numbered(json.dumps(handle_of(ref)), ids))}


def _plain(key: str, value: bytes, ids: dict[str, str]) -> bytes:
    return numbered(value.decode(), ids).encode() if key.endswith("/manifest") else value


def main() -> None:
    from mooncake.structured_object_store import MooncakeBundleTransfer, export_dataproto_ref

    found = {}
    for name, data in DATA.items():
        store = Memory()
        found[name] = stored(MooncakeBundleTransfer(store, "p", 512), store, data, export_dataproto_ref)
    with open(sys.argv[1], "w") as out:
        json.dump(found, out, indent=0, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
