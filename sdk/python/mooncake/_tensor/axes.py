"""A request's parallelism, checked, and the keys and metadata that follow from it."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

from .layout import DP, EP, MAX_AXES, PP, TP, Axis, LayoutError, TensorMetadata

_KINDS = {"dp": DP, "tp": TP, "ep": EP, "pp": PP}
_NEEDS = {"tp": "split_dim", "ep": "expert_id", "pp": "stage_id"}

PARALLEL_MANIFEST = "__parallelism_manifest"
WRITER_MANIFEST = "__writer_manifest"


class AxisSpec(NamedTuple):
    """One axis of a request. The names are those of ParallelAxis."""

    kind: str
    rank: int
    size: int
    split_dim: int | None = None
    expert_id: int | None = None
    stage_id: int | None = None

    @property
    def dim(self) -> int:
        """split_dim of an axis that was checked to have one."""
        return -1 if self.split_dim is None else self.split_dim

    @property
    def member(self) -> int:
        return {"ep": self.expert_id, "pp": self.stage_id}.get(self.kind) or 0

    def record(self, extent: int) -> Axis:
        """As it is stored. extent is that of the shard along split_dim."""
        return Axis(_KINDS[self.kind], self.rank, self.size, self.dim, self.member, extent if self.kind == "tp" else 0)

    def suffix(self) -> str:
        parts = [f"__{self.kind}_{self.rank}of{self.size}"]
        for mark, value in (("sd", self.split_dim), ("eid", self.expert_id), ("sid", self.stage_id)):
            if value is not None:
                parts.append(f"_{mark}{value}")
        return "".join(parts)


class Layout(NamedTuple):
    """The axes of a request, in its order."""

    axes: tuple[AxisSpec, ...]

    @property
    def tp(self) -> AxisSpec | None:
        return next((a for a in self.axes if a.kind == "tp"), None)

    @property
    def only_tp(self) -> bool:
        return len(self.axes) == 1 and self.axes[0].kind == "tp"

    def with_tp(self, rank: int, size: int, split_dim: int) -> Layout:
        """The same with another place along TP."""
        return Layout(
            tuple(a._replace(rank=rank, size=size, split_dim=split_dim) if a.kind == "tp" else a for a in self.axes)
        )

    def key(self, base: str) -> str:
        """The key of this process's part. With TP alone it does not tell size and split_dim."""
        if self.only_tp:
            return tp_key(base, self.axes[0].rank)
        return base + "".join(a.suffix() for kind in _KINDS for a in self.axes if a.kind == kind)

    def records(self, extent: int) -> tuple[Axis, ...]:
        return tuple(a.record(extent) for a in self.axes)

    def describes(self, metadata: TensorMetadata) -> bool:
        """Whether an object with these metadata is this process's part."""
        own = sorted(a._replace(extent=0) for a in self.records(0))
        return metadata.is_shard and own == sorted(a._replace(extent=0) for a in metadata.axes)


def tp_key(base: str, rank: int) -> str:
    return f"{base}_tp_{rank}"


def writer_key(base: str, rank: int, size: int, split_dim: int) -> str:
    return f"{base}__writer_{rank}of{size}_sd{split_dim}"


def tp_layout(rank: int, size: int, split_dim: int) -> Layout:
    """LayoutError when there is no such rank."""
    return Layout((_checked(AxisSpec("tp", rank, size, split_dim)),))


def layout_of(parallelism: Any) -> Layout:
    """Checks a TensorParallelism, or an object like it. LayoutError says what is wrong."""
    try:
        axes = list(parallelism.axes)
    except (AttributeError, TypeError):
        raise LayoutError("a TensorParallelism must have axes") from None
    if not 1 <= len(axes) <= MAX_AXES:
        raise LayoutError(f"a TensorParallelism has 1 to {MAX_AXES} axes, not {len(axes)}")
    found = Layout(tuple(_checked(_spec(a)) for a in axes))
    if len({a.kind for a in found.axes}) != len(found.axes):
        raise LayoutError("a TensorParallelism has two axes of one kind")
    return found


def writer_of(partition: Any) -> AxisSpec:
    """Checks a writer_partition: anything with rank, size and split_dim. Its kind is not looked at."""
    return _checked(_spec(partition)._replace(kind="tp", expert_id=None, stage_id=None))


def _spec(axis: Any) -> AxisSpec:
    try:
        kind, rank, size = str(getattr(axis, "kind", "")).lower(), index(axis.rank), index(axis.size)
        rest = (getattr(axis, name, None) for name in ("split_dim", "expert_id", "stage_id"))
        return AxisSpec(kind, rank, size, *(None if v is None else index(v) for v in rest))
    except (AttributeError, TypeError):
        raise LayoutError("an axis must have kind, rank and size, and numbers in them") from None


def _checked(axis: AxisSpec) -> AxisSpec:
    if axis.kind not in _KINDS:
        raise LayoutError(f"axis kind {axis.kind!r} is not one of {', '.join(_KINDS)}")
    if not 0 <= axis.rank < axis.size:
        raise LayoutError(f"the {axis.kind} axis has no rank {axis.rank} of {axis.size}")
    if any(v is not None and not -(2**31) <= v < 2**31 for v in axis[1:]):
        raise LayoutError(f"a number of the {axis.kind} axis does not fit in 32 bits")
    need = _NEEDS.get(axis.kind)
    if need and getattr(axis, need) is None:
        raise LayoutError(f"the {axis.kind} axis needs {need}")
    if axis.kind != "tp" and axis.split_dim is not None:
        raise LayoutError(f"the {axis.kind} axis does not split the tensor: leave split_dim out")
    return axis
