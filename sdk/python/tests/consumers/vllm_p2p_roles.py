"""The workers of vLLM's MooncakeConnector, run in processes of their own by test_vllm_p2p."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from enginepeer import Memory, Worker, content, digest

try:  # at module level, as vLLM has it
    from mooncake.engine import TransferEngine
except ImportError:
    TransferEngine = None

SENDERS = 10


class Connector:
    """One worker: the five calls, and no others."""

    def __init__(self, ip: str, extra_config: dict[str, Any]) -> None:
        if TransferEngine is None:
            raise ImportError("mooncake is not available")
        self.engine = TransferEngine()
        protocol, device = extra_config.get("mooncake_protocol", "rdma"), extra_config.get("device_name", "")
        if self.engine.initialize(ip, "P2PHANDSHAKE", protocol, device) != 0:
            raise RuntimeError("Mooncake Transfer Engine initialization failed.")
        self.name = f"{ip}:{self.engine.get_rpc_port()}"
        self.senders = ThreadPoolExecutor(SENDERS)
        self.caches: list[Memory] = []

    def register_kv_caches(self, layers: int, size: int, seed: int | None) -> list[int]:
        for layer in range(layers):
            cache = Memory(size)
            if seed is not None:
                cache.write(0, content(seed + layer, size))
            self.caches.append(cache)
        addresses = [cache.address for cache in self.caches]
        if self.engine.batch_register_memory(addresses, [size] * layers) != 0:
            raise RuntimeError("Mooncake batch memory registration failed.")
        return addresses

    def send(self, peer: str, theirs: list[int], blocks: list[tuple[int, int]], size: int) -> int:
        srcs, dsts = [], []
        for cache, base in zip(self.caches, theirs, strict=True):
            srcs += [cache.address + mine * size for mine, _ in blocks]
            dsts += [base + place * size for _, place in blocks]
        return self.engine.batch_transfer_sync_write(peer, srcs, dsts, [size] * len(srcs))


def connect(worker: Worker, ip: str = "127.0.0.1", extra_config: dict[str, Any] | None = None) -> str:
    worker.kept["connector"] = Connector(ip, extra_config or {})
    return worker.kept["connector"].name


def register(worker: Worker, layers: int, size: int, seed: int | None) -> list[int]:
    return worker.kept["connector"].register_kv_caches(layers, size, seed)


def send_all(worker: Worker, requests: list[tuple[str, list[int], list[tuple[int, int]]]], size: int) -> list[int]:
    """All requests by the pool of ten threads."""
    connector: Connector = worker.kept["connector"]
    pending = [connector.senders.submit(connector.send, *request, size) for request in requests]
    return [future.result(timeout=60) for future in pending]


def block_digests(worker: Worker, size: int) -> list[list[str]]:
    caches = worker.kept["connector"].caches
    return [[digest(cache.read(o, size)) for o in range(0, cache.size, size)] for cache in caches]


FORKING_PARENT = """
import multiprocessing, os, sys
import vllm_p2p_roles as roles  # imports mooncake.engine, in the parent
from enginepeer import Worker, content, digest

LAYERS, BLOCK, BLOCKS = 4, 12_345, 20
context = multiprocessing.get_context("fork")

def consumer(pipe):
    worker = Worker()
    name = roles.connect(worker)
    pipe.send((name, roles.register(worker, LAYERS, BLOCK * BLOCKS, None)))
    pipe.recv()
    pipe.send(roles.block_digests(worker, BLOCK))

def producer(pipe):
    worker = Worker()
    roles.connect(worker)
    roles.register(worker, LAYERS, BLOCK * BLOCKS, 70)
    name, theirs = pipe.recv()
    pipe.send(roles.send_all(worker, [(name, theirs, [(k, BLOCKS - 1 - k)]) for k in range(BLOCKS)], BLOCK))

pipes, children = [], []
for role in (consumer, producer):
    mine, theirs = context.Pipe()
    child = context.Process(target=role, args=(theirs,))
    child.start()
    theirs.close()
    pipes.append(mine)
    children.append(child)
pipes[1].send(pipes[0].recv())
codes = pipes[1].recv()
assert codes == [0] * BLOCKS, codes
pipes[0].send("done")
got = pipes[0].recv()
for layer in range(LAYERS):
    sent = content(70 + layer, BLOCK * BLOCKS)
    for k in range(BLOCKS):
        assert got[layer][BLOCKS - 1 - k] == digest(sent[k * BLOCK:(k + 1) * BLOCK]), (layer, k)
for child in children:
    child.join(60)
    assert child.exitcode == 0, child.exitcode
assert "libmooncake" not in open("/proc/self/maps").read(), "the parent never loaded it"
print("moved")
"""
