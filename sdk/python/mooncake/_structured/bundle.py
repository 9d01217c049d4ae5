"""Bundles: metadata and named members under one manifest, which is written last. Private."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .members import Member, Reader, encode, is_tensor
from .transport import Piece, Transport, bytes_view, chunked
from .types import (
    STRUCTURED_FIELD_SPECS_KEY,
    BundleTransferPolicy,
    RemoteBundleRef,
    StructuredObjectReadSpec,
    StructuredObjectResult,
    TensorObject,
)

_WRAPPED = "__mooncake_wrapped_object__"  # the metadata of an object that is one value
_VALUE = "value"


class Options(NamedTuple):
    """How one call writes."""

    chunk_bytes: int
    policy: BundleTransferPolicy
    config: Any

    @classmethod
    def of(
        cls, chunk_bytes: int, policy: BundleTransferPolicy | None, max_inflight_put: int | None, config: Any
    ) -> Options:
        """Checked options; ValueError where one cannot be."""
        policy = policy or BundleTransferPolicy()
        inflight = policy.max_inflight_put if max_inflight_put is None else max_inflight_put
        if inflight <= 0:
            raise ValueError("max_inflight_put must be positive")
        if policy.put_mode not in ("auto", "batch", "parallel"):
            raise ValueError(f"put_mode must be 'auto', 'batch' or 'parallel', got {policy.put_mode!r}")
        if policy.copy_mode not in ("auto", "zero_copy", "copy"):
            raise ValueError(f"copy_mode must be 'auto', 'zero_copy' or 'copy', got {policy.copy_mode!r}")
        own = BundleTransferPolicy(inflight, policy.put_mode, policy.copy_mode)
        return cls(positive_chunk(chunk_bytes), own, config)


def positive_chunk(chunk_bytes: int) -> int:
    """chunk_bytes as an int; ValueError where it is not positive."""
    if chunk_bytes <= 0:
        raise ValueError("chunk_bytes must be positive")
    return int(chunk_bytes)


def segment(value: Any, what: str) -> str:
    """value as one part of a key; ValueError where it is none."""
    if not isinstance(value, str) or not value or "/" in value:
        raise ValueError(f"invalid {what}: {value!r}")
    return value


def as_json(value: Mapping[str, Any], what: str) -> bytes:
    """The JSON form; TypeError that names what has none."""
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except TypeError as e:
        raise TypeError(f"{what} has no JSON form: {e}") from None


class Bundles:
    """Writes, reads and removes bundles below one prefix."""

    def __init__(self, transport: Transport, prefix: str, pool: Any) -> None:
        self.transport, self.prefix, self.pool = transport, prefix, pool

    def put(self, meta: Any, buffers: Mapping[str, Any], partition: str, options: Options) -> RemoteBundleRef:
        """A bundle of raw metadata and members, without what a reader needs to know of the members."""
        view = bytes_view(meta, "meta")
        for name, value in buffers.items():
            if is_tensor(value):
                raise TypeError(f"{name} must be bytes-like, got {type(value).__name__}; use put_structured_object")
        base, object_id = self._new(partition)
        return self._store(base, object_id, view, self._members(base, buffers, options), options)

    def put_structured(
        self, metadata: Mapping[str, Any], buffers: Mapping[str, Any], partition: str, options: Options
    ) -> RemoteBundleRef:
        """A bundle that says how its members are to be read."""
        if STRUCTURED_FIELD_SPECS_KEY in metadata:
            raise ValueError(f"metadata must not have the key {STRUCTURED_FIELD_SPECS_KEY!r}")
        metadata = {**metadata, "layout": metadata.get("layout", "structured")}
        base, object_id = self._new(partition)
        members = self._members(base, buffers, options)
        if members:
            metadata[STRUCTURED_FIELD_SPECS_KEY] = {name: m.spec for name, m in members.items()}
        return self._store(base, object_id, memoryview(as_json(metadata, "metadata")), members, options)

    def put_value(self, value: Any, partition: str, options: Options) -> RemoteBundleRef:
        """A mapping as its members, or one value."""
        if isinstance(value, Mapping):
            return self.put_structured({}, value, partition, options)
        return self.put_structured({_WRAPPED: True}, {_VALUE: value}, partition, options)

    def merge(self, old: RemoteBundleRef, new: RemoteBundleRef, partition: str, options: Options) -> RemoteBundleRef:
        """A third bundle with the members of both, whose bytes stay where they are; new goes before old."""
        base, object_id = self._new(partition)
        metadata, added = self.metadata(old.manifest), self.metadata(new.manifest)
        specs = {**metadata.get(STRUCTURED_FIELD_SPECS_KEY, {}), **added.get(STRUCTURED_FIELD_SPECS_KEY, {})}
        metadata = {**added, STRUCTURED_FIELD_SPECS_KEY: specs}
        described, pieces = chunked(f"{base}/meta", memoryview(as_json(metadata, "metadata")), options.chunk_bytes)
        ids: list[str] = []
        keys: list[str] = []
        for part in (old.manifest, new.manifest):
            ids += part.get("buffer_object_ids", [])
            keys += part.get("cleanup_keys", [])
        for part in (old, new):
            ids.append(part.manifest["object_id"])
            keys += [part.manifest_key, *(c["key"] for c in part.manifest["meta"]["chunks"])]
        manifest = {
            "version": 1,
            "layout": "bundle",
            "object_id": object_id,
            "meta": described,
            "buffers": {**old.manifest["buffers"], **new.manifest["buffers"]},
            "buffer_object_ids": list(dict.fromkeys(ids)),
            "cleanup_keys": list(dict.fromkeys(keys)),
        }
        return self._commit(base, manifest, pieces, options)

    def resolve(self, ref: RemoteBundleRef | Mapping[str, Any]) -> RemoteBundleRef:
        """A ref with its manifest, which is read where the ref does not have it."""
        if isinstance(ref, RemoteBundleRef):
            key, manifest = ref.manifest_key, ref.manifest
        else:
            try:
                key, manifest = ref.get("manifest_key"), ref.get("manifest")
            except AttributeError:
                raise TypeError(f"expected RemoteBundleRef or a mapping, got {type(ref).__name__}") from None
            if not key or not isinstance(key, str):
                raise ValueError("bundle ref must include manifest_key")
        return RemoteBundleRef(
            key, manifest if isinstance(manifest, dict) and manifest else self.transport.manifest(key)
        )

    def metadata(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata of a structured bundle."""
        found = json.loads(self.transport.read(manifest["meta"]))
        if not isinstance(found, dict):
            raise ValueError(f"{manifest['meta']['key']} holds no structured metadata")  # noqa: TRY004
        return found

    def materialize(self, spec: StructuredObjectReadSpec, into: Mapping[str, Any]) -> StructuredObjectResult:
        """Reads what spec selects."""
        ref = self.resolve(spec.ref)
        metadata = self.metadata(ref.manifest)
        specs = metadata.get(STRUCTURED_FIELD_SPECS_KEY, {})
        names = list(specs) if spec.member_names is None else list(spec.member_names)
        unknown = [name for name in names if name not in specs]
        if unknown:
            raise KeyError(f"unknown bundle buffers: {unknown}")
        reader = self.reader(ref.manifest)
        return StructuredObjectResult(
            metadata, {n: reader.read(n, specs[n], spec.member_slice(n), into.get(n)) for n in names}
        )

    def value(self, ref: RemoteBundleRef | Mapping[str, Any]) -> Any:
        """What put_value stored."""
        found = self.materialize(StructuredObjectReadSpec(ref), {})
        return found.objects[_VALUE] if found.metadata.get(_WRAPPED) else found.objects

    def reader(self, manifest: Mapping[str, Any]) -> Reader:
        return Reader(self.transport, manifest["buffers"], self.pool)

    def remove(self, ref: RemoteBundleRef | Mapping[str, Any], keep: Sequence[str] = ()) -> None:
        """Removes all keys of a bundle but those in keep, its manifest last. One that is gone is no error."""
        if not (isinstance(ref, RemoteBundleRef) and ref.manifest):
            key = ref.manifest_key if isinstance(ref, RemoteBundleRef) else ref.get("manifest_key")
            if key and self.transport.store.is_exist(key) != 1:
                return
        kept = set(keep)
        self.transport.remove([key for key in keys_of(self.resolve(ref)) if key not in kept])

    def _new(self, partition: str) -> tuple[str, str]:
        object_id = f"{segment(partition, 'bundle partition')}/{uuid.uuid4().hex}"
        return f"{self.prefix}/{object_id}", object_id

    def _members(self, base: str, buffers: Mapping[str, Any], options: Options) -> dict[str, Member]:
        named = [(segment(name, "bundle buffer name"), value) for name, value in buffers.items()]
        if options.policy.copy_mode == "zero_copy" and not all(isinstance(v, TensorObject) for _, v in named):
            raise RuntimeError("zero-copy put requires tensor-object buffers")
        return {name: encode(name, f"{base}/buffer/{name}", value, options.chunk_bytes) for name, value in named}

    def _store(
        self, base: str, object_id: str, meta: memoryview, members: Mapping[str, Member], options: Options
    ) -> RemoteBundleRef:
        described, pieces = chunked(f"{base}/meta", meta, options.chunk_bytes)
        manifest = {
            "version": 1,
            "layout": "bundle",
            "object_id": object_id,
            "meta": described,
            "buffers": {name: m.described for name, m in members.items()},
        }
        return self._commit(base, manifest, [*pieces, *(p for m in members.values() for p in m.pieces)], options)

    def _commit(self, base: str, manifest: dict[str, Any], pieces: list[Piece], options: Options) -> RemoteBundleRef:
        key = f"{base}/manifest"
        self.transport.put(pieces, options.policy, options.config)
        try:
            last = [Piece(key, memoryview(as_json(manifest, "manifest")))]
            self.transport.put(last, options.policy, options.config)
        except BaseException:
            self.transport.remove([p.key for p in pieces], must=False)
            raise
        return RemoteBundleRef(key, manifest)


def keys_of(ref: RemoteBundleRef) -> Iterator[str]:
    """All keys of a bundle, the manifest last."""
    manifest = ref.manifest
    for described in (manifest["meta"], *manifest["buffers"].values()):
        yield from (chunk["key"] for chunk in described["chunks"])
    yield from manifest.get("cleanup_keys", [])
    yield ref.manifest_key
