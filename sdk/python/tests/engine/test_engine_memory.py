"""Registration, managed buffers and the copies to and from addresses."""

import pytest
from enginepeer import Memory, Peer, content, look, start, take

PAGE = 4096


@pytest.fixture
def memory():
    return Memory(16 * PAGE)


def test_register_forms(engine, memory):
    at = memory.address
    assert engine.register_memory(at, PAGE) == 0
    assert engine.unregister_memory(at) == 0
    assert engine.register_memory(buffer_addr=at, capacity=PAGE, location="cpu:0") == 0
    assert engine.unregister_memory(at) == 0
    assert engine.batch_register_memory([at, at + PAGE], [PAGE, PAGE]) == 0, "adjacent is not overlapping"
    assert engine.batch_unregister_memory([at, at + PAGE]) == 0
    assert engine.batch_register_memory(buffer_addresses=(at,), capacities=(PAGE,), location="*") == 0
    assert engine.batch_unregister_memory((at,)) == 0
    assert engine.batch_register_memory([], []) == 0
    assert engine.batch_unregister_memory([]) == 0


def test_registering_twice_is_an_error(engine, memory):
    at = memory.address
    assert engine.register_memory(at, 4 * PAGE) == 0
    assert engine.register_memory(at, 4 * PAGE) < 0
    assert engine.register_memory(at + PAGE, PAGE) < 0, "a part of it"
    assert engine.register_memory(at - PAGE, 2 * PAGE) < 0, "its beginning and what is before"
    assert engine.last_error() != ""
    assert engine.unregister_memory(at) == 0
    assert engine.register_memory(at, 4 * PAGE) == 0, "again after it was unregistered"
    assert engine.unregister_memory(at) == 0


def test_a_batch_is_registered_wholly_or_not(engine, memory):
    at = memory.address
    assert engine.register_memory(at + 4 * PAGE, PAGE) == 0
    assert engine.batch_register_memory([at, at + 4 * PAGE], [PAGE, PAGE]) < 0
    assert engine.register_memory(at, PAGE) == 0, "the first of the batch was not kept"
    assert engine.batch_register_memory([at + 8 * PAGE, at + 8 * PAGE], [PAGE, PAGE]) < 0, "twice within the batch"
    assert engine.batch_register_memory([at + 8 * PAGE], [PAGE, PAGE]) == -1, "lists of different lengths"
    assert engine.batch_register_memory([at + 8 * PAGE, at + 9 * PAGE], [PAGE]) == -1
    assert engine.batch_unregister_memory([at, at + 4 * PAGE]) == 0


def test_what_cannot_be_registered(engine, memory):
    assert engine.register_memory(memory.address, 0) < 0
    assert engine.register_memory(0, PAGE) < 0
    assert engine.unregister_memory(memory.address) < 0, "never registered"
    assert engine.register_memory(memory.address, PAGE) == 0
    assert engine.unregister_memory(memory.address + 1) < 0, "not its beginning"
    assert engine.batch_unregister_memory([memory.address, memory.address + 8 * PAGE]) < 0, "one of them is unknown"
    engine.unregister_memory(memory.address)


def test_unregistered_memory_is_out_of_reach(side):
    address = side.peer.do(take, 1 << 20)
    assert side.engine.transfer_sync_write(side.target, side.memory.address, address, 1 << 20) == 0
    assert side.peer.call("unregister_memory", address) == 0
    assert side.engine.transfer_sync_write(side.target, side.memory.address, address, 1 << 20) < 0
    assert side.engine.transfer_sync_write(side.target, side.memory.address, side.there, 1 << 20) == 0


def test_memory_of_the_caller_need_not_be_registered(side):
    data = content(60, 3000)
    local = Memory(PAGE)
    local.write(1, data)
    assert side.engine.transfer_sync_write(side.target, local.address + 1, side.there, 3000) == 0
    assert side.peer.do(look, side.there, 3000) == data


@pytest.mark.parametrize("size", [1, 8192, 8193, 1 << 20])
def test_managed_buffer(side, size):
    address = side.engine.allocate_managed_buffer(size)
    assert address > 0
    data = content(70, size)
    assert side.engine.write_bytes_to_buffer(address, data, size) == 0
    assert side.engine.transfer_sync_write(side.target, address, side.there, size) == 0
    assert side.engine.write_bytes_to_buffer(address, bytes(size), size) == 0
    assert side.engine.transfer_sync_read(side.target, address, side.there, size) == 0
    assert side.engine.read_bytes_from_buffer(address, size) == data
    assert side.engine.free_managed_buffer(address, size) == 0


def test_managed_buffers_are_registered(side):
    address = side.peer.call("allocate_managed_buffer", 100_000)
    assert address > 0
    side.memory.write(0, b"from afar")
    assert side.engine.transfer_sync_write(side.target, side.memory.address, address + 99_000, 9) == 0
    assert side.peer.call("read_bytes_from_buffer", address + 99_000, 9) == b"from afar"
    assert side.peer.call("free_managed_buffer", address, 100_000) == 0


def test_managed_buffers_do_not_overlap(engine):
    sizes = [1, 8192, 20_000, 70_000, 1 << 20]
    at = [engine.allocate_managed_buffer(size) for size in sizes]
    assert all(at)
    for i, (address, size) in enumerate(zip(at, sizes, strict=True)):
        engine.write_bytes_to_buffer(address, content(i, size), size)
    for i, (address, size) in enumerate(zip(at, sizes, strict=True)):
        assert engine.read_bytes_from_buffer(address, size) == content(i, size)
        assert engine.free_managed_buffer(address, size) == 0


def test_too_much_managed_memory_is_refused(engine):
    assert engine.allocate_managed_buffer(1 << 60) == 0
    assert engine.allocate_managed_buffer((1 << 64) - 1) == 0


@pytest.mark.parametrize("data", [b"abcdef", bytearray(b"abcdef"), memoryview(b"abcdef"), "abcdef"])
def test_copies_of_bytes(engine, memory, data):
    assert engine.write_bytes_to_buffer(memory.address + 3, data, 6) == 0
    assert engine.read_bytes_from_buffer(memory.address + 2, 8) == b"\0abcdef\0"
    assert engine.write_bytes_to_buffer(memory.address + 3, data, 0) == 0
    assert engine.read_bytes_from_buffer(memory.address, 0) == b""


def test_copies_of_part_of_the_bytes(engine, memory):
    assert engine.write_bytes_to_buffer(memory.address, b"xyz", 2) == 0
    assert engine.read_bytes_from_buffer(memory.address, 3) == b"xy\0"
    with pytest.raises(ValueError, match="length"):
        engine.write_bytes_to_buffer(memory.address, b"xyz", 4)
    assert engine.write_bytes_to_buffer(memory.address, "\u00e4", 2) == 0, "a str is its UTF-8"
    assert engine.read_bytes_from_buffer(memory.address, 2) == b"\xc3\xa4"


def test_first_buffer_of_a_peer(engine):
    with Peer() as peer:
        name = f"127.0.0.1:{peer.do(start, '127.0.0.1')}"
        assert engine.get_first_buffer_address(name) == 0, "nothing is registered yet"
        there = peer.do(take, PAGE)
        assert engine.get_first_buffer_address(name) == there
    assert engine.get_first_buffer_address(name) == 0, "no process has this name"
    assert engine.get_first_buffer_address("") == 0
