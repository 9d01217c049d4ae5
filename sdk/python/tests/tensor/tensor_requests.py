"""Short ways to say what a request asks for."""

from __future__ import annotations

from typing import Any

from mooncake._tensor.parallelism import ParallelAxis, ReadTarget, TensorParallelism


def axis(kind: str, rank: int = 0, size: int = 1, **more: Any) -> ParallelAxis:
    a = ParallelAxis()
    for name, value in ({"kind": kind, "rank": rank, "size": size} | more).items():
        setattr(a, name, value)
    return a


def tp(rank: int, size: int, dim: int = 0) -> ParallelAxis:
    return axis("tp", rank, size, split_dim=dim)


def parallelism(*axes: ParallelAxis | dict) -> TensorParallelism:
    """Of axes, or of what axis takes."""
    p = TensorParallelism()
    p.axes = [axis(**a) if isinstance(a, dict) else a for a in axes]
    return p


def target(mode: str, *axes: ParallelAxis | dict) -> ReadTarget:
    t = ReadTarget()
    t.mode = mode
    t.parallelism = parallelism(*axes) if axes else None
    return t
