"""Which rows of which DataProto fragments stand for which logical keys.

A catalog is metadata of one process; the bytes lie in the store. DataProtoCatalogTransfer joins the
two: it puts fragments, publishes them, and removes the bytes of those that nothing refers to.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._structured.catalog import DataProtoCatalogTransfer
from ._structured.refs import export_dataproto_ref, import_dataproto_ref
from ._structured.types import MooncakeDataProtoRef

__all__ = ["DataProtoCatalog", "DataProtoCatalogTransfer"]

Handle = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass
class _Row:
    """A logical key: its tags, and where each of its fields is, as fragment and row."""

    tags: dict[str, Any]
    fields: dict[str, tuple[str, int]]


@dataclass
class _Fragment:
    """An immutable batch. One that is managed is retired when neither a row nor a reader refers to it."""

    ref: MooncakeDataProtoRef
    handle: dict[str, Any]
    managed: bool
    rows: tuple[str, tuple[str, ...]]  # the partition and the keys that it was made for
    references: int = 0
    readers: int = 0


class DataProtoCatalog:
    """Maps partition, key and field to a row of a fragment.

    Fragments that update brought are only referred to; those that publish brought are managed, and their
    handles are returned as retired_handles, until ack_retired, once neither a key nor a reader refers to them.
    Calls are not to be made at the same time; the process that hosts the catalog makes them one by one.
    Wrong arguments are a ValueError or a TypeError and change nothing.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, dict[str, _Row]] = {}
        self._fragments: dict[str, _Fragment] = {}
        self._retired: dict[str, dict[str, Any]] = {}
        self._publications: dict[str, Answer] = {}
        self._pins: dict[int, list[str]] = {}
        self._last_token = 0
        self._drained = False

    def update(
        self,
        partition: str,
        keys: Sequence[str],
        *,
        tags: Sequence[Mapping[str, Any]] | None = None,
        handle: Handle | None = None,
    ) -> Answer:
        """Adds tags to keys, and the fields of a fragment, row by row. Fields that are there are replaced."""
        return self._update(partition, keys, tags, handle, managed=False)

    def publish(
        self,
        operation_id: str,
        partition: str,
        keys: Sequence[str],
        *,
        tags: Sequence[Mapping[str, Any]] | None = None,
        handle: Handle | None = None,
    ) -> Answer:
        """update with a managed fragment. The same operation_id again, until ack_publication, has the same answer."""
        text(operation_id, "operation_id")
        if operation_id not in self._publications:
            self._publications[operation_id] = self._update(partition, keys, tags, handle, managed=True)
        return copy.deepcopy(self._publications[operation_id])

    def publish_append(
        self,
        operation_id: str,
        fragment_id: str,
        partition: str,
        keys: Sequence[str],
        *,
        previous_handle: Handle,
        handle: Handle,
    ) -> Answer:
        """Replaces the handle of a managed fragment with one that has more fields.

        The answer is that of publish, or has append_rejected with the reason: the fragment has another handle by
        now, or handle is not of the same rows.
        """
        text(operation_id, "operation_id")
        if operation_id in self._publications:
            return copy.deepcopy(self._publications[operation_id])
        text(fragment_id, "fragment_id")
        text(partition, "partition")
        names_of_keys = names(keys, "keys")
        previous, new = import_dataproto_ref(previous_handle), import_dataproto_ref(handle)
        fragment = self._fragments.get(fragment_id)
        if fragment is None or not fragment.managed or not same(fragment.ref, previous):
            return {"append_rejected": f"stale DataProto append handle: {fragment_id!r}"}
        if fragment.rows != (partition, names_of_keys) or not _extends(previous, new, partition):
            return {"append_rejected": "appended DataProto handle changed fragment identity"}
        fragment.ref, fragment.handle = new, export_dataproto_ref(new)
        answer = self._add(partition, names_of_keys, None, fragment_id, new)
        self._publications[operation_id] = answer
        return copy.deepcopy(answer)

    def ack_publication(self, operation_id: str) -> None:
        """Forgets the answer of an operation."""
        self._publications.pop(operation_id, None)

    def resolve(
        self, partition: str, keys: Sequence[str], fields: Sequence[str] | None = None, *, pin: bool = False
    ) -> Answer:
        """Where the fields of keys are, in the order of keys; by default all fields that any of them has.

        With pin the fragments are not retired before release_read with the read_token of the answer.
        """
        text(partition, "partition")
        wanted = names(keys, "keys")
        there = self._partitions.get(partition, {})
        absent = [k for k in wanted if k not in there]
        if absent:
            raise ValueError(f"keys were not found in partition {partition!r}: {absent}")
        rows = [there[k] for k in wanted]
        columns = list(dict.fromkeys(f for r in rows for f in r.fields)) if fields is None else fields
        columns = names(columns, "field names") if fields is not None else tuple(columns)
        if not columns:
            raise ValueError("requested keys do not contain any fields")
        for key, row in zip(wanted, rows, strict=True):
            lacks = [f for f in columns if f not in row.fields]
            if lacks:
                raise ValueError(f"fields are not ready for key {key!r}: {lacks}")
        groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for column in columns:
            groups.setdefault(tuple(r.fields[column] for r in rows), []).append(column)
        used = list(dict.fromkeys(at[0] for group in groups for at in group))
        answer: Answer = {
            "keys": list(wanted),
            "tags": [copy.deepcopy(r.tags) for r in rows],
            "fields": list(columns),
            "field_groups": [{"fields": f, "locations": list(at)} for at, f in groups.items()],
            "handles": {i: copy.deepcopy(self._fragments[i].handle) for i in used},
            "meta_info": self._meta_info(used),
        }
        if pin:
            self._last_token += 1
            self._pins[self._last_token] = used
            for i in used:
                self._fragments[i].readers += 1
            answer["read_token"] = self._last_token
        return answer

    def release_read(self, token: int) -> Answer:
        """Ends a pinned read; a second call does nothing."""
        for i in self._pins.pop(token, ()):
            self._fragments[i].readers -= 1
            self._retire(i)
        return self._retired_answer()

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """The tags of all keys, by partition and key."""
        if partition is not None:
            text(partition, "partition")
        return {
            name: {key: copy.deepcopy(row.tags) for key, row in rows.items()}
            for name, rows in self._partitions.items()
            if partition in (None, name)
        }

    def remove(self, partition: str, keys: Sequence[str]) -> Answer:
        """Forgets keys; one that is not there is no error."""
        text(partition, "partition")
        rows = self._partitions.get(partition, {})
        for key in names(keys, "keys"):
            row = rows.pop(key, None)
            for at in () if row is None else row.fields.values():
                self._unrefer(at[0])
        if not rows:
            self._partitions.pop(partition, None)
        return self._retired_answer()

    def ack_retired(self, handles: Sequence[Handle]) -> Answer:
        """Forgets retired handles, whose objects were removed."""
        refs = [import_dataproto_ref(h) for h in handles]
        for ref in refs:
            for i in fragment_ids(ref):
                known = self._retired.get(i)
                if known is not None and not same(import_dataproto_ref(known), ref):
                    raise ValueError(f"retired DataProto fragment mismatch: {i!r}")
        gone = [i for i, known in self._retired.items() if any(same(import_dataproto_ref(known), r) for r in refs)]
        for i in gone:
            del self._retired[i]
        return self._retired_answer()

    def drain(self) -> Answer:
        """Forgets all keys and takes no more; RuntimeError while reads are pinned."""
        if self._pins:
            raise RuntimeError(f"cannot drain DataProto catalog with {len(self._pins)} active read(s)")
        self._drained = True
        for partition, rows in list(self._partitions.items()):
            self.remove(partition, list(rows))
        self._publications.clear()
        return self._retired_answer()

    def _update(
        self,
        partition: str,
        keys: Sequence[str],
        tags: Sequence[Mapping[str, Any]] | None,
        handle: Handle | None,
        managed: bool,
    ) -> Answer:
        if self._drained:
            raise RuntimeError("DataProto catalog is drained")
        text(partition, "partition")
        wanted = names(keys, "keys")
        labels = _tags(tags, len(wanted))
        if labels is None and handle is None:
            raise ValueError("catalog update requires tags or a DataProto handle")
        if handle is None:
            return self._add(partition, wanted, labels, None, None)
        ref = import_dataproto_ref(handle)
        if len(ref.stage_refs) != 1:
            raise ValueError("catalog fragments must contain exactly one DataProto stage")
        if ref.batch_size != len(wanted):
            raise ValueError(f"DataProto batch size {ref.batch_size} does not match {len(wanted)} logical keys")
        (i,) = fragment_ids(ref)
        known = self._fragments.get(i)
        if known is not None and known.managed != managed:
            raise ValueError(f"DataProto fragment management mismatch: {i!r}")
        if known is None:
            self._retired.pop(i, None)
            self._fragments[i] = _Fragment(ref, export_dataproto_ref(ref), managed, (partition, wanted))
        return self._add(partition, wanted, labels, i, ref)

    def _add(
        self,
        partition: str,
        keys: tuple[str, ...],
        tags: Sequence[Mapping[str, Any]] | None,
        fragment: str | None,
        ref: MooncakeDataProtoRef | None,
    ) -> Answer:
        rows = self._partitions.setdefault(partition, {})
        dropped: list[str] = []
        for n, key in enumerate(keys):
            row = rows.setdefault(key, _Row({}, {}))
            if tags is not None:
                row.tags.update(copy.deepcopy(dict(tags[n])))
            if fragment is None or ref is None:
                continue
            for name in ref.field_index:
                if name in row.fields:
                    dropped.append(row.fields[name][0])
                row.fields[name] = (fragment, n)
                self._fragments[fragment].references += 1
        for old in dropped:
            self._unrefer(old)
        fields = dict.fromkeys(f for key in keys for f in rows[key].fields)
        return {
            "keys": list(keys),
            "tags": [copy.deepcopy(rows[key].tags) for key in keys],
            "fields": list(fields),
            **self._retired_answer(),
        }

    def _unrefer(self, fragment: str) -> None:
        self._fragments[fragment].references -= 1
        self._retire(fragment)

    def _retire(self, fragment: str) -> None:
        """Forgets a fragment that nothing refers to."""
        known = self._fragments[fragment]
        if known.references or known.readers:
            return
        del self._fragments[fragment]
        if known.managed:
            self._retired[fragment] = known.handle

    def _retired_answer(self) -> Answer:
        return {"retired_handles": [copy.deepcopy(h) for h in self._retired.values()]}

    def _meta_info(self, used: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for i in used:
            for name, value in self._fragments[i].ref.meta_info.items():
                if name in found and found[name] != value:
                    raise ValueError(f"conflicting DataProto meta_info value for {name!r}")
                found[name] = copy.deepcopy(value)
        return found


def text(value: Any, what: str) -> str:
    """value, a text that is not empty; ValueError otherwise."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty string")
    return value


def names(values: Any, what: str) -> tuple[str, ...]:
    """Different texts that are not empty, one at least; ValueError otherwise."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, Mapping)):
        raise ValueError(f"{what} must be a sequence of non-empty strings")  # noqa: TRY004
    found = tuple(values)
    if not found or not all(isinstance(v, str) and v for v in found):
        raise ValueError(f"{what} must be non-empty strings")
    if len(set(found)) != len(found):
        raise ValueError(f"{what} must be unique")
    return found


def fragment_ids(ref: MooncakeDataProtoRef) -> list[str]:
    """What a fragment is called: the key of the manifest of its stage."""
    return [at.manifest_key for at in ref.stage_refs.values()]


def same(a: MooncakeDataProtoRef, b: MooncakeDataProtoRef) -> bool:
    """Whether both are of the same stages and fields."""
    return fragment_ids(a) == fragment_ids(b) and a.field_index == b.field_index


def _tags(tags: Any, count: int) -> Sequence[Mapping[str, Any]] | None:
    if tags is None:
        return None
    if isinstance(tags, Mapping) or not all(isinstance(t, Mapping) for t in tags):
        raise TypeError("tags must be mappings")
    if len(tags) != count:
        raise ValueError("tags must have the same length as keys")
    return tags


def _extends(previous: MooncakeDataProtoRef, new: MooncakeDataProtoRef, partition: str) -> bool:
    return (
        len(new.stage_refs) == 1
        and new.partition == partition
        and new.batch_size == previous.batch_size
        and new._storage_group_id == previous._storage_group_id
        and all(name in new.field_index for name in previous.field_index)
    )
