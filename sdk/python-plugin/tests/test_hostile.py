"""Mutated messages of a host: the plugin answers each with a result or a clear error."""

import asyncio
import logging
import os
import random
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf.message import DecodeError
from test_settings import Config
from test_tier import memory, op, wire

from mooncake_plugin import Code, PluginError
from mooncake_plugin.alloc import Alloc, Extent
from mooncake_plugin.evict import Evict, Op
from mooncake_plugin.protocol import messages
from mooncake_plugin.settings import decode
from mooncake_plugin.tiermemory import Regions
from mooncake_plugin.tierqueue import FAILED, MAX_OPEN, OK, WRITE, Queue

ROUNDS = 3000


def mutants(golden, seed):
    """Copies of the bytes with a few bits flipped, bytes cut, doubled, or put in. A seed always gives the same ones."""
    rnd = random.Random(seed)
    for _ in range(ROUNDS):
        data = bytearray(golden)
        for _ in range(rnd.randint(1, 4)):
            at = rnd.randrange(len(data) + 1)
            match rnd.randrange(4):
                case 0 if at < len(data):
                    data[at] ^= 1 << rnd.randrange(8)
                case 1:
                    del data[at : at + rnd.randint(1, 8)]
                case 2:
                    data[at:at] = data[at : at + rnd.randint(1, 8)]
                case _:
                    data[at:at] = rnd.choice([b"\xff", b"\x00", b"\xff" * 9 + b"\x01", b'"', b"{", b"[", b"9" * 30])
        yield bytes(data)


def test_settings():
    given = refused = 0
    for text in mutants(b'{"on": false, "count": 9, "share": 0.25}', 1):
        try:
            made = decode(Config, text, "evict/x")
        except PluginError as e:
            refused += 1
            assert e.code == Code.INVALID_PARAMS
            assert str(e).startswith("evict/x: configuration: ")
            e.message()
        else:
            given += 1
            assert (type(made.on), type(made.count), type(made.share)) == (bool, int, float)
            assert 0 <= made.share <= 1
    assert given and refused


class Policy:
    """Refuses, by an assertion, what the library must not hand on."""

    def record(self, events):
        assert all(e.op in set(Op) and 0 <= e.id < 2**64 for e in events)

    def resolve(self, verdicts):
        assert all(isinstance(v.evicted, bool) for v in verdicts)

    def alloc(self, request):
        return Extent(1, 0, request.size)

    def free(self, extent):
        assert 0 <= extent.offset < 2**64


class Context:
    """A call that lets a test see its error."""

    async def abort(self, code, text, metadata):
        assert text
        raise grpc.aio.AbortError(code)

    def time_remaining(self):
        return None


EVICT, ALLOC = messages("evict"), messages("alloc")
CALLS = [
    (Evict, "Record", EVICT.RecordRequest(ops=b"\1\2\3", ids=[1, 2, 3], sizes=[4, 0, 0], parents=[0, 0, 0])),
    (Evict, "Resolve", EVICT.ResolveRequest(ids=[1, 2, 300], evicted=b"\0\1\1")),
    (Alloc, "Alloc", ALLOC.AllocRequest(items=[ALLOC.AllocItem(size=4096, align=64, candidates=[1, 2])])),
    (Alloc, "Free", ALLOC.FreeRequest(extents=[ALLOC.Extent(space=1, offset=64, size=9)])),
]


@pytest.mark.parametrize(("kind", "call", "golden"), CALLS, ids=[c[1] for c in CALLS])
def test_calls(kind, call, golden):
    serving = kind(SimpleNamespace(component=Policy), logging.getLogger("test"))

    async def run():
        answered = 0
        for data in mutants(golden.SerializeToString(), 2):
            try:
                m = type(golden).FromString(data)
            except DecodeError:
                continue
            try:
                answer = await getattr(serving, call)(m, Context())
            except grpc.aio.AbortError as e:
                assert e.args == (grpc.StatusCode.INVALID_ARGUMENT,)
            else:
                answered += 1
                failures = [*getattr(answer, "errors", []), *(r.error for r in getattr(answer, "results", []))]
                assert all(f.code != Code.INTERNAL_ERROR for f in failures)
        assert answered

    asyncio.run(run())


class Quick:
    """A store that takes what it gets."""

    def write(self, record, value, commit):
        commit()
        return (1, 2, 3, 4)

    def read(self, record, at, offset, into):
        return record


def with_queue(run):
    async def inner():
        regions = Regions()
        fd = memory(b"x" * 4096)
        regions.add(1, fd, 0, 4096)
        os.close(fd)
        queue = Queue(Quick(), regions)
        await run(queue)
        queue.end()
        await queue.wait(lambda: not queue.open)
        regions.remove(1)  # It fails if an operation still uses the memory.

    asyncio.run(inner())


def test_operations():
    golden = wire.OperateRequest(ops=[op(1, limit=10**9), op(2, limit=10**9, key=b"other")])

    async def run(queue):
        taken, refused = [], 0
        for data in mutants(golden.SerializeToString(), 3):
            queue.got = 0
            try:
                m = wire.OperateRequest.FromString(data)
                queue.take(m.ops, 4096)
            except DecodeError:
                continue
            except PluginError as e:
                assert e.code == Code.INVALID_PARAMS
                refused += 1
            await queue.wait(lambda: not queue.open)
            taken += [(c.status, c.error.code, bool(c.error.message)) for c in queue.done]
            queue.done.clear()
        assert refused
        assert {t[0] for t in taken} == {OK, FAILED}
        allowed = {Code.INVALID_PARAMS, Code.UNAVAILABLE_IN_CURRENT_STATUS, Code.RPC_TIMEOUT, Code.CHECKSUM_MISMATCH}
        assert all(ok if status == FAILED else code == 0 for status, code, ok in taken)
        assert {t[1] for t in taken if t[0] == FAILED} <= allowed

    with_queue(run)


def test_too_many_operations():
    async def run(queue):
        with pytest.raises(PluginError, match=f"{MAX_OPEN} open") as e:
            queue.take([op(i + 1, kind=WRITE) for i in range(MAX_OPEN + 1)], 4096)
        assert e.value.code == Code.INVALID_PARAMS

    with_queue(run)
