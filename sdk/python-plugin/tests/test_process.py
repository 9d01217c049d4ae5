"""The built program, as its host starts it and speaks with it."""

import json
import os
import signal
import stat
import subprocess
import time

import grpc
import pytest
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hosted import LIMIT, Hosted, certificate

from mooncake_plugin.protocol import messages

evict_pb2, plugin_pb2 = messages("evict"), messages("plugin")


@pytest.fixture
def hosted(program):
    with Hosted([str(program)]) as h:
        yield h


def shutdown(channel):
    channel.unary_unary("/plugin.GRPCController/Shutdown")(b"", timeout=LIMIT)


def configured(lifecycle, settings=b""):
    lifecycle.Configure(plugin_pb2.ConfigureRequest(config_json=settings, api=1), timeout=LIMIT)
    lifecycle.Start(plugin_pb2.StartRequest(), timeout=LIMIT)


def insert(*ids):
    n = len(ids)
    return evict_pb2.RecordRequest(ops=b"\1" * n, ids=ids, sizes=[10] * n, parents=[0] * n)


def detail(e):
    """Code and class in the details of a failed call."""
    blob = dict(e.value.trailing_metadata())["grpc-status-details-bin"]
    error = plugin_pb2.Error()
    assert status_pb2.Status.FromString(blob).details[0].Unpack(error)
    return error.code, getattr(error, "class")


def test_a_whole_life(hosted):
    lifecycle, evict, channel = hosted.connect()
    answer = lifecycle.Describe(plugin_pb2.DescribeRequest(), timeout=LIMIT)
    described = json.loads(answer.manifest_json)
    assert json.loads(answer.settings_json)["additionalProperties"] is False
    assert (described["kind"], described["name"], described["api"]) == ("evict", "sample-lru", [1])
    check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="plugin"), timeout=LIMIT)
    assert check.status == health_pb2.HealthCheckResponse.SERVING
    health = lifecycle.WatchHealth(plugin_pb2.WatchHealthRequest(), timeout=LIMIT)
    assert next(health).state == "available"

    configured(lifecycle)
    while (h := next(health)).state != "ok":
        assert h.state == "starting"
    evict.Record(insert(1, 2, 3), timeout=LIMIT)
    evict.Record(evict_pb2.RecordRequest(ops=b"\2", ids=[1], sizes=[0], parents=[0]), timeout=LIMIT)
    got = evict.Propose(evict_pb2.ProposeRequest(bytes=15, max_candidates=9), timeout=LIMIT)
    assert (list(got.ids), list(got.sizes)) == ([2, 3], [10, 10])
    evict.Record(insert(7, 8), timeout=LIMIT)
    few = evict.Propose(evict_pb2.ProposeRequest(bytes=1000, max_candidates=1), timeout=LIMIT)
    assert list(few.ids) == [1]
    evict.Resolve(evict_pb2.ResolveRequest(ids=[1], evicted=b"\0"), timeout=LIMIT)
    evict.Record(evict_pb2.RecordRequest(ops=b"\3\3", ids=[7, 8], sizes=[0, 0], parents=[0, 0]), timeout=LIMIT)
    evict.Resolve(evict_pb2.ResolveRequest(ids=[2, 3], evicted=b"\1\0"), timeout=LIMIT)
    stats = evict.Stats(evict_pb2.StatsRequest(), timeout=LIMIT)
    assert (stats.objects, stats.bytes, stats.proposed) == (2, 20, 0)

    for _ in range(2):
        lifecycle.Stop(plugin_pb2.StopRequest(), timeout=LIMIT)
    assert next(health).state == "stopped"
    shutdown(channel)
    code, log = hosted.ends()
    assert code == 0
    record = json.loads(log[0])
    assert (record["level"], record["count_reads"]) == ("INFO", True)
    assert not list(hosted.dir.iterdir()), "the socket is removed"


def test_only_the_host_gets_in(hosted):
    fields = hosted.handshake()
    assert fields[0:3] == ["1", "1", "unix"]
    assert fields[4] == "grpc"
    for how in ({}, dict(zip(("key", "cert"), certificate(), strict=True)), {"secure": False}):
        with hosted.channel(fields, **how) as channel, pytest.raises(grpc.RpcError) as e:
            channel.unary_unary("/mooncake.plugin.v1.LifecycleService/Describe")(b"", timeout=LIMIT)
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE
    with hosted.channel(fields, hosted.key, hosted.cert) as channel:
        shutdown(channel)
    assert hosted.ends()[0] == 0


def test_does_not_serve_without_a_certificate(program):
    with Hosted([str(program)], {"PLUGIN_CLIENT_CERT": None}) as h:
        code, log = h.ends()
    assert code == 1
    assert "certificate" in json.loads(log[-1])["msg"]


@pytest.mark.parametrize(("offered", "chosen"), [("1", "1"), ("3,1,2", "1"), ("7", "1"), ("", "1")])
def test_contract_version(program, offered, chosen):
    with Hosted([str(program)], {"PLUGIN_PROTOCOL_VERSIONS": offered}) as h:
        assert h.handshake()[1] == chosen


def test_what_breaks_the_contract_is_refused(hosted):
    lifecycle, evict, _ = hosted.connect()
    with pytest.raises(grpc.RpcError) as e:
        evict.Stats(evict_pb2.StatsRequest(), timeout=LIMIT)
    assert detail(e)[0] == -1010
    with pytest.raises(grpc.RpcError) as e:
        lifecycle.Start(plugin_pb2.StartRequest(), timeout=LIMIT)
    assert detail(e)[0] == -1010
    for request, code, says in (
        ({"config_json": b'{"count_raeds": true}', "api": 1}, -600, 'did you mean "count_reads"?'),
        ({"api": 2}, -300, "chose contract version 2"),
    ):
        with pytest.raises(grpc.RpcError) as e:
            lifecycle.Configure(plugin_pb2.ConfigureRequest(**request), timeout=LIMIT)
        assert detail(e) == (code, 4)
        assert says in e.value.details()
    configured(lifecycle, b'{"count_reads": false}')
    for call in (lifecycle.Configure, lifecycle.Start):
        request = plugin_pb2.ConfigureRequest(api=1) if call is lifecycle.Configure else plugin_pb2.StartRequest()
        with pytest.raises(grpc.RpcError) as e:
            call(request, timeout=LIMIT)
        assert detail(e)[0] == -1010

    evict.Record(insert(1), timeout=LIMIT)
    many = (32 << 10) + 1
    for call, request in (
        (evict.Record, evict_pb2.RecordRequest(ops=b"\1\1", ids=[7, 8], sizes=[1], parents=[0, 0])),
        (evict.Record, evict_pb2.RecordRequest(ops=b"\1", ids=[7], sizes=[1], parents=[0], fingerprints=[1, 2])),
        (evict.Record, evict_pb2.RecordRequest(ops=b"\1\4", ids=[7, 8], sizes=[1, 1], parents=[0, 0])),
        (evict.Record, insert(*range(1, many + 1))),
        (evict.Propose, evict_pb2.ProposeRequest(bytes=1, max_candidates=many)),
        (evict.Resolve, evict_pb2.ResolveRequest(ids=[1], evicted=b"")),
        (evict.Resolve, evict_pb2.ResolveRequest(ids=[1], evicted=b"\2")),
    ):
        with pytest.raises(grpc.RpcError) as e:
            call(request, timeout=LIMIT)
        assert detail(e)[0] == -600
        stats = evict.Stats(evict_pb2.StatsRequest(), timeout=LIMIT)
        assert (stats.objects, stats.proposed) == (1, 0), "nothing of it was done"
    assert not evict.Propose(evict_pb2.ProposeRequest(bytes=0, max_candidates=1), timeout=LIMIT).ids


@pytest.mark.parametrize("how", ["lifeline", signal.SIGTERM, signal.SIGHUP])
def test_ends_with_its_host(hosted, how):
    hosted.connect()[0].Describe(plugin_pb2.DescribeRequest(), timeout=LIMIT)
    if how == "lifeline":
        hosted.line.close()
    else:
        hosted.process.send_signal(how)
    # It takes its whole process group along, itself included.
    assert hosted.ends()[0] == -signal.SIGKILL
    assert not hosted.dir.exists(), "socket and folder are removed"


def test_an_interrupt_of_the_terminal_is_the_hosts(hosted):
    lifecycle, _, channel = hosted.connect()
    hosted.process.send_signal(signal.SIGINT)
    lifecycle.Describe(plugin_pb2.DescribeRequest(), timeout=LIMIT)
    shutdown(channel)
    assert hosted.ends()[0] == 0


def test_runs_from_a_descriptor_alone(program, tmp_path):
    """As the host runs it: a sealed copy in memory, nothing beside it, another folder."""
    fd = os.memfd_create("plugin", 0)
    os.write(fd, program.read_bytes())
    path = f"/proc/self/fd/{fd}"
    with Hosted([path], keep=(fd,)) as h:
        os.close(fd)
        lifecycle, evict, channel = h.connect()
        configured(lifecycle)
        evict.Record(insert(1, 2), timeout=LIMIT)
        shutdown(channel)
        assert h.ends()[0] == 0


def run(program, *args, **env):
    return subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)


def test_flags(program):
    manifest = run(program, "--manifest")
    assert json.loads(manifest.stdout)["name"] == "sample-lru"
    assert manifest.returncode == 0
    assert run(program, "--version").stdout == "evict/sample-lru 0.1.0 (contract [1])\n"
    assert "--manifest" in run(program, "--help").stdout
    for args in ([], ["--what"], ["--version", "x"]):
        out = run(program, *args)
        assert (out.returncode, out.stdout) == (2, ""), args
        assert "mooncake-plugin-evict-sample-lru" in out.stderr


def test_nothing_of_the_environment_is_imported(program, tmp_path):
    (tmp_path / "grpc.py").write_text("raise SystemExit('imported what lay about')")
    assert run(program, "--version", PYTHONPATH=str(tmp_path)).returncode == 0


def test_descendants_end_too(program, tmp_path):
    """What a plugin has started in its process group does not outlive the host."""
    with Hosted([str(program)]) as h:
        h.handshake()
        child = subprocess.Popen(["sleep", "600"], process_group=h.process.pid)
        h.line.close()
        h.ends()
        deadline = time.monotonic() + LIMIT
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert child.returncode == -signal.SIGKILL


def test_mode_of_the_file(program):
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
