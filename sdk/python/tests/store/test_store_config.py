"""ReplicateConfig, the enumerations and what they are like."""

import pickle

import pytest

import mooncake.store as ms
from mooncake.store import ObjectDataType, ReplicateConfig, SoftPinAction

DEFAULTS = {
    "replica_num": 1,
    "nof_replica_num": 0,
    "dfs_replica_num": 0,
    "soft_pin_action": SoftPinAction.PRESERVE,
    "soft_pin_ttl_ms": None,
    "with_hard_pin": False,
    "preferred_segments": [],
    "preferred_nof_segments": [],
    "preferred_segment": "",
    "prefer_alloc_in_same_node": False,
    "data_type": ObjectDataType.UNKNOWN,
    "group_ids": None,
    "session_ids": None,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_on_class_and_instance(name: str) -> None:
    assert hasattr(ReplicateConfig, name)
    assert getattr(ReplicateConfig(), name) == DEFAULTS[name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica_num", 2**64 - 1),
        ("soft_pin_action", SoftPinAction.ENABLE),
        ("soft_pin_ttl_ms", 1000),
        ("soft_pin_ttl_ms", None),
        ("with_hard_pin", True),
        ("preferred_segments", ["a:1", "b:2"]),
        ("preferred_segment", "a:1"),
        ("data_type", ObjectDataType.KVCACHE),
        ("group_ids", ["g"]),
        ("group_ids", None),
        ("session_ids", ["s"]),
        ("session_ids", None),
    ],
)
def test_attributes_keep_what_they_are_set_to(name: str, value: object) -> None:
    config = ReplicateConfig()
    setattr(config, name, value)
    assert getattr(config, name) == value
    assert getattr(ReplicateConfig(), name) == DEFAULTS[name], "another one is not changed"


@pytest.mark.parametrize("name", ["preferred_segments", "group_ids", "session_ids"])
def test_lists_are_copies(name: str) -> None:
    config, given = ReplicateConfig(), ["a"]
    setattr(config, name, given)
    given.append("b")
    getattr(config, name).append("c")
    assert getattr(config, name) == ["a"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica_num", -1),
        ("replica_num", 1.0),
        ("replica_num", "1"),
        ("soft_pin_ttl_ms", -1),
        ("soft_pin_ttl_ms", 2**64),
        ("soft_pin_action", 1),
        ("with_hard_pin", "yes"),
        ("with_hard_pin", [True]),
        ("preferred_segments", "a:1"),
        ("preferred_segments", [None]),
        ("preferred_segment", None),
        ("data_type", SoftPinAction.ENABLE),
        ("group_ids", [1]),
        ("session_ids", [1]),
        ("session_ids", "s"),
    ],
)
def test_a_wrong_value_is_a_type_error_that_names_it(name: str, value: object) -> None:
    config = ReplicateConfig()
    with pytest.raises(TypeError, match=name):
        setattr(config, name, value)
    assert getattr(config, name) == DEFAULTS[name]


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(AttributeError, match="replicas"):
        ReplicateConfig().replicas = 2
    with pytest.raises(TypeError):
        ReplicateConfig(2)


def test_text() -> None:
    config = ReplicateConfig()
    config.data_type = ObjectDataType.TENSOR
    assert str(config) == (
        "ReplicateConfig: { replica_num: 1, nof_replica_num: 0, dfs_replica_num: 0, soft_pin_action: PRESERVE, "
        "soft_pin_ttl_ms: default, with_hard_pin: 0, preferred_segments: [], preferred_nof_segments: [], "
        "prefer_alloc_in_same_node: 0, data_type: TENSOR }"
    )
    config.soft_pin_action, config.soft_pin_ttl_ms = SoftPinAction.ENABLE, 70
    config.with_hard_pin, config.preferred_segments, config.preferred_segment = True, ["a", "b"], "c"
    config.group_ids = ["g", "h"]
    assert str(config) == (
        "ReplicateConfig: { replica_num: 1, nof_replica_num: 0, dfs_replica_num: 0, soft_pin_action: ENABLE, "
        "soft_pin_ttl_ms: 70, with_hard_pin: 1, preferred_segments: [a, b], preferred_segment (deprecated): c, "
        "preferred_nof_segments: [], prefer_alloc_in_same_node: 0, data_type: TENSOR, group_ids: [g, h] }"
    )


@pytest.mark.parametrize(("value", "taken"), [(1, True), (0, False), (2.5, True), (None, False)])
def test_numbers_are_bools(value: object, taken: bool) -> None:
    config = ReplicateConfig()
    config.with_hard_pin = value
    assert config.with_hard_pin is taken


def test_older_name_of_the_soft_pin() -> None:
    config = ReplicateConfig()
    config.with_soft_pin = True
    assert config.soft_pin_action == SoftPinAction.ENABLE
    config.soft_pin_action = SoftPinAction.DISABLE
    assert config.with_soft_pin is False


ENUMS = {
    "ObjectDataType": "UNKNOWN KVCACHE TENSOR WEIGHT SAMPLE ACTIVATION GRADIENT OPTIMIZER_STATE METADATA GENERAL",
    "SoftPinAction": "PRESERVE ENABLE DISABLE",
    "ReplicaStatus": "UNDEFINED INITIALIZED PROCESSING COMPLETE REMOVED FAILED",
    "TaskType": "REPLICA_COPY REPLICA_MOVE",
    "TaskStatus": "PENDING PROCESSING FAILED SUCCESS",
}


@pytest.mark.parametrize("name", ENUMS)
def test_enumerations(name: str) -> None:
    kind = getattr(ms, name)
    for value, member in enumerate(ENUMS[name].split()):
        m = getattr(kind, member)
        assert (m.name, m.value, int(m), m == kind(value), hash(m) == hash(kind(value))) == (
            member,
            value,
            value,
            True,
            True,
        )
        assert list("abcdefghijkl")[m] == "abcdefghijkl"[value], "usable as an index"
        assert str(m) == f"{name}.{member}"
        assert pickle.loads(pickle.dumps(m)) is m
    assert kind.__module__ == "mooncake.store"
    assert kind(0) != next(getattr(ms, other) for other in ENUMS if other != name)(0)


def test_exported_members() -> None:
    assert ms.KVCACHE is ObjectDataType.KVCACHE
    assert ms.UNKNOWN is ObjectDataType.UNKNOWN
    assert ms.COMPLETE is ms.ReplicaStatus.COMPLETE
    assert ms.REPLICA_MOVE is ms.TaskType.REPLICA_MOVE
    assert ms.PROCESSING is ms.TaskStatus.PROCESSING, "the last one of a name counts"
    assert ms.FAILED is ms.TaskStatus.FAILED
    assert not hasattr(ms, "PRESERVE")


def test_descriptors_can_be_made_where_they_can_upstream() -> None:
    d = ms.Descriptor()
    d.size, d.buffer_address, d.transport_endpoint = 1, 2, "x"
    assert (d.size, d.buffer_address, d.transport_endpoint) == (1, 2, "x")
    for kind in (ms.ReplicaDescriptor, ms.QueryTaskResponse, ms.BufferLease, ms.BufferHandle):
        with pytest.raises(TypeError):
            kind()
