"""What callers say of parallelism: the classes, the checks, and the keys that follow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tensor_golden import OBJECTS
from tensor_requests import axis, parallelism

from mooncake._tensor.axes import layout_of, writer_of
from mooncake._tensor.layout import LayoutError
from mooncake._tensor.parallelism import ParallelAxis, ReadTarget, TensorParallelism


def test_defaults() -> None:
    a = ParallelAxis()
    assert (a.kind, a.rank, a.size, a.split_dim, a.expert_id, a.stage_id) == ("", 0, 1, None, None, None)
    assert TensorParallelism().axes == []
    assert (ReadTarget().mode, ReadTarget().parallelism) == ("as_stored", None)
    assert all(hasattr(ParallelAxis, name) for name in ("kind", "rank", "size", "split_dim", "expert_id", "stage_id"))


@pytest.mark.parametrize("name", ["rank", "size", "split_dim", "expert_id", "stage_id"])
def test_numbers_of_an_axis(name: str) -> None:
    a = ParallelAxis()
    for value, kept in ((3, 3), (-1, -1), (True, 1)):
        setattr(a, name, value)
        assert getattr(a, name) == kept
    for wrong in (1.0, "x", 2**31, -(2**31) - 1):
        with pytest.raises(TypeError, match=name):
            setattr(a, name, wrong)
    if name in ("rank", "size"):
        with pytest.raises(TypeError, match=name):
            setattr(a, name, None)
    else:
        setattr(a, name, None)
        assert getattr(a, name) is None


def test_wrong_kinds_of_values_are_type_errors() -> None:
    with pytest.raises(TypeError, match="kind"):
        ParallelAxis().kind = 1  # type: ignore[assignment]
    with pytest.raises(TypeError):
        ParallelAxis(kind="tp")  # type: ignore[call-arg]
    for wrong in (None, "x", [1]):
        with pytest.raises(TypeError, match="axes"):
            TensorParallelism().axes = wrong  # type: ignore[assignment]
    with pytest.raises(TypeError, match="mode"):
        ReadTarget().mode = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match="parallelism"):
        ReadTarget().parallelism = 1  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
        ReadTarget().mode = "half"


def test_axes_are_a_copy_of_the_same_objects() -> None:
    a, p = ParallelAxis(), TensorParallelism()
    p.axes = (a,)  # type: ignore[assignment]
    p.axes.append(ParallelAxis())
    assert p.axes == [a]
    p.axes[0].rank = 7
    assert p.axes[0].rank == 7


PARTS = [o for o in OBJECTS if o["call"] == "put_tensor_with_parallelism" and "parallelism" in o["args"]]


@pytest.mark.parametrize("case", [o for o in PARTS if not o["key"].endswith("_manifest")], ids=lambda c: c["key"])
def test_keys_are_those_of_upstream(case: dict) -> None:
    assert layout_of(parallelism(*case["args"]["parallelism"])).key("k") == case["key"]


@pytest.mark.parametrize(
    ("axes", "word"),
    [
        ([], "1 to 4 axes"),
        ([axis("tp", 0, 2, split_dim=0)] * 2, "two axes of one kind"),
        ([axis("dp")] * 5, "1 to 4 axes"),
        ([axis("xx")], "'xx' is not one of"),
        ([axis("")], "'' is not one of"),
        ([axis("tp", 4, 4, split_dim=0)], "no rank 4 of 4"),
        ([axis("tp", -1, 4, split_dim=0)], "no rank -1 of 4"),
        ([axis("tp", 0, 0, split_dim=0)], "no rank 0 of 0"),
        ([axis("tp", 0, 2)], "needs split_dim"),
        ([axis("ep", 0, 2)], "needs expert_id"),
        ([axis("pp", 0, 2)], "needs stage_id"),
        ([axis("dp", 0, 2, split_dim=0)], "does not split"),
        ([axis("ep", 0, 2, split_dim=0, expert_id=1)], "does not split"),
        ([axis("pp", 0, 2, split_dim=0, stage_id=1)], "does not split"),
        ([SimpleNamespace(kind="tp")], "must have kind, rank and size"),
        ([SimpleNamespace(kind="tp", rank=0, size=2**40, split_dim=0)], "32 bits"),
        ([SimpleNamespace(kind="tp", rank="0", size=2, split_dim=0)], "numbers in them"),
    ],
)
def test_what_cannot_be_is_refused(axes: list, word: str) -> None:
    with pytest.raises(LayoutError, match=word):
        layout_of(SimpleNamespace(axes=axes))


def test_other_objects_with_the_same_attributes_do_as_well() -> None:
    own = SimpleNamespace(kind="TP", rank=1, size=4, split_dim=0)
    assert layout_of(SimpleNamespace(axes=[own])).key("k") == "k_tp_1"
    assert writer_of(SimpleNamespace(rank=1, size=4, split_dim=2)).split_dim == 2
    with pytest.raises(LayoutError, match="must have axes"):
        layout_of("x")
    with pytest.raises(LayoutError, match="needs split_dim"):
        writer_of(axis("dp", 1, 4))
