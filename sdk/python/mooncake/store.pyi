from collections.abc import Mapping
from typing import Any, SupportsIndex, TypeAlias, overload

from typing_extensions import Self

from ._native import BufferHandle as BufferHandle
from ._store.bytes import BytesMethods
from ._store.config import ReplicateConfig as ReplicateConfig
from ._store.enums import ObjectDataType as ObjectDataType
from ._store.enums import ReplicaStatus as ReplicaStatus
from ._store.enums import SoftPinAction as SoftPinAction
from ._store.enums import TaskStatus as TaskStatus
from ._store.enums import TaskType as TaskType
from ._store.host_memory import MooncakeHostMemAllocator as MooncakeHostMemAllocator
from ._store.host_memory import bind_to_numa_node as bind_to_numa_node
from ._store.host_memory import get_alloc_func_addr as get_alloc_func_addr
from ._store.host_memory import get_free_func_addr as get_free_func_addr
from ._store.replicas import Descriptor as Descriptor
from ._store.replicas import DiskDescriptor as DiskDescriptor
from ._store.replicas import MemoryDescriptor as MemoryDescriptor
from ._store.replicas import QueryTaskResponse as QueryTaskResponse
from ._store.replicas import ReplicaDescriptor as ReplicaDescriptor
from ._store.replicas import ReplicaMethods
from ._store.segments import SegmentMethods
from ._store.sessions import SessionMethods
from ._store.zerocopy import ZeroCopyMethods
from ._tensor import TensorMethods
from ._tensor import _deserialize_tensor as _deserialize_tensor
from ._tensor import _serialize_tensor as _serialize_tensor
from ._tensor import _tensor_metadata_size as _tensor_metadata_size
from ._tensor.parallelism import ParallelAxis as ParallelAxis
from ._tensor.parallelism import ReadTarget as ReadTarget
from ._tensor.parallelism import TensorParallelism as TensorParallelism
from .buffer_pool import BufferLease as BufferLease
from .buffer_pool import BufferLeaseView as BufferLeaseView
from .buffer_pool import BufferPool as BufferPool
from .buffer_pool import RegisteredBufferLease as RegisteredBufferLease
from .buffer_pool import RegisteredBufferLeaseView as RegisteredBufferLeaseView
from .buffer_pool import RegisteredBufferPool as RegisteredBufferPool
from .engine import InnerTransferEngine

_Text: TypeAlias = str | bytes

# Of equal names the last one counts: PROCESSING and FAILED are TaskStatus.
UNKNOWN = ObjectDataType.UNKNOWN
KVCACHE = ObjectDataType.KVCACHE
TENSOR = ObjectDataType.TENSOR
WEIGHT = ObjectDataType.WEIGHT
SAMPLE = ObjectDataType.SAMPLE
ACTIVATION = ObjectDataType.ACTIVATION
GRADIENT = ObjectDataType.GRADIENT
OPTIMIZER_STATE = ObjectDataType.OPTIMIZER_STATE
METADATA = ObjectDataType.METADATA
GENERAL = ObjectDataType.GENERAL
UNDEFINED = ReplicaStatus.UNDEFINED
INITIALIZED = ReplicaStatus.INITIALIZED
PROCESSING = TaskStatus.PROCESSING
COMPLETE = ReplicaStatus.COMPLETE
REMOVED = ReplicaStatus.REMOVED
FAILED = TaskStatus.FAILED
REPLICA_COPY = TaskType.REPLICA_COPY
REPLICA_MOVE = TaskType.REPLICA_MOVE
PENDING = TaskStatus.PENDING
SUCCESS = TaskStatus.SUCCESS

class MooncakeDistributedStore(
    BytesMethods, ZeroCopyMethods, SessionMethods, SegmentMethods, ReplicaMethods, TensorMethods
):
    def __init__(self) -> None: ...
    @overload
    def setup(
        self,
        local_hostname: _Text,
        metadata_server: _Text,
        global_segment_size: SupportsIndex,
        local_buffer_size: SupportsIndex,
        protocol: _Text,
        rdma_devices: _Text,
        master_server_addr: _Text,
        engine: InnerTransferEngine | None = None,
        enable_ssd_offload: bool = False,
        ssd_offload_path: _Text = "",
        tenant_id: _Text = "default",
        enable_client_http_server: bool = False,
        client_http_port: SupportsIndex = 9300,
        *,
        max_wait_time: float | None = None,
    ) -> int: ...
    @overload
    def setup(self, config: Mapping[Any, Any], *, max_wait_time: float | None = None) -> int: ...
    def setup_dummy(
        self, mem_pool_size: SupportsIndex, local_buffer_size: SupportsIndex, server_address: str | bytes
    ) -> int: ...
    def init_all(
        self, protocol: str | bytes, device_name: str | bytes, mount_segment_size: SupportsIndex, /
    ) -> int: ...
    def close(self) -> int: ...
    def health_check(self) -> int: ...
    def get_hostname(self) -> str: ...
    def last_error(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def __del__(self) -> None: ...
