"""A client of a pool that does what the test tells it, one JSON object a line.

It runs with each published wheel of the reference implementation and uses it as it is.
"""

import ctypes
import hashlib
import json
import mmap
import os
import random
import sys
import time

from mooncake import store as package

AREA = 48 << 20
NO_SPACE, NOT_READY, NOT_FOUND, LEASED, LATE, UNREAD = -200, -703, -704, -706, -707, -900

store = package.MooncakeDistributedStore()
area = mmap.mmap(-1, AREA, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
view = memoryview(area)
base = ctypes.addressof(ctypes.c_ubyte.from_buffer(area))


def content(key, generation, size):
    """The bytes of a generation of a key: its number, and what follows from it and the key."""
    number = generation.to_bytes(8, "little")
    return (number + hashlib.shake_128(number + key.encode()).digest(max(0, size - 8)))[:size]


def digest(value):
    """A value as the test compares it; None is no value."""
    return None if value is None else {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def configured(config):
    c = package.ReplicateConfig()
    enums = {"soft_pin_action": "SoftPinAction", "data_type": "ObjectDataType"}
    for name, value in (config or {}).items():
        if name in enums:
            value = getattr(getattr(package, enums[name]), value)
        setattr(c, name, value)
    return c


def lay(values):
    """Copies values into the registered memory, one after the other: their addresses and sizes."""
    at, starts = 0, []
    for v in values:
        view[at : at + len(v)] = v
        starts.append(base + at)
        at += len(v)
    return starts, [len(v) for v in values]


def spaces(sizes):
    """Clears registered memory for values of these sizes: the addresses."""
    at, starts = 0, []
    for n in sizes:
        starts.append(base + at)
        at += n
    ctypes.memset(base, 0xA5, at)
    return starts


def taken(starts, sizes):
    """The values that lie in registered memory; None where the size is negative."""
    return [bytes(view[s - base : s - base + n]) if n >= 0 else None for s, n in zip(starts, sizes)]


def setup(master, segment, buffer, protocol="tcp", device=""):
    rc = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, buffer, protocol, device, master)
    if rc == 0:
        rc = store.register_buffer(base, AREA)
    return {"rcs": [rc], "name": store.get_hostname() if rc == 0 else ""}


def put(keys, generation, sizes, how, config=None):
    """Puts objects. how is a function of the package, or its name and what is done with it."""
    values = [content(k, generation, n) for k, n in zip(keys, sizes)]
    c = configured(config)
    call = getattr(store, how)
    if how in ("put_batch", "upsert_batch"):
        return {"rcs": [call(keys, values, c)]}
    if how in ("put", "upsert"):
        return {"rcs": [call(k, v, c) for k, v in zip(keys, values)]}
    if how in ("put_parts", "upsert_parts"):
        return {"rcs": [call(k, v[: len(v) // 2], v[len(v) // 2 :], config=c) for k, v in zip(keys, values)]}
    starts, lengths = lay(values)
    if how in ("put_from", "upsert_from"):
        return {"rcs": [call(k, s, n, c) for k, s, n in zip(keys, starts, lengths)]}
    if how == "batch_put_from_multi_buffers":
        halves = [[s, s + n // 3] for s, n in zip(starts, lengths)]
        return {"rcs": list(call(keys, halves, [[n // 3, n - n // 3] for n in lengths], c))}
    return {"rcs": list(call(keys, starts, lengths, c))}


def get(keys, sizes, how):
    """Gets objects: a value each, None where there is none."""
    call = getattr(store, how)
    if how == "get":
        return {"values": [digest(call(k) or None) for k in keys]}
    if how == "get_batch":
        return {"values": [digest(v or None) for v in call(keys)]}
    if how == "get_buffer":
        return {"values": [digest(None if b is None else bytes(memoryview(b))) for b in map(call, keys)]}
    if how == "batch_get_buffer":
        return {"values": [digest(None if b is None else bytes(memoryview(b))) for b in call(keys)]}
    starts = spaces(sizes)
    if how == "get_into":
        rcs = [call(k, s, n) for k, s, n in zip(keys, starts, sizes)]
    elif how == "batch_get_into_multi_buffers":
        halves = [[s, s + n // 3] for s, n in zip(starts, sizes)]
        rcs = list(call(keys, halves, [[n // 3, n - n // 3] for n in sizes]))
        # Some versions tell success by 0, others by the size.
        rcs = [n if rc == 0 else rc for rc, n in zip(rcs, sizes)]
    else:
        rcs = list(call(keys, starts, sizes))
    return {"rcs": rcs, "values": [digest(v) for v in taken(starts, rcs)]}


def ranges(key, offsets, sizes):
    """Reads ranges of an object, one after the other into registered memory."""
    starts = spaces(sizes)
    got = store.get_into_ranges([base], [[key]], [[[s - base for s in starts]]], [[offsets]], [[sizes]])
    return {"rcs": got[0][0], "values": [digest(v) for v in taken(starts, got[0][0])]}


def sizes(keys):
    return {"rcs": [store.get_size(k) for k in keys]}


def exist(keys, how):
    return {"rcs": list(store.batch_is_exist(keys)) if how == "batch_is_exist" else [store.is_exist(k) for k in keys]}


def remove(keys, how, force):
    if how == "remove":
        return {"rcs": [store.remove(k, force) for k in keys]}
    if how == "remove_all":
        return {"rcs": [store.remove_all(force)]}
    if how == "batch_remove":
        return {"rcs": list(store.batch_remove(keys, force))}
    return {"rcs": [store.remove_by_regex(keys[0], force)]}


def replica(r):
    b = r.get_memory_descriptor().buffer_descriptor
    return {"complete": r.status.name == "COMPLETE", "endpoint": b.transport_endpoint, "size": b.size}


def replicas(keys, how):
    """The replicas of each object; an empty list for one that is not there."""
    if how == "batch_get_replica_desc":
        lists = store.batch_get_replica_desc(keys)
        return {"replicas": [[replica(r) for r in lists.get(k, [])] for k in keys]}
    return {"replicas": [[replica(r) for r in store.get_replica_desc(k)] for k in keys]}


def copy(key, targets):
    """Has an object copied to segments, and waits for the end of the task."""
    task, rc = store.create_copy_task(key, targets)
    end = time.monotonic() + 30
    while rc == 0 and time.monotonic() < end:
        answer, rc = store.query_task(task)
        if rc == 0 and answer.status.name in ("SUCCESS", "FAILED"):
            return {"rcs": [rc], "name": answer.status.name}
        time.sleep(0.05)
    return {"rcs": [rc], "name": "PENDING"}


class Load:
    """Random calls. Each client writes keys of its own and reads those of all.

    A removed object's memory is used again at once, and no read looks for that. So all clients use
    the same share of the keys at a time and remove those of another, whose leases are over.
    """

    SIZES = (1000, 4096, 40000, 100000, 262144)
    SHARES, SECONDS = 8, 1.5

    def __init__(self, me, clients, keys, seed):
        self.me, self.clients, self.keys, self.random = me, clients, keys, random.Random(seed)
        self.current = [0] * keys  # the generation of each key of its own, 0 for none
        self.next = 1
        self.seen = {}  # the newest generation that was read of each key
        self.counts = dict.fromkeys(
            ("puts", "full", "gets", "misses", "late", "unread", "removed", "leased", "failed", "wrong"), 0
        )
        self.errors, self.wrongs = {}, []

    def key(self, client, n):
        return "load/%d/%d" % (client, n)

    def size(self, generation):
        return self.SIZES[generation % len(self.SIZES)]

    def some(self, count, ahead=0):
        """Numbers of keys of the share of this time, or of one so far ahead."""
        share = (int(time.time() / self.SECONDS) + ahead) % self.SHARES
        at = self.random.randrange(self.keys // self.SHARES)
        return [(share + (at + i) * self.SHARES) % self.keys for i in range(count)]

    def failed(self, what, rc):
        self.counts["failed"] += 1
        name = "%s %d" % (what, rc)
        self.errors[name] = self.errors.get(name, 0) + 1

    def put(self, some):
        """Puts new generations of keys of its own that have none."""
        some = [n for n in some if not self.current[n]]
        if not some:
            return
        generations = [self.next + i for i in range(len(some))]
        self.next += len(some)
        keys = [self.key(self.me, n) for n in some]
        starts, lengths = lay([content(k, g, self.size(g)) for k, g in zip(keys, generations)])
        if len(some) == 1:
            rcs = [store.put_from(keys[0], starts[0], lengths[0])]
        else:
            rcs = store.batch_put_from(keys, starts, lengths)
        for n, g, rc in zip(some, generations, rcs):
            if rc == 0:
                self.current[n] = g
                self.counts["puts"] += 1
            elif rc == NO_SPACE:
                self.counts["full"] += 1
            else:
                self.failed("put", rc)

    def remove(self, some):
        """Removes keys of its own."""
        for n in some:
            if not self.current[n]:
                continue
            rc = store.remove(self.key(self.me, n))
            if rc in (0, NOT_FOUND):  # It may have been evicted.
                self.current[n] = 0
                self.counts["removed"] += 1
            elif rc == LEASED:
                self.counts["leased"] += 1
            else:
                self.failed("remove", rc)

    def get(self, client, some):
        """Gets keys of a client and checks every byte."""
        keys = [self.key(client, n) for n in some]
        most = max(self.SIZES)
        starts = spaces([most] * len(keys))
        if len(keys) == 1:
            rcs = [store.get_into(keys[0], starts[0], most)]
        else:
            rcs = store.batch_get_into(keys, starts, [most] * len(keys))
        for n, key, start, rc in zip(some, keys, starts, rcs):
            self.counts["gets"] += 1
            if rc in (NOT_FOUND, NOT_READY):
                self.counts["misses"] += 1
            elif rc == LATE:
                self.counts["late"] += 1
            elif rc == UNREAD:
                self.counts["unread"] += 1
            elif rc < 0:
                self.failed("get", rc)
            else:
                self.check(client, n, key, bytes(view[start - base : start - base + rc]))

    def check(self, client, n, key, value):
        generation, newest = int.from_bytes(value[:8], "little"), self.seen.get(key, 0)
        fault = ""
        if len(value) != self.size(generation) or value != content(key, generation, len(value)):
            fault = "bytes of no generation"
        elif client == self.me and generation != self.current[n]:
            fault = "generation %d instead of %d" % (generation, self.current[n])
        elif generation < newest:
            fault = "generation %d after %d" % (generation, newest)
        else:
            self.seen[key] = generation
        if fault:
            self.counts["wrong"] += 1
            self.wrongs.append("%s: %s, %d bytes" % (key, fault, len(value)))

    def exist(self, client, some):
        for rc in store.batch_is_exist([self.key(client, n) for n in some]):
            if rc < 0:
                self.failed("exist", rc)

    def step(self):
        what, client, count = self.random.random(), self.random.randrange(self.clients), self.random.choice((1, 8))
        if what < 0.3:
            self.put(self.some(count))
        elif what < 0.4:
            self.remove(self.some(8, self.SHARES // 2))
        elif what < 0.9:
            self.get(client, self.some(count))
        else:
            self.exist(client, self.some(8))


def load(me, clients, keys, seed, seconds):
    run = Load(me, clients, keys, seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run.step()
    return {"counts": run.counts, "faults": run.wrongs[:5] + ["%s: %d times" % e for e in sorted(run.errors.items())]}


def close():
    store.unregister_buffer(base)
    return {"rcs": [store.close()]}


CALLS = {f.__name__: f for f in (setup, put, get, ranges, sizes, exist, remove, replicas, copy, load, close)}
# What the package writes to the standard output belongs to its log.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    call = json.loads(line)
    try:
        answer = CALLS[call.pop("call")](**call)
    except Exception as e:
        answer = {"error": repr(e)}
    print(json.dumps(answer), file=answers, flush=True)
