"""Handles: a MooncakeDataProtoRef as values that have a JSON form. Private."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .types import (
    PUBLIC,
    STORAGE_GROUP_ID,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredFieldLocation,
)

DATAPROTO_REF_HANDLE_TYPE = "mooncake_dataproto_ref"
DATAPROTO_REF_HANDLE_VERSION = 1
_KIND = "bundle_stages"


def is_dataproto_ref_handle(value: Any) -> bool:
    """Whether value is what export_dataproto_ref returns."""
    return isinstance(value, Mapping) and value.get("type") == DATAPROTO_REF_HANDLE_TYPE


def export_dataproto_ref(ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """A handle to hand to another process. It has a JSON form where meta_info has one."""
    handle: dict[str, Any] = {
        "type": DATAPROTO_REF_HANDLE_TYPE,
        "version": DATAPROTO_REF_HANDLE_VERSION,
        "kind": _KIND,
        "batch_size": ref.batch_size,
        "namespace": ref.namespace,
        "partition": ref.partition,
        "global_indexes": None if ref.global_indexes is None else list(ref.global_indexes),
        "stage_refs": {stage: {"manifest_key": r.manifest_key} for stage, r in ref.stage_refs.items()},
        "field_index": {
            name: {"stage": at.stage, "member": at.member, "section": at.section}
            for name, at in ref.field_index.items()
        },
        "meta_info": copy.deepcopy(ref.meta_info),
        "encoded_non_tensor": copy.deepcopy(ref.encoded_non_tensor),
    }
    if ref._storage_group_id is not None:
        handle[STORAGE_GROUP_ID] = ref._storage_group_id
    return handle


def import_dataproto_ref(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    """The ref of a handle. Nothing is read; ValueError where it is no handle of this version."""
    if not is_dataproto_ref_handle(handle):
        raise ValueError("not a Mooncake DataProto ref handle")
    version = handle.get("version")
    if not isinstance(version, int) or version < DATAPROTO_REF_HANDLE_VERSION:
        raise ValueError(f"unsupported DataProto ref handle version: {version}")
    if handle.get("kind") != _KIND:
        raise ValueError(f"unsupported DataProto ref handle kind: {handle.get('kind')}")
    return MooncakeDataProtoRef(
        batch_size=_rows(handle["batch_size"]),
        stage_refs={
            stage: RemoteBundleRef(at["manifest_key"], {}) for stage, at in _mapping(handle, "stage_refs").items()
        },
        field_index={
            name: StructuredFieldLocation(at["stage"], at["member"], at["section"])
            for name, at in _mapping(handle, "field_index").items()
        },
        meta_info=copy.deepcopy(dict(handle.get("meta_info") or {})),
        namespace=str(handle.get("namespace", "default")),
        partition=str(handle.get("partition", "default")),
        global_indexes=_indexes(handle.get("global_indexes")),
        encoded_non_tensor=copy.deepcopy(dict(handle.get("encoded_non_tensor") or {})),
        _storage_group_id=handle.get(STORAGE_GROUP_ID),
    )


def resolve(ref: MooncakeDataProtoRef | Mapping[str, Any]) -> MooncakeDataProtoRef:
    """A ref as it is, or the ref of a handle; TypeError for anything else."""
    if isinstance(ref, MooncakeDataProtoRef):
        return ref
    if isinstance(ref, Mapping):
        return import_dataproto_ref(ref)
    raise TypeError(f"expected MooncakeDataProtoRef or DataProto handle, got {type(ref).__name__}")


def _rows(value: Any) -> int:
    rows = int(value)
    if rows < 0:
        raise ValueError(f"DataProto ref handle batch_size must not be negative, got {rows}")
    return rows


def _mapping(handle: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = handle.get(name)
    if not isinstance(value, Mapping):
        raise ValueError(f"DataProto ref handle {name} must be a mapping")  # noqa: TRY004
    return value


def _indexes(value: Any) -> list[int] | None:
    if value is None:
        return None
    if not all(isinstance(i, int) for i in value):
        raise ValueError("DataProto ref handle global_indexes must contain integers")
    return list(value)


export_ref = export_dataproto_ref
import_ref = import_dataproto_ref

for _public in (is_dataproto_ref_handle, export_dataproto_ref, import_dataproto_ref):
    _public.__module__ = PUBLIC
