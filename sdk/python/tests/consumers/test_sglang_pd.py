"""SGLang, prefill and decode apart: prefill writes into decode's memory at addresses that decode told it."""

import pytest
import sglang_pd_roles as roles
from enginepeer import Peer, content, digest
from processes import free_port

LAYERS, PAGE, PAGES = 6, 9 * 1024, 64


@pytest.fixture
def prefill():
    with Peer() as peer:
        peer.do(roles.open_engine)
        yield peer


@pytest.fixture
def decode():
    with Peer() as peer:
        peer.session = peer.do(roles.open_engine)
        yield peer


@pytest.mark.parametrize("env", [{}, {"MC_FORCE_TCP": "1"}, {"MOONCAKE_PROTOCOL": "tcp"}])
def test_pages_of_many_requests(env):
    """Two prefill ranks send to two decode ranks at the same time, each with eight threads."""
    with Peer(env=env) as p0, Peer(env=env) as p1, Peer(env=env) as d0, Peer(env=env) as d1:
        prefills, decodes = [p0, p1], [d0, d1]
        for rank in (p0, p1):
            rank.do(roles.open_engine, ib_device="mlx5_0" if env else None)
        sessions = [d.do(roles.open_engine) for d in decodes]
        seeds = [100, 200]
        for rank, seed in zip(prefills, seeds, strict=True):
            assert rank.do(roles.open_pools, LAYERS, PAGE * PAGES, seed)[1] == 0
        pools = []
        for rank in decodes:
            addresses, code = rank.do(roles.open_pools, LAYERS, PAGE * PAGES, None)
            assert code == 0
            pools.append(addresses)

        # Prefill rank r sends its page k to page 2k+r of decode rank k % 2, four pages a request.
        half = PAGES // 2
        for r, rank in enumerate(prefills):
            requests = []
            for side in (0, 1):
                pages = [k for k in range(half) if k % 2 == side]
                for i in range(0, len(pages), 4):
                    mine = pages[i : i + 4]
                    requests.append((sessions[side], pools[side], mine, [2 * k + r for k in mine]))
            rank.send(roles.send_pages, requests, PAGE, 8)
        for rank in prefills:
            assert set(rank.receive()) == {0}

        empty = digest(bytes(PAGE))
        for side, rank in enumerate(decodes):
            got = rank.do(roles.page_digests, PAGE)
            for layer in range(LAYERS):
                sent = [content(seed + layer, PAGE * PAGES) for seed in seeds]
                for place in range(PAGES):
                    k, r = divmod(place, 2)
                    want = digest(sent[r][k * PAGE : (k + 1) * PAGE]) if k % 2 == side else empty
                    assert got[layer][place] == want, (side, layer, place)
        for rank in prefills + decodes:
            assert rank.do(roles.close_pools) == 0
            assert rank.do(roles.close_pools) != 0, "they are not registered any more"


def test_regions_that_are_not_deduplicated_are_refused(decode):
    """Why the managers collect regions in a set."""
    assert decode.do(roles.open_pools, 2, PAGE, None)[1] == 0
    assert decode.do(roles.open_pools, 2, PAGE, None)[1] != 0


def test_encoder_registers_sends_and_deregisters_each_embedding(prefill, decode):
    n, size = 24, 70_001
    slots = decode.do(roles.open_slots, n, size)
    codes = prefill.do(roles.send_embeddings, decode.session, slots, size, 300)
    assert codes == [(0, 0, 0)] * n
    assert decode.do(roles.slot_digests, n, size) == [digest(content(300 + i, size)) for i in range(n)]


def test_a_failed_session_is_probed_until_it_is_back(prefill):
    """A dead decode is put on a black list; send_probe takes it off."""
    legacy = {"MC_LEGACY_RPC_PORT_BINDING": "1"}
    session = f"127.0.0.1:{free_port()}"
    assert prefill.do(roles.open_pools, 1, PAGE, 400)[1] == 0
    for _ in range(2):
        with Peer(env=legacy) as decode:
            decode.do(roles.open_engine, session)
            (there,) = decode.do(roles.open_pools, 1, PAGE, None)[0]
            assert prefill.do(roles.probe, session) == 0
            assert prefill.do(roles.one_write, session, there) == 0
            assert decode.do(roles.page_digests, 64)[0][0] == digest(content(400, PAGE)[:64])
            decode.kill()
        assert prefill.do(roles.one_write, session, there) < 0
        assert prefill.do(roles.probe, session) != 0


def test_a_dead_decode_fails_its_requests_only(prefill, decode):
    assert prefill.do(roles.open_pools, LAYERS, PAGE * PAGES, 500)[1] == 0
    alive = decode.do(roles.open_pools, LAYERS, PAGE * PAGES, None)[0]
    with Peer() as other:
        dead_session = other.do(roles.open_engine)
        dead = other.do(roles.open_pools, LAYERS, PAGE * PAGES, None)[0]
        other.kill()
    requests = [((dead_session, dead), (decode.session, alive))[i % 2] + ([i], [i]) for i in range(16)]
    codes = prefill.do(roles.send_pages, requests, PAGE, 8)
    assert all(code < 0 for code in codes[0::2])
    assert set(codes[1::2]) == {0}
    got = decode.do(roles.page_digests, PAGE)
    for layer in range(LAYERS):
        sent = content(500 + layer, PAGE * PAGES)
        assert [got[layer][i] for i in range(1, 16, 2)] == [
            digest(sent[i * PAGE : (i + 1) * PAGE]) for i in range(1, 16, 2)
        ]


def test_session_ids_of_ipv6():
    with Peer(env={"MC_USE_IPV6": "1"}) as prefill, Peer(env={"MC_USE_IPV6": "1"}) as decode:
        prefill.do(roles.open_engine, "::1")
        session = decode.do(roles.open_engine, "::1")
        assert session.startswith("[::1]:")
        slots = decode.do(roles.open_slots, 1, 5000)
        assert prefill.do(roles.send_embeddings, session, slots, 5000, 600) == [(0, 0, 0)]
        assert decode.do(roles.slot_digests, 1, 5000) == [digest(content(600, 5000))]


def test_the_engine_that_hicache_shares(prefill):
    assert prefill.do(roles.shared_engine) == "InnerTransferEngine"
