"""Names, defaults and kinds of parameters, beside the table that consumers rely on."""

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import mooncake
import mooncake.store as ms
from mooncake._store import setup as _setup

# RC stands for ReplicateConfig(), which is written None. What stands before / is positional only.
STORE = """
init_all(protocol, device_name, mount_segment_size, /)
setup_dummy(mem_pool_size, local_buffer_size, server_address)
close()
health_check()
get_hostname()
mount_segment(path, size, offset=0, protocol="tcp", location="")
allocate_and_mount_segment(size, protocol="tcp", location="")
unmount_segment(segment_ids, grace_period_seconds=0)
unmount_and_free_segment(segment_ids, grace_period_seconds=0)
unmount_local_disk_segment(grace_period_seconds=0)
alloc_from_mem_pool(size, /)
get_offload_rpc_read_count()
put(key, value, config=RC)
put_parts(key, *parts, config=RC)
put_batch(keys, values, config=RC)
get(key, /)
get_batch(keys, /)
get_buffer(key, /)
batch_get_buffer(keys, /)
upsert(key, value, config=RC)
upsert_parts(key, *parts, config=RC)
upsert_batch(keys, values, config=RC)
is_exist(key, /)
batch_is_exist(keys)
get_size(key, /)
remove(key, force=False)
remove_by_regex(regex_pattern, force=False)
remove_all(force=False)
batch_remove(keys, force=False)
register_buffer(buffer_ptr, size)
unregister_buffer(buffer_ptr)
put_from(key, buffer_ptr, size, config=RC)
batch_put_from(keys, buffer_ptrs, sizes, config=RC)
get_into(key, buffer_ptr, size)
batch_get_into(keys, buffer_ptrs, sizes)
put_from_with_metadata(key, buffer_ptr, metadata_buffer_ptr, size, metadata_size, config=RC)
upsert_from(key, buffer_ptr, size, config=RC)
batch_upsert_from(keys, buffer_ptrs, sizes, config=RC)
batch_put_from_multi_buffers(keys, all_buffer_ptrs, all_sizes, config=RC)
batch_get_into_multi_buffers(keys, all_buffer_ptrs, all_sizes, prefer_alloc_in_same_node=False)
get_into_ranges(buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes)
batch_get_session_start(keys)
batch_get_into_multi_buffer_ranges(keys, all_buffer_ptrs, all_sizes, all_src_offsets)
batch_get_session_end(keys)
batch_put_session_start(keys, sizes, config=RC)
batch_put_from_multi_buffer_ranges(keys, all_buffer_ptrs, all_sizes, all_dst_offsets)
batch_put_session_end(keys)
batch_put_session_revoke(keys)
get_replica_desc(key)
batch_get_replica_desc(keys)
batch_replica_clear(keys, segment_name="")
create_copy_task(key, targets)
create_move_task(key, source, target)
query_task(task_id)
""".split("\n")[1:-1]  # noqa: SIM905

POOL = (
    "__init__(store, max_bytes=0, min_size_class=65536, max_size_class=None, alignment=8388608, block_on_exhaustion=True, "
    "default_timeout=None, max_regions=None, prewarm_size=None, prewarm_count=0)"
)
OTHERS = [
    (ms.BufferPool, POOL),
    (ms.BufferPool, "acquire(size, block=None, timeout=None)"),
    (ms.BufferPool, "buffer(size, block=None, timeout=None)"),
    (ms.BufferPool, "prewarm(size, count)"),
    (ms.BufferPool, "close()"),
    (ms.BufferLease, "release()"),
    (ms.MooncakeHostMemAllocator, "alloc(size)"),
    (ms.MooncakeHostMemAllocator, "free(ptr)"),
    (ms, "bind_to_numa_node(node)"),
    (ms, "get_alloc_func_addr()"),
    (ms, "get_free_func_addr()"),
]


def split(signature: str) -> tuple[str, str]:
    name, _, parameters = signature.partition("(")
    return name, "(" + parameters


def described(parameters: list[inspect.Parameter]) -> list[tuple[str, object, str]]:
    return [(p.name, p.default, p.kind.name) for p in parameters if p.name != "self"]


@pytest.mark.parametrize(("owner", "signature"), [(ms.MooncakeDistributedStore, s) for s in STORE] + OTHERS)
def test_signature(owner: object, signature: str) -> None:
    name, parameters = split(signature)
    scope: dict[str, object] = {}
    exec(f"def expected{parameters}: pass", {"RC": None}, scope)  # noqa: S102 -- the table is of this file
    wanted = described(list(inspect.signature(scope["expected"]).parameters.values()))
    got = described(list(inspect.signature(getattr(owner, name)).parameters.values()))
    assert got == wanted


@pytest.mark.parametrize("signature", [*STORE, "setup(config)"])
def test_docstring_starts_with_the_signature(signature: str) -> None:
    name, parameters = split(signature)
    doc = getattr(ms.MooncakeDistributedStore, name).__doc__
    first = doc.splitlines()[0]
    assert first.startswith(f"{name}(")
    assert " -> " in first
    if name == "setup":
        assert "setup(config: dict) -> int" in doc
        return
    for p in parameters.strip("()").split(", "):
        assert p.partition("=")[0] in first


NAMES = """MooncakeDistributedStore ReplicateConfig ObjectDataType SoftPinAction ReplicaStatus TaskType TaskStatus ReplicaDescriptor
MemoryDescriptor Descriptor DiskDescriptor QueryTaskResponse BufferHandle BufferPool BufferLease BufferLeaseView RegisteredBufferPool
RegisteredBufferLease RegisteredBufferLeaseView MooncakeHostMemAllocator ParallelAxis TensorParallelism ReadTarget bind_to_numa_node
get_alloc_func_addr get_free_func_addr _serialize_tensor _tensor_metadata_size _deserialize_tensor""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", NAMES)
def test_name_is_in_the_module(name: str) -> None:
    thing = getattr(ms, name)
    if not name.endswith("View"):  # a memoryview
        where = "mooncake.store"
        assert thing.__module__ == where


@pytest.mark.parametrize(
    "name",
    [
        "_get_pyclient_capsule",
        "record_prefetched_tokens",
        "batch_get_session_start_with_sources",
        "get_tensor_into_cuda",
    ],
)
def test_what_is_not_there_is_absent(name: str) -> None:
    assert getattr(ms.MooncakeDistributedStore(), name, None) is None
    assert not hasattr(ms, "EngramStore")
    assert not hasattr(ms, "MooncakeDistributedNoFRegister")


def test_package_exports_the_pool() -> None:
    import mooncake

    assert mooncake.BufferPool is mooncake.RegisteredBufferPool is ms.BufferPool is ms.RegisteredBufferPool
    assert "BufferPool" in dir(mooncake)
    assert not hasattr(mooncake, "no_such_name")


STUBBED = ["mooncake", "mooncake.store", "mooncake.async_store", "mooncake.buffer_pool", "mooncake._store.config"]


def parameters_of(node: ast.FunctionDef) -> list[str]:
    a = node.args
    several = [*([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return [p.arg for p in [*a.posonlyargs, *a.args, *several] if p.arg != "self"]


def check_stub(body: list[ast.stmt], owner: Any, where: str) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            runtime = getattr(owner, node.name)
            bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
            assert bases == [b.__name__ for b in runtime.__bases__ if b is not object], f"{where}.{node.name}"
            check_stub(node.body, runtime, f"{where}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            thing = inspect.getattr_static(owner, node.name)
            if isinstance(thing, property) or any(
                isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list
            ):
                continue
            assert parameters_of(node) == [
                p for p in inspect.signature(thing).parameters if p not in ("self", "_free")
            ], f"{where}.{node.name}"
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                assert name.asname is None or hasattr(owner, name.asname), f"{where}.{name.asname}"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            assert getattr(owner, node.targets[0].id) is getattr(getattr(owner, node.value.value.id), node.value.attr)
        elif isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            assert hasattr(owner, node.target.id), f"{where}.{node.target.id}"


@pytest.mark.parametrize("module", STUBBED)
def test_stub_agrees_with_the_module(module: str) -> None:
    """What the stub says is there with these parameters, and what the module offers is in the stub."""
    loaded = importlib.import_module(module)
    stub = Path(loaded.__file__).with_suffix(".pyi")
    text = stub.read_text()
    check_stub(ast.parse(text).body, loaded, module)
    assert Path(mooncake.__file__).with_name("py.typed").exists()
    assert not [name for name in getattr(loaded, "__all__", []) if name not in text]


def test_stub_has_every_parameter_of_setup() -> None:
    tree = ast.parse(Path(ms.__file__).with_suffix(".pyi").read_text())
    store = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "MooncakeDistributedStore")
    forms = [parameters_of(n) for n in store.body if isinstance(n, ast.FunctionDef) and n.name == "setup"]
    assert forms == [[*(name for name, _, _ in _setup._FIELDS), _setup._WAIT], ["config", _setup._WAIT]]
