"""The roles of SGLang's PD disaggregation, run in processes of their own by test_sglang_pd.

Wrapper makes the calls that SGLang's wrapper of the engine makes, and no others.
"""

import ipaddress
import os
import threading

from enginepeer import Memory, Worker, content, digest


class Wrapper:
    """The engine of one process as SGLang uses it: shared by all of its threads."""

    def __init__(self, hostname: str, ib_device: str | None) -> None:
        from mooncake.engine import TransferEngine

        self.engine = TransferEngine()
        for needed in ("batch_register_memory", "batch_transfer_sync_write"):
            assert hasattr(self.engine, needed), f"SGLang asks for a newer version without {needed}"
        protocol = os.environ.get("MOONCAKE_PROTOCOL", "rdma")
        device = "" if os.environ.get("MC_FORCE_TCP") else ib_device or ""
        code = self.engine.initialize(hostname, "P2PHANDSHAKE", protocol, device)
        if code != 0:
            raise RuntimeError(f"initialize answered {code}")
        try:
            host = f"[{hostname}]" if ipaddress.ip_address(hostname).version == 6 else hostname
        except ValueError:
            host = hostname
        self.session_id = f"{host}:{self.engine.get_rpc_port()}"

    def register(self, ptr: int, length: int) -> int:
        return _number(self.engine.register_memory, ptr, length)

    def deregister(self, ptr: int) -> int:
        return _number(self.engine.unregister_memory, ptr)

    def batch_register(self, ptrs: list[int], lengths: list[int]) -> int:
        return _number(self.engine.batch_register_memory, ptrs, lengths)

    def batch_deregister(self, ptrs: list[int]) -> int:
        return _number(self.engine.batch_unregister_memory, ptrs)

    def transfer_sync(self, session_id: str, buffer: int, peer_buffer_address: int, length: int) -> int:
        return _number(self.engine.transfer_sync_write, session_id, buffer, peer_buffer_address, length)

    def batch_transfer_sync(self, session_id: str, buffers: list[int], peers: list[int], lengths: list[int]) -> int:
        return _number(self.engine.batch_transfer_sync_write, session_id, buffers, peers, lengths)


def _number(call, *args) -> int:
    try:
        return call(*args)
    except Exception:  # noqa: BLE001 - as the wrapper does
        return -1


def open_engine(worker: Worker, hostname: str = "127.0.0.1", ib_device: str | None = None) -> str:
    """What a scheduler does first: its session id, which the other side gets over ZMQ."""
    worker.kept["te"] = Wrapper(hostname, ib_device)
    return worker.kept["te"].session_id


def open_pools(worker: Worker, layers: int, size: int, seed: int | None) -> tuple[list[int], int]:
    """KV pools, one a layer. Several of the regions that a manager collects are the same one."""
    for layer in range(layers):
        pool = Memory(size)
        if seed is not None:
            pool.write(0, content(seed + layer, size))
        worker.memories.append(pool)
    addresses = [pool.address for pool in worker.memories]
    collected = [(a, size) for a in addresses + addresses[: layers // 2]]
    regions = list(dict.fromkeys(collected))
    code = worker.kept["te"].batch_register([a for a, _ in regions], [n for _, n in regions])
    return addresses, code


def close_pools(worker: Worker) -> int:
    return worker.kept["te"].batch_deregister([pool.address for pool in worker.memories])


def send_pages(
    worker: Worker, requests: list[tuple[str, list[int], list[int], list[int]]], page: int, threads: int
) -> list[int]:
    """The transfer workers of prefill: each request's pages of all layers in one call, many threads at once.

    A request is (session, addresses of the peer's pools, own pages, pages of the peer).
    """
    codes: list[int] = [1] * len(requests)
    turn = iter(range(len(requests)))
    lock = threading.Lock()
    te: Wrapper = worker.kept["te"]

    def work() -> None:
        while True:
            with lock:
                i = next(turn, None)
            if i is None:
                return
            session, peer_pools, mine, theirs = requests[i]
            at, to = [], []
            for pool, peer_pool in zip(worker.memories, peer_pools, strict=True):
                at += [pool.address + page * k for k in mine]
                to += [peer_pool + page * k for k in theirs]
            codes[i] = te.batch_transfer_sync(session, at, to, [page] * len(at))

    pool = [threading.Thread(target=work) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    return codes


def page_digests(worker: Worker, page: int) -> list[list[str]]:
    """Of every layer, the digest of each page."""
    return [[digest(pool.read(o, page)) for o in range(0, pool.size, page)] for pool in worker.memories]


def send_embeddings(worker: Worker, session: str, slots: list[int], size: int, seed: int) -> list[tuple[int, int, int]]:
    """The encoder of EPD: memory is registered for one embedding and taken back after it."""
    te: Wrapper = worker.kept["te"]
    codes = []
    for i, slot in enumerate(slots):
        embedding = Memory(size)
        embedding.write(0, content(seed + i, size))
        registered = te.register(embedding.address, size)
        sent = te.transfer_sync(session, embedding.address, slot, size)
        codes.append((registered, sent, te.deregister(embedding.address)))
    return codes


def open_slots(worker: Worker, n: int, size: int) -> list[int]:
    """Memory for n embeddings, registered as one region."""
    slots = Memory(n * size)
    worker.memories.append(slots)
    code = worker.kept["te"].register(slots.address, n * size)
    assert code == 0, code
    return [slots.address + i * size for i in range(n)]


def slot_digests(worker: Worker, n: int, size: int) -> list[str]:
    return [digest(worker.memories[-1].read(i * size, size)) for i in range(n)]


def probe(worker: Worker, session: str) -> int:
    return worker.kept["te"].engine.send_probe(session)


def one_write(worker: Worker, session: str, there: int) -> int:
    return worker.kept["te"].transfer_sync(session, worker.memories[0].address, there, 64)


def shared_engine(worker: Worker) -> str:
    """What HiCache takes over from the engine of PD disaggregation."""
    te: Wrapper = worker.kept["te"]
    return type(te.engine.get_engine()).__name__
