"""Engines that start before their master, and outlive it: LMCache, which ignores the code of setup, and SGLang, which raises."""

import time

import lmcache_roles as lmcache
import pytest
import sglang_hicache_roles as sglang
from enginepeer import Peer, Raised
from processes import WAIT_S
from test_lmcache import FULL, SIZES, extra_config, keys_of
from test_sglang_hicache import BATCH, PAGE, PAGES, settings
from test_sglang_hicache import keys_of as pages_of

LATER = 2.0  # seconds by which the master is late


@pytest.fixture
def absent(master):
    """A master that is down, and can be started with restart()."""
    master.kill()
    return master


def caches(peer, keys, seed):
    """Whether chunks that are put can be fetched: what LMCache does with each request, failures included."""
    put = peer.do(lmcache.put_chunks, keys, SIZES, seed, True)
    return peer.do(lmcache.chunk_digests, keys) == put


def caches_in_time(peer, key, seed):
    """Goes on with new chunks, as an engine does, until they are cached."""
    end = time.monotonic() + WAIT_S
    for attempt in range(10**6):
        if caches(peer, keys_of(f"{key}/{attempt}"), seed):
            return
        assert time.monotonic() < end, "nothing is cached"
        time.sleep(0.1)


@pytest.mark.parametrize("with_meta", [True, False])
def test_lmcache_waits_for_its_master(absent, key, with_meta):
    with Peer() as peer:
        peer.send(lmcache.connect, extra_config(absent, save_chunk_meta=with_meta), FULL)
        time.sleep(LATER)
        absent.restart()
        hostname, registered = peer.receive()
        assert hostname.startswith("127.0.0.1:") and registered
        assert caches(peer, keys_of(key), 100), "the first chunks are cached already"


@pytest.mark.parametrize("with_meta", [True, False])
def test_lmcache_goes_on_after_a_setup_that_failed(absent, key, with_meta):
    """Its requests are misses that cost nothing until the master is there, and again while it is gone."""
    extra = extra_config(
        absent, save_chunk_meta=with_meta, mooncake_max_wait_time="0.2", mooncake_prefer_local_alloc=True
    )
    with Peer() as peer:
        hostname, registered = peer.do(lmcache.connect, extra, FULL)
        assert hostname.startswith("127.0.0.1:") and registered
        for i in range(20):
            assert not caches(peer, keys_of(f"{key}/{i}"), 100)
        absent.restart()
        caches_in_time(peer, key + "/later", 200)
        keys = keys_of(key + "/own")
        assert caches(peer, keys, 300)
        assert peer.do(lmcache.endpoints, keys) == [hostname] * len(keys), (
            "in its own segment, by the name it had before"
        )

        absent.kill()
        assert not caches(peer, keys_of(key + "/gone"), 400)
        absent.restart()
        caches_in_time(peer, key + "/again", 500)
        assert peer.do(lmcache.close) == [0, 0]


def test_the_master_dies_before_the_first_mount(absent, key):
    """kill -9 and restart while an engine waits: it joins the one that stays."""
    with Peer() as peer:
        peer.send(lmcache.connect, extra_config(absent, save_chunk_meta=False), FULL)
        for _ in range(2):
            absent.restart()
            absent.kill()
        absent.restart()
        assert peer.receive()[1]
        caches_in_time(peer, key, 600)


def test_sglang_waits_for_its_master(absent, key):
    with Peer() as peer:
        peer.send(sglang.open_cache, settings(absent), 2 * PAGES, PAGE, 10)
        time.sleep(LATER)
        absent.restart()
        assert peer.receive()["hostname"].startswith("127.0.0.1:")
        keys = pages_of(key)
        assert peer.do(sglang.do, "batch_set", keys, BATCH) == [True] * PAGES
        assert peer.do(sglang.do, "batch_exists", keys) == PAGES


def test_sglang_raises_when_the_wait_is_over(absent, key):
    """And its process can try again, as one that is restarted does."""
    with Peer(env={"MOONCAKE_STORE_MAX_WAIT_TIME": "500ms"}) as peer:
        for more in ({}, {"setup_kwargs": {"max_wait_time": 0}}):
            with pytest.raises(Raised, match="setup answered -1"):
                peer.do(sglang.open_cache, settings(absent, **more), 2 * PAGES, PAGE, 10)
        absent.restart()
        assert peer.do(sglang.open_cache, settings(absent), 2 * PAGES, PAGE, 10)["hostname"]
        assert peer.do(sglang.do, "batch_set", pages_of(key), BATCH) == [True] * PAGES
