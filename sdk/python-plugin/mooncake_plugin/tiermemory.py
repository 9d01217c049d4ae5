"""The memory of the host: descriptors that come over a socket, and what is mapped of them."""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import socket
import struct
from collections import OrderedDict

from .errors import Code, PluginError, invalid

DATA = "MOONCAKE_PLUGIN_DATA_FD"
MESSAGE = struct.Struct("=QQ")
MAGIC = 0x31304446434D
"""A message has this number and the token of the call to which its descriptors belong."""
MAX_MESSAGE = 4 << 10
MAX_FDS = 8
MAX_UNCLAIMED = 64
"""The most messages whose calls have not arrived; the oldest is dropped."""
MAX_BAD = 100
"""The most invalid messages in a row."""


class Inbox:
    """Keeps descriptors until the call that uses them arrives. For the loop's thread alone."""

    def __init__(self, number: str, log: logging.Logger) -> None:
        self._log = log
        self._kept: OrderedDict[int, list[int]] = OrderedDict()
        self._waiting: dict[int, asyncio.Future[list[int]]] = {}
        self._bad = 0
        self._ended = ""
        if not number.isdigit() or int(number) < 3:
            text = f"the host gave no socket for descriptors ({DATA}={number!r})"
            raise PluginError(Code.NOT_SUPPORTED, text)
        self._socket = socket.socket(fileno=int(number))
        self._socket.setblocking(False)
        os.set_inheritable(self._socket.fileno(), False)
        asyncio.get_running_loop().add_reader(self._socket, self._receive)

    def _receive(self) -> None:
        try:
            data, fds, flags, _ = socket.recv_fds(self._socket, MAX_MESSAGE, MAX_FDS)
            if not data and not fds:  # An empty read may come before the last message.
                data, fds, flags, _ = socket.recv_fds(self._socket, MAX_MESSAGE, MAX_FDS)
        except BlockingIOError:
            return
        except OSError as e:
            self._end(str(e))
            return
        if not data and not fds:
            self._end("the host closed it")
            return
        magic, token = MESSAGE.unpack(data) if len(data) == MESSAGE.size else (0, 0)
        if magic != MAGIC or token == 0 or not fds or flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            close_all(fds)
            self._bad += 1
            self._log.error("a message with descriptors is lost: %d bytes, %d descriptors", len(data), len(fds))
            if self._bad == MAX_BAD:
                self._end("it carried too many invalid messages")
            return
        self._bad = 0
        waiter = self._waiting.pop(token, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(fds)
            return
        close_all(self._kept.pop(token, []))
        self._kept[token] = fds
        if len(self._kept) > MAX_UNCLAIMED:
            close_all(self._kept.popitem(last=False)[1])

    def _end(self, why: str) -> None:
        self._ended = f"the socket for descriptors has ended: {why}"
        asyncio.get_running_loop().remove_reader(self._socket)
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(PluginError(Code.RPC_FAIL, self._ended))
        self._waiting.clear()

    async def take(self, token: int) -> int:
        """Wait for the descriptor of a token. The caller owns it. A call that ends gives up by cancellation."""
        fds = self._kept.pop(token, None)
        if fds is None:
            if self._ended:
                raise PluginError(Code.RPC_FAIL, self._ended)
            waiter = asyncio.get_running_loop().create_future()
            self._waiting[token] = waiter
            try:
                fds = await waiter
            finally:
                self._waiting.pop(token, None)
        close_all(fds[1:])
        return fds[0]

    def close(self) -> None:
        """Close the descriptors that no call has used, and the socket."""
        if not self._ended:
            self._end("the tier is stopped")
        for fds in self._kept.values():
            close_all(fds)
        self._kept.clear()
        self._socket.close()


class Regions:
    """The registered memory by its token."""

    def __init__(self) -> None:
        self._areas: dict[int, tuple[mmap.mmap, int, int]] = {}

    def add(self, token: int, fd: int, offset: int, size: int) -> None:
        """Map a range of a memory file; the descriptor stays the caller's."""
        page = max(mmap.ALLOCATIONGRANULARITY, os.fstatvfs(fd).f_bsize)
        end = os.fstat(fd).st_size
        if offset < 0 or size == 0 or offset + size > end:
            raise invalid(f"{size} bytes at offset {offset} reach past the end of the memory file ({end} bytes)")
        if token in self._areas:
            raise invalid(f"the region {token} is registered already")
        skip = offset % page
        length = min(-(-(skip + size) // page) * page, end - (offset - skip))
        try:
            area = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, offset=offset - skip)
        except (OSError, ValueError) as e:
            raise invalid(f"the memory cannot be mapped: {e}") from None
        self._areas[token] = (area, skip, size)

    def part(self, token: int, at: int, length: int) -> memoryview:
        """A range of a region; release it after use."""
        if token not in self._areas:
            raise PluginError(Code.UNAVAILABLE_IN_CURRENT_STATUS, f"local memory: region {token} is not registered")
        area, skip, size = self._areas[token]
        if at + length > size:
            raise invalid(f"{length} bytes at {at} reach past the end of a region of {size} bytes")
        with memoryview(area) as whole:
            return whole[skip + at : skip + at + length]

    def remove(self, token: int) -> None:
        """Unmap a region. An unknown one is no error. The host calls when no operation uses it."""
        if token in self._areas:
            try:
                self._areas[token][0].close()
            except BufferError:
                text = f"an operation still uses region {token}; call again"
                raise PluginError(Code.RPC_TIMEOUT, text) from None
            del self._areas[token]

    def clear(self) -> None:
        """Unmap all. What an operation still uses stays mapped until it ends."""
        for token in list(self._areas):
            try:
                self._areas[token][0].close()
            except BufferError:
                continue
        self._areas.clear()


def close_all(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
