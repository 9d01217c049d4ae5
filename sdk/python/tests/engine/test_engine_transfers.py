"""Every transfer call, positional and by keyword, with contents compared in the other process."""

import signal
import threading

import pytest
from enginepeer import content, digest, look, look_digest

from mooncake.engine import Read, TransferNotify, TransferOpcode, Write

# Sizes around the borders of pages, slices and the limits that transports have, to 16 MiB.
SIZES = [1, 7, 4095, 4096, 4097, 65_535, 65_536, 65_537, (1 << 20) + 3, 16 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_write_and_read_back_at_odd_offsets(side, size):
    data = content(size, size)
    side.memory.write(3, data)
    assert side.engine.transfer_sync_write(side.target, side.memory.address + 3, side.there + 5, size) == 0
    assert side.peer.do(look_digest, side.there + 5, size) == digest(data)

    back = (16 << 20) + 4099
    side.memory.write(back - 1, b"\xa5" + bytes(size) + b"\x5a")
    assert side.engine.transfer_sync_read(side.target, side.memory.address + back, side.there + 5, size) == 0
    assert side.memory.read(back - 1, size + 2) == b"\xa5" + data + b"\x5a", "only the range that was asked for changes"


def one(side, size=100):
    return (side.target, side.memory.address, side.there, size)


def one_named(side, size=100):
    return dict(zip(("target_hostname", "buffer", "peer_buffer_address", "length"), one(side, size), strict=True))


def many(side, n=3):
    at = [side.memory.address + 1000 * i for i in range(n)]
    there = [side.there + 1001 * i for i in range(n)]
    return (side.target, at, there, [500 + i for i in range(n)])


def many_named(side, n=3):
    names = ("target_hostname", "buffers", "peer_buffer_addresses", "lengths")
    return dict(zip(names, many(side, n), strict=True))


ONE = [
    ("transfer_sync_write", (), {}, "write"),
    ("transfer_sync_read", (), {}, "read"),
    ("transfer_sync", (Write,), {"opcode": Write}, "write"),
    ("transfer_sync", (Read, None), {"opcode": Read, "notify": None}, "read"),
]


@pytest.mark.parametrize("form", ["positional", "keyword", "hint"])
@pytest.mark.parametrize(("method", "more", "more_named", "way"), ONE)
def test_one_range(side, form, method, more, more_named, way):
    here, there = content(11, 100), content(12, 100)
    side.memory.write(0, here)
    side.peer.do(poke, side.there, there)
    call = getattr(side.engine, method)
    if form == "positional":
        assert call(*one(side), *more) == 0
    elif form == "keyword":
        assert call(**one_named(side), **more_named) == 0
    else:
        assert call(**one_named(side), **more_named, transport_hint="tcp") == 0
    want = here if way == "write" else there
    assert side.memory.read(0, 100) == want
    assert side.peer.do(look, side.there, 100) == want


MANY = [
    ("batch_transfer_sync_write", (), {}, "write"),
    ("batch_transfer_sync_read", (), {}, "read"),
    ("batch_transfer_sync", (TransferOpcode.Write,), {"opcode": Write}, "write"),
    ("batch_transfer_sync", (TransferOpcode.Read, None, ""), {"opcode": Read, "notify": None}, "read"),
    ("batch_transfer_async_write", (), {}, "write"),
    ("batch_transfer_async_read", (), {}, "read"),
    ("batch_transfer_async", (Write,), {"opcode": Write}, "write"),
    ("batch_transfer_async", (Read, ""), {"opcode": Read}, "read"),
]


@pytest.mark.parametrize("form", ["positional", "keyword", "hint"])
@pytest.mark.parametrize(("method", "more", "more_named", "way"), MANY)
def test_several_ranges(side, form, method, more, more_named, way):
    target, at, there, sizes = many(side)
    for i, size in enumerate(sizes):
        side.memory.write(at[i] - side.memory.address, content(20 + i, size))
        side.peer.do(poke, there[i], content(30 + i, size))
    call = getattr(side.engine, method)
    if form == "positional":
        answer = call(target, at, there, sizes, *more)
    elif form == "keyword":
        answer = call(**many_named(side), **more_named)
    else:
        answer = call(**many_named(side), **more_named, transport_hint="rdma")
    if "async" in method:
        assert answer > 0
        assert side.engine.get_batch_transfer_status([answer]) == 0
    else:
        assert answer == 0
    for i, size in enumerate(sizes):
        want = content((20 if way == "write" else 30) + i, size)
        assert side.memory.read(at[i] - side.memory.address, size) == want
        assert side.peer.do(look, there[i], size) == want


def test_tuples_and_other_sequences_are_lists(side):
    side.memory.write(0, b"abcdef")
    answer = side.engine.batch_transfer_sync_write(
        side.target, (side.memory.address, side.memory.address + 3), range(side.there, side.there + 6, 3), (3, 3)
    )
    assert answer == 0
    assert side.peer.do(look, side.there, 6) == b"abcdef"


def test_no_ranges(side):
    assert side.engine.batch_transfer_sync_write(side.target, [], [], []) == 0
    assert side.engine.batch_transfer_sync_read(side.target, [], [], []) == 0
    assert side.engine.get_batch_transfer_status([]) == 0


def test_nothing_to_move_is_a_success(side):
    assert side.engine.transfer_sync_write(side.target, side.memory.address, side.there, 0) == 0


def test_lists_of_different_lengths_fail_and_move_nothing(side):
    side.peer.do(poke, side.there, bytes(8))
    side.memory.write(0, b"\xff" * 8)
    here, there = side.memory.address, side.there
    for at, to, sizes in [([here], [there], [4, 4]), ([here, here + 4], [there], [4]), ([here], [], [4])]:
        assert side.engine.batch_transfer_sync_write(side.target, at, to, sizes) == -1
        assert side.engine.batch_transfer_sync_read(side.target, at, to, sizes) == -1
        assert side.engine.batch_transfer_sync(side.target, at, to, sizes, Write) == -1
        assert side.engine.batch_transfer_async_write(side.target, at, to, sizes) == 0
        assert side.engine.batch_transfer_async_read(side.target, at, to, sizes) == 0
        assert side.engine.batch_transfer_async(side.target, at, to, sizes, Read) == 0
    assert side.peer.do(look, side.there, 8) == bytes(8)


def test_memory_that_the_peer_did_not_register_is_refused(side):
    beyond = side.there + (33 << 20)
    assert side.engine.transfer_sync_write(side.target, side.memory.address, beyond, 8) < 0
    assert side.engine.transfer_sync_write(side.target, side.memory.address, beyond - 4, 8) < 0, "partly beyond the end"
    assert side.engine.transfer_sync_read(side.target, side.memory.address, 4096, 8) < 0
    bad = side.engine.batch_transfer_async_write(side.target, [side.memory.address], [beyond], [8])
    assert bad == 0 or side.engine.get_batch_transfer_status([bad]) == -1
    assert side.engine.transfer_sync_write(*one(side)) == 0, "a refusal breaks nothing"


def test_transfer_within_the_process(side):
    me = f"127.0.0.1:{side.engine.get_rpc_port()}"
    data = content(40, 5000)
    side.memory.write(0, data)
    assert side.engine.transfer_sync_write(me, side.memory.address, side.memory.address + 8191, 5000) == 0
    assert side.memory.read(8191, 5000) == data


def checked(engine, batch):
    """What transfer_check_status says last, asked until it is not 0."""
    while (status := engine.transfer_check_status(batch)) == 0:
        pass
    return status


@pytest.mark.parametrize("form", ["positional", "keyword"])
def test_submit_and_check(side, form):
    data = content(50, 1 << 20)
    side.memory.write(0, data)
    side.peer.do(poke, side.there, bytes(1 << 20))
    submit = side.engine.transfer_submit_write
    batch = (
        submit(*one(side, 1 << 20)) if form == "positional" else submit(**one_named(side, 1 << 20), transport_hint="")
    )
    assert batch > 0
    assert checked(side.engine, batch) == 1
    assert side.peer.do(look_digest, side.there, 1 << 20) == digest(data)
    assert side.engine.transfer_check_status(batch) == -1, "1 frees the number"


def test_submit_that_fails_is_minus_one(side):
    batch = side.engine.transfer_submit_write(side.target, side.memory.address, side.there + (33 << 20), 8)
    assert batch == 0 or checked(side.engine, batch) == -1


def test_numbers_that_are_no_batch(side):
    assert side.engine.get_batch_transfer_status([0]) == -1
    assert side.engine.get_batch_transfer_status([1 << 40]) == -1
    assert side.engine.transfer_check_status(0) == -1
    assert side.engine.transfer_check_status(1 << 40) == -1


def test_one_failed_batch_of_several(side):
    good = side.engine.batch_transfer_async_write(*many(side))
    also = side.engine.batch_transfer_async_read(*many(side))
    assert 0 not in (good, also)
    assert good != also
    assert side.engine.get_batch_transfer_status([good, 1 << 40, also]) == -1
    assert side.engine.get_batch_transfer_status([good]) == -1, "the call freed all of them"


def test_notify(side):
    assert side.peer.do(notes) == []
    side.memory.write(0, b"payload!")
    note = TransferNotify("sender-1", "bytes have arrived \u2713")
    assert side.engine.transfer_sync(side.target, side.memory.address, side.there, 8, Write, note) == 0
    assert side.peer.do(notes) == [("sender-1", "bytes have arrived \u2713")]
    assert side.peer.do(look, side.there, 8) == b"payload!"
    assert side.peer.do(notes) == [], "get_notifies takes them out"

    named = {**many_named(side), "opcode": Write, "notify": TransferNotify(name="b", msg="m"), "transport_hint": ""}
    assert side.engine.batch_transfer_sync(**named) == 0
    assert side.peer.do(notes) == [("b", "m")], "one for the batch"

    note = TransferNotify("lost", "never")
    assert side.engine.transfer_sync(side.target, side.memory.address, 4096, 8, Write, note) < 0
    assert side.peer.do(notes) == [], "a failed transfer delivers no notice"


def test_threads_share_the_engine(side):
    threads, rounds, size = 8, 12, 100_001
    failed = []

    def work(which):
        here, there = which * 4 * size + 1, which * 4 * size + 7
        for turn in range(rounds):
            data = content(1000 * which + turn, size)
            side.memory.write(here, data)
            if side.engine.transfer_sync_write(side.target, side.memory.address + here, side.there + there, size):
                failed.append((which, turn, "write"))
            side.memory.write(here, bytes(size))
            if side.engine.transfer_sync_read(side.target, side.memory.address + here, side.there + there, size):
                failed.append((which, turn, "read"))
            if side.memory.read(here, size) != data:
                failed.append((which, turn, "content"))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failed == []


def test_a_waiting_call_lets_other_threads_run(side):
    """A thread that only counts goes on while another is within one long call, which waits for a peer that stands still."""
    answers, counted = [], 0
    sizes = [16 << 20] * 8
    mover = threading.Thread(
        target=lambda: answers.append(
            side.engine.batch_transfer_sync_read(
                side.target, [side.memory.address] * len(sizes), [side.there] * len(sizes), sizes
            )
        )
    )
    side.peer.process.send_signal(signal.SIGSTOP)
    try:
        mover.start()
        while counted < 100_000 and not answers:
            counted += 1
        ended = list(answers)
    finally:
        side.peer.process.send_signal(signal.SIGCONT)
        mover.join()
    assert ended == [], f"the call was over after {counted}"
    assert answers == [0]


def poke(worker, address, data):
    import ctypes

    ctypes.memmove(address, data, len(data))


def notes(worker):
    return [(n.name, n.msg) for n in worker.engine.get_notifies()]
