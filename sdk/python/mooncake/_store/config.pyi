from typing import Any

from .enums import ObjectDataType, SoftPinAction

class ReplicateConfig:
    replica_num: int
    nof_replica_num: int
    dfs_replica_num: int
    soft_pin_action: SoftPinAction
    soft_pin_ttl_ms: int | None
    with_hard_pin: bool
    with_soft_pin: bool
    preferred_segments: list[str]
    preferred_nof_segments: list[str]
    preferred_segment: str
    prefer_alloc_in_same_node: bool
    data_type: ObjectDataType
    group_ids: list[str] | None
    session_ids: list[str] | None

FIELDS: tuple[str, ...]

def how(config: ReplicateConfig | None) -> tuple[Any, ...]: ...
