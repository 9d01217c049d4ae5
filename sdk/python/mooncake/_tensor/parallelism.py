"""How a tensor is spread over a group of processes: what callers say of it.

Objects with the same attributes do as well as these classes.
"""

from __future__ import annotations

from operator import index
from typing import Any

_MODES = ("as_stored", "shard", "full")


class _Number:
    """An attribute that is an int of 32 bits, or None where that is the default."""

    def __init__(self, default: int | None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, obj: Any, owner: type) -> Any:
        return self if obj is None else obj.__dict__.get(self._name, self._default)

    def __set__(self, obj: Any, value: Any) -> None:
        if value is not None or self._default is not None:
            try:
                value = index(value)
            except TypeError:
                raise TypeError(f"ParallelAxis.{self._name} must be an int, not {type(value).__name__}") from None
            if not -(2**31) <= value < 2**31:
                raise TypeError(f"ParallelAxis.{self._name} must fit in 32 bits: {value}")
        obj.__dict__[self._name] = value


class ParallelAxis:
    """ParallelAxis()

    One axis: kind is "dp", "tp", "ep" or "pp"; this process is number rank of size. TP needs
    split_dim, EP expert_id, PP stage_id.
    """

    rank = _Number(0)
    size = _Number(1)
    split_dim = _Number(None)
    expert_id = _Number(None)
    stage_id = _Number(None)

    def __init__(self) -> None:
        self._kind = ""

    @property
    def kind(self) -> str:
        return self._kind

    @kind.setter
    def kind(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"ParallelAxis.kind must be a str, not {type(value).__name__}")
        self._kind = value


class TensorParallelism:
    """TensorParallelism()

    The axes of one tensor, at most one of each kind. axes is a copy; what it holds is not.
    """

    def __init__(self) -> None:
        self._axes: list[ParallelAxis] = []

    @property
    def axes(self) -> list[ParallelAxis]:
        return list(self._axes)

    @axes.setter
    def axes(self, value: Any) -> None:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise TypeError(f"TensorParallelism.axes must be a list of ParallelAxis, not {type(value).__name__}")
        axes = list(value)
        for axis in axes:
            if not isinstance(axis, ParallelAxis):
                raise TypeError(f"TensorParallelism.axes must be a list of ParallelAxis, not of {type(axis).__name__}")
        self._axes = axes


class ReadTarget:
    """ReadTarget()

    What to read: mode "as_stored" is the object as it is, "shard" the part that parallelism
    says, "full" the whole tensor. Another mode raises RuntimeError.
    """

    def __init__(self) -> None:
        self._mode = "as_stored"
        self._parallelism: TensorParallelism | None = None

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"ReadTarget.mode must be a str, not {type(value).__name__}")
        if value.lower() not in _MODES:
            raise RuntimeError(f"Unsupported ReadTarget mode {value!r}; there are {', '.join(_MODES)}")
        self._mode = value.lower()

    @property
    def parallelism(self) -> TensorParallelism | None:
        return self._parallelism

    @parallelism.setter
    def parallelism(self, value: TensorParallelism | None) -> None:
        if value is not None and not isinstance(value, TensorParallelism):
            raise TypeError(f"ReadTarget.parallelism must be a TensorParallelism or None, not {type(value).__name__}")
        self._parallelism = value
