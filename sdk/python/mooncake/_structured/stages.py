"""DataProto batches as stages, each of which is one bundle. Private."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from .bundle import Bundles, Options, keys_of
from .dataproto import (
    Sections,
    Selection,
    as_flat,
    as_result,
    encode_non_tensor,
    objects,
    select_rows,
    split,
)
from .infer import decode_field
from .members import Reader
from .refs import resolve
from .transport import config_in_group
from .types import (
    STRUCTURED_FIELD_SPECS_KEY,
    FieldSchema,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredFieldLocation,
    StructuredMemberSlice,
)

Ref = MooncakeDataProtoRef | Mapping[str, Any]
Schemas = Mapping[str, FieldSchema]
Names = Sequence[str] | None


class Stages:
    """Writes, reads and removes DataProto batches."""

    def __init__(self, bundles: Bundles) -> None:
        self.bundles = bundles

    def put(
        self, data: Any, kind: str, namespace: str, partition: str, stage: str, options: Options, schemas: Schemas
    ) -> MooncakeDataProtoRef:
        sections = split(data, kind, schemas)
        ref = MooncakeDataProtoRef(
            batch_size=sections.rows(),
            stage_refs={},
            field_index={},
            meta_info=dict(sections.meta_info),
            namespace=namespace,
            partition=partition,
            _storage_group_id=f"structured-{uuid.uuid4().hex}",
        )
        if sections.batch or sections.non_tensor_batch:
            self._add(ref, sections, stage, options, schemas)
        return ref

    def append(
        self, old: Ref, data: Any, stage: str, overwrite: bool, options: Options, schemas: Schemas
    ) -> MooncakeDataProtoRef:
        old = resolve(old)
        sections = split(data, "dataproto", schemas)
        names = [*sections.batch, *sections.non_tensor_batch]
        ref = copy.copy(old)
        ref.stage_refs, ref.field_index = dict(old.stage_refs), dict(old.field_index)
        ref.meta_info = {**old.meta_info, **sections.meta_info}
        ref.encoded_non_tensor = dict(old.encoded_non_tensor)
        if not names:
            return ref
        if sections.rows() != old.batch_size:
            raise ValueError(
                f"DataProto append batch size {sections.rows()} does not match ref batch size {old.batch_size}"
            )
        there = sorted(set(names) & set(old.field_index))
        if there and not overwrite:
            raise ValueError(f"DataProto fields already exist: {there}")
        before = old.stage_refs.get(stage)
        if before is not None and there:
            lost = sorted(n for n, at in old.field_index.items() if at.stage == stage and n not in names)
            if lost:
                raise ValueError(f"DataProto overwrite for stage {stage!r} must include existing fields: {lost}")
        for name in there:
            ref.encoded_non_tensor.pop(name, None)
        self._add(ref, sections, stage, options, schemas)
        if before is not None and there:
            self.bundles.remove(before)
        elif before is not None:
            ref.stage_refs[stage] = self._merge(before, ref.stage_refs[stage], ref, options)
        return ref

    def _merge(
        self, before: RemoteBundleRef, added: RemoteBundleRef, ref: MooncakeDataProtoRef, options: Options
    ) -> RemoteBundleRef:
        try:
            own = options._replace(config=config_in_group(options.config, ref._storage_group_id))
            merged = self.bundles.merge(self.bundles.resolve(before), added, ref.partition, own)
        except BaseException:
            self.bundles.remove(added)
            raise
        own_keys = [*(c["key"] for c in added.manifest["meta"]["chunks"]), added.manifest_key]
        self.bundles.transport.remove(own_keys, must=False)  # the merged bundle says what they said
        return merged

    def _add(
        self, ref: MooncakeDataProtoRef, sections: Sections, stage: str, options: Options, schemas: Schemas
    ) -> None:
        """Stores the fields of sections as one bundle, and says in ref where they are."""
        members = {f"batch.{name}": value for name, value in sections.batch.items()}
        for name in sections.batch:
            ref.field_index[name] = StructuredFieldLocation(stage, f"batch.{name}", "batch")
        for name, value in sections.non_tensor_batch.items():
            member = f"non_tensor_batch.{name}"
            field = encode_non_tensor(name, value, schemas.get(name))
            if field is None:
                members[member] = value
            else:
                places = {part: f"{member}.{part}" for part in field.parts}
                members |= {places[part]: value for part, value in field.parts.items()}
                ref.encoded_non_tensor[name] = {
                    "codec": field.codec,
                    "rows": ref.batch_size,
                    "metadata": field.metadata,
                    "payload_members": places,
                }
            ref.field_index[name] = StructuredFieldLocation(stage, member, "non_tensor_batch")
        about = {
            "version": 1,
            "namespace": ref.namespace,
            "partition": ref.partition,
            "stage": stage,
            "batch_size": ref.batch_size,
        }
        own = options._replace(config=config_in_group(options.config, ref._storage_group_id))
        metadata = {"layout": "dataproto_stage", "dataproto": about}
        ref.stage_refs[stage] = self.bundles.put_structured(metadata, members, ref.partition, own)

    def get(
        self,
        ref: Ref,
        kind: str,
        select: tuple[Names, Names, Names, Names],
        data_cls: Any,
        into: Mapping[str, Any],
        rows: Any,
    ) -> Any:
        if kind not in ("dataproto", "dict"):
            raise ValueError(f"unsupported Mooncake payload type: {kind!r}")
        ref = resolve(ref)
        names = _selected(ref, *select[:3])
        wanted = select_rows(rows, ref.batch_size)
        stages: dict[str, tuple[Reader, Mapping[str, Any]]] = {}
        sections = Sections({}, {}, {})
        for name in names:
            at = ref.field_index[name]
            if at.stage not in stages:
                stages[at.stage] = self._open(ref.stage_refs[at.stage])
            reader, specs = stages[at.stage]
            value = _read(reader, specs, name, at, ref.encoded_non_tensor.get(name), wanted, into.get(name))
            getattr(sections, at.section)[name] = value
        keys = select[3]
        sections.meta_info.update({k: copy.deepcopy(v) for k, v in ref.meta_info.items() if keys is None or k in keys})
        return as_flat(sections) if kind == "dict" else as_result(sections, data_cls)

    def _open(self, stage: RemoteBundleRef) -> tuple[Reader, Mapping[str, Any]]:
        manifest = self.bundles.resolve(stage).manifest
        specs = self.bundles.metadata(manifest).get(STRUCTURED_FIELD_SPECS_KEY, {})
        return self.bundles.reader(manifest), specs

    def view(self, ref: Ref) -> dict[str, Any]:
        ref = resolve(ref)
        fields: dict[str, dict[str, Any]] = {"batch": {}, "non_tensor_batch": {}}
        metadata = {}
        for stage, at in ref.stage_refs.items():
            metadata[stage] = self.bundles.metadata(self.bundles.resolve(at).manifest)
        for name, where in ref.field_index.items():
            specs = metadata[where.stage].get(STRUCTURED_FIELD_SPECS_KEY, {})
            encoded = ref.encoded_non_tensor.get(name)
            if encoded is None:
                spec = specs[where.member]
            else:
                spec = {
                    "encoding": "structured_non_tensor",
                    "codec": encoded["codec"],
                    "metadata": encoded["metadata"],
                    "payload_members": encoded["payload_members"],
                    "payload_specs": {part: specs[m] for part, m in encoded["payload_members"].items()},
                }
            about = {"section": where.section, "stage": where.stage, "member": where.member, "spec": spec}
            fields[where.section][name] = about
        return {
            "namespace": ref.namespace,
            "partition": ref.partition,
            "batch_size": ref.batch_size,
            "batch_fields": fields["batch"],
            "non_tensor_fields": fields["non_tensor_batch"],
            "meta_info_keys": list(ref.meta_info),
            "stages": {
                stage: {"manifest_key": at.manifest_key, "dataproto": metadata[stage].get("dataproto")}
                for stage, at in ref.stage_refs.items()
            },
        }

    def remove(self, ref: Ref, keep: Ref | None) -> None:
        """Removes the stages of ref, but for the keys that keep has, too."""
        before = {} if keep is None else resolve(keep).stage_refs
        kept: list[str] = []
        for at in before.values():
            if self.bundles.transport.store.is_exist(at.manifest_key) == 1:
                kept += keys_of(self.bundles.resolve(at))
        for at in resolve(ref).stage_refs.values():
            if at.manifest_key in kept:
                continue
            if keep is None or self.bundles.transport.store.is_exist(at.manifest_key) == 1:
                self.bundles.remove(at, kept)


def _selected(ref: MooncakeDataProtoRef, fields: Names, batch: Names, non_tensor: Names) -> list[str]:
    if fields is not None and (batch is not None or non_tensor is not None):
        raise ValueError("fields cannot be combined with batch_fields or non_tensor_fields")
    if fields is None and batch is None and non_tensor is None:
        return list(ref.field_index)
    names = list(fields) if fields is not None else [*(batch or ()), *(non_tensor or ())]
    unknown = [name for name in names if name not in ref.field_index]
    if unknown:
        raise KeyError(f"unknown DataProto fields: {unknown}")
    for section, part in (("batch", batch), ("non_tensor_batch", non_tensor)):
        wrong = [name for name in part or () if ref.field_index[name].section != section]
        if wrong:
            raise KeyError(f"these fields are not in {section}: {wrong}")
    return names


def _read(
    reader: Reader,
    specs: Mapping[str, Any],
    name: str,
    at: StructuredFieldLocation,
    encoded: Mapping[str, Any] | None,
    rows: Selection | None,
    into: Any,
) -> Any:
    if encoded is not None:
        if into is not None:
            raise ValueError(f"field {name!r} is encoded and has no destination")
        whole = Reader(reader.transport, reader.buffers)  # its memory is not handed out
        parts = {part: whole.read(member, specs[member]) for part, member in encoded["payload_members"].items()}
        values = decode_field(encoded["codec"], parts, encoded["rows"], encoded["metadata"])
        return objects(values if rows is None else [values[i] for i in rows.numbers])
    spec = specs[at.member]
    if rows is None:
        return reader.read(at.member, spec, None, into)
    if isinstance(rows.numbers, range) and rows.numbers.step == 1:
        return reader.read(at.member, spec, StructuredMemberSlice(0, rows.numbers.start, rows.numbers.stop), into)
    return reader.take(at.member, spec, rows.numbers, into)
