"""DataProto objects and flat dicts: into sections, into members, and back. Private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .codecs import CODECS
from .infer import decide, encode_field
from .members import is_tensor
from .types import FieldSchema, TensorObject

SECTIONS = ("batch", "non_tensor_batch", "meta_info")


class Sections(NamedTuple):
    """The fields of a DataProto."""

    batch: dict[str, Any]
    non_tensor_batch: dict[str, Any]
    meta_info: dict[str, Any]

    def rows(self) -> int:
        """How many rows its fields have, 0 without a field; ValueError where they differ."""
        sizes = {length(name, v) for part in (self.batch, self.non_tensor_batch) for name, v in part.items()}
        if len(sizes) > 1:
            raise ValueError(f"DataProto fields have inconsistent batch sizes: {sorted(sizes)}")
        return next(iter(sizes), 0)


class Field(NamedTuple):
    """A non-tensor field in parts: its codec, how to read it, and the parts by name."""

    codec: str
    metadata: dict[str, Any]
    parts: dict[str, Any]


def length(name: str, value: Any) -> int:
    """Rows of a field; TypeError where it has none."""
    if isinstance(value, TensorObject):
        if value.batch_size is None:
            raise TypeError("tensor object buffer requires batch_size for DataProto use")
        return value.batch_size
    try:
        return len(value)
    except TypeError:
        raise TypeError(f"field {name!r} has no rows: a {type(value).__name__} has no length") from None


def split(data: Any, kind: str, schemas: Mapping[str, FieldSchema]) -> Sections:
    """The sections of data, a DataProto-like object or mapping, or a flat dict where kind is "dict"."""
    if kind not in ("dataproto", "dict"):
        raise ValueError(f"unsupported Mooncake payload type: {kind!r}")
    if isinstance(data, Mapping):
        sections = _flat(data, schemas) if kind == "dict" else _of_mapping(data)
    else:
        sections = Sections(*(_as_dict(getattr(data, name, None)) for name in SECTIONS))
    overlap = sorted(sections.batch.keys() & sections.non_tensor_batch.keys())
    if overlap:
        raise ValueError(f"DataProto batch and non_tensor_batch fields overlap: {overlap}")
    for name, schema in schemas.items():
        wanted = schema.metadata.get("section")
        if wanted is not None and wanted not in SECTIONS:
            raise ValueError(f"FieldSchema for {name!r} has section {wanted!r}; it must be one of {list(SECTIONS)}")
        for section, fields in zip(SECTIONS, sections, strict=True):
            if wanted is not None and name in fields and section != wanted:
                raise ValueError(
                    f"FieldSchema for {name!r} declares section {wanted!r}, but data contains it in {section!r}"
                )
    return sections


def _as_dict(value: Any) -> dict[str, Any]:
    return {} if value is None else {k: v for k, v in value.items()}


def _of_mapping(data: Mapping[str, Any]) -> Sections:
    if data and set(data) <= set(SECTIONS):
        return Sections(*(_as_dict(data.get(name)) for name in SECTIONS))
    return Sections(dict(data), {}, {})


def _flat(data: Mapping[str, Any], schemas: Mapping[str, FieldSchema]) -> Sections:
    """Arrays and tensors are batch, sequences of as many rows are non_tensor_batch, all else is meta_info."""
    sections = Sections({}, {}, {})
    said = {name: schemas[name].metadata.get("section") for name in data if name in schemas}
    dense = {len(v) for name, v in data.items() if said.get(name) is None and _is_dense(v)}
    if len(dense) > 1:
        raise ValueError(f"flat dict dense fields have ambiguous batch sizes: {sorted(dense)}")
    lists = {len(v) for name, v in data.items() if said.get(name) is None and _is_rows(v)}
    given = {length(name, data[name]) for name, section in said.items() if section in SECTIONS[:2]}
    rows = given or dense or lists
    if len(rows) > 1:
        raise ValueError(
            f"flat dict fields have ambiguous batch sizes: {sorted(rows)}; "
            "pass FieldSchema metadata['section'] for list-valued metadata fields"
        )
    count = next(iter(rows), 0)
    for name, value in data.items():
        section = said.get(name) or _section_of(value, count)
        if section == "non_tensor_batch" and not isinstance(value, np.ndarray):
            value = objects(list(value))
        elif section == "non_tensor_batch":
            value = objects(value.tolist())
        elif isinstance(value, (np.ndarray, np.generic)) and section == "meta_info":
            value = value.tolist()
        getattr(sections, section)[name] = value
    return sections


def _section_of(value: Any, rows: int) -> str:
    if _is_dense(value):
        return "batch"
    return "non_tensor_batch" if _is_rows(value) and len(value) == rows else "meta_info"


def _is_dense(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and not value.dtype.hasobject
    return is_tensor(value) and value.dim() > 0


def _is_rows(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and value.dtype.hasobject
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))


def objects(values: list[Any]) -> np.ndarray[Any, Any]:
    """An object array of one dimension, whatever the values are."""
    array = np.empty(len(values), object)
    for i, v in enumerate(values):  # an assignment of all would make rows of nested values
        array[i] = v
    return array


def encode_non_tensor(name: str, value: Any, schema: FieldSchema | None) -> Field | None:
    """The parts of a non-tensor field; None for an array that is stored as it is."""
    if not isinstance(value, np.ndarray) or (schema is None and not value.dtype.hasobject):
        return None
    if value.ndim != 1:
        raise ValueError("unsupported structured non-tensor field: object ndarray rows")
    path, rows = f"non_tensor_batch.{name}", value.tolist()
    if schema is None:
        codec, (parts, metadata) = encode_field(path, rows)
        return Field(codec, metadata, parts)
    try:
        return _by_schema(path, rows, schema)
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        text = f"failed to encode non_tensor_batch field {name!r} with FieldSchema codec {schema.codec!r}: {e}"
        raise type(e)(text) if type(e) in (TypeError, ValueError, AttributeError) else ValueError(text) from e


def _by_schema(path: str, rows: list[Any], schema: FieldSchema) -> Field:
    if schema.codec not in CODECS:
        raise ValueError(f"unsupported schema codec: {schema.codec!r}")
    if not schema.nullable and any(v is None for v in rows):
        raise ValueError(f"FieldSchema for {path!r} is not nullable")
    codec = schema.codec
    if codec == "ndarray" and (fits := decide(rows)).accepted:
        codec = fits.codec  # the schema says that the column is an array, and its rows what kind of array it can be
    parts, metadata = CODECS[codec].encode(rows, schema.metadata)
    return Field(codec, metadata, parts)


def as_result(sections: Sections, data_cls: Any) -> Any:
    """The sections as a dict, or as data_cls."""
    if data_cls is None:
        return dict(zip(SECTIONS, sections, strict=True))
    make = getattr(data_cls, "from_dict", None)
    if make is not None:
        return make(sections.batch, sections.non_tensor_batch, meta_info=sections.meta_info)
    return data_cls(**dict(zip(SECTIONS, sections, strict=True)))


def as_flat(sections: Sections) -> dict[str, Any]:
    """One dict of all fields; object arrays are lists."""
    lists = {
        name: v.tolist() if isinstance(v, np.ndarray) and v.dtype.hasobject else v
        for name, v in sections.non_tensor_batch.items()
    }
    return {**sections.meta_info, **sections.batch, **lists}


class Selection(NamedTuple):
    """Which rows of a DataProto to read: a range, or numbers."""

    numbers: list[int] | range


def select_rows(rows: Any, total: int) -> Selection | None:
    """The rows asked for; None is all. Numbers below 0 count from the end."""
    if rows is None:
        return None
    if hasattr(rows, "axis") and hasattr(rows, "step"):
        if rows.axis != 0:
            raise ValueError(f"DataProto rows are on axis 0, got axis {rows.axis}")
        rows = slice(rows.start, rows.end, rows.step)
    if isinstance(rows, slice):
        if rows.step is not None and rows.step <= 0:
            raise ValueError("DataProto row slicing step must be positive")
        return Selection(range(*rows.indices(total)))
    if isinstance(rows, (str, bytes)) or not isinstance(rows, (Sequence, np.ndarray)):
        raise TypeError("DataProto rows must be a slice, StructuredMemberSlice, or row index sequence")
    found = []
    for i in rows:
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)):
            raise TypeError("DataProto row indices must be integers")
        if not -total <= i < total:
            raise IndexError(f"DataProto row index {i} out of range for {total} rows")
        found.append(int(i) % total)
    return Selection(found)
