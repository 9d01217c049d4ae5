"""The transfers of TransferEngine, waiting and not. Private.

The registered memory of a peer is addressed by the peer's own addresses. Every call
releases the GIL and may be made by any number of threads at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

from .. import _native
from .types import InnerTransferEngine, TransferNotify, TransferOpcode, notify_pair, number, opcode_number, text

_READ = int(TransferOpcode.Read)
_WRITE = int(TransferOpcode.Write)
_Ints = Sequence[SupportsIndex]
_T = TypeVar("_T")


class EngineTransfers:
    """Half of TransferEngine."""

    __slots__ = ()
    _engine: InnerTransferEngine | None

    def _call(self, function: Callable[..., _T], without: _T, *args: Any) -> _T:
        """What function answers for the engine; ``without`` where it is not initialized."""
        engine = self._engine  # stays alive until the call is over, whatever other threads do
        return without if engine is None else function(engine._handle, *args)

    def _one(
        self,
        function: Callable[..., int],
        without: int,
        opcode: int,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str,
        *rest: Any,
    ) -> int:
        target = text("target_hostname", target_hostname)
        mine, theirs = number("buffer", buffer), number("peer_buffer_address", peer_buffer_address)
        size = number("length", length)
        text("transport_hint", transport_hint)
        return self._call(function, without, target, opcode, (mine,), (theirs,), (size,), *rest)

    def _many(
        self,
        function: Callable[..., int],
        without: int,
        opcode: int,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: str,
        *rest: Any,
    ) -> int:
        target = text("target_hostname", target_hostname)
        text("transport_hint", transport_hint)
        return self._call(function, without, target, opcode, buffers, peer_buffer_addresses, lengths, *rest)

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_write(target_hostname: str, buffer: int, peer_buffer_address: int, length: int, transport_hint: str = '') -> int

        Writes length bytes at buffer to the peer's memory and waits until they are there.
        0, or negative: the peer's memory is then in no state that can be told.
        The transport is the engine's to choose: transport_hint changes nothing, as upstream.
        """
        args = (target_hostname, buffer, peer_buffer_address, length, transport_hint)
        return self._one(_native.engine_transfer, -1, _WRITE, *args, None)

    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_read(target_hostname: str, buffer: int, peer_buffer_address: int, length: int, transport_hint: str = '') -> int

        Reads length bytes of the peer's memory into buffer. 0 or negative.
        """
        args = (target_hostname, buffer, peer_buffer_address, length, transport_hint)
        return self._one(_native.engine_transfer, -1, _READ, *args, None)

    def transfer_sync(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """transfer_sync(target_hostname: str, buffer: int, peer_buffer_address: int, length: int, opcode: TransferOpcode, notify: TransferNotify = None, transport_hint: str = '') -> int

        Reads or writes. notify is sent to the peer after success, and its get_notifies returns it.
        0 or negative.
        """
        args = (target_hostname, buffer, peer_buffer_address, length, transport_hint)
        return self._one(_native.engine_transfer, -1, opcode_number(opcode), *args, notify_pair(notify))

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_sync_write(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], transport_hint: str = '') -> int

        Writes several ranges and waits for all. 0 when all are there; lists of different lengths
        are -1 and nothing is written.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_transfer, -1, _WRITE, *args, None)

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_sync_read(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], transport_hint: str = '') -> int

        Reads several ranges and waits for all. 0 or negative.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_transfer, -1, _READ, *args, None)

    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_sync(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], opcode: TransferOpcode, notify: TransferNotify = None, transport_hint: str = '') -> int

        Reads or writes several ranges; notify is sent once, after all. 0 or negative.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_transfer, -1, opcode_number(opcode), *args, notify_pair(notify))

    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_async_write(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], transport_hint: str = '') -> int

        Starts to write several ranges: the number of the batch, or 0 when nothing was started.
        The memory is the engine's until get_batch_transfer_status has returned for the batch.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_submit, 0, _WRITE, *args)

    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_async_read(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], transport_hint: str = '') -> int

        Starts to read several ranges, as batch_transfer_async_write writes them.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_submit, 0, _READ, *args)

    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: _Ints,
        peer_buffer_addresses: _Ints,
        lengths: _Ints,
        opcode: TransferOpcode,
        transport_hint: str = "",
    ) -> int:
        """batch_transfer_async(target_hostname: str, buffers: list[int], peer_buffer_addresses: list[int], lengths: list[int], opcode: TransferOpcode, transport_hint: str = '') -> int

        Starts to read or write several ranges, as batch_transfer_async_write writes them.
        """
        args = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
        return self._many(_native.engine_submit, 0, opcode_number(opcode), *args)

    def get_batch_transfer_status(self, batch_ids: _Ints, /) -> int:
        """get_batch_transfer_status(batch_ids: list[int], /) -> int

        Waits for batches that were started, and frees their numbers. 0 when all succeeded, else -1.
        """
        return self._call(_native.engine_wait, -1, batch_ids)

    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
    ) -> int:
        """transfer_submit_write(target_hostname: str, buffer: int, peer_buffer_address: int, length: int, transport_hint: str = '') -> int

        Starts to write one range: a number for transfer_check_status, or 0 when nothing was started.
        """
        args = (target_hostname, buffer, peer_buffer_address, length, transport_hint)
        return self._one(_native.engine_submit, 0, _WRITE, *args)

    def transfer_check_status(self, batch_id: SupportsIndex, /) -> int:
        """transfer_check_status(batch_id: int, /) -> int

        How a transfer is, without waiting: 1 done, 0 under way, -1 failed, -2 timed out. All but 0
        free the number.
        """
        return self._call(_native.engine_check, -1, number("batch_id", batch_id))
