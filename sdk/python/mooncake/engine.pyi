import enum
from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias, final, overload

from typing_extensions import Buffer

__all__ = ["InnerTransferEngine", "Read", "TransferEngine", "TransferNotify", "TransferOpcode", "Write"]

SUPPORT_EFA: bool
SUPPORT_HIP: bool
SUPPORT_MNNVL: bool
SUPPORT_MUSA: bool
SUPPORT_INTRA_NVLINK: bool
SUPPORT_CUDA: bool

class TransferOpcode(enum.IntEnum):
    Read = 0
    Write = 1

Read = TransferOpcode.Read
Write = TransferOpcode.Write

_Text: TypeAlias = str | bytes
_Ints: TypeAlias = Sequence[SupportsIndex]
_Opcode = TransferOpcode

class TransferNotify:
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, name: _Text, msg: _Text) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: _Text) -> None: ...
    @property
    def msg(self) -> str: ...
    @msg.setter
    def msg(self, value: _Text) -> None: ...

@final
class InnerTransferEngine:
    def __del__(self) -> None: ...

class TransferEngine:
    TransferOpcode: type[_Opcode]

    def __init__(self) -> None: ...
    def initialize(
        self, local_hostname: _Text, metadata_server: _Text, protocol: _Text, device_name: _Text | None, /
    ) -> int: ...
    def initialize_ext(
        self,
        local_hostname: _Text,
        metadata_server: _Text,
        protocol: _Text,
        device_name: _Text | None,
        metadata_type: _Text,
        /,
    ) -> int: ...
    def last_error(self) -> str: ...
    def get_rpc_port(self) -> int: ...
    def get_engine(self) -> InnerTransferEngine | None: ...
    def get_engine_ptr(self) -> int: ...
    def allocate_managed_buffer(self, length: SupportsIndex, /) -> int: ...
    def free_managed_buffer(self, buffer_addr: SupportsIndex, length: SupportsIndex, /) -> int: ...
    def write_bytes_to_buffer(
        self, dest_address: SupportsIndex, data: Buffer | str, length: SupportsIndex, /
    ) -> int: ...
    def read_bytes_from_buffer(self, source_address: SupportsIndex, length: SupportsIndex, /) -> bytes: ...
    def register_memory(self, buffer_addr: SupportsIndex, capacity: SupportsIndex, location: _Text = "*") -> int: ...
    def unregister_memory(self, buffer_addr: SupportsIndex, /) -> int: ...
    def batch_register_memory(self, buffer_addresses: _Ints, capacities: _Ints, location: _Text = "*") -> int: ...
    def batch_unregister_memory(self, buffer_addresses: _Ints, /) -> int: ...
    def transfer_sync_write(
        self,
        target_hostname: _Text,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: _Text = "",
    ) -> int: ...
    def transfer_sync_read(
        self,
        target_hostname: _Text,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: _Text = "",
    ) -> int: ...
    def transfer_sync(
        self,
        target_hostname: _Text,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_sync_write(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_sync_read(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_sync(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_async_write(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_async_read(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: _Text = "",
    ) -> int: ...
    def batch_transfer_async(
        self,
        target_hostname: _Text,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        opcode: _Opcode,
        transport_hint: _Text = "",
    ) -> int: ...
    def get_batch_transfer_status(self, batch_ids: _Ints, /) -> int: ...
    def transfer_submit_write(
        self,
        target_hostname: _Text,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: _Text = "",
    ) -> int: ...
    def transfer_check_status(self, batch_id: SupportsIndex, /) -> int: ...
    def get_first_buffer_address(self, segment_name: _Text, /) -> int: ...
    def get_local_topology(self, device_name: _Text | None = None) -> str: ...
    def get_notifies(self) -> list[TransferNotify]: ...
    def send_probe(self, peer_server_name: _Text) -> int: ...
    def warmup_efa_segment(self, segment_name: _Text) -> int: ...
