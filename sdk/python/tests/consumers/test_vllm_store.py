"""vLLM's MooncakeStoreConnector: workers save blocks of all layers under one key, and load them elsewhere."""

import json

import pytest
import vllm_store_roles as roles
from enginepeer import Peer, Raised, content, digest

LAYERS, BLOCK, BLOCKS = 6, 5000, 64
FIRST, SECOND = list(range(BLOCKS // 2)), list(range(BLOCKS // 2, BLOCKS))


@pytest.fixture
def worker(tmp_path):
    """worker(master, ...) is a process with the settings of vLLM's file."""
    peers = []

    def start(master, segment=0, **more):
        config = {
            "metadata_server": "P2PHANDSHAKE", "master_server_address": master.rpc, "protocol": "tcp",
            "mode": "embedded" if segment else "standalone-store", "global_segment_size": segment, "local_buffer_size": 1 << 20, **more,
        }  # fmt: skip
        path = tmp_path / f"mooncake-{len(peers)}.json"
        path.write_text(json.dumps(config))
        peers.append(Peer(env={"MOONCAKE_CONFIG_PATH": str(path), "MOONCAKE_STORE_MAX_WAIT_TIME": "2s"}))
        return peers[-1]

    yield start
    for peer in peers:
        peer.__exit__()


def keys_of(key, n=BLOCKS // 2):
    return [f"{key}@tp0@group:0@{i:x}" for i in range(n)]


def want(seed, blocks):
    caches = [content(seed + layer, BLOCK * BLOCKS) for layer in range(LAYERS)]
    return [[digest(c[b * BLOCK : (b + 1) * BLOCK]) for c in caches] for b in blocks]


@pytest.mark.parametrize("extra", [{}, {"enable_group_semantics": True}])
@pytest.mark.parametrize("segment", [0, 16 << 20])
def test_blocks_go_from_one_worker_to_another(shared_pool, worker, key, extra, segment):
    saver, loader, keys = worker(shared_pool, segment), worker(shared_pool, segment), keys_of(key)
    assert saver.do(roles.start, extra, LAYERS, BLOCK, BLOCKS, 10) == [0] * LAYERS
    assert loader.do(roles.start, extra, LAYERS, BLOCK, BLOCKS) == [0] * LAYERS
    assert saver.do(roles.do, "save", keys[:20], FIRST[:20]) == [0] * 20
    assert saver.do(roles.do, "save", keys, FIRST) == [0] * (len(keys) - 20), "existing objects are not sent"
    assert saver.do(roles.do, "save", keys, FIRST) == []
    assert loader.do(roles.store, "batch_is_exist", [*keys, "nothing"]) == [1] * len(keys) + [0]
    assert loader.do(roles.do, "load", keys, SECOND) == [LAYERS * BLOCK] * len(keys)
    assert loader.do(roles.do, "digests", SECOND) == want(10, FIRST)
    assert loader.do(roles.do, "load", ["nothing", keys[3]], [0, 1]) == [-704, LAYERS * BLOCK]
    assert loader.do(roles.do, "digests", [0, 1]) == [[digest(bytes(BLOCK))] * LAYERS, *want(10, [3])]
    assert loader.do(roles.do, "tiers", [keys[0], "nothing"]) == ["memory", "unknown"]
    assert loader.do(roles.store, "close") == 0


def test_threads_that_load_save_and_look_up(shared_pool, worker, key):
    peer, keys = worker(shared_pool), keys_of(key)
    peer.do(roles.start, {}, LAYERS, BLOCK, BLOCKS, 20)
    assert set(peer.do(roles.do, "save", keys, FIRST)) == {0}
    requests = [(keys[i : i + 4], SECOND[i : i + 4]) for i in range(0, len(keys), 4)]
    for turn in range(5):
        got = peer.do(roles.load_all, requests, keys_of(f"{key}/{turn}", 8))
        assert got == [[LAYERS * BLOCK] * 4] * len(requests)
    assert peer.do(roles.do, "digests", SECOND) == want(20, FIRST)


def test_a_full_pool_makes_a_worker_back_off(processes, worker):
    """Blocks that do not fit are -200 each, which is what the worker waits for; a new node makes room."""
    master = processes.master("--eviction_high_watermark_ratio=1.0", "--default_kv_lease_ttl=600000")
    processes.node(master, "4MB")
    peer = worker(master)
    peer.do(roles.start, {}, LAYERS, 16 << 10, 4, 30)
    there, codes = peer.do(roles.save_until_pressure, "a", 8, 400)
    assert codes == {0, roles.NO_AVAILABLE_HANDLE}, there
    assert 20 < there < 50
    keys = [f"a{i}" for i in range(there)]
    assert peer.do(roles.store, "batch_is_exist", keys) == [1] * there
    assert peer.do(roles.store, "remove_all") == 0, "they are leased"
    assert peer.do(roles.store, "remove_all", force=True) == there
    assert peer.do(roles.store, "batch_is_exist", keys) == [0] * there
    processes.node(master)  # what readers may still be reading is not written over
    assert peer.do(roles.do, "save", keys[:8], [0] * 8) == [0] * 8


def test_a_preferred_segment(pool, worker, key):
    owner, saver = worker(pool, 16 << 20), worker(pool)
    owner.do(roles.start, {}, LAYERS, BLOCK, BLOCKS)
    segment = owner.do(roles.store, "get_hostname")
    saver.do(roles.start, {"preferred_segment": segment}, LAYERS, BLOCK, BLOCKS, 40)
    assert set(saver.do(roles.do, "save", keys_of(key), FIRST)) == {0}
    assert owner.do(roles.do, "load", keys_of(key), SECOND) == [LAYERS * BLOCK] * len(FIRST)
    owner.kill()
    assert set(saver.do(roles.do, "load", keys_of(key), SECOND)).isdisjoint({LAYERS * BLOCK}), (
        "they were in that segment"
    )


def test_tenants_do_not_see_each_other(processes, worker, tmp_path):
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text("version: 1\ntenants:\n  - {name: default, quota: 16MB}\n  - {name: team, quota: 1MB}\n")
    master = processes.master("--enable_multi_tenants", f"--tenant_quota_connector_uri={quotas}")
    processes.node(master)
    ours, theirs = worker(master), worker(master, tenant_id="team")
    ours.do(roles.start, {}, LAYERS, BLOCK, BLOCKS, 50)
    theirs.do(roles.start, {}, LAYERS, BLOCK, BLOCKS, 60)
    keys = keys_of("block", 16)
    for peer in (ours, theirs):
        assert peer.do(roles.store, "batch_is_exist", keys) == [0] * 16
        assert peer.do(roles.do, "save", keys, FIRST[:16]) == [0] * 16
    for peer, seed in ((ours, 50), (theirs, 60)):
        assert peer.do(roles.do, "load", keys, SECOND[:16]) == [LAYERS * BLOCK] * 16
        assert peer.do(roles.do, "digests", SECOND[:16]) == want(seed, FIRST[:16])
    more = theirs.do(roles.do, "save", keys_of("more", 40), FIRST[:20] * 2)
    assert more.count(0) <= 20 and set(more) - {0} == {-1700}, "their quota is used up"
    assert theirs.do(roles.store, "remove_all", force=True) == 16 + more.count(0)
    assert ours.do(roles.store, "batch_is_exist", keys) == [1] * 16


def test_embeddings_of_encoders(shared_pool, worker, key):
    encoder, model = worker(shared_pool), worker(shared_pool)
    for peer in (encoder, model):
        peer.do(roles.start, {}, 1, BLOCK, 1)
    shapes = {f"{key}/{i}": (i + 1, 96) for i in range(8)}
    put = {k: encoder.do(roles.put_embedding, k, *shape, 70 + i) for i, (k, shape) in enumerate(shapes.items())}
    wrong = f"{key}/0"
    asked = shapes | {"nothing": (3, 3), wrong: (2, 48)}
    assert model.do(roles.get_embeddings, asked) == {k: v for k, v in put.items() if k != wrong}


def test_a_master_that_does_not_answer_is_a_failed_setup(master, worker):
    master.kill()
    with pytest.raises(Raised, match="Initialize MooncakeDistributedStore failed"):
        worker(master).do(roles.start, {}, 1, BLOCK, 1)
