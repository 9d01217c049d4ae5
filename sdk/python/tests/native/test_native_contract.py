"""The extension has what _native.pyi says, function by function."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

STUB = ast.parse((Path(__file__).resolve().parents[2] / "mooncake" / "_native.pyi").read_text())
FUNCTIONS = {node.name: node.args for node in STUB.body if isinstance(node, ast.FunctionDef)}
CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]


def test_the_stub_names_every_function(native: ModuleType) -> None:
    there = {n for n in dir(native) if not n.startswith("__") and callable(getattr(native, n))}
    assert there == FUNCTIONS.keys() | {c.name for c in CLASSES}
    assert len(FUNCTIONS) > 50


def test_every_function_counts_its_arguments(native: ModuleType) -> None:
    for name, args in FUNCTIONS.items():
        want = len(args.posonlyargs) + len(args.args)
        try:
            getattr(native, name)(*[object()] * (want + 1))
        except TypeError as e:
            assert f"takes {want} positional arguments, got {want + 1}" in str(e), name
        else:
            raise AssertionError(f"{name} takes one argument more than the stub says")


def test_constants(native: ModuleType) -> None:
    assert (native.PUT, native.UPSERT, native.MAY_PREFER_NODE) == (0, 1, 2)


def test_the_classes_have_what_the_stub_says(native: ModuleType) -> None:
    assert [c.name for c in CLASSES] == ["BufferHandle", "Replica"]
    for stub in CLASSES:
        methods = {n.name for n in stub.body if isinstance(n, ast.FunctionDef)} - {"__buffer__"}  # a method since 3.12
        fields = {n.target.id for n in stub.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
        assert methods | fields <= set(dir(getattr(native, stub.name)))


def test_every_function_has_its_signature_as_the_first_line(native: ModuleType) -> None:
    for name in FUNCTIONS:
        assert getattr(native, name).__doc__.split("\n")[0].startswith(f"{name}("), name
