"""Every module and name of upstream's wheel 0.3.13.post1 is here, or is listed as absent with the reason."""

import enum
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mooncake import _absent

UPSTREAM = json.loads((Path(__file__).parent / "upstream_names.json").read_text())
ABSENT = [name for name in UPSTREAM if name.partition(".")[0] in _absent.MODULES]
PRESENT = [name for name in UPSTREAM if name not in ABSENT]


def members_lacking(kind, wanted):
    at = next(iter(kind)) if isinstance(kind, enum.EnumMeta) else kind
    return {name for name in wanted if not hasattr(at, name)}


@pytest.mark.parametrize("module", PRESENT)
def test_the_names_of_a_module_are_here_or_listed(module):
    needs = {"structured_object_store": "numpy", "mooncake_store_service": "aiohttp"}
    if needs.get(module):
        pytest.importorskip(needs[module])
    here = importlib.import_module(f"mooncake.{module}")
    listed = _absent.NAMES.get(module, {})
    lacking = {name for name in UPSTREAM[module] if not hasattr(here, name)}
    assert lacking == set(listed)
    for name, members in UPSTREAM[module].items():
        if name not in lacking and members:
            assert members_lacking(getattr(here, name), members) == set(_absent.METHODS.get(f"{module}.{name}", {}))


def test_every_listed_module_is_one_of_upstream():
    cuda_only = {"allocator", "allocator_ascend_npu"}  # other builds of the wheel have them
    assert set(_absent.MODULES) - cuda_only == {name.partition(".")[0] for name in ABSENT}


@pytest.mark.parametrize("module", sorted(_absent.MODULES))
def test_importing_an_absent_module_says_why(module):
    with pytest.raises(ImportError) as e:
        importlib.import_module(f"mooncake.{module}")
    assert str(e.value) == f"mooncake.{module} is not in this package: {_absent.MODULES[module]}"
    assert e.value.name == f"mooncake.{module}"


def test_ways_to_import_what_is_absent():
    """As SGLang and vLLM write it."""
    with pytest.raises(ImportError, match="NCCL or Gloo"):
        from mooncake import ep  # noqa: F401
    with pytest.raises(ImportError, match="NCCL or Gloo"):
        from mooncake.pg import get_peer_state  # noqa: F401
    with pytest.raises(ImportError, match="dma-buf"):
        from mooncake.allocator import NVLinkAllocator  # noqa: F401
    with pytest.raises(ImportError, match="put_tensor"):
        from mooncake.store import EngramStore  # noqa: F401
    with pytest.raises(ImportError, match="mooncake.reshard is not in this package"):
        importlib.import_module("mooncake.reshard.weight.planner")


def test_an_absent_name_is_no_attribute_and_an_unknown_one_is_just_unknown():
    store = importlib.import_module("mooncake.store")
    assert not hasattr(store, "EngramStore")
    with pytest.raises(AttributeError, match="keep embedding tables with put_tensor"):
        _ = store.EngramStore
    with pytest.raises(AttributeError, match="module 'mooncake.store' has no attribute 'nothing'"):
        _ = store.nothing
    with pytest.raises(ModuleNotFoundError, match="No module named 'mooncake.nothing'"):
        importlib.import_module("mooncake.nothing")


def test_another_distribution_may_add_an_absent_module(tmp_path, monkeypatch):
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "pg.py").write_text("here = True\n")
    code = "import pkgutil, sys; import mooncake.pg; print(mooncake.pg.here)"
    root = str(Path(_absent.__file__).parent.parent)
    env = {"PYTHONPATH": f"{root}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    package = tmp_path / "mooncake" / "__init__.py"
    package.write_text("import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n")
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "True\n", done.stderr


def test_importing_the_package_loads_neither_numpy_nor_torch_nor_the_library():
    root = str(Path(_absent.__file__).parent.parent)
    code = "import sys, mooncake; print([m for m in ('numpy', 'torch', 'asyncio', 'mooncake._native') if m in sys.modules])"
    env = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr
