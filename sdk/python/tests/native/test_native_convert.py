"""Arguments: what is taken, and what a TypeError says about what is not."""

from __future__ import annotations

import array
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

HOW = (1, 0, 0, 0, None, False, False, 0, None, [])


class Index:
    """As a numpy int: a number by __index__ only."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> int:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class Numbers:
    """A sequence that is no list."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


def how(**fields: Any) -> tuple[Any, ...]:
    names = ["replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action", "soft_pin_ttl_ms", "with_hard_pin"]
    names += ["prefer_alloc_in_same_node", "data_type", "group_ids", "preferred_segments"]
    return tuple(fields.get(n, v) for n, v in zip(names, HOW, strict=True))


WRONG: list[tuple[str, Callable[[ModuleType], Any]]] = [
    # numbers
    ("buffer_ptr: expected an int, got float", lambda m: m.store_register(1, 1.0, 1)),
    ("buffer_ptr: expected an int, got NoneType", lambda m: m.store_register(1, None, 1)),
    ("buffer_ptr: expected an int, got str", lambda m: m.store_register(1, "1", 1)),
    ("buffer_ptr: expected an int from 0 to 2**64-1", lambda m: m.store_register(1, -1, 1)),
    ("size: expected an int from 0 to 2**64-1", lambda m: m.store_register(1, 1, 2**64)),
    ("size: expected an int from 0 to 2**64-1", lambda m: m.store_register(1, 1, Index(-1))),
    ("size: expected an int, got Index", lambda m: m.store_register(1, 1, Index("x"))),
    ("size: expected an int, got array", lambda m: m.store_register(1, 1, array.array("d", [1.0]))),
    ("handle: expected an int, got str", lambda m: m.store_close("1")),
    ("opcode: expected 0 (read) or 1 (write)", lambda m: m.engine_transfer(1, "a", 2, [], [], [], None)),
    ("opcode: expected an int of 32 bits", lambda m: m.engine_transfer(1, "a", 2**31, [], [], [], None)),
    ("flags: expected an int of 32 bits", lambda m: m.store_put_from(1, [], [], [], HOW, -(2**31) - 1)),
    ("batch_id: expected an int, got list", lambda m: m.engine_check(1, [1])),
    # lists of numbers
    ("buffer_ptrs[3]: expected an int, got float", lambda m: m.store_get_into(1, ["a"], [1, 2, 3, 4.0], [1])),
    ("buffer_ptrs[1]: expected an int from 0 to 2**64-1", lambda m: m.store_get_into(1, ["a"], (1, -2), [1])),
    ("buffer_ptrs: expected a list, got int", lambda m: m.store_get_into(1, ["a"], 7, [1])),
    ("buffer_ptrs: expected a list, got set", lambda m: m.store_get_into(1, ["a"], {7}, [1])),
    ("buffer_ptrs: expected a list, got dict", lambda m: m.store_get_into(1, ["a"], {7: 1}, [1])),
    ("buffer_ptrs: expected a list, got bytes", lambda m: m.store_get_into(1, ["a"], b"77", [1])),
    ("sizes: expected a list, got str", lambda m: m.store_get_into(1, ["a"], [7], "1")),
    ("sizes: expected a list, got NoneType", lambda m: m.store_get_into(1, ["a"], [7], None)),
    ("sizes: expected a list, got generator", lambda m: m.store_get_into(1, ["a"], [7], (i for i in [1]))),
    (
        "all_buffer_ptrs[1][2]: expected an int, got str",
        lambda m: m.store_get_into_rows(1, ["a"], [[1], [1, 2, "3"]], []),
    ),
    ("all_buffer_ptrs[1]: expected a list, got int", lambda m: m.store_get_into_rows(1, ["a"], [[1], 2], [])),
    ("all_sizes[0][0]: expected an int, got float", lambda m: m.store_put_from_rows(1, ["a"], [[1]], [[1.5]], HOW, 0)),
    (
        "all_dst_offsets[1][0][2]: expected an int",
        lambda m: m.store_get_ranges(1, [1], [], [[], [[1, 2, None]]], [], []),
    ),
    ("all_src_offsets[0][1]: expected a list", lambda m: m.store_get_ranges(1, [1], [], [], [[[], 3]], [])),
    ("all_sizes[2]: expected a list, got int", lambda m: m.store_get_ranges(1, [1], [], [], [], [[], [], 1])),
    ("all_keys[0][1]: expected str or bytes, got int", lambda m: m.store_get_ranges(1, [1], [["a", 1]], [], [], [])),
    ("all_keys[0]: expected a list, got str", lambda m: m.store_get_ranges(1, [1], ["ab"], [], [], [])),
    ("all_src_offsets[0][0]", lambda m: m.store_get_session_ranges(1, ["a"], [[1]], [[1]], [[-1]])),
    ("all_dst_offsets[0][0]", lambda m: m.store_put_session_ranges(1, ["a"], [[1]], [[1]], [[-1]])),
    ("sizes[0]: expected an int, got str", lambda m: m.store_put_session_start(1, ["a"], ["1"], HOW)),
    ("capacities[0]", lambda m: m.engine_register(1, [1], [-1], "*")),
    ("buffer_addresses[0]", lambda m: m.engine_unregister(1, ["1"])),
    ("peer_buffer_addresses[1]", lambda m: m.engine_submit(1, "a", 0, [1, 2], [1, -1], [1, 1])),
    ("lengths[0]", lambda m: m.engine_submit(1, "a", 0, [1], [1], [1.0])),
    ("batch_ids[0]", lambda m: m.engine_wait(1, [-1])),
    # texts
    ("key: expected str or bytes, got NoneType", lambda m: m.store_get(1, None)),
    ("key: expected str or bytes, got int", lambda m: m.store_put_parts(1, 1, b"", HOW, 0)),
    ("key: a str that has no UTF-8 form", lambda m: m.store_get(1, "\udc80")),
    ("keys: expected a list, got str", lambda m: m.store_exist(1, "abc")),
    ("keys: expected a list, got bytes", lambda m: m.store_exist(1, b"abc")),
    ("keys[1]: expected str or bytes, got NoneType", lambda m: m.store_exist(1, ["a", None])),
    ("keys[0]: expected str or bytes, got bytearray", lambda m: m.store_get_buffers(1, [bytearray(b"a")])),
    ("target: expected str or bytes, got NoneType", lambda m: m.engine_submit(1, None, 0, [], [], [])),
    ("notify[1]: expected str or bytes, got int", lambda m: m.engine_transfer(1, "a", 0, [], [], [], ("a", 1))),
    ("notify: expected a name and a message", lambda m: m.engine_transfer(1, "a", 0, [], [], [], ("a",))),
    ("location: expected str or bytes", lambda m: m.engine_register(1, [], [], None)),
    ("regex_pattern: expected str or bytes", lambda m: m.store_remove_regex(1, 1, False)),
    # bools
    ("force: expected a bool, got int", lambda m: m.store_remove(1, ["a"], 1)),
    ("force: expected a bool, got NoneType", lambda m: m.store_remove_all(1, None)),
    ("positional: expected a bool", lambda m: m.store_setup(1, "{}", 0, 0)),
    # buffers
    ("value: expected an object with the buffer protocol", lambda m: m.store_put_parts(1, "k", "text", HOW, 0)),
    ("value: expected an object with the buffer protocol", lambda m: m.store_put_parts(1, "k", None, HOW, 0)),
    ("parts[1]: expected an object with the buffer", lambda m: m.store_put_parts(1, "k", (b"", 3), HOW, 0)),
    (
        "value: expected memory that is in one piece",
        lambda m: m.store_put_parts(1, "k", memoryview(b"abcd")[::2], HOW, 0),
    ),
    ("values[1]: expected an object with the buffer", lambda m: m.store_put_values(1, ["a", "b"], [b"", "b"], HOW, 0)),
    ("values: expected a list, got bytes", lambda m: m.store_put_values(1, ["a"], b"b", HOW, 0)),
    ("data: expected an object with the buffer", lambda m: m.memory_write(4096, [b"a"], 1)),
    # how
    ("how: expected a tuple of the 10 fields", lambda m: m.store_put_values(1, [], [], (1,), 0)),
    ("how: expected a tuple of the 10 fields", lambda m: m.store_put_values(1, [], [], list(HOW), 0)),
    ("config.replica_num: expected an int", lambda m: m.store_put_values(1, [], [], how(replica_num=-1), 0)),
    ("config.soft_pin_action", lambda m: m.store_put_values(1, [], [], how(soft_pin_action="x"), 0)),
    ("config.soft_pin_ttl_ms", lambda m: m.store_put_values(1, [], [], how(soft_pin_ttl_ms=2**64), 0)),
    ("config.with_hard_pin: expected a bool", lambda m: m.store_put_values(1, [], [], how(with_hard_pin=1), 0)),
    ("config.prefer_alloc_in_same_node", lambda m: m.store_put_values(1, [], [], how(prefer_alloc_in_same_node=0), 0)),
    ("config.data_type", lambda m: m.store_put_values(1, [], [], how(data_type=None), 0)),
    ("config.group_ids[0]", lambda m: m.store_put_values(1, [], [], how(group_ids=[1]), 0)),
    (
        "config.preferred_segments: expected a list",
        lambda m: m.store_put_values(1, [], [], how(preferred_segments="s"), 0),
    ),
]


@pytest.mark.parametrize(("text", "call"), WRONG, ids=[f"{i}-{t.split(':')[0]}" for i, (t, _) in enumerate(WRONG)])
def test_a_wrong_argument_is_named_and_nothing_is_called(
    native: ModuleType, recorded: Callable[[], str], text: str, call: Callable[[ModuleType], Any]
) -> None:
    native.store_exist(1, ["before"])
    with pytest.raises(TypeError) as e:
        call(native)
    assert text in str(e.value)
    assert recorded() == "store_exist 1 keys=[before]"


def test_numbers_by_index(native: ModuleType, recorded: Callable[[], str]) -> None:
    native.store_register(1, Index(5), True)
    assert recorded() == "store_register 1 5 1"
    native.store_register(1, 2**64 - 1, 0)
    assert recorded() == "store_register 1 18446744073709551615 0"


@pytest.mark.parametrize(
    "of", [list, tuple, deque, lambda n: array.array("Q", n), lambda n: Numbers(*n), lambda n: memoryview(bytes(n))]
)
def test_any_sequence(native: ModuleType, recorded: Callable[[], str], of: Callable[[list[int]], Any]) -> None:
    assert native.store_get_into(1, ["a", b"b", "\N{SNOWMAN}"], of([1, 2, 3]), of([4, 5, 6])) == [0, 1, 2]
    assert recorded() == "store_get_into 1 keys=[a,b,\N{SNOWMAN}] ptrs=[1,2,3] sizes=[4,5,6]"


def test_numpy(native: ModuleType, recorded: Callable[[], str]) -> None:
    np = pytest.importorskip("numpy")
    native.store_get_into(1, ["a", "b"], np.array([1, 2], dtype=np.uint64), [np.int32(3), np.array(4)])
    assert recorded() == "store_get_into 1 keys=[a,b] ptrs=[1,2] sizes=[3,4]"
    assert native.store_remove(1, ["a"], np.bool_(True)) == [-706]
    assert recorded() == "store_remove 1 keys=[a] force=1"
    for wrong in (np.float32(1), np.array([1, 2]), np.array(1.0)):
        with pytest.raises(TypeError, match=r"size: expected an int, got"):
            native.store_register(1, 1, wrong)
    native.store_put_parts(1, "k", np.arange(6, dtype=np.uint16).reshape(2, 3), HOW, 0)
    assert "sizes=[12]" in recorded()
    with pytest.raises(TypeError, match="value: expected memory that is in one piece"):
        native.store_put_parts(1, "k", np.zeros((4, 4))[:, 1], HOW, 0)


def test_other_exceptions_pass(native: ModuleType) -> None:
    with pytest.raises(KeyError, match="mine"):
        native.store_get_into(1, ["a"], [1, Index(KeyError("mine"))], [1])

    class Broken(Numbers):
        def __iter__(self) -> Iterator[int]:
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        native.store_exist(1, Broken(1))


def test_the_whole_of_how(native: ModuleType, recorded: Callable[[], str]) -> None:
    full = how(
        replica_num=2, nof_replica_num=3, dfs_replica_num=4, soft_pin_action=1, soft_pin_ttl_ms=5, with_hard_pin=True
    )
    full = (*full[:6], True, Index(9), ["g", b"h"], ("s1", "s2"))
    assert native.store_put_values(1, ["a", "b"], [b"\1\2", bytearray(3)], full, native.UPSERT) == [0, -1]
    assert recorded() == (
        "store_put 1 keys=[a,b] sizes=[2,3] flags=1 how=2,3,4,1,1:5,1,1,9 groups=[g,h] segments=[s1,s2] bytes=3,0"
    )
    native.store_put_values(1, ["a"], [b""], HOW, native.PUT | native.MAY_PREFER_NODE)
    assert recorded() == "store_put 1 keys=[a] sizes=[0] flags=2 how=1,0,0,0,0:0,0,0,0 segments=[] bytes=0"


def test_a_list_that_changes_while_it_is_read(native: ModuleType) -> None:
    """__index__ of an item empties the list that it is in."""
    ptrs: list[Any] = []

    class Emptying:
        def __index__(self) -> int:
            ptrs.clear()
            sizes.clear()
            return 1

    ptrs += [Emptying(), *range(1000, 2000)]
    sizes = [1] * 1001
    assert native.store_get_into(1, ["k"] * 1001, ptrs, sizes) == [-600] * 1001  # sizes was read empty


def test_lists_that_other_threads_change(native: ModuleType) -> None:
    keys, ptrs, stop = ["k"] * 64, [Index(i) for i in range(64)], threading.Event()

    def change() -> None:
        while not stop.is_set():
            keys.append("x" * 100)
            ptrs.append(Index(1))
            del keys[:2], ptrs[:3]
            ptrs.extend(Index(i) for i in range(2))

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(2000):
            assert len(native.store_get_into(1, keys, ptrs, list(range(64)))) >= 0
    finally:
        stop.set()
        other.join()


def test_long_arguments(native: ModuleType, recorded: Callable[[], str]) -> None:
    keys = [f"key-{i:06d}-" + "y" * (i % 50) for i in range(5000)]
    assert native.store_exist(1, keys) == [i % 2 for i in range(5000)]
    assert recorded() == f"store_exist 1 keys=[{','.join(keys)}]"
