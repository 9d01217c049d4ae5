"""Where objects lie, and tasks that copy and move them. Private; the classes are mooncake.store's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _arguments as arguments
from .. import _native
from .._signatures import signed
from .base import INVALID_PARAMS, StoreBase
from .enums import ReplicaStatus, TaskStatus, TaskType

Text = str | bytes
TaskId = tuple[int, int]


class Descriptor:
    """Descriptor()

    Memory of a node: size in bytes, buffer_address in that node, transport_endpoint by which
    it is reached.
    """

    __module__ = "mooncake.store"
    __slots__ = ("buffer_address", "size", "transport_endpoint")

    def __init__(self) -> None:
        self.size = 0
        self.buffer_address = 0
        self.transport_endpoint = ""

    def __repr__(self) -> str:
        return f"<Descriptor of {self.size} bytes at {self.buffer_address:#x} of {self.transport_endpoint!r}>"


class MemoryDescriptor:
    """The memory of one replica: buffer_descriptor."""

    __module__ = "mooncake.store"
    __slots__ = ("buffer_descriptor",)

    def __init__(self) -> None:
        self.buffer_descriptor = Descriptor()


class DiskDescriptor:
    """The file of one replica: file_path and object_size in bytes."""

    __module__ = "mooncake.store"
    __slots__ = ("file_path", "object_size")

    def __init__(self) -> None:
        self.file_path = ""
        self.object_size = 0


@signed
class ReplicaDescriptor(_native.Replica):
    """One replica of an object. Stores make them; get_replica_desc returns them."""

    __module__ = "mooncake.store"
    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError(
            "ReplicaDescriptor cannot be constructed; MooncakeDistributedStore.get_replica_desc returns them"
        )

    def __getstate__(self) -> tuple[int, int, int, str, bool]:
        return self._status, self._size, self._address, self._endpoint, self._tier

    def __setstate__(self, state: tuple[int, int, int, str, bool]) -> None:
        self._status, self._size, self._address, self._endpoint, self._tier = state

    @property
    def status(self) -> ReplicaStatus:
        """How far the replica is."""
        return ReplicaStatus(self._status)

    def is_memory_replica(self) -> bool:
        """is_memory_replica() -> bool"""
        return not self._tier

    def is_disk_replica(self) -> bool:
        """is_disk_replica() -> bool"""
        return False

    def is_local_disk_replica(self) -> bool:
        """is_local_disk_replica() -> bool: whether it lies on a storage tier of a node."""
        return self._tier

    def get_memory_descriptor(self) -> MemoryDescriptor:
        """RuntimeError for a replica that is not in memory."""
        if self._tier:
            raise RuntimeError("the replica lies on a storage tier, not in memory; ask is_memory_replica first")
        memory = MemoryDescriptor()
        buffer = memory.buffer_descriptor
        buffer.size, buffer.buffer_address, buffer.transport_endpoint = self._size, self._address, self._endpoint
        return memory

    def get_disk_descriptor(self) -> DiskDescriptor:
        """RuntimeError for a replica that is not on a shared disk, as all that are listed today."""
        raise RuntimeError("the replica is not on a shared disk; ask is_disk_replica first")

    def __repr__(self) -> str:
        return f"<ReplicaDescriptor: {'local disk' if self._tier else 'memory'}, {self.status.name}>"


class QueryTaskResponse:
    """How far a task is. Read-only; times are milliseconds since 1970."""

    __module__ = "mooncake.store"
    __slots__ = ("_fields",)

    def __init__(self) -> None:
        raise TypeError("QueryTaskResponse cannot be constructed; MooncakeDistributedStore.query_task gives one")

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> QueryTaskResponse:
        task = cls.__new__(cls)
        task._fields = fields
        return task

    id = property(lambda self: tuple(self._fields["id"]), doc="the task's id, a pair of numbers")
    type = property(lambda self: TaskType(self._fields["type"]), doc="what it does")
    status = property(lambda self: TaskStatus(self._fields["status"]), doc="how far it is")
    created_at_ms_epoch = property(lambda self: self._fields["created_at_ms_epoch"], doc="when it was asked for")
    last_updated_at_ms_epoch = property(
        lambda self: self._fields["last_updated_at_ms_epoch"], doc="when its status changed"
    )
    assigned_client = property(
        lambda self: tuple(self._fields["assigned_client"]), doc="the node that works on it, a pair of numbers"
    )
    message = property(lambda self: self._fields["message"], doc="why it failed")

    def __repr__(self) -> str:
        return f"<QueryTaskResponse: {self.type.name}, {self.status.name}>"


@signed
class ReplicaMethods(StoreBase):
    """Replicas and tasks."""

    def get_replica_desc(self, key: Text) -> list[ReplicaDescriptor]:
        """Where the object lies; [] where it is not there."""
        name = arguments.string("key", key)
        return _native.store_replicas(self._handle, [name], ReplicaDescriptor).get(name, []) if self._ready else []

    def batch_get_replica_desc(self, keys: Sequence[Text]) -> dict[str, list[ReplicaDescriptor]]:
        """For each key that is there where the object lies."""
        if self._ready:
            return _native.store_replicas(self._handle, keys, ReplicaDescriptor)
        arguments.strings("keys", keys)
        return {}

    def batch_replica_clear(self, keys: Sequence[Text], segment_name: Text = "") -> list[str]:
        """Removes objects that this store has put and that have no lease; with a segment's name, only
        their replicas there. Returns the keys for which that was done.
        """
        if self._ready:
            return _native.store_clear_replicas(self._handle, keys, segment_name)
        arguments.strings("keys", keys)
        arguments.text("segment_name", segment_name)
        return []

    def create_copy_task(self, key: Text, targets: Sequence[Text]) -> tuple[TaskId, int]:
        """Asks for replicas on the named segments: the task's id and 0, or (0, 0) and a negative code."""
        return self._create(
            "create_copy_task", key=arguments.string("key", key), targets=arguments.strings("targets", targets)
        )

    def create_move_task(self, key: Text, source: Text, target: Text) -> tuple[TaskId, int]:
        """Asks that the replica on segment source moves to target: as create_copy_task."""
        return self._create(
            "create_move_task",
            key=arguments.string("key", key),
            source=arguments.string("source", source),
            target=arguments.string("target", target),
        )

    def query_task(self, task_id: TaskId) -> tuple[QueryTaskResponse | None, int]:
        """How far a task is and 0, or None and a negative code."""
        if isinstance(task_id, (str, bytes)) or not isinstance(task_id, Sequence) or len(task_id) != 2:
            raise TypeError("task_id: expected the pair of numbers that create_copy_task or create_move_task gave")
        pair = [arguments.number(f"task_id[{i}]", n) for i, n in enumerate(task_id)]
        if not self._ready:
            return None, INVALID_PARAMS
        answer = self._control("query_task", id=pair)
        return (QueryTaskResponse._of(answer["task"]), 0) if answer["code"] == 0 else (None, answer["code"])

    def _create(self, method: str, **args: Any) -> tuple[TaskId, int]:
        answer = self._control(method, **args) if self._ready else {"code": INVALID_PARAMS}
        if answer["code"] != 0:
            return (0, 0), answer["code"]
        high, low = answer["id"]
        return (high, low), 0
