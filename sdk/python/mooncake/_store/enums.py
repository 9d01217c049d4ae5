"""The enumerations of mooncake.store. Private; import them from there.

Members have name, value and int(), and equal members of their own kind only.
"""

from __future__ import annotations

import enum


class _Number(enum.Enum):
    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


class ObjectDataType(_Number):
    """What an object is, for statistics."""

    __module__ = "mooncake.store"
    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class SoftPinAction(_Number):
    """What a write does to the soft pin of its object."""

    __module__ = "mooncake.store"
    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ReplicaStatus(_Number):
    """How far a replica is. COMPLETE ones can be read."""

    __module__ = "mooncake.store"
    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(_Number):
    """What a task does."""

    __module__ = "mooncake.store"
    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(_Number):
    """How far a task is."""

    __module__ = "mooncake.store"
    PENDING = 0
    PROCESSING = 1
    FAILED = 2
    SUCCESS = 3
