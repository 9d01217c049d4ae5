"""The distributed store: a pool of memory of many machines, and the client of it.

Nothing happens at import, nor when a MooncakeDistributedStore is made: the library behind it
is loaded by the first call that needs it, as setup. A process that forks must do so before
that; in a child of a process that had loaded it, calls raise RuntimeError.

Calls answer with numbers: 0 or more is success, a negative one is an error code;
MooncakeDistributedStore.last_error says it in words. Exceptions are for wrong arguments. All
calls may be made from several threads at once.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any, SupportsIndex

from . import _absent, _native
from . import _arguments as arguments
from ._native import BufferHandle
from ._store import setup as _setup
from ._store.bytes import BytesMethods
from ._store.config import ReplicateConfig
from ._store.enums import ObjectDataType, ReplicaStatus, SoftPinAction, TaskStatus, TaskType
from ._store.host_memory import MooncakeHostMemAllocator, bind_to_numa_node, get_alloc_func_addr, get_free_func_addr
from ._store.replicas import (
    Descriptor,
    DiskDescriptor,
    MemoryDescriptor,
    QueryTaskResponse,
    ReplicaDescriptor,
    ReplicaMethods,
)
from ._store.segments import SegmentMethods
from ._store.sessions import SessionMethods
from ._store.zerocopy import ZeroCopyMethods
from ._tensor import TensorMethods, _deserialize_tensor, _serialize_tensor, _tensor_metadata_size
from ._tensor.parallelism import ParallelAxis, ReadTarget, TensorParallelism
from .buffer_pool import (
    BufferLease,
    BufferLeaseView,
    BufferPool,
    RegisteredBufferLease,
    RegisteredBufferLeaseView,
    RegisteredBufferPool,
)

__all__ = [
    "BufferHandle",
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "Descriptor",
    "DiskDescriptor",
    "MemoryDescriptor",
    "MooncakeDistributedStore",
    "MooncakeHostMemAllocator",
    "ObjectDataType",
    "ParallelAxis",
    "QueryTaskResponse",
    "ReadTarget",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
    "ReplicaDescriptor",
    "ReplicaStatus",
    "ReplicateConfig",
    "SoftPinAction",
    "TaskStatus",
    "TaskType",
    "TensorParallelism",
    "_deserialize_tensor",
    "_serialize_tensor",
    "_tensor_metadata_size",
    "bind_to_numa_node",
    "get_alloc_func_addr",
    "get_free_func_addr",
]

# Members of these are names of the module, too; of equal names the last one counts.
for _exported in (ObjectDataType, ReplicaStatus, TaskType, TaskStatus):
    globals().update(_exported.__members__)
for _public in (
    ParallelAxis,
    ReadTarget,
    TensorParallelism,
    _deserialize_tensor,
    _serialize_tensor,
    _tensor_metadata_size,
):
    _public.__module__ = __name__
del _exported, _public

__getattr__ = _absent.attributes("store")

_NOT_SET_UP = "the store is not set up: setup was not called, did not succeed, or close was called since"


class MooncakeDistributedStore(
    BytesMethods, ZeroCopyMethods, SessionMethods, SegmentMethods, ReplicaMethods, TensorMethods
):
    """MooncakeDistributedStore()

    A client of a pool, and a node that contributes memory to it where setup says so. It does
    nothing before setup; until then calls answer as if there was nothing, or with -600.
    """

    _created = threading.Lock()
    _closed_at_exit = False
    _setup_failed = False

    def __init__(self) -> None:
        """MooncakeDistributedStore()"""

    def setup(self, *args: Any, **kwargs: Any) -> int:
        """setup(local_hostname: str, metadata_server: str, global_segment_size: int, local_buffer_size: int, protocol: str, rdma_devices: str, master_server_addr: str, engine: InnerTransferEngine = None, enable_ssd_offload: bool = False, ssd_offload_path: str = "", tenant_id: str = "default", enable_client_http_server: bool = False, client_http_port: int = 9300) -> int
        setup(config: dict) -> int

        Joins the pool of the master: 0, or a negative code, after which setup may be called again.
        It waits for a master that does not answer: for max_wait_time seconds, which both forms take
        by keyword, the dict also as an entry; by default for store.max_wait_time of the
        configuration, 90 s; 0 tries once. Ctrl-C, as any signal whose handler raises, ends the wait.
        After -1 the store goes on trying: calls fail at once until the master answers, and the first
        one that finds it there completes the setup.

        global_segment_size is what this process contributes, 0 for nothing; local_buffer_size is
        memory for values that lie in memory that is not registered. The dict has the same names,
        with numbers and bools also as text ("4 GB", "true"), and sizes of 16 MiB where they are
        missing; names that are not known are ignored.
        """
        settings = _setup.parse(args, kwargs)
        code = _native.store_setup(self._new(), settings.text, settings.positional, settings.engine)
        return self._set_up(code, settings.staging, settings.local_buffer)

    def setup_dummy(
        self, mem_pool_size: SupportsIndex, local_buffer_size: SupportsIndex, server_address: str | bytes
    ) -> int:
        """setup_dummy(mem_pool_size: int, local_buffer_size: int, server_address: str) -> int

        Attaches to the mooncake_client at server_address of this host, which does the transfers:
        0, or a negative code. mem_pool_size is not used; local_buffer_size is memory for values
        that do not lie in memory of MooncakeHostMemAllocator.
        """
        sizes = (
            arguments.number("mem_pool_size", mem_pool_size),
            arguments.number("local_buffer_size", local_buffer_size),
        )
        address = arguments.text("server_address", server_address)
        return self._set_up(_native.store_setup_dummy(self._new(), *sizes, address), local_buffer=str(sizes[1]))

    def init_all(self, protocol: str | bytes, device_name: str | bytes, mount_segment_size: SupportsIndex, /) -> int:
        """init_all(protocol: str, device_name: str, mount_segment_size: int, /) -> int

        setup with everything on this machine: a master on port 50051, metadata in the etcd on port
        2379, and this node as localhost:12345 with 1 GiB of local buffer.
        """
        return self.setup(
            "localhost:12345",
            "127.0.0.1:2379",
            arguments.number("mount_segment_size", mount_segment_size),
            1 << 30,
            arguments.string("protocol", protocol),
            arguments.string("device_name", device_name),
            "127.0.0.1:50051",
        )

    def close(self) -> int:
        """close() -> int

        Leaves the pool; what this process contributed goes with it. 0, also without setup; setup
        may follow. Waits, bounded, for calls under way.
        """
        code = _native.store_close(self._handle) if self._handle else 0
        self._ready = self._setup_failed = False
        return code

    def health_check(self) -> int:
        """health_check() -> int

        0 healthy, 1 not set up, 2 the master (or the mooncake_client) does not answer.
        """
        return _native.store_health(self._handle) if self._ready else 1

    def get_hostname(self) -> str:
        """get_hostname() -> str

        "host:port" by which the pool knows this node, "" before setup.
        """
        return _native.store_hostname(self._handle) if self._ready else ""

    def last_error(self) -> str:
        """last_error() -> str

        Why the calling thread's last call of this store failed, as a sentence; "" where it succeeded. For
        a thread that made none since the first failure, as an event loop, the newest failure of any thread.
        """
        if self._ready or self._setup_failed:
            return _native.last_error(self._handle)
        return _NOT_SET_UP

    def _new(self) -> int:
        with self._created:
            if not self._handle:
                self._handle = _native.store_new()
                if not MooncakeDistributedStore._closed_at_exit:
                    MooncakeDistributedStore._closed_at_exit = True
                    atexit.register(_native.close_all)
        return self._handle

    def _set_up(self, code: int, staging: bool = True, local_buffer: str = "0") -> int:
        self._setup_failed = code != 0
        if code == 0:
            self._staging = staging
            self._local_buffer = _setup.bytes_of(local_buffer)
        self._ready = code == 0 or _native.store_is_setup(self._handle)
        return code

    def __enter__(self) -> MooncakeDistributedStore:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, _free: Any = _native.store_free) -> None:
        if self._handle:
            _free(self._handle)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError(
            "a MooncakeDistributedStore cannot be pickled or copied; make one, and call setup, in each process"
        )

    def __repr__(self) -> str:
        state = f"as {self.get_hostname()!r}" if self._ready else "not set up"
        return f"<{type(self).__name__} {state}>"
