"""From initialize to the end: names, metadata services, dead and restarted peers, exits and forks."""

import gc
import json
import urllib.error
import urllib.parse
import urllib.request

import pytest
from enginepeer import Peer, content, look, start, take
from processes import Process, free_port

from mooncake.engine import TransferEngine

LEGACY = {"MC_LEGACY_RPC_PORT_BINDING": "1"}  # the port of the name is the one that is bound


def moves(writer: Peer, target: str, there: int, seed: int, reader: Peer) -> None:
    """writer writes to the peer called target, and reader, which is it, has the bytes."""
    here = writer.do(take, 10_000, seed)
    assert writer.call("transfer_sync_write", target, here, there, 10_000) == 0
    assert reader.do(look, there, 10_000) == content(seed, 10_000)
    assert writer.call("transfer_sync_read", target, here, there, 10_000) == 0


@pytest.mark.parametrize("env", [{}, {"MC_FORCE_TCP": "1"}])
@pytest.mark.parametrize("protocol", ["tcp", "rdma"])
def test_protocol_on_a_machine_without_hca(protocol, env):
    """vLLM and SGLang ask for rdma by default; what there is decides."""
    with Peer(env=env) as a, Peer(env=env) as b:
        assert a.do(start, "127.0.0.1", protocol=protocol) > 0
        port = b.do(start, "127.0.0.1", protocol=protocol)
        assert port > 0
        moves(a, f"127.0.0.1:{port}", b.do(take, 10_000), 1, b)


def test_localhost_reaches_localhost():
    with Peer() as a, Peer() as b:
        assert a.do(start, "localhost") > 0
        port = b.do(start, "localhost")
        moves(a, f"localhost:{port}", b.do(take, 10_000), 2, b)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "0.0.0.0:7600", "0.0.0.0:0", "", ":7600", "::", "[::]:7600", "127.0.0.1:0", "localhost:0"]
)
def test_names_that_say_nothing_of_the_address(host):
    """As LMCache's examples have it: peers use an address that they know, with the port that the engine has."""
    with Peer() as a, Peer() as b:
        ports = [a.do(start, host), b.do(start, host)]
        assert min(ports) > 0
        moves(a, f"127.0.0.1:{ports[1]}", b.do(take, 10_000), 3, b)
        moves(b, f"localhost:{ports[0]}", a.do(take, 10_000), 4, a)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("127.0.0.1", "P2PHANDSHAKE", "xgmi", ""), "xgmi"),
        (("", "http://127.0.0.1:1/metadata", "tcp", ""), "local_hostname"),
        (("127.0.0.1", "gopher://127.0.0.1", "tcp", ""), "gopher"),
        (("node", "http://127.0.0.1:1/metadata", "tcp", ""), "127.0.0.1:1"),
    ],
)
def test_initialize_that_fails_says_why_and_may_be_repeated(args, word):
    engine = TransferEngine()
    assert engine.initialize(*args) == -1
    assert word in engine.last_error()
    assert engine.get_rpc_port() == 0 and engine.get_engine() is None
    assert engine.register_memory(4096, 4096) < 0
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.get_rpc_port() > 0


def test_initialize_ext():
    engine = TransferEngine()
    assert engine.initialize_ext("127.0.0.1", "P2PHANDSHAKE", "tcp", "", "P2PHANDSHAKE") == 0
    assert engine.get_rpc_port() > 0


def test_initialize_again_is_a_new_engine():
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    first, first_number = engine.get_rpc_port(), engine.get_engine_ptr()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.send_probe(f"127.0.0.1:{engine.get_rpc_port()}") == 0
    assert engine.get_rpc_port() == first or engine.send_probe(f"127.0.0.1:{first}") != 0, "the first is gone"
    assert 0 != engine.get_engine_ptr() != first_number != 0


def test_initialize_again_on_the_same_port():
    """The first engine goes before the second binds."""
    name = f"127.0.0.1:{free_port()}"
    with Peer(env=LEGACY) as peer, Peer() as writer:
        assert writer.do(start, "127.0.0.1") > 0
        for life in range(2):
            assert peer.do(start, name) == int(name.split(":")[1])
            moves(writer, name, peer.do(take, 10_000), 40 + life, peer)
        assert peer.call("initialize", name, "P2PHANDSHAKE", "xgmi", "") == -1
        assert peer.call("get_rpc_port") == 0, "one that fails leaves none"
        assert writer.call("send_probe", name) != 0


def test_engines_of_one_process():
    engines = [TransferEngine() for _ in range(5)]
    assert [e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") for e in engines] == [0] * 5
    assert len({e.get_rpc_port() for e in engines}) == 5
    assert len({e.get_engine_ptr() for e in engines}) == 5
    assert all(engines[0].send_probe(f"127.0.0.1:{e.get_rpc_port()}") == 0 for e in engines)


def test_topology():
    for engine in (TransferEngine(), TransferEngine()):
        for text in (
            engine.get_local_topology(),
            engine.get_local_topology(None),
            engine.get_local_topology(device_name="none_0"),
        ):
            matrix = json.loads(text)
            assert all(len(row) == 2 for row in matrix.values())
    assert json.loads(TransferEngine().get_local_topology("none_0")) == {key: [[], []] for key in matrix}


def test_the_engine_lives_as_long_as_it_is_held(engine):
    held = TransferEngine()
    assert held.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    name, inner = f"127.0.0.1:{held.get_rpc_port()}", held.get_engine()
    assert inner is held.get_engine()
    del held
    gc.collect()
    assert engine.send_probe(name) == 0, "get_engine keeps it, as a store that shares it does"
    del inner
    gc.collect()
    assert engine.send_probe(name) != 0, "the last one that goes tears it down"


def test_nobody_there(engine):
    at = engine.allocate_managed_buffer(64)
    for name in (f"127.0.0.1:{free_port()}", "no-such-host.invalid:15000", ""):
        assert engine.transfer_sync_write(name, at, 4096, 64) == -1
        assert engine.batch_transfer_sync_read(name, [at], [4096], [64]) == -1
        assert engine.batch_transfer_async_write(name, [at], [4096], [64]) == 0
        assert engine.transfer_submit_write(name, at, 4096, 64) == 0
        assert engine.send_probe(peer_server_name=name) != 0
    assert engine.free_managed_buffer(at, 64) == 0


def test_a_peer_dies_and_comes_back_under_its_name():
    name = f"127.0.0.1:{free_port()}"
    with Peer() as writer:
        assert writer.do(start, "127.0.0.1") > 0
        for life in range(3):
            with Peer(env=LEGACY) as reader:
                assert reader.do(start, name) == int(name.split(":")[1])
                there = reader.do(take, (1 + life) * 50_000)
                assert writer.call("send_probe", name) == 0
                moves(writer, name, there, 10 + life, reader)
                reader.kill()
            here = writer.do(take, 100)
            assert writer.call("transfer_sync_write", name, here, there, 100) == -1
            assert writer.call("batch_transfer_sync_write", name, [here], [there], [100]) == -1
            batch = writer.call("batch_transfer_async_write", name, [here], [there], [100])
            assert batch == 0 or writer.call("get_batch_transfer_status", [batch]) == -1
            assert writer.call("send_probe", name) != 0


def test_a_restarted_peer_that_nobody_asked_while_it_was_gone():
    name = f"127.0.0.1:{free_port()}"
    with Peer() as writer:
        assert writer.do(start, "127.0.0.1") > 0
        for life in range(3):
            with Peer(env=LEGACY) as reader:
                assert reader.do(start, name) > 0
                there = reader.do(take, 10_000)
                moves(writer, name, there, 20 + life, reader)
                reader.kill()


@pytest.fixture(scope="module")
def metadata_server(programs, tmp_path_factory):
    port = free_port()
    server = Process(
        [programs / "mooncake", "metadata", "--host", "127.0.0.1", "--port", str(port)], tmp_path_factory.mktemp("meta")
    )
    server.wait_line(f":{port}")
    yield f"http://127.0.0.1:{port}/metadata"
    server.stop()


def descriptor(url: str, name: str) -> dict | None:
    """What the metadata service has of a node, or None."""
    try:
        with urllib.request.urlopen(
            f"{url}?key={urllib.parse.quote(f'mooncake/ram/{name}', safe='')}", timeout=60
        ) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return None


def test_http_metadata_server(metadata_server):
    env = {"MC_TCP_BIND_ADDRESS": "127.0.0.1", "MC_FORCE_TCP": "1"}
    with Peer(env=env) as a, Peer(env=env) as b:
        assert a.do(start, "node-a", metadata_server, "rdma") > 0
        assert b.do(start, "node-b", metadata_server) > 0
        there = b.do(take, 10_000)
        moves(a, "node-b", there, 30, b)
        assert a.call("send_probe", "node-b") == 0
        assert a.call("get_first_buffer_address", "node-b") == there
        published = descriptor(metadata_server, "node-a")
        assert published and published["protocol"] == "tcp", "MC_FORCE_TCP decides, whatever protocol says"
        b.kill()
        assert a.call("transfer_sync_read", "node-b", a.do(take, 100), there, 100) == -1
        with Peer(env=env) as again:
            assert again.do(start, "node-b", metadata_server) > 0
            moves(a, "node-b", again.do(take, 10_000), 31, again)
            assert again.stop() == 0
        assert descriptor(metadata_server, "node-b") is None, "a process that ends takes its name back"
    assert descriptor(metadata_server, "node-a") is None


def test_initialize_ext_with_the_type_apart(metadata_server):
    with Peer(env={"MC_TCP_BIND_ADDRESS": "127.0.0.1"}) as a:
        assert a.call("initialize_ext", "node-ext", metadata_server, "tcp", "", "http") == 0
        a.do(take, 10_000)
        assert descriptor(metadata_server, "node-ext")


IMPORT = "import sys, threading, os; before = set(os.listdir('/proc/self/fd'))\nimport mooncake.engine as e\n"


def test_import_and_construction_start_nothing(run_python):
    code = IMPORT + (
        "te = e.TransferEngine(); e.TransferNotify('a', 'b')\n"
        "assert len(os.listdir('/proc/self/task')) == 1, os.listdir('/proc/self/task')\n"
        "assert set(os.listdir('/proc/self/fd')) == before\n"
        "assert 'libmooncake' not in open('/proc/self/maps').read()\n"
        "heavy = {'numpy', 'torch', 'asyncio', 'aiohttp', 'requests', 'multiprocessing', 'subprocess'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_a_fork_before_use_is_fine(run_python):
    code = IMPORT + (
        "te = e.TransferEngine()\n"
        "pid = os.fork()\n"
        "assert te.initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '') == 0\n"
        "assert te.send_probe('127.0.0.1:%d' % te.get_rpc_port()) == 0\n"
        "if pid: assert os.waitpid(pid, 0)[1] == 0\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_a_fork_after_use_raises_in_the_child(run_python):
    code = IMPORT + (
        "te = e.TransferEngine()\n"
        "assert te.initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '') == 0\n"
        "me = '127.0.0.1:%d' % te.get_rpc_port()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    calls = [lambda: te.transfer_sync_write(me, 1, 2, 3), lambda: te.register_memory(4096, 4096),\n"
        "             lambda: te.batch_transfer_async_read(me, [1], [2], [3]), lambda: te.get_batch_transfer_status([1]),\n"
        "             lambda: te.send_probe(me), te.get_notifies, te.get_rpc_port, te.get_local_topology,\n"
        "             lambda: te.initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', ''),\n"
        "             lambda: e.TransferEngine().initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '')]\n"
        "    for i, call in enumerate(calls):\n"
        "        try: call()\n"
        "        except RuntimeError as error: assert 'fork' in str(error), error\n"
        "        else: sys.exit(f'call {i} did not raise')\n"
        "    del te, calls, call\n"
        "    sys.exit(0)\n"  # destructors and atexit run
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "assert te.send_probe(me) == 0, 'the child took nothing away'\n"
    )
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_the_end_of_the_process_waits_for_nothing(run_python):
    code = IMPORT + (
        "keep = [e.TransferEngine() for _ in range(3)]\n"
        "assert [k.initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '') for k in keep] == [0, 0, 0]\n"
        "cycle = [keep]; cycle.append(cycle); e.kept = keep\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
