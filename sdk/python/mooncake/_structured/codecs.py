"""Rows of Python values as arrays and bytes, and back. Private.

A codec turns the rows of a field into named parts, each an array or bytes, and metadata; None is
a null row. The layouts are upstream's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import msgpack as _msgpack
from .media import decode_media, encode_media, is_bytes, is_media

Parts = dict[str, Any]
Encoded = tuple[Parts, dict[str, Any]]


class Codec(NamedTuple):
    """How rows become parts and metadata, and how parts, their number and metadata become rows."""

    encode: Callable[[Sequence[Any], Mapping[str, Any]], Encoded]
    decode: Callable[[Mapping[str, Any], int, Mapping[str, Any]], list[Any]]


def _offsets(sizes: Sequence[int]) -> np.ndarray[Any, Any]:
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.asarray(sizes, np.int64), out=out[1:])
    return out


def _nulls(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    return np.array([v is None for v in values], np.bool_)


def _blobs(to: Callable[[Any], bytes], of: Callable[[bytes], Any]) -> Codec:
    """A codec of rows that are bytes, one behind the other."""

    def encode(values: Sequence[Any], _: Mapping[str, Any]) -> Encoded:
        blobs = [b"" if v is None else to(v) for v in values]
        return {"data": b"".join(blobs), "offsets": _offsets([len(b) for b in blobs]), "nulls": _nulls(values)}, {}

    def decode(parts: Mapping[str, Any], rows: int, _: Mapping[str, Any]) -> list[Any]:
        data, ends = bytes(parts["data"]), parts["offsets"].tolist()
        return [None if parts["nulls"][i] else of(data[ends[i] : ends[i + 1]]) for i in range(rows)]

    return Codec(encode, decode)


def _encode_scalars(values: Sequence[Any], hint: Mapping[str, Any]) -> Encoded:
    given = [v for v in values if v is not None]
    dtype = np.dtype(hint["dtype"]) if hint.get("dtype") else np.asarray(given).dtype
    if dtype.kind not in "biuf":
        raise ValueError(f"ndarray codec cannot store values of dtype {dtype}")
    data = np.zeros(len(values), dtype)
    for i, v in enumerate(values):
        if v is not None:
            data[i] = v
    return {"data": data, "nulls": _nulls(values)}, {"dtype": dtype.name, "shape": [len(values)]}


def _decode_scalars(parts: Mapping[str, Any], rows: int, _: Mapping[str, Any]) -> list[Any]:
    return [None if null else v for v, null in zip(parts["data"].tolist(), parts["nulls"], strict=True)][:rows]


def _encode_ragged(values: Sequence[Any], hint: Mapping[str, Any]) -> Encoded:
    given = [None if v is None else np.asarray(v) for v in values]
    kinds = [a.dtype for a in given if a is not None]
    dtype = np.dtype(hint["dtype"]) if hint.get("dtype") else np.result_type(*kinds) if kinds else np.dtype(np.int64)
    if dtype.hasobject:
        raise ValueError("typed_ragged codec requires non-object dtype")
    deepest = max((a.ndim for a in given if a is not None), default=0)
    shapes = np.zeros((len(given), deepest), np.int64)
    for i, a in enumerate(given):
        if a is not None:
            shapes[i, : a.ndim] = a.shape
    data = [a.reshape(-1).astype(dtype) for a in given if a is not None]
    parts: Parts = {
        "data": np.concatenate(data) if data else np.zeros(0, dtype),
        "offsets": _offsets([0 if a is None else a.size for a in given]),
        # An array needs a column to have a place in a bundle.
        "shapes": shapes if deepest else np.zeros((len(given), 1), np.int64),
        "ndims": np.array([0 if a is None else a.ndim for a in given], np.int16),
        "nulls": _nulls(values),
    }
    arrays = [isinstance(v, np.ndarray) for v in values if v is not None]
    flat = bool(arrays) and all(arrays)
    metadata = {
        "dtype": dtype.str if dtype.kind in "SU" else dtype.name,
        "max_ndim": deepest,
        "shape_policy": "ragged",
        "row_format": "ndarray" if flat else "list",
        "ndarray_rows": None if flat or not any(arrays) else [isinstance(v, np.ndarray) for v in values],
    }
    return parts, {**metadata, "physical_layout": "contiguous_flat"} if flat else metadata


def _decode_ragged(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    arrays = metadata.get("ndarray_rows") or [metadata.get("row_format") == "ndarray"] * rows
    ends = parts["offsets"].tolist()
    out: list[Any] = []
    for i in range(rows):
        if parts["nulls"][i]:
            out.append(None)
            continue
        shape = parts["shapes"][i, : parts["ndims"][i]].tolist()
        row = parts["data"][ends[i] : ends[i + 1]].reshape(shape)
        out.append(row if arrays[i] else row.tolist())
    return out


def _encode_tensors(values: Sequence[Any], _: Mapping[str, Any]) -> Encoded:
    kinds = {v.dtype for v in values if v is not None}
    if len(kinds) > 1:
        raise ValueError(f"ragged tensor codec needs tensors of one dtype, got {sorted(map(str, kinds))}")
    try:
        rows = [None if v is None else v.detach().cpu().numpy() for v in values]
    except TypeError:
        raise ValueError(f"ragged tensor codec does not support {next(iter(kinds))}") from None
    parts, metadata = _encode_ragged(rows, {} if kinds else {"dtype": "float32"})
    dtype = str(next(iter(kinds), "torch.float32"))
    return parts, {
        **metadata,
        "dtype": dtype,
        "row_format": "ndarray",
        "ndarray_rows": None,
        "physical_layout": "contiguous_flat",
    }


def _decode_tensors(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    import torch

    found = _decode_ragged(parts, rows, {"row_format": "ndarray"})
    return [None if row is None else torch.from_numpy(np.array(row)) for row in found]


def _encode_tensor_dicts(values: Sequence[Any], hint: Mapping[str, Any]) -> Encoded:
    for i, v in enumerate(values):
        if v is not None and not isinstance(v, Mapping):
            raise TypeError(f"ragged_tensor_dict rows must be mappings or None; row {i} is {type(v).__name__}")
    given = [v for v in values if v is not None]
    keys = list(hint.get("keys") or dict.fromkeys(k for v in given for k in v))
    strange = sorted({str(k) for v in given for k in v if k not in keys})
    if strange:
        raise ValueError(f"ragged_tensor_dict rows have keys that the schema does not name: {strange}")
    parts: Parts = {"null_mask": _nulls(values)}
    metadata: dict[str, Any] = {"keys": keys, "key_codecs": {}}
    for key in keys:
        own, metadata["key_codecs"][key] = _encode_tensors([None if v is None else v.get(key) for v in values], {})
        parts |= {f"{key}.{name}": part for name, part in own.items()}
    return parts, metadata


def _decode_tensor_dicts(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    columns = {}
    for key in metadata["keys"]:
        own = {name[len(key) + 1 :]: part for name, part in parts.items() if name.startswith(f"{key}.")}
        columns[key] = _decode_tensors(own, rows, metadata["key_codecs"][key])
    return [
        None if parts["null_mask"][i] else {key: rows_[i] for key, rows_ in columns.items() if rows_[i] is not None}
        for i in range(rows)
    ]


def _encode_media_rows(values: Sequence[Any], _: Mapping[str, Any]) -> Encoded:
    found = [(b"", {"kind": "null"}) if v is None else encode_media(v) for v in values]
    blobs = [blob for blob, _ in found]
    parts = {"data": b"".join(blobs), "offsets": _offsets([len(b) for b in blobs]), "nulls": _nulls(values)}
    return parts, _media_metadata([how for _, how in found], any(is_media(v) for v in values))


def _decode_media_rows(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    data, ends = bytes(parts["data"]), parts["offsets"].tolist()
    how = metadata.get("media_encodings") or [None] * rows
    return [None if parts["nulls"][i] else decode_media(data[ends[i] : ends[i + 1]], how[i]) for i in range(rows)]


def _encode_media_lists(values: Sequence[Any], _: Mapping[str, Any]) -> Encoded:
    found = [encode_media(v) for row in values if row is not None for v in row]
    blobs = [blob for blob, _ in found]
    parts = {
        "data": b"".join(blobs),
        "row_offsets": _offsets([0 if row is None else len(row) for row in values]),
        "byte_offsets": _offsets([len(b) for b in blobs]),
        "nulls": _nulls(values),
    }
    metadata = {"encode_source": "raw_pixels_from_object", "media_encodings": [how for _, how in found]}
    if any(how["kind"] != "bytes" for _, how in found):
        metadata["media_types"] = ["image/raw"]
    return parts, metadata


def _decode_media_lists(parts: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    data, ends, items = bytes(parts["data"]), parts["byte_offsets"].tolist(), parts["row_offsets"].tolist()
    how = metadata.get("media_encodings") or [None] * (len(ends) - 1)
    media = [decode_media(data[ends[i] : ends[i + 1]], how[i]) for i in range(len(ends) - 1)]
    return [None if parts["nulls"][i] else media[items[i] : items[i + 1]] for i in range(rows)]


def _media_metadata(encodings: list[dict[str, Any]], images: bool) -> dict[str, Any]:
    if not images:
        return {}
    return {
        "media_encodings": encodings,
        "media_types": ["image/raw"],
        "encode_source": "raw_pixels_from_object",
    }


def _to_bytes(value: Any) -> bytes:
    if not is_bytes(value):
        raise TypeError(f"bytes_ragged rows must be bytes-like, got {type(value).__name__}")
    return bytes(value)


def _to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


CODECS: dict[str, Codec] = {
    "utf8_ragged": _blobs(lambda v: v.encode(), bytes.decode),
    "bytes_ragged": _blobs(_to_bytes, bytes),
    "json_ragged": _blobs(_to_json, json.loads),
    "msgpack_ragged": _blobs(_msgpack.pack, _msgpack.unpack),
    "ndarray": Codec(_encode_scalars, _decode_scalars),
    "typed_ragged": Codec(_encode_ragged, _decode_ragged),
    "ragged_tensor": Codec(_encode_tensors, _decode_tensors),
    "ragged_tensor_dict": Codec(_encode_tensor_dicts, _decode_tensor_dicts),
    "media_bytes": Codec(_encode_media_rows, _decode_media_rows),
    "media_list_ragged": Codec(_encode_media_lists, _decode_media_lists),
}
