"""Which codec fits the rows of a field, and fields whose rows nest arrays, tensors or images in dicts. Private."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .codecs import CODECS, Encoded
from .media import is_bytes, is_media
from .members import is_tensor
from .types import MISSING, PUBLIC

RECURSIVE = "structured_recursive"
_INFERRED = "inferred_from_runtime_values"
_MAX_DEPTH, _MAX_KEYS, _MAX_LIST = 32, 64, 8
_NO_MSGPACK = ("ragged_tensor", "media_bytes", "media_list_ragged")


@dataclass
class Decision:
    """Which codec, and why."""

    accepted: bool
    codec: str
    reason: str
    normalized_type: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Leaf:
    """A column of values that one codec stores."""

    path: str
    values: list[Any]
    decision: Decision


@dataclass
class Node:
    """A column of dicts or lists; row_mask says in which rows there is one."""

    path: str
    node_type: str
    children: list[Any]
    lengths: list[int] | None = None
    row_mask: list[bool] | None = None
    missing: list[bool] = field(default_factory=list, repr=False, compare=False)


def _present(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v is not None and v is not MISSING]


def decide(values: Sequence[Any]) -> Decision:
    """The codec for a column of values."""
    given = _present(values)
    if not given:
        return Decision(False, "msgpack_ragged", "all rows are null", "msgpack")
    if all(is_tensor(v) for v in given):
        return Decision(True, "ragged_tensor", "all non-null rows are Tensor", "torch.Tensor")
    arrays = [isinstance(v, np.ndarray) for v in given]
    if all(arrays) and all(v.dtype.kind in "biuf" for v in given):
        metadata = {"recursive_source": "ndarray"}
        return Decision(True, "typed_ragged", "all rows are numeric ndarray", "numeric sequence", metadata)
    if all(arrays):
        return Decision(False, "msgpack_ragged", "object ndarray rows", "python object")
    for fits, codec, what in _KINDS:
        if all(fits(v) for v in given):
            return Decision(True, codec, f"all rows are {what[0]}", what[1])
    return Decision(False, "msgpack_ragged", "no codec matched", "python object")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (numbers.Real, np.bool_))


def _is_numbers(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value:
        return isinstance(value, (list, tuple))
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except (ValueError, TypeError, OverflowError):
        return False


def _is_media_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(is_bytes(v) or is_media(v) for v in value)


_KINDS = (
    (_is_scalar, "ndarray", ("numeric scalar", "numeric scalar")),
    (lambda v: isinstance(v, str), "utf8_ragged", ("str", "str")),
    (is_bytes, "bytes_ragged", ("bytes-like", "bytes-like")),
    (is_media, "media_bytes", ("media", "media")),
    (_is_media_list, "media_list_ragged", ("media lists", "media list")),
    (_is_numbers, "typed_ragged", ("numeric sequences", "numeric sequence")),
    (lambda v: isinstance(v, (list, tuple, dict)), "msgpack_ragged", ("msgpack-like", "msgpack")),
)


def infer_structure(path: str, values: list[Any], leaves: list[Any], nodes: list[Any], *, _depth: int = 0) -> None:
    """Adds to nodes the dicts and short lists that the column values is made of, and to leaves the columns in them.

    Rows of a dict that lack a key have MISSING in the column of that key.
    """
    given = _present(values)
    if given and _depth < _MAX_DEPTH:
        gone = [v is MISSING for v in values]
        mask = [v is not None and v is not MISSING for v in values]
        if all(isinstance(v, dict) for v in given):
            keys = sorted({k for v in given for k in v}, key=str)
            if len(keys) <= _MAX_KEYS and all(isinstance(k, str) for k in keys):
                nodes.append(Node(path, "dict", list(keys), None, mask, gone))
                for key in keys:
                    column = [v.get(key, MISSING) if there else None for v, there in zip(values, mask, strict=True)]
                    infer_structure(f"{path}.{_escaped(key)}", column, leaves, nodes, _depth=_depth + 1)
                return
        if all(isinstance(v, list) for v in given) and _worth_expanding(given):
            lengths = [len(v) if there else 0 for v, there in zip(values, mask, strict=True)]
            nodes.append(Node(path, "list", list(range(max(lengths))), lengths, mask, gone))
            for i in range(max(lengths)):
                column = [
                    (v[i] if i < len(v) else MISSING) if there else None for v, there in zip(values, mask, strict=True)
                ]
                infer_structure(f"{path}[{i}]", column, leaves, nodes, _depth=_depth + 1)
            return
    leaves.append(Leaf(path, list(values), decide(values)))


def _worth_expanding(rows: list[Any]) -> bool:
    items = _present([v for row in rows for v in row])
    if not items or max(map(len, rows)) > _MAX_LIST:
        return False
    return all(isinstance(v, dict) for v in items) or all(isinstance(v, list) and _worth_expanding([v]) for v in items)


def _escaped(key: str) -> str:
    for c in ("\\", ".", "["):
        key = key.replace(c, "\\" + c)
    return key


def encode_field(path: str, values: list[Any]) -> tuple[str, Encoded]:
    """Codec, parts and metadata of a field without a schema. ValueError where none fits."""
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    infer_structure(path, values, leaves, nodes)
    if nodes and any(_stands_alone(leaf) for leaf in leaves):
        for leaf in leaves:
            if not leaf.decision.accepted and _present(leaf.values):
                raise ValueError(f"unsupported structured non-tensor field: {leaf.decision.reason}")
        return RECURSIVE, _encode_tree(path, len(values), leaves, nodes)
    decision = decide(values)
    if not decision.accepted:
        raise ValueError(f"unsupported structured non-tensor field: {decision.reason}")
    return decision.codec, _encode_leaf(values, decision)


def _stands_alone(leaf: Leaf) -> bool:
    decision = leaf.decision
    return decision.codec in _NO_MSGPACK or decision.metadata.get("recursive_source") == "ndarray"


def _encode_leaf(values: list[Any], decision: Decision) -> Encoded:
    parts, metadata = CODECS[decision.codec].encode(values, {})
    why = {"decision_reason": decision.reason, "normalized_type": decision.normalized_type}
    return parts, {**metadata, "schema_source": _INFERRED, **why, **decision.metadata}


def _encode_tree(path: str, rows: int, leaves: list[Leaf], nodes: list[Node]) -> Encoded:
    parts: dict[str, Any] = {}
    metadata: dict[str, Any] = {"schema_source": _INFERRED, "structure_version": 1, "root_path": path}
    metadata |= {"nodes": [], "leaves": []}
    for i, node in enumerate(nodes):
        at = f"node.{i}"
        about = {"id": i, "path": node.path, "node_type": node.node_type, "children": node.children}
        parts[f"{at}.missing"] = np.array(node.missing, np.bool_)
        parts[f"{at}.row_mask"] = np.array(node.row_mask, np.bool_)
        about |= {"missing_payload": f"{at}.missing", "row_mask_payload": f"{at}.row_mask"}
        if node.lengths is not None:
            parts[f"{at}.lengths"] = np.array(node.lengths, np.int64)
            about["lengths_payload"] = f"{at}.lengths"
        metadata["nodes"].append(about)
    for i, leaf in enumerate(leaves):
        decision = leaf.decision
        if not _present(leaf.values):
            decision = Decision(True, "json_ragged", "all rows are null or missing", "json")
        own, how = _encode_leaf([None if v is MISSING else v for v in leaf.values], decision)
        own["missing"] = np.array([v is MISSING for v in leaf.values], np.bool_)
        parts |= {f"leaf.{i}.{name}": part for name, part in own.items()}
        metadata["leaves"].append(
            {
                "id": i,
                "path": leaf.path,
                "codec": decision.codec,
                "rows": rows,
                "metadata": how,
                "payload_members": {name: f"leaf.{i}.{name}" for name in own},
            }
        )
    return parts, metadata


def decode_field(codec: str, parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """The rows of a field."""
    if codec == RECURSIVE:
        return _decode_tree(parts, rows, metadata)
    if codec not in CODECS:
        raise ValueError(f"structured codec {codec!r} is not one that this version reads")
    return CODECS[codec].decode(parts, rows, metadata)


def _decode_tree(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    if metadata.get("structure_version") != 1:
        raise ValueError(f"unsupported structure version: {metadata.get('structure_version')}")
    columns: dict[str, list[Any]] = {}
    for leaf in metadata["leaves"]:
        own = {name: parts[member] for name, member in leaf["payload_members"].items()}
        missing = own.pop("missing")
        values = decode_field(leaf["codec"], own, rows, leaf["metadata"])
        columns[leaf["path"]] = [MISSING if gone else v for gone, v in zip(missing, values, strict=True)]
    for node in reversed(metadata["nodes"]):  # children come after their parents
        path, is_dict = node["path"], node["node_type"] == "dict"
        below = {c: columns[f"{path}.{_escaped(c)}" if is_dict else f"{path}[{c}]"] for c in node["children"]}
        missing, mask = parts[node["missing_payload"]], parts[node["row_mask_payload"]]
        lengths = None if is_dict else parts[node["lengths_payload"]].tolist()
        columns[path] = [
            MISSING if missing[i] else None if not mask[i] else _container(below, i, lengths) for i in range(rows)
        ]
    return columns[metadata["root_path"]]


def _container(below: Mapping[Any, list[Any]], row: int, lengths: list[int] | None) -> Any:
    if lengths is None:
        return {key: column[row] for key, column in below.items() if column[row] is not MISSING}
    return [below[i][row] for i in range(lengths[row])]


infer_structure.__module__ = PUBLIC
