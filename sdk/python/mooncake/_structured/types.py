"""The values that mooncake.structured_object_store takes and returns. Private; import them from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

PUBLIC = "mooncake.structured_object_store"

AUTO_PARALLEL_MIN_BYTES = 64 << 20
AUTO_PARALLEL_MIN_CHUNKS = 8
DEFAULT_BUNDLE_CHUNK_BYTES = 64 << 20
MISSING_OBJECT_ERROR = -704
STORAGE_GROUP_ID = "storage_group_id"
STRUCTURED_FIELD_SPECS_KEY = "__mooncake_structured_fields__"


class _Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "<MISSING>"


MISSING = _Missing()  # stands for a key that a row does not have; None is a value


class BundleStore(Protocol):
    """What a store must have; MooncakeDistributedStore has it, and a class for tests needs no more."""

    def put(self, key: str, value: Any, config: Any = None) -> int:
        """0, or a negative code."""

    def get(self, key: str) -> bytes:
        """The value; b"" where there is none."""

    def is_exist(self, key: str) -> int:
        """1 where the key is there."""

    def remove(self, key: str, force: bool = False) -> int:
        """0, or a negative code."""


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How a bundle is written.

    max_inflight_put bounds the puts of one call that run at the same time; they do where put_mode
    is "parallel", or is not "batch" and the bundle is large. copy_mode "zero_copy" is an error for
    members other than tensor_object_buffer.
    """

    max_inflight_put: int = 1
    put_mode: Literal["auto", "batch", "parallel"] = "auto"
    copy_mode: Literal["auto", "zero_copy", "copy"] = "auto"


@dataclass(frozen=True)
class FieldSchema:
    """How a field is stored, where that is not to be inferred from its values.

    metadata["section"] names the section the field belongs to: "batch", "non_tensor_batch" or
    "meta_info".
    """

    codec: str
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class RemoteBundleRef:
    """Where a bundle is: the key of its manifest, and the manifest, empty where it was not read yet."""

    manifest_key: str
    manifest: dict[str, Any]


@dataclass(frozen=True)
class StructuredFieldLocation:
    """Which member of which stage holds a field."""

    stage: str
    member: str
    section: Literal["batch", "non_tensor_batch"]


@dataclass
class MooncakeDataProtoRef:
    """A DataProto in the pool: where its stages and fields are, and its metadata."""

    batch_size: int
    stage_refs: dict[str, RemoteBundleRef]
    field_index: dict[str, StructuredFieldLocation]
    meta_info: dict[str, Any]
    namespace: str = "default"
    partition: str = "default"
    global_indexes: list[int] | None = None
    encoded_non_tensor: dict[str, Any] = field(default_factory=dict)
    _storage_group_id: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StructuredMemberSlice:
    """Rows start to end of a member, every step-th. Only axis 0 can be sliced."""

    axis: int
    start: int
    end: int
    step: int = 1


@dataclass(frozen=True, init=False)
class StructuredObjectPayload:
    """Metadata that has a JSON form, and members by name."""

    metadata: Mapping[str, Any]
    buffers: Mapping[str, Any]

    def __init__(self, metadata: Mapping[str, Any] | None = None, buffers: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "buffers", {} if buffers is None else buffers)


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """What is to be read of a structured object; nothing is read before materialize."""

    ref: RemoteBundleRef | Mapping[str, Any]
    member_names: tuple[str, ...] | None = None
    member_slices: tuple[tuple[str, StructuredMemberSlice], ...] = ()

    def select_members(self, names: Sequence[str] | None) -> StructuredObjectReadSpec:
        """A spec of these members only; None is all."""
        return replace(self, member_names=None if names is None else tuple(names))

    def slice_member(self, name: str, axis: int, start: int, end: int, step: int = 1) -> StructuredObjectReadSpec:
        """A spec that reads these rows of one member."""
        others = tuple(s for s in self.member_slices if s[0] != name)
        return replace(self, member_slices=(*others, (name, StructuredMemberSlice(axis, start, end, step))))

    def member_slice(self, name: str) -> StructuredMemberSlice | None:
        """The rows to read of a member; None is all."""
        return dict(self.member_slices).get(name)


@dataclass
class StructuredObjectResult:
    """What was read: metadata, and members by name."""

    metadata: dict[str, Any]
    objects: dict[str, Any]


class TensorObject(NamedTuple):
    """A tensor that lies in memory as the pool stores it: metadata, then data."""

    ptr: int
    size: int
    owner: Any
    batch_size: int | None = None


class RawDestination(NamedTuple):
    """Memory of the caller to read a member into."""

    ptr: int
    size: int
    owner: Any
    pre_registered: bool = False


def tensor_object_buffer(ptr: int, size: int, owner: Any = None, batch_size: int | None = None) -> TensorObject:
    """Memory to store as it is: a tensor as the tensor calls of the store lay it out, metadata first.

    owner is kept until the put returned. batch_size is the number of its rows, which a DataProto
    needs.
    """
    return TensorObject(ptr, size, owner, batch_size)


def raw_destination(ptr: int, size: int, owner: Any = None, *, pre_registered: bool = False) -> RawDestination:
    """Memory for materialize_into and destinations. owner is kept as long as the result.

    pre_registered says that the memory is registered with the store already.
    """
    return RawDestination(ptr, size, owner, pre_registered)


for _public in (
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
):
    _public.__module__ = PUBLIC
