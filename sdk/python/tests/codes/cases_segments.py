"""Segments, copies and moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe import Probe

MB = 1 << 20
NO_ID = "0-0"
FINAL = ("SUCCESS", "FAILED")


def ret(answer: dict[str, Any]) -> Any:
    """The code of a mount."""
    return answer["ret"]


def run(p: Probe) -> None:
    """Mounts and unmounts."""
    s = p.store(p.master())
    p("mount_segment: no such file", lambda: ret(s.mount_segment("/nowhere/at/all", MB)))
    p("mount_segment: no bytes", lambda: ret(s.mount_segment("/dev/shm", 0)))
    p("mount_segment: negative size", lambda: ret(s.mount_segment("/dev/shm", -1)))
    p("mount_segment: a folder", lambda: ret(s.mount_segment("/dev/shm", 16 * MB)))
    p("allocate_and_mount_segment: no bytes", lambda: ret(s.allocate_and_mount_segment(0)))
    p("allocate_and_mount_segment: too large", lambda: ret(s.allocate_and_mount_segment(1 << 50)))
    p("allocate_and_mount_segment: unknown protocol", lambda: ret(s.allocate_and_mount_segment(16 * MB, "smoke")))
    p("unmount_segment: nothing", lambda: s.unmount_segment([]))
    p("unmount_segment: not an id", lambda: s.unmount_segment(["not-an-id"]))
    p("unmount_segment: unknown id", lambda: s.unmount_segment([NO_ID]))
    p("unmount_and_free_segment: nothing", lambda: s.unmount_and_free_segment([]))
    p("unmount_and_free_segment: not an id", lambda: s.unmount_and_free_segment(["not-an-id"]))
    p("unmount_and_free_segment: unknown id", lambda: s.unmount_and_free_segment([NO_ID]))
    p("unmount_local_disk_segment: none", lambda: s.unmount_local_disk_segment())
    mounted: list[str] = []

    def mount() -> int:
        answer = s.allocate_and_mount_segment(16 * MB)
        mounted.extend(answer["segment_ids"])
        return answer["ret"]

    p("allocate_and_mount_segment", mount)
    p("unmount_and_free_segment", lambda: s.unmount_and_free_segment(mounted))
    p("unmount_and_free_segment: again", lambda: s.unmount_and_free_segment(mounted))


def run_tasks(p: Probe) -> None:
    """create_copy_task, create_move_task and query_task."""
    from mooncake.store import ReplicateConfig

    master = p.master()
    stores = [p.store(master, 16 * MB) for _ in range(3)]
    s, names = stores[0], [x.get_hostname() for x in stores]
    config = ReplicateConfig()
    config.preferred_segment = names[0]
    for key in ("one", "lone"):
        assert s.put(key, b"x" * 1000, config) == 0
    config = ReplicateConfig()
    config.preferred_segments = names[:2]
    config.replica_num = 2
    assert s.put("both", b"x" * 1000, config) == 0
    assert s.put("two", b"x" * 1000, config) == 0
    copy, move = code_of(s.create_copy_task), code_of(s.create_move_task)
    p("create_copy_task: unknown key", lambda: copy("gone", [names[1]]))
    p("create_copy_task: empty key", lambda: copy("", [names[1]]))
    p("create_copy_task: no target", lambda: copy("one", []))
    p("create_copy_task: unknown target", lambda: copy("one", ["nowhere:1"]))
    p("create_copy_task: empty target", lambda: copy("one", [""]))
    p("create_copy_task: a target twice", lambda: copy("one", [names[1], names[1]]))
    p("create_copy_task: the only copy is on the target", lambda: copy("one", [names[0]]))
    p("create_copy_task: all copies are on targets", lambda: copy("two", names[:2]))
    for i in range(20):
        p(f"create_copy_task: a copy is on the target, {i}", lambda: copy("two", [names[0]]))
    p("create_copy_task: a copy is on one of the targets", lambda: copy("two", names[1:]))
    p("create_move_task: unknown key", lambda: move("gone", names[0], names[1]))
    p("create_move_task: empty key", lambda: move("", names[0], names[1]))
    p("create_move_task: unknown source", lambda: move("one", "nowhere:1", names[1]))
    p("create_move_task: unknown target", lambda: move("one", names[0], "nowhere:1"))
    p("create_move_task: empty source", lambda: move("one", "", names[1]))
    p("create_move_task: empty target", lambda: move("one", names[0], ""))
    p("create_move_task: source is target", lambda: move("one", names[0], names[0]))
    p("create_move_task: no copy on the source", lambda: move("one", names[2], names[1]))
    p("query_task: not an id", lambda: s.query_task("not-an-id"))
    p("query_task: empty id", lambda: s.query_task(""))
    p("query_task: unknown id", lambda: query(s, NO_ID))
    for name, key, targets in (
        # Other keys than above, whose tasks may go on still.
        ("the only copy is on the target", "lone", names[:1]),
        ("all copies are on targets", "both", names[:2]),
        ("a copy is on the target", "both", names[:1]),
    ):
        p(f"create_copy_task: {name}, how it ends", lambda k=key, t=targets: ended(s, s.create_copy_task(k, t)))
    p("create_copy_task: how it ends", lambda: ended(s, s.create_copy_task("lone", [names[2]])))
    p("create_move_task: how it ends", lambda: ended(s, s.create_move_task("lone", names[0], names[1])))


def code_of(call: Any) -> Any:
    """The call without the id of the task that it makes: both 0 is success."""

    def coded(*args: Any) -> Any:
        answer = call(*args)
        return answer[1] if isinstance(answer, tuple) else answer

    return coded


def query(s: Any, task: str) -> Any:
    """The code of query_task."""
    answer = s.query_task(task)
    return answer[1] if isinstance(answer, tuple) else answer


def ended(s: Any, made: Any) -> str:
    """The status with which a task ends."""
    assert made[1] == 0, made
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        task, code = s.query_task(made[0])
        assert code == 0
        if task.status.name in FINAL:
            return task.status.name
        time.sleep(0.1)
    return "does not end"
