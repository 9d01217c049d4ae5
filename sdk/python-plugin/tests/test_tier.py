"""The memory and the operations of a tier, where the host does what it must not."""

import asyncio
import logging
import os
import socket
import threading

import pytest

from mooncake_plugin import Code, PluginError
from mooncake_plugin.protocol import messages
from mooncake_plugin.tiermemory import MAGIC, MAX_UNCLAIMED, MESSAGE, Inbox, Regions
from mooncake_plugin.tierqueue import FAILED, OK, QUARANTINED, READ, RETURNED, WRITE, Queue, checksum

wire = messages("tier")
LOG = logging.getLogger("test")


def memory(data):
    fd = os.memfd_create("test", 0)
    os.write(fd, data)
    return fd


def test_parts_of_a_region():
    data = bytes(i % 251 for i in range(9000))
    fd, regions = memory(data), Regions()
    regions.add(1, fd, 4100, 4000)
    with regions.part(1, 10, 20) as part:
        assert bytes(part) == data[4110:4130]
        with pytest.raises(PluginError, match="still uses"):
            regions.remove(1)
    for at, length in ((4000, 1), (0, 4001)):
        with pytest.raises(PluginError, match="reach past the end"):
            regions.part(1, at, length)
    for offset, size in ((0, 9001), (-1, 1), (9000, 1), (0, 0)):
        with pytest.raises(PluginError) as e:
            regions.add(2, fd, offset, size)
        assert e.value.code == Code.INVALID_PARAMS
    regions.remove(1)
    with pytest.raises(PluginError, match="not registered"):
        regions.part(1, 0, 1)
    os.close(fd)


def test_descriptors_come_before_or_after_their_call():
    async def run():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inbox = Inbox(str(theirs.detach()), LOG)
        before, fd = len(os.listdir("/proc/self/fd")), memory(b"x")

        def send(token, magic=MAGIC, fds=(fd,)):
            socket.send_fds(ours, [MESSAGE.pack(magic, token)], list(fds))

        waiting = asyncio.create_task(inbox.take(1))
        await asyncio.sleep(0)
        for wrong in ({"token": 0}, {"token": 1, "magic": 5}, {"token": 1, "fds": ()}):
            send(**wrong)
        for token in range(1, MAX_UNCLAIMED + 4):
            send(token)
        for token in (0, MAX_UNCLAIMED + 3):
            os.close(await (waiting if token == 0 else inbox.take(token)))
        ours.close()
        with pytest.raises(PluginError, match="has ended"):
            await inbox.take(2)  # The oldest was dropped.
        inbox.close()
        os.close(fd)
        assert len(os.listdir("/proc/self/fd")) == before - 2, "both sockets are closed, and no descriptor is left"

    asyncio.run(run())


class Held:
    """A store whose storage answers when the test says so."""

    def __init__(self):
        self.go, self.calls = threading.Event(), []

    def write(self, record, value, commit):
        self.calls.append(record.key)
        self.go.wait(60)
        commit()
        return (1, 2, 3, 4)


def op(number, **args):
    record = wire.Record(key=args.pop("key", b"k"), size=args.pop("size", 4))
    part = wire.Part(region=1, at=0, length=args.pop("length", 4))
    return wire.Op(number=number, **({"kind": WRITE, "record": record, "local": [part]} | args))


def statuses(queue):
    return [(c.number, c.status, c.error.code) for c in queue.done]


def queued(run):
    async def inner():
        regions, store = Regions(), Held()
        fd = memory(b"x" * 4096)
        regions.add(1, fd, 0, 4096)
        os.close(fd)
        queue = Queue(store, regions)
        await run(queue, store)
        store.go.set()
        queue.end()
        await queue.wait(lambda: not queue.open)
        regions.remove(1)

    asyncio.run(inner())


def test_a_deadline_at_the_storage_quarantines_the_memory():
    async def run(queue, store):
        queue.take([op(1, limit=1), op(2, limit=1_000_000), op(3)], 4096)
        await queue.wait(lambda: len(queue.done) == 2)
        late = int(Code.RPC_TIMEOUT)
        assert statuses(queue) == [(1, FAILED, late), (2, QUARANTINED, late)]
        store.go.set()
        await queue.wait(lambda: not queue.open)
        assert sorted(statuses(queue)[2:]) == [(2, RETURNED, 0), (3, OK, 0)]
        assert b"k" in store.calls

    queued(run)


def test_what_breaks_the_contract_fails_alone():
    async def run(queue, store):
        wrong = [
            op(1, kind=9),
            op(2, key=b""),
            op(3, key=b"k" * 2049),
            op(4, size=0),
            op(5, size=8192, length=4096),
            op(6, length=5),
            op(7, kind=READ, offset=1),
            op(8, local=[wire.Part(region=1, at=4000, length=97)]),
        ]
        queue.take(wrong, 4096)
        assert statuses(queue) == [(n, FAILED, int(Code.INVALID_PARAMS)) for n in range(1, 9)]
        with pytest.raises(PluginError, match="operation 10 after operation 8"):
            queue.take([op(10)], 4096)
        store.go.set()
        queue.take([op(9)], 4096)
        await queue.wait(lambda: len(queue.done) == 9)
        assert queue.done[-1].status == OK

    queued(run)


def test_checksum():
    assert checksum([memoryview(b"1234"), memoryview(b"56789")]) == 0xE3069283
