"""SGLang's HiCache on the store: ranks back pages up and fetch them, each rank a process of its own."""

import threading
import time

import pytest
import sglang_hicache_roles as roles
from enginepeer import Peer, Raised, content, digest
from processes import MASTER_SECURITY, WAIT_S

PAGES, PAGE = 128, 3 * 1024  # of one batch: 256 keys for MHA
BATCH = list(range(PAGES))
SECOND = list(range(PAGES, 2 * PAGES))


def settings(master, rank=0, size=1, mla=False, **more):
    return {
        "hostname": "127.0.0.1", "master": master.rpc, "admin": master.admin, "global_segment_size": size << 24,
        "rank": rank, "size": size, "mla": mla, **more,
    }  # fmt: skip


def want(seed, pages, mla, of=2 * PAGES):
    """The digests of pages in a pool of so many pages that has content(seed)."""
    data = content(seed, of * PAGE * (1 if mla else 2))
    parts = [0] if mla else [0, of * PAGE]
    return [[digest(data[at + i * PAGE : at + (i + 1) * PAGE]) for at in parts] for i in pages]


def keys_of(key, n=PAGES):
    return [f"{key}/{i:x}" for i in range(n)]


@pytest.mark.parametrize(
    ("mla", "more"),
    [
        (False, {}),
        (True, {}),
        (False, {"multi_buffer": True}),
        (True, {"multi_buffer": True, "older": True}),
        (False, {"enable_group_semantics": True, "older": True}),
        (False, {"enable_group_semantics": True, "session_id": "chat-1"}),
    ],
)
def test_ranks_of_two_engines_share_pages(shared_pool, key, mla, more):
    """Every rank of one engine backs 128 pages up at the same time; its twin of the other engine fetches them."""
    keys = keys_of(key)
    with Peer() as w0, Peer() as w1, Peer() as r0, Peer() as r1:
        for peers, seeds in (((w0, w1), (10, 11)), ((r0, r1), (None, None))):
            for rank, (peer, seed) in enumerate(zip(peers, seeds, strict=True)):
                peer.send(roles.open_cache, settings(shared_pool, rank, 2, mla, **more), 2 * PAGES, PAGE, seed)
        for peer in (w0, w1, r0, r1):
            assert peer.receive()["hostname"].startswith("127.0.0.1:")
        assert [r.do(roles.do, "batch_exists", keys) for r in (r0, r1)] == [0, 0]
        writers = [w0] if mla else [w0, w1]  # ranks have equal latents: one of them backs them up
        for peer in writers:
            peer.send(roles.do, "batch_set", keys, BATCH)
        for peer in writers:
            assert peer.receive() == [True] * PAGES
        for rank, peer in enumerate((r0, r1)):
            assert peer.do(roles.do, "batch_exists", keys) == PAGES
            assert peer.do(roles.do, "batch_get", keys, SECOND) == [True] * PAGES
            assert peer.do(roles.digests, SECOND) == want(10 if mla else 10 + rank, BATCH, mla)
            assert peer.do(roles.digests, BATCH) == want_zeros(mla)


def want_zeros(mla):
    return [[digest(bytes(PAGE))] * (1 if mla else 2)] * PAGES


@pytest.fixture
def rank(shared_pool):
    with Peer() as peer:
        peer.do(roles.open_cache, settings(shared_pool), 2 * PAGES, PAGE, 20)
        yield peer


def test_pages_that_are_there_in_part(rank, key):
    keys = keys_of(key, 6)
    assert rank.do(roles.do, "batch_set", [keys[1], keys[4]], [1, 4]) == [True, True]
    assert rank.do(roles.store, "put", f"org-model_{keys[0]}_0_k", b"half a page") == 0
    assert rank.do(roles.do, "batch_exists", keys) == 0, "a page without its V is not there"
    assert rank.do(roles.do, "batch_get", keys, SECOND[:6]) == [False, True, False, False, True, False]
    assert rank.do(roles.digests, SECOND[:2])[1:] == want(20, [1], False)
    # What is there stays; the rest is added.
    assert rank.do(roles.do, "batch_set", keys, [9, 9, 2, 3, 9, 5]) == [True] * 6
    assert rank.do(roles.do, "batch_exists", [*keys, "nothing", keys[0]]) == 6
    assert rank.do(roles.do, "batch_get", keys[1:], SECOND[:5]) == [True] * 5
    assert rank.do(roles.digests, SECOND[:5]) == want(20, [1, 2, 3, 4, 5], False)
    assert rank.do(roles.store, "get", f"org-model_{keys[0]}_0_k") == b"half a page"


def test_nothing_is_put_when_everything_is_there(rank, key):
    keys = keys_of(key)
    for _ in range(2):  # the second batch_put_from gets empty lists
        assert rank.do(roles.do, "batch_set", keys, BATCH) == [True] * PAGES
    for empty in ("batch_put_from", "batch_get_into", "batch_put_from_multi_buffers", "batch_get_into_multi_buffers"):
        assert rank.do(roles.store, empty, [], [], []) == []
    assert rank.do(roles.store, "batch_is_exist", []) == []


def test_backup_and_prefetch_at_the_same_time(rank, key):
    there = keys_of(key, 64)
    assert all(rank.do(roles.do, "batch_set", there, BATCH[:64]))
    new = [keys_of(f"{key}/{turn}", 32) for turn in range(20)]
    fine = rank.do(roles.prefetch_and_backup, there, new, PAGES)
    assert fine == [True] * (20 * 64 + 20 * 32)
    assert rank.do(roles.digests, SECOND[:64]) == want(20, BATCH[:64], False)
    assert [rank.do(roles.do, "batch_exists", keys) for keys in new] == [32] * 20


def test_a_rank_waits_for_the_first_segment(master, processes, tmp_path):
    if MASTER_SECURITY:
        pytest.skip("SGLang asks the admin port without a certificate")
    asked = tmp_path / "asked"
    with Peer() as peer:
        config = settings(master, check_server=True, asked=str(asked), global_segment_size=0)
        peer.send(roles.open_cache, config, 2, PAGE)
        wait_for(asked.exists)
        processes.node(master)
        assert peer.receive()["hostname"].startswith("127.0.0.1:")
        assert peer.do(roles.segments, master.admin) != ""


def wait_for(done):
    until = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < until, "what was waited for did not come"
        threading.Event().wait(0.02)


def test_without_a_segment_the_warm_up_fails(master):
    with Peer() as peer, pytest.raises(Raised, match="warm-up put answered -200"):
        peer.do(roles.open_cache, settings(master, global_segment_size=0), 2, PAGE)


def test_names_of_setup_that_are_not_known_are_dropped(shared_pool):
    later = {"of_a_later_release": 1, "enable_client_http_server": False, "tenant_id": "default"}
    with Peer() as peer:
        opened = peer.do(roles.open_cache, settings(shared_pool, setup_kwargs=later), 2, PAGE)
        assert opened["dropped"] == ["of_a_later_release"]
        with pytest.raises(Raised, match="rdma_devices"):
            peer.do(roles.store, "setup", "127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", None, shared_pool.rpc, None)


def test_clear(processes, key):
    """No page outlives it but those that were read just now."""
    master = processes.master("--default_kv_lease_ttl=500")  # ms; the get of the warm-up needs a lease until it ends
    with Peer() as peer:
        peer.do(roles.open_cache, settings(master), 2 * PAGES, PAGE, 30)
        keys, gone = keys_of(key), 0
        assert all(peer.do(roles.do, "batch_set", keys, BATCH))
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            gone += peer.do(roles.store, "remove_all")
            if gone == 2 * PAGES + 1:  # and what the warm-up left
                break
            time.sleep(0.02)
        assert gone == 2 * PAGES + 1
        assert peer.do(roles.do, "batch_exists", keys) == 0
        assert peer.do(roles.do, "batch_get", keys, SECOND) == [False] * PAGES
        assert peer.do(roles.do, "batch_set", keys, BATCH) == [True] * PAGES


@pytest.mark.parametrize("mla", [False, True])
def test_standalone_storage(shared_pool, module_processes, key, mla):
    """Dummy clients of one local service, whose pools are memory that the service maps."""
    service = module_processes.local_service(shared_pool)
    config = settings(shared_pool, mla=mla, client_server_address=service.address)
    keys = keys_of(key)
    with Peer() as writer, Peer() as reader:
        writer.do(roles.open_standalone, config, 2 * PAGES, PAGE, 40)
        reader.do(roles.open_standalone, config, 2 * PAGES, PAGE)
        assert writer.do(roles.do, "batch_set", keys, BATCH) == [True] * PAGES
        assert reader.do(roles.do, "batch_exists", keys) == PAGES
        assert reader.do(roles.do, "batch_get", keys, SECOND) == [True] * PAGES
        assert reader.do(roles.digests, SECOND) == want(40, BATCH, mla)


def test_the_store_of_embeddings(shared_pool, key):
    keys, config = keys_of(key, 20), settings(shared_pool)
    with Peer() as encoder, Peer() as prefill:
        put = encoder.do(roles.embeddings, config, keys, 10_001, 50)
        data = content(50, 20 * 10_001)
        assert put == [digest(data[i * 10_001 : (i + 1) * 10_001]) for i in range(20)]
        assert prefill.do(roles.embeddings, config, keys, 10_001, None) == put
        encoder.do(roles.embeddings, config, keys, 10_001, 51)
        assert prefill.do(roles.embeddings, config, keys, 10_001, None) == put, "what is there stays"


def test_the_direct_linker_reads_layer_by_layer(rank, key):
    n, deep, size = 16, 5, 4096
    keys, objects = keys_of(key, n), [content(60 + i, deep * size) for i in range(n)]
    for name, data in zip(keys, objects, strict=True):
        assert rank.do(roles.store, "put", name, data) == 0
    started, read, ended, got = rank.do(roles.layers, keys, deep, size)
    assert (started, read, ended) == ([0] * n, [[size] * n] * deep, 0)
    assert got == [digest(data) for data in objects]
    assert rank.do(roles.store, "batch_get_session_start", ["nothing", keys[0]]) == [-704, 0]
    assert rank.do(roles.store, "batch_get_session_end", [keys[0]]) == 0


def test_the_engine_of_disaggregation_is_shared(shared_pool, rank, key):
    keys = keys_of(key, 4)
    with Peer() as peer:
        session, hostname = peer.do(roles.reuse_engine, settings(shared_pool, seed=70))
        assert hostname == session
        assert peer.do(roles.do, "batch_set", keys, [0, 1, 2, 3]) == [True] * 4
        names = [f"org-model_{k}_0_{part}" for k in keys for part in "kv"]
        data = content(70, 8 * 4096)
        blocks = [data[i * 4096 : (i + 1) * 4096] for half in range(4) for i in (half, 4 + half)]
        assert rank.do(roles.store, "get_batch", names) == blocks
        assert peer.do(roles.do, "batch_get", keys, [3, 2, 1, 0]) == [True] * 4
        assert peer.do(roles.store, "close") == 0
        assert peer.call("get_rpc_port") == int(session.rsplit(":", 1)[1]), "the engine outlives the store"
