"""Structured objects in a store: bundles of named arrays, tensors and bytes, and DataProto batches of rows.

MooncakeBundleTransfer does it over any store with put, get, is_exist and remove. Objects have
upstream's keys, manifests and encodings, so that either package reads what the other wrote. It
needs numpy; tensors need PyTorch and images need Pillow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

try:
    import numpy as np
except ImportError as e:
    raise ImportError("mooncake.structured_object_store needs numpy: pip install numpy") from e

from ._structured.bundle import Bundles, Options, positive_chunk
from ._structured.infer import infer_structure
from ._structured.members import LentArray
from ._structured.refs import (
    DATAPROTO_REF_HANDLE_TYPE,
    DATAPROTO_REF_HANDLE_VERSION,
    export_dataproto_ref,
    export_ref,
    import_dataproto_ref,
    import_ref,
    is_dataproto_ref_handle,
)
from ._structured.stages import Stages
from ._structured.transport import Transport
from ._structured.types import (
    AUTO_PARALLEL_MIN_BYTES,
    AUTO_PARALLEL_MIN_CHUNKS,
    DEFAULT_BUNDLE_CHUNK_BYTES,
    MISSING,
    MISSING_OBJECT_ERROR,
    STORAGE_GROUP_ID,
    STRUCTURED_FIELD_SPECS_KEY,
    BundleStore,
    BundleTransferPolicy,
    FieldSchema,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredFieldLocation,
    StructuredMemberSlice,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
    raw_destination,
    tensor_object_buffer,
)

__all__ = [
    "AUTO_PARALLEL_MIN_BYTES",
    "AUTO_PARALLEL_MIN_CHUNKS",
    "DATAPROTO_REF_HANDLE_TYPE",
    "DATAPROTO_REF_HANDLE_VERSION",
    "DEFAULT_BUNDLE_CHUNK_BYTES",
    "MISSING",
    "MISSING_OBJECT_ERROR",
    "STORAGE_GROUP_ID",
    "STRUCTURED_FIELD_SPECS_KEY",
    "BundleStore",
    "BundleTransferPolicy",
    "DataProtoRefLike",
    "FieldSchema",
    "MooncakeBundleTransfer",
    "MooncakeDataProtoRef",
    "RemoteBundleRef",
    "StructuredFieldLocation",
    "StructuredMemberSlice",
    "StructuredObjectPayload",
    "StructuredObjectReadSpec",
    "StructuredObjectResult",
    "export_dataproto_ref",
    "export_ref",
    "import_dataproto_ref",
    "import_ref",
    "infer_structure",
    "is_dataproto_ref_handle",
    "raw_destination",
    "tensor_object_buffer",
]

DataProtoRefLike = MooncakeDataProtoRef | Mapping[str, Any]
_Rows = slice | StructuredMemberSlice | Sequence[int] | None


class MooncakeBundleTransfer:
    """Puts and gets structured objects. Used from any thread where the store may be.

    Keys begin with key_prefix. Values larger than default_chunk_bytes are stored in chunks of that
    size. With a BufferPool as buffer_pool, arrays that are read lie in its memory until
    release_result. A put that fails removes what it put and raises RuntimeError.
    """

    def __init__(
        self,
        store: BundleStore,
        key_prefix: str = "bundle",
        default_chunk_bytes: int = DEFAULT_BUNDLE_CHUNK_BYTES,
        buffer_pool: Any = None,
    ) -> None:
        self.store = store
        self.key_prefix = key_prefix.strip("/")
        if not self.key_prefix:
            raise ValueError("key_prefix must be a non-empty key prefix")
        self.default_chunk_bytes = positive_chunk(default_chunk_bytes)
        self.buffer_pool = buffer_pool
        self._bundles = Bundles(Transport(store), self.key_prefix, buffer_pool)
        self._stages = Stages(self._bundles)

    def put_bundle(
        self,
        meta: bytes | bytearray | memoryview,
        buffers: Mapping[str, Any],
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores metadata and members as bytes. The reader has to know what they are."""
        return self._bundles.put(meta, buffers, partition, self._how(chunk_bytes, policy, max_inflight_put, config))

    def put_structured_object(
        self,
        payload: StructuredObjectPayload,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores metadata that has a JSON form, and arrays, tensors and bytes by name."""
        how = self._how(chunk_bytes, policy, max_inflight_put, config)
        return self._bundles.put_structured(payload.metadata, payload.buffers, partition, how)

    def put_object(
        self,
        obj: Any,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores a mapping of arrays, tensors and bytes, or one of them."""
        return self._bundles.put_value(obj, partition, self._how(chunk_bytes, policy, max_inflight_put, config))

    def get_object(self, ref: RemoteBundleRef | Mapping[str, Any]) -> Any:
        """What put_object stored, or the members of a structured object."""
        return self._bundles.value(ref)

    def read_spec(self, ref: RemoteBundleRef | Mapping[str, Any]) -> StructuredObjectReadSpec:
        """A spec of all members, to be narrowed with select_members and slice_member."""
        return StructuredObjectReadSpec(ref)

    def materialize(self, spec: StructuredObjectReadSpec) -> StructuredObjectResult:
        """Reads what spec selects."""
        return self._bundles.materialize(spec, {})

    def materialize_into(
        self, spec: StructuredObjectReadSpec, destinations: Mapping[str, Any] | None
    ) -> StructuredObjectResult:
        """Reads what spec selects, arrays into the memory in destinations where there is one of their name."""
        return self._bundles.materialize(spec, destinations or {})

    def remove_bundle(self, ref: RemoteBundleRef | Mapping[str, Any]) -> None:
        """Removes all keys of a bundle, leased ones too. One that is gone is no error."""
        self._bundles.remove(ref)

    def put(
        self,
        data: Any,
        *,
        type: Literal["dataproto", "dict"] = "dataproto",
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        config: Any = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
    ) -> MooncakeDataProtoRef:
        """Stores a DataProto, or a flat dict whose values become its fields.

        A DataProto is an object or a mapping with batch, non_tensor_batch and meta_info. Fields of the first two
        have the same number of rows; meta_info is kept in the ref only.
        """
        how = self._how(chunk_bytes, policy, None, config)
        return self._stages.put(data, type, namespace, partition, stage, how, field_schemas or {})

    def put_dataproto(
        self,
        data: Any,
        *,
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """put with type "dataproto"."""
        how = self._how(chunk_bytes, policy, None, config)
        return self._stages.put(data, "dataproto", namespace, partition, stage, how, field_schemas or {})

    def append_dataproto_fields(
        self,
        ref: DataProtoRefLike,
        data: Any,
        *,
        stage: str,
        overwrite: bool = False,
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """Stores more fields of the same rows, and returns the ref of all. ref stays as it is.

        A stage that is there already is joined. A field that is there is a ValueError without overwrite; with it
        the new one counts, and data must have all fields of a stage that it replaces, which is removed.
        """
        how = self._how(chunk_bytes, policy, None, config)
        return self._stages.append(ref, data, stage, overwrite, how, field_schemas or {})

    def get(
        self,
        ref: DataProtoRefLike,
        *,
        type: Literal["dataproto", "dict"] = "dataproto",
        fields: Sequence[str] | None = None,
        batch_fields: Sequence[str] | None = None,
        non_tensor_fields: Sequence[str] | None = None,
        meta_info_keys: Sequence[str] | None = None,
        data_cls: Any | None = None,
        destinations: Mapping[str, Any] | None = None,
        rows: _Rows = None,
    ) -> Any:
        """Reads a DataProto as a dict of sections, as data_cls, or as a flat dict with type "dict".

        fields, or batch_fields and non_tensor_fields, select fields; naming fields of one section alone leaves the
        other out. rows selects rows, and only their bytes of arrays and tensors are read. destinations has memory
        for arrays of batch.
        """
        select = (fields, batch_fields, non_tensor_fields, meta_info_keys)
        return self._stages.get(ref, type, select, data_cls, destinations or {}, rows)

    def get_dataproto(
        self,
        ref: DataProtoRefLike,
        *,
        fields: Sequence[str] | None = None,
        batch_fields: Sequence[str] | None = None,
        non_tensor_fields: Sequence[str] | None = None,
        meta_info_keys: Sequence[str] | None = None,
        data_cls: Any | None = None,
        destinations: Mapping[str, Any] | None = None,
        rows: _Rows = None,
    ) -> Any:
        """get with type "dataproto"."""
        select = (fields, batch_fields, non_tensor_fields, meta_info_keys)
        return self._stages.get(ref, "dataproto", select, data_cls, destinations or {}, rows)

    def dataproto_manifest_view(self, ref: DataProtoRefLike) -> dict[str, Any]:
        """Where each field is and how it is stored; reads metadata only."""
        return self._stages.view(ref)

    def cleanup_dataproto(self, ref: DataProtoRefLike) -> None:
        """Removes all stages. Those that are gone are no error."""
        self._stages.remove(ref, None)

    def cleanup_dataproto_append(self, previous: DataProtoRefLike, appended: DataProtoRefLike) -> None:
        """Removes what append_dataproto_fields added to previous; previous stays readable."""
        self._stages.remove(appended, previous)

    @staticmethod
    def release_result(result: Any) -> None:
        """Gives the memory of a result back to the buffer pool. Its arrays must not be used after that."""
        if isinstance(result, LentArray):
            if result.lease is not None:
                result.lease.release()
        elif isinstance(result, StructuredObjectResult):
            MooncakeBundleTransfer.release_result(result.objects)
        elif isinstance(result, Mapping):
            for value in result.values():
                MooncakeBundleTransfer.release_result(value)
        elif isinstance(result, (list, tuple)):
            for value in result:
                MooncakeBundleTransfer.release_result(value)
        elif isinstance(result, np.ndarray) and result.dtype.hasobject:
            MooncakeBundleTransfer.release_result(result.tolist())
        else:
            for name in ("batch", "non_tensor_batch", "meta_info"):
                if isinstance(section := getattr(result, name, None), Mapping):
                    MooncakeBundleTransfer.release_result(section)

    def _how(
        self, chunk_bytes: int | None, policy: BundleTransferPolicy | None, inflight: int | None, config: Any
    ) -> Options:
        return Options.of(self.default_chunk_bytes if chunk_bytes is None else chunk_bytes, policy, inflight, config)
