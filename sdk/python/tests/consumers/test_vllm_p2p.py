"""vLLM's MooncakeConnector: five calls, ten sending threads, and a parent that forks its workers."""

import os
from pathlib import Path

import pytest
import vllm_p2p_roles as roles
from enginepeer import Peer, Raised, content, digest

HERE = Path(__file__).resolve().parent
LAYERS, BLOCK, BLOCKS = 8, 16 * 1024, 60


@pytest.mark.parametrize(
    "extra_config", [{}, {"mooncake_protocol": "tcp"}, {"mooncake_protocol": "rdma", "device_name": ""}]
)
def test_producer_sends_to_two_consumers(extra_config):
    with Peer() as producer, Peer() as first, Peer() as second:
        producer.do(roles.connect, "127.0.0.1", extra_config)
        producer.do(roles.register, LAYERS, BLOCK * BLOCKS, 10)
        names = [consumer.do(roles.connect, "127.0.0.1", extra_config) for consumer in (first, second)]
        theirs = [consumer.do(roles.register, LAYERS, BLOCK * BLOCKS, None) for consumer in (first, second)]
        requests = [
            (names[k % 2], theirs[k % 2], [(k, BLOCKS - 1 - k), (k + 1, BLOCKS - 2 - k)]) for k in range(0, BLOCKS, 2)
        ]
        requests = [(names[i % 2], theirs[i % 2], blocks) for i, (_, _, blocks) in enumerate(requests)]
        assert producer.do(roles.send_all, requests, BLOCK) == [0] * len(requests)
        empty = digest(bytes(BLOCK))
        for which, consumer in enumerate((first, second)):
            got = consumer.do(roles.block_digests, BLOCK)
            for layer in range(LAYERS):
                sent = content(10 + layer, BLOCK * BLOCKS)
                for k in range(BLOCKS):
                    want = digest(sent[k * BLOCK : (k + 1) * BLOCK]) if k // 2 % 2 == which else empty
                    assert got[layer][BLOCKS - 1 - k] == want, (which, layer, k)


def test_a_consumer_that_dies_fails_its_requests_only():
    with Peer() as producer, Peer() as alive, Peer() as dead:
        producer.do(roles.connect)
        producer.do(roles.register, LAYERS, BLOCK * BLOCKS, 20)
        names = [consumer.do(roles.connect) for consumer in (alive, dead)]
        theirs = [consumer.do(roles.register, LAYERS, BLOCK * BLOCKS, None) for consumer in (alive, dead)]
        requests = [(names[k % 2], theirs[k % 2], [(k, k)]) for k in range(BLOCKS)]
        assert producer.do(roles.send_all, requests, BLOCK) == [0] * BLOCKS
        dead.kill()
        codes = producer.do(roles.send_all, requests, BLOCK)
        assert set(codes[0::2]) == {0}
        assert all(code < 0 for code in codes[1::2])


def test_caches_that_are_registered_already_are_an_error():
    with Peer() as worker:
        worker.do(roles.connect)
        worker.do(roles.register, 1, BLOCK, None)
        with pytest.raises(Raised, match="registration failed"):
            worker.do(roles.register, 2, BLOCK, None)


def test_workers_of_a_parent_that_imported_the_module_and_forks(run_python):
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    package = [] if os.environ.get("MOONCAKE_TEST_INSTALLED") else [str(HERE.parent.parent)]
    done = run_python(roles.FORKING_PARENT, PYTHONPATH=os.pathsep.join([*package, path]))
    assert (done.returncode, done.stdout) == (0, "moved\n"), done.stderr
