"""ReplicateConfig. Private; import it from mooncake.store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import _arguments as arguments
from .enums import ObjectDataType, SoftPinAction


class _Field:
    """An attribute of a configuration: checked when it is set; lists go in and out as copies."""

    def __init__(self, default: Any, check: Callable[[str, Any], Any], doc: str) -> None:
        self.default, self.check, self.__doc__ = default, check, doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.slot = name, "_" + name

    def __get__(self, config: Any, owner: type | None = None) -> Any:
        if config is None:
            return self
        value = config.__dict__.get(self.slot, self.default)
        return list(value) if isinstance(value, list) else value

    def __set__(self, config: Any, value: Any) -> None:
        config.__dict__[self.slot] = self.check(self.name, value)


def _optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


def _member(kind: type) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name}: expected a {kind.__name__}, got {type(value).__name__}")
        return value

    return check


class ReplicateConfig:
    """ReplicateConfig()

    How objects are kept. Attributes are checked when they are set; one of a wrong type is a
    TypeError that names it, and an unknown one is an AttributeError. Lists are copies: assign
    a list, do not append to the one that was read.
    """

    __module__ = "mooncake.store"

    replica_num = _Field(1, arguments.number, "how many copies in memory of different nodes")
    nof_replica_num = _Field(0, arguments.number, "other than 0 is refused: there is no such memory")
    dfs_replica_num = _Field(0, arguments.number, "other than 0 is refused: there is no such memory")
    soft_pin_action = _Field(SoftPinAction.PRESERVE, _member(SoftPinAction), "what becomes of the soft pin")
    soft_pin_ttl_ms = _Field(
        None, _optional(arguments.number), "how long the soft pin holds; only with ENABLE; None: the master's setting"
    )
    with_hard_pin = _Field(False, arguments.flag, "never evict the object")
    preferred_segments = _Field([], arguments.strings, "nodes to place copies on, best first")
    preferred_segment = _Field(
        "", arguments.string, "the one node to place a copy on; deprecated, goes before preferred_segments"
    )
    preferred_nof_segments = _Field([], arguments.strings, "accepted, without effect")
    prefer_alloc_in_same_node = _Field(
        False, arguments.flag, "place all objects of a call on one node; only some calls take it"
    )
    data_type = _Field(ObjectDataType.UNKNOWN, _member(ObjectDataType), "what the objects are")
    group_ids = _Field(None, _optional(arguments.strings), "for each object the group it is evicted with, or None")
    session_ids = _Field(
        None,
        _optional(arguments.strings),
        "for each object the session that wrote it, or None; accepted, without effect",
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), (_Field, property)):
            raise AttributeError(f"'ReplicateConfig' object has no attribute {name!r}")  # noqa: TRY004
        object.__setattr__(self, name, value)

    @property
    def with_soft_pin(self) -> bool:
        """Older name: True is SoftPinAction.ENABLE, False is PRESERVE."""
        return self.soft_pin_action is SoftPinAction.ENABLE

    @with_soft_pin.setter
    def with_soft_pin(self, value: bool) -> None:
        self.soft_pin_action = (
            SoftPinAction.ENABLE if arguments.flag("with_soft_pin", value) else SoftPinAction.PRESERVE
        )

    def __str__(self) -> str:
        return "ReplicateConfig: { " + ", ".join(_shown(self)) + " }"

    def __repr__(self) -> str:
        return f"<{self}>"


FIELDS = tuple(name for name, field in vars(ReplicateConfig).items() if isinstance(field, _Field))


def _shown(config: ReplicateConfig) -> Iterator[str]:
    for name in FIELDS:
        value = getattr(config, name)
        if name == "preferred_segment":
            if value:
                yield f"{name} (deprecated): {value}"
        elif isinstance(value, list):
            yield f"{name}: [{', '.join(value)}]"
        elif isinstance(value, (ObjectDataType, SoftPinAction)):
            yield f"{name}: {value.name}"
        elif value is not None:
            yield f"{name}: {int(value)}"
        elif name == "soft_pin_ttl_ms":
            yield f"{name}: default"


def how(config: ReplicateConfig | None) -> tuple[Any, ...]:
    """The form of a configuration that _native takes; None is ReplicateConfig()."""
    if config is None:
        return _DEFAULT
    if not isinstance(config, ReplicateConfig):
        raise TypeError(f"config: expected a ReplicateConfig, got {type(config).__name__}")
    return (
        config.replica_num,
        config.nof_replica_num,
        config.dfs_replica_num,
        int(config.soft_pin_action),
        config.soft_pin_ttl_ms,
        config.with_hard_pin,
        config.prefer_alloc_in_same_node,
        int(config.data_type),
        config.group_ids,
        [config.preferred_segment] if config.preferred_segment else config.preferred_segments,
    )


_DEFAULT = how(ReplicateConfig())
