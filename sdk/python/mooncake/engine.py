"""The transfer engine: memory of this process, moved to and from other processes.

Nothing happens at import, nor when a TransferEngine is made: the library behind it is
loaded by the first call that needs it. A process that forks must do so before that; in a
child of a process that had loaded it, calls raise RuntimeError.

For programs and environment variables see docs/compatibility.md of the project.
"""

import atexit
import json
from collections.abc import Sequence
from typing import SupportsIndex

from . import _absent, _native
from ._engine.transfers import EngineTransfers
from ._engine.types import InnerTransferEngine, TransferNotify, TransferOpcode, number, text

__all__ = ["InnerTransferEngine", "Read", "TransferEngine", "TransferNotify", "TransferOpcode", "Write"]

SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_MNNVL = False
SUPPORT_MUSA = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_CUDA = False

__getattr__ = _absent.attributes("engine")

Read = TransferOpcode.Read
Write = TransferOpcode.Write


class TransferEngine(EngineTransfers):
    """TransferEngine()

    One engine of this process. It listens from initialize on, and its registered memory may be
    read and written by peers until it is destroyed. Without initialize, calls fail with the
    number that says so.
    """

    __slots__ = ("__weakref__", "_engine", "_failure")
    TransferOpcode = TransferOpcode

    def __init__(self) -> None:
        self._engine: InnerTransferEngine | None = None
        self._failure = "the engine is not initialized; call initialize first"

    def initialize(self, local_hostname: str, metadata_server: str, protocol: str, device_name: str | None, /) -> int:
        """initialize(local_hostname: str, metadata_server: str, protocol: str, device_name: str, /) -> int

        Starts the engine: 0, or -1, for which last_error has the reason. metadata_server is "P2PHANDSHAKE",
        "http://host:port/metadata", "redis://host:port", "etcd://host:port" or "host:port" of an
        etcd. With P2PHANDSHAKE the peers know it as "host:get_rpc_port()", where host is any
        address of this machine that they reach; local_hostname may then be "", "0.0.0.0", "::" or have
        port 0. Else they know it as local_hostname.
        RDMA devices that are there are used and TCP else, whatever protocol says; MC_FORCE_TCP
        wants TCP. device_name names devices to use, with commas between; "" or None is all.
        A second call starts a new engine; the first goes on only while a store shares it.
        """
        return self._initialize(local_hostname, metadata_server, protocol, device_name, "")

    def initialize_ext(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str | None, metadata_type: str, /
    ) -> int:
        """initialize_ext(local_hostname: str, metadata_server: str, protocol: str, device_name: str, metadata_type: str, /) -> int

        As initialize, with the kind of metadata service apart: metadata_server is then its address only.
        """
        return self._initialize(local_hostname, metadata_server, protocol, device_name, metadata_type)

    def _initialize(self, *texts: str | None) -> int:
        names = ("local_hostname", "metadata_server", "protocol", "device_name", "metadata_type")
        settings = {}
        for name, value in zip(names, texts, strict=False):
            given = text(name, "" if value is None and name == "device_name" else value)
            settings[name] = given.decode() if isinstance(given, bytes) else given
        self._engine = None  # before the next starts: they may want the same port and name
        engine = InnerTransferEngine._create()
        code = _native.engine_initialize(engine._handle, json.dumps(settings))
        if code == 0:
            self._engine = engine
        else:
            self._failure = _native.last_error(engine._handle)
        return code

    def last_error(self) -> str:
        """last_error() -> str

        Why the calling thread's last call failed, as a sentence; "" where it succeeded. For a thread that
        made none since the first failure, the newest failure of any thread. Upstream has no such method.
        """
        engine = self._engine
        return self._failure if engine is None else _native.last_error(engine._handle)

    def get_rpc_port(self) -> int:
        """get_rpc_port() -> int

        The port that peers ask; 0 before initialize.
        """
        return self._call(_native.engine_rpc_port, 0)

    def get_engine(self) -> InnerTransferEngine | None:
        """get_engine() -> InnerTransferEngine

        The engine, for MooncakeDistributedStore.setup(engine=...); None before initialize.
        """
        return self._engine

    def get_engine_ptr(self) -> int:
        """get_engine_ptr() -> int

        A number that no other engine of this process has, now or later; 0 before initialize. It is
        no address: nothing can be called through it.
        """
        return 0 if self._engine is None else self._engine._handle

    def allocate_managed_buffer(self, length: SupportsIndex, /) -> int:
        """allocate_managed_buffer(length: int, /) -> int

        The address of length bytes that are registered; 0 when there are none.
        """
        return self._call(_native.engine_alloc, 0, number("length", length))

    def free_managed_buffer(self, buffer_addr: SupportsIndex, length: SupportsIndex, /) -> int:
        """free_managed_buffer(buffer_addr: int, length: int, /) -> int

        Gives back what allocate_managed_buffer gave. 0, or negative where it gave no such thing.
        """
        return self._call(_native.engine_free_memory, -1, number("buffer_addr", buffer_addr), number("length", length))

    def write_bytes_to_buffer(
        self, dest_address: SupportsIndex, data: bytes | bytearray | memoryview | str, length: SupportsIndex, /
    ) -> int:
        """write_bytes_to_buffer(dest_address: int, data: bytes, length: int, /) -> int

        Copies the first length bytes of data to an address of this process, which the caller vouches for.
        ValueError where data is shorter. 0.
        """
        address, size = number("dest_address", dest_address), number("length", length)
        piece = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        _native.memory_write(address, piece, size)
        return 0

    def read_bytes_from_buffer(self, source_address: SupportsIndex, length: SupportsIndex, /) -> bytes:
        """read_bytes_from_buffer(source_address: int, length: int, /) -> bytes

        The bytes at an address of this process, which the caller vouches for.
        """
        return _native.memory_read(number("source_address", source_address), number("length", length))

    def register_memory(self, buffer_addr: SupportsIndex, capacity: SupportsIndex, location: str = "*") -> int:
        """register_memory(buffer_addr: int, capacity: int, location: str = '*') -> int

        Lets peers read and write capacity bytes at buffer_addr. location says which memory it is,
        as "cpu:0"; "*" finds out. 0, or negative: memory that is registered already, wholly or in
        part, is an error.
        """
        mine, size = number("buffer_addr", buffer_addr), number("capacity", capacity)
        return self._call(_native.engine_register, -1, (mine,), (size,), text("location", location))

    def unregister_memory(self, buffer_addr: SupportsIndex, /) -> int:
        """unregister_memory(buffer_addr: int, /) -> int

        Ends what register_memory began. 0, or negative where nothing is registered there.
        """
        return self._call(_native.engine_unregister, -1, (number("buffer_addr", buffer_addr),))

    def batch_register_memory(
        self, buffer_addresses: Sequence[SupportsIndex], capacities: Sequence[SupportsIndex], location: str = "*"
    ) -> int:
        """batch_register_memory(buffer_addresses: list[int], capacities: list[int], location: str = '*') -> int

        Registers all or nothing, and tells the peers once. 0 or negative.
        """
        return self._call(_native.engine_register, -1, buffer_addresses, capacities, text("location", location))

    def batch_unregister_memory(self, buffer_addresses: Sequence[SupportsIndex], /) -> int:
        """batch_unregister_memory(buffer_addresses: list[int], /) -> int

        Ends what batch_register_memory began. 0, or negative where one of them was not registered.
        """
        return self._call(_native.engine_unregister, -1, buffer_addresses)

    def get_first_buffer_address(self, segment_name: str, /) -> int:
        """get_first_buffer_address(segment_name: str, /) -> int

        Where the memory starts that a peer registered first; 0 when it has none or cannot be asked.
        """
        return self._call(_native.engine_first_buffer, 0, text("segment_name", segment_name))

    def get_local_topology(self, device_name: str | None = None) -> str:
        """get_local_topology(device_name: str = None) -> str

        Which devices are near which memory of this machine, as JSON. device_name names those to
        look at, with commas between. It needs no initialize.
        """
        return _native.engine_topology("" if device_name is None else text("device_name", device_name))

    def get_notifies(self) -> list[TransferNotify]:
        """get_notifies() -> list[TransferNotify]

        What peers have sent since the last call, in the order of arrival.
        """
        none: list[tuple[bytes, bytes]] = []
        return [TransferNotify(name, msg) for name, msg in self._call(_native.engine_notifies, none)]

    def send_probe(self, peer_server_name: str) -> int:
        """send_probe(peer_server_name: str) -> int

        Asks a peer whether it is there: 0; -101 where its name names no machine, -102 where
        nothing answers.
        """
        return self._call(_native.engine_probe, -1, text("peer_server_name", peer_server_name))

    def warmup_efa_segment(self, segment_name: str) -> int:
        """warmup_efa_segment(segment_name: str) -> int

        0: only EFA needs it, and there is none here.
        """
        text("segment_name", segment_name)
        return 0


atexit.register(_native.close_all)
