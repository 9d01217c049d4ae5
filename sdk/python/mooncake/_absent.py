"""Modules and names of upstream that are not here: why, and what to use instead. Private.

Importing one of them is an ImportError that says so. hasattr tells for the names, and a module
of this name that another distribution adds to the package is found before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_GPU = "it needs CUDA kernels, and this package has none; "
_RL = "this package has no planner of weight transfers; "
_SSD = "this package has no NVMe-oF pool and no SSD tier; "
_ALLOCATOR = _GPU + "let the engine allocate GPU memory itself: over RDMA any of it is moved with dma-buf"
_BACKEND = _GPU + "use the engine's NCCL or Gloo backend for collectives, and its own dispatcher for experts"
_RPC = "this package has no RPC between Python processes; use TransferEngine.send_notify_by_name, or gRPC"

MODULES: dict[str, str] = {
    "allocator": _ALLOCATOR,
    "allocator_ascend_npu": _ALLOCATOR,
    "ep": _BACKEND,
    "fabric_allocator_utils": _ALLOCATOR,
    "libasio": "it is no Python module but a library of another build; nothing here needs it",
    "libetcd_wrapper": "it is no Python module but a library of another build; the engine speaks to etcd by itself",
    "mooncake_connector_v1": "it is a connector for vLLM 0.10 to 0.12; use the MooncakeConnector that vLLM has since",
    "mooncake_elastic_buffer": _BACKEND,
    "mooncake_ep_buffer": _BACKEND,
    "mooncake_ssd_register": _SSD + "contribute memory with mooncake store",
    "mooncake_ssd_unregister": _SSD + "contribute memory with mooncake store",
    "pg": _BACKEND,
    "reshard": _RL + "store shards with put_tensor_with_parallelism and read the target layout",
    "shared_segment": _GPU + "share host memory with mooncake_client and setup_dummy",
    "spdk_tgt_create": _SSD + "contribute memory with mooncake store",
    "vllm_v1_proxy_server": "it is a proxy for vLLM 0.10 to 0.12; use the router or the proxy example that vLLM has since",
}

NAMES: dict[str, dict[str, str]] = {
    "store": {
        "EngramStore": _GPU + "keep embedding tables with put_tensor",
        "EngramStoreConfig": _GPU + "keep embedding tables with put_tensor",
        "MooncakeDistributedNoFRegister": _SSD + "contribute memory with mooncake store",
    },
    "engine": {
        "CoroRPCInterface": _RPC,
        "ReceivedData": _RPC,
        "ReceivedTensor": _RPC,
        "RpcInterface": _RPC,
        "SharedSegment": MODULES["shared_segment"],
        "create_rpc_client": _RPC,
        "create_rpc_server": _RPC,
    },
    "transfer_engine_topology_dump": dict.fromkeys(
        (
            "apply_backend",
            "dump_te_topology",
            "dump_tent_topology",
            "resolve_backend",
            "sanitize_tent_conf_for_discover",
        ),
        "it is a part of upstream's program; call main, or run mooncake topology -o json",
    ),
}

_CUDA_READS = dict.fromkeys(
    ("batch_get_tensor_into_cuda", "get_tensor_into_cuda"),
    _GPU + "read with get_tensor or get_tensor_into and copy to the device with tensor.to",
)

# Members of classes, which hasattr tells.
METHODS: dict[str, dict[str, str]] = {
    "store.BufferLeaseView": {"buffer": "it is a memoryview here, which is the buffer"},
    "store.RegisteredBufferLeaseView": {"buffer": "it is a memoryview here, which is the buffer"},
    "async_store.MooncakeDistributedStore": _CUDA_READS,
    "async_store.MooncakeDistributedStoreAsync": _CUDA_READS,
    "store.MooncakeDistributedStore": _CUDA_READS,
    "mooncake_store_service.MooncakeDistributedStore": _CUDA_READS,
}


def text(module: str, name: str = "") -> str:
    """Why a module, or a name of it, is absent, and what to use."""
    why = NAMES[module][name] if name else MODULES[module]
    return f"{'.'.join(filter(None, ('mooncake', module, name)))} is not in this package: {why}"


class _Loader:
    """Loads nothing: its modules are absent."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(text(spec.name.removeprefix("mooncake.")), name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        raise ImportError(text(module.__name__.removeprefix("mooncake.")), name=module.__name__)


class _Finder:
    """Finds absent modules, after all other finders."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != "mooncake" or module not in MODULES:
            return None
        return ModuleSpec(name, _Loader(), is_package=module == "reshard")  # type: ignore[arg-type]


def install() -> None:
    """Makes imports of absent modules say why."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)  # type: ignore[arg-type]


def attributes(module: str) -> Callable[[str], Any]:
    """__getattr__ for a module: an AttributeError, or an ImportError in a from-import, that says why."""

    def absent(name: str) -> Any:
        if name not in NAMES[module]:
            raise AttributeError(f"module 'mooncake.{module}' has no attribute {name!r}")
        import opcode

        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == opcode.opmap["IMPORT_FROM"]:
            raise ImportError(text(module, name), name=f"mooncake.{module}")
        raise AttributeError(text(module, name))

    return absent
