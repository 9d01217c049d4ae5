"""LMCache's connector: chunks with their metadata or without, put and fetched by asyncio's threads."""

import lmcache_roles as roles
import pytest
from enginepeer import Peer

FULL = 256 * roles.TOKEN
SIZES = [FULL] * 7 + [3 * roles.TOKEN]  # the last chunk is not full


def extra_config(master, **more):
    own = {"transfer_timeout": 60}  # it is 1 s, which a busy machine may need for less
    return {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": master.rpc,
        **own,
        **more,
    }


def keys_of(key):
    return [f"org/model@1@0@{key}{i:x}@bfloat16" for i in range(len(SIZES))]


FORMS = {
    "dict": lambda m: ({**extra_config(m)}, "", False),
    "its own names": lambda m: ({f"mooncake_{k}": v for k, v in extra_config(m).items()} | {"transfer_timeout": 60}, "", False),
    "the store's names": lambda m: (
        {
            "mooncake_local_hostname": "127.0.0.1", "mooncake_metadata_server": "P2PHANDSHAKE", "mooncake_master_server_addr": m.rpc,
            "mooncake_rdma_devices": "", "transfer_timeout": 60, "mooncake_global_segment_size": "16MB",
        },
        "",
        False,
    ),
    "a url": lambda m: ({**extra_config(m), "master_server_address": "127.0.0.1:1"}, f"mooncakestore://{m.rpc}/?device=", False),
    "legacy": lambda m: ({**extra_config(m)}, "", True),
}  # fmt: skip


@pytest.mark.parametrize("with_meta", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_chunks_go_from_one_engine_to_another(shared_pool, key, form, with_meta):
    extra, url, legacy = FORMS[form](shared_pool)
    extra["save_chunk_meta"] = with_meta
    keys = keys_of(key)
    with Peer() as producer, Peer() as consumer:
        for peer in (producer, consumer):
            peer.send(roles.connect, extra, FULL, url, legacy)
        for peer in (producer, consumer):
            hostname, registered = peer.receive()
            assert hostname.startswith("127.0.0.1:") and registered
        assert consumer.do(roles.run, "exists", keys[0]) is False
        put = producer.do(roles.put_chunks, keys[:4], SIZES[:4], 100, True)
        put += producer.do(roles.put_chunks, keys[4:], SIZES[4:], 104, False)
        assert consumer.do(roles.run, "exists", keys[0]) is True
        assert consumer.do(roles.run, "contains", [*keys, "nothing", keys[0]]) == len(keys)
        got = consumer.do(roles.chunk_digests, [keys[0], "nothing", *keys[1:]])
        assert got == [put[0], None, *put[1:]]
        head = roles.HEAD.size if with_meta else 0
        assert [consumer.do(roles.store, "get_size", k) for k in keys] == [head + n for n in SIZES]
        producer.do(roles.put_chunks, keys, SIZES, 900, True)
        assert consumer.do(roles.chunk_digests, keys) == put, "a chunk that is there stays"
        assert [peer.do(roles.close) for peer in (producer, consumer)] == [[0, 0], [0, 0]]


def test_chunks_lie_in_the_segment_of_who_put_them(shared_pool, key):
    with Peer() as first, Peer() as second:
        for peer in (first, second):
            hostname, _ = peer.do(
                roles.connect, extra_config(shared_pool, save_chunk_meta=False, mooncake_prefer_local_alloc=True), FULL
            )
            keys = keys_of(f"{key}/{hostname}")
            put = peer.do(roles.put_chunks, keys, SIZES, 200, True)
            assert peer.do(roles.endpoints, keys) == [hostname] * len(keys)
            assert first.do(roles.chunk_digests, keys) == put


def test_the_lookup_client(shared_pool, key):
    keys = keys_of(key)
    with Peer() as worker, Peer() as scheduler:
        worker.do(roles.connect, extra_config(shared_pool), FULL)
        assert scheduler.do(roles.lookup, shared_pool.rpc, keys) == 0
        worker.do(roles.put_chunks, keys[:5], SIZES[:5], 300, True)
        worker.do(roles.put_chunks, keys[6:], SIZES[6:], 306, True)
        assert scheduler.do(roles.lookup, shared_pool.rpc, keys) == 5
        worker.do(roles.put_chunks, [keys[5]], [FULL], 305, True)
        assert scheduler.do(roles.lookup, shared_pool.rpc, keys) == len(keys)


def test_a_store_that_could_not_be_set_up_has_nothing(key):
    """Nobody looks at the code of setup: what follows must be misses, and no crash."""
    config = {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_address": ""}
    with Peer() as peer:
        peer.do(roles.connect_to_nothing, config | {"local_hostname": ""}, FULL)
        assert peer.do(roles.chunk_digests, keys_of(key)) == [None] * len(SIZES)


def test_what_a_dead_engine_contributed_is_missing(pool, key):
    """A fetch of chunks whose segment is gone gives nothing for them, and the rest is there."""
    config = extra_config(pool, save_chunk_meta=False, mooncake_prefer_local_alloc=True)
    with Peer() as alive, Peer() as dead:
        alive.do(roles.connect, config, FULL)
        dead.do(roles.connect, config, FULL)
        mine, theirs = keys_of(key + "a"), keys_of(key + "b")
        put = alive.do(roles.put_chunks, mine, SIZES, 400, True)
        dead.do(roles.put_chunks, theirs, SIZES, 500, True)
        dead.kill()
        got = alive.do(roles.chunk_digests, [k for pair in zip(mine, theirs, strict=True) for k in pair])
        assert got == [d for m in put for d in (m, None)]
