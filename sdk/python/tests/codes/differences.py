"""Where our answers differ from upstream's on purpose, each with its reason and with what callers make of it.

docs/compatibility/python.md describes them for users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INVALID = -600


@dataclass(frozen=True)
class Difference:
    """Cases of some groups that are answered otherwise than by upstream, for one reason."""

    reason: str
    consumer: str
    groups: tuple[str, ...]
    answers: dict[str, Any]


def in_state(answers: dict[str, Any], *states: str) -> dict[str, Any]:
    """The answers of calls by case, for stores in these states."""
    return {f"{call}: {state}": answer for call, answer in answers.items() for state in states}


ENDS_THE_PROCESS = {
    "put": INVALID, "put_parts": INVALID, "put_batch": INVALID, "batch_put_from": [INVALID] * 2, "get_buffer": None,
    "batch_get_buffer": [None] * 2, "get_into": INVALID, "batch_get_into": [INVALID] * 2, "batch_get_into_multi_buffers": [],
    "get_into_ranges": [], "is_exist": INVALID, "batch_is_exist": [INVALID] * 2, "get_size": INVALID, "remove": INVALID,
    "batch_remove": [INVALID] * 2, "remove_by_regex": INVALID, "remove_all": INVALID, "register_buffer": INVALID,
    "unregister_buffer": INVALID, "alloc_from_mem_pool": False, "get_replica_desc": [], "batch_get_replica_desc": {},
    "create_copy_task": INVALID, "create_move_task": INVALID, "get_hostname": False,
}  # fmt: skip

DIFFERENCES = [
    Difference(
        "upstream ends the process",
        "none: no program can count on it",
        ("unset", "closed"),
        in_state(ENDS_THE_PROCESS, "not set up", "closed"),
    ),
    Difference(
        "upstream ends the process",
        "none: no program can count on it",
        ("engine unset", "engine", "setup"),
        {
            "get_rpc_port: not initialized": 0,
            "register_memory: not initialized": -1,
            "unregister_memory: not initialized": -1,
            "transfer_sync_write: not initialized": -1,
            "batch_transfer_sync_write: not initialized": -1,
            "batch_transfer_async_write: not initialized": 0,
            "transfer_check_status: not initialized": -1,
            "get_batch_transfer_status: not initialized": -1,
            "get_first_buffer_address: not initialized": 0,
            "allocate_managed_buffer: not initialized": False,
            "get_batch_transfer_status: unknown number": -1,
            "transfer_check_status: unknown number": -1,
            "transfer_check_status: 0": -1,
            "setup: empty master": -1,
        },
    ),
    Difference(
        "there is one answer for each key, as with a store that is set up",
        "get_batch is called by tests only; batch_get_session_end's code is not looked at",
        ("unset", "closed", "keys"),
        in_state({"get_batch": ["0 bytes"] * 2, "batch_get_session_end": INVALID}, "not set up", "closed")
        | {"get_batch: nothing": []},
    ),
    Difference(
        "an object without a byte is not stored, and 0 would say that it is",
        "LMCache and SGLang put whole pages; they take any negative code for a failed put",
        ("keys", "memory"),
        {
            "put_parts: no parts": INVALID,
            "put_parts: parts without a byte": INVALID,
            "put_from: no bytes": INVALID,
            "upsert_from: no bytes": INVALID,
            "put_from_with_metadata: nothing": INVALID,
        },
    ),
    Difference(
        "each value of a batch counts for itself: upstream stores none where one has no byte, and answers the same code",
        "none that puts values without a byte",
        ("keys",),
        {"put_batch: what it left": [0, 1]},
    ),
    Difference(
        "keys have at most 64 KiB, so that one caller cannot fill the master's memory with names",
        "keys of vLLM, SGLang and LMCache have some hundred bytes",
        ("keys",),
        {
            "put: key of 70000 bytes": INVALID,
            "get: key of 70000 bytes": "0 bytes",
            "get_size: key of 70000 bytes": INVALID,
        },
    ),
    Difference(
        "there is no memory at address 0, and a list of sizes that is too short leaves sizes to chance",
        "none: pointers come from tensors",
        ("memory",),
        {
            "put_from: address 0": INVALID,
            "get_into: address 0": INVALID,
            "batch_get_into_multi_buffers: sizes are missing": [INVALID],
        },
    ),
    Difference(
        "a store of its own has a pool, too; upstream answers 0",
        "vLLM and SGLang allocate with a dummy client, where it is the same",
        ("memory", "dead"),
        {"alloc_from_mem_pool: of a store of its own": True, "alloc_from_mem_pool: the master is dead": True},
    ),
    Difference(
        "where lists do not fit each other, what is missing has no result",
        "none that passes such lists",
        ("ranges",),
        {
            "get_into_ranges: a row is missing": [[[INVALID], []]],
            "get_into_ranges: two buffers, one list": [[[INVALID]], []],
        },
    ),
    Difference(
        "a key that is being put is as one that is there, whoever puts it; giving up what is not open has nothing to do",
        "connectors for layers skip a key that answers -705, and revoke after an end that failed",
        ("sessions", "dead"),
        {
            "put session: begun again": [-705],
            "put session, revoke: ended": [0],
            "put session, revoke: not begun": [0],
            "batch_put_session_revoke: the master is dead": [0],
        },
    ),
    Difference(
        "the code says what is wrong; upstream has -1 for everything",
        "mooncake_store_service and its callers compare with 0",
        ("segments", "dead"),
        {
            "mount_segment: no such file": -1101,
            "mount_segment: no bytes": -1101,
            "mount_segment: a folder": -1101,
            "allocate_and_mount_segment: no bytes": INVALID,
            "allocate_and_mount_segment: too large": INVALID,
            "unmount_segment: not an id": INVALID,
            "unmount_segment: unknown id": -101,
            "unmount_and_free_segment: not an id": INVALID,
            "unmount_and_free_segment: unknown id": -101,
            "unmount_and_free_segment: again": -101,
            "allocate_and_mount_segment: the master is dead": -900,
            "unmount_segment: the master is dead": -101,
        },
    ),
    Difference(
        "a put that can find no room evicts nothing",
        "vLLM stops to put for a while after -200; what was there can still be read",
        ("large",),
        {"larger than the pool: all that was there before is": True},
    ),
    Difference(
        "an object can lie over several segments, and the local buffer bounds no value",
        "all: what fails there works here",
        ("large",),
        {
            "put: larger than a segment": 0,
            "put: larger than the local buffer": 0,
            "put: a batch larger than the local buffer": 0,
            "get: larger than the local buffer": [0, "4194304 bytes"],
            "get: no local buffer": [0, "3 bytes"],
        },
    ),
    Difference(
        "the code says what is wrong; a protocol that is not there is a warning, and TCP is used; a second setup without close"
        " would leave the first one's segment behind",
        "LMCache, vLLM and SGLang compare with 0, and set a store up once",
        ("setup",),
        {
            "setup: unknown protocol": 0,
            "setup: empty metadata server": INVALID,
            "setup: twice": INVALID,
        },
    ),
    Difference(
        "there is no memory at address 0, no buffer of 0 bytes, and nothing to free where nothing was allocated",
        "none: SGLang and vLLM compare with 0, and pass addresses of tensors",
        ("engine",),
        {
            "register_memory: address 0": -1,
            "unregister_memory: address 0": -3,
            "allocate_managed_buffer: 0 bytes": False,
            "free_managed_buffer: not allocated": -1,
        },
    ),
    Difference(
        "an engine also listens on IPv6; upstream needs MC_USE_IPV6",
        "all: what fails there works here",
        ("engine addresses",),
        {
            f"initialize {host!r}: reached at [::1]": 0
            for host in (
                "localhost",
                "localhost:0",
                "0.0.0.0",
                "0.0.0.0:7600",
                "0.0.0.0:0",
                "",
                ":7600",
                "::",
                "[::]",
                "[::]:7600",
                "::1",
                "[::1]:7600",
                "[::1]:0",
            )
        },
    ),
    Difference(
        "an engine that is called by a loopback address listens there alone, so that it is open to this machine only",
        "consumers build a peer's name from the address that its engine was given",
        ("engine addresses",),
        {
            f"initialize {host!r}: reached at 127.0.0.1{what}": answer
            for host in ("::1", "[::1]:7600", "[::1]:0")
            for what, answer in (("", -1), (", first buffer", False))
        },
    ),
]


def answers_of(group: str) -> dict[str, Any]:
    """Our answers to the cases of a group that differ from upstream's."""
    return {case: answer for d in DIFFERENCES if group in d.groups for case, answer in d.answers.items()}
