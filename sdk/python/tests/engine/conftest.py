"""Fixtures: this process's engine, and a peer process with one."""

from collections.abc import Iterator
from dataclasses import dataclass

import enginepeer
import pytest

SIZE = 33 << 20  # bytes of registered memory on either side


@dataclass
class Side:
    """An engine of this process, its memory, and a peer with memory of the same size."""

    engine: object
    memory: enginepeer.Memory
    peer: enginepeer.Peer
    target: str
    there: int  # the address of the peer's memory


@pytest.fixture(scope="session")
def engine() -> Iterator[object]:
    from mooncake.engine import TransferEngine

    made = TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    yield made


@pytest.fixture(scope="session")
def side(engine) -> Iterator[Side]:
    memory = enginepeer.Memory(SIZE)
    assert engine.register_memory(memory.address, SIZE) == 0
    with enginepeer.Peer() as peer:
        port = peer.do(enginepeer.start, "127.0.0.1")
        assert port > 0
        there = peer.do(enginepeer.take, SIZE)
        yield Side(engine, memory, peer, f"127.0.0.1:{port}", there)
    assert engine.unregister_memory(memory.address) == 0
