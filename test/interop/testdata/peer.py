"""A node of upstream that does what the test tells it, one JSON object a line."""
import ctypes
import hashlib
import json
import random
import sys

from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

engine = TransferEngine()
memory = None


def start(host, size, protocol="tcp", devices=""):
    global memory
    if engine.initialize(host, "P2PHANDSHAKE", protocol, devices) != 0:
        raise RuntimeError("initialize failed")
    memory = (ctypes.c_ubyte * size)()
    if engine.register_memory(ctypes.addressof(memory), size) != 0:
        raise RuntimeError("register_memory failed")
    return {"name": "%s:%d" % (host, engine.get_rpc_port()), "addr": ctypes.addressof(memory)}


def digest(offset, size):
    return {"sha256": hashlib.sha256(memoryview(memory)[offset:offset + size]).hexdigest()}


def fill(offset, size, seed):
    memoryview(memory).cast("B")[offset:offset + size] = random.Random(seed).randbytes(size)
    return digest(offset, size)


def move(op, target, offset, addr, size, notify=None):
    code = TransferOpcode.Read if op == "read" else TransferOpcode.Write
    local = ctypes.addressof(memory) + offset
    message = TransferNotify(*notify) if notify else None
    return {"rc": engine.transfer_sync(target, local, addr, size, code, message)}


def batch(op, target, offsets, addrs, sizes):
    local = [ctypes.addressof(memory) + o for o in offsets]
    call = engine.batch_transfer_sync_read if op == "read" else engine.batch_transfer_sync_write
    return {"rc": call(target, local, addrs, sizes)}


def first(target):
    return {"addr": engine.get_first_buffer_address(target)}


def probe(target):
    return {"rc": engine.send_probe(target)}


def notes():
    return {"notes": [[n.name, n.msg] for n in engine.get_notifies()]}


# The engine logs to standard error, so standard output is for answers alone.
CALLS = {f.__name__: f for f in (start, digest, fill, move, batch, first, probe, notes)}
for line in sys.stdin:
    call = json.loads(line)
    try:
        answer = CALLS[call.pop("call")](**call)
    except Exception as e:  # pylint: disable=broad-except
        answer = {"error": repr(e)}
    print(json.dumps(answer), flush=True)
