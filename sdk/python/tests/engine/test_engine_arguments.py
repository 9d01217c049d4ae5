"""Names, defaults, signatures and the TypeErrors of mooncake.engine; conventions before initialize."""

import inspect
import pickle

import pytest

import mooncake.engine
from mooncake.engine import InnerTransferEngine, Read, TransferEngine, TransferNotify, TransferOpcode, Write

# As bound upstream: parameters after self, "/" where they are positional only.
ONE = "target_hostname, buffer, peer_buffer_address, length"
MANY = "target_hostname, buffers, peer_buffer_addresses, lengths"
SIGNATURES = {
    "initialize": "local_hostname, metadata_server, protocol, device_name, /",
    "initialize_ext": "local_hostname, metadata_server, protocol, device_name, metadata_type, /",
    "last_error": "",  # added here
    "get_rpc_port": "",
    "get_engine": "",
    "get_engine_ptr": "",
    "allocate_managed_buffer": "length, /",
    "free_managed_buffer": "buffer_addr, length, /",
    "write_bytes_to_buffer": "dest_address, data, length, /",
    "read_bytes_from_buffer": "source_address, length, /",
    "register_memory": "buffer_addr, capacity, location='*'",
    "unregister_memory": "buffer_addr, /",
    "batch_register_memory": "buffer_addresses, capacities, location='*'",
    "batch_unregister_memory": "buffer_addresses, /",
    "transfer_sync_write": f"{ONE}, transport_hint=''",
    "transfer_sync_read": f"{ONE}, transport_hint=''",
    "transfer_sync": f"{ONE}, opcode, notify=None, transport_hint=''",
    "batch_transfer_sync_write": f"{MANY}, transport_hint=''",
    "batch_transfer_sync_read": f"{MANY}, transport_hint=''",
    "batch_transfer_sync": f"{MANY}, opcode, notify=None, transport_hint=''",
    "batch_transfer_async_write": f"{MANY}, transport_hint=''",
    "batch_transfer_async_read": f"{MANY}, transport_hint=''",
    "batch_transfer_async": f"{MANY}, opcode, transport_hint=''",
    "get_batch_transfer_status": "batch_ids, /",
    "transfer_submit_write": f"{ONE}, transport_hint=''",
    "transfer_check_status": "batch_id, /",
    "get_first_buffer_address": "segment_name, /",
    "get_local_topology": "device_name=None",
    "get_notifies": "",
    "send_probe": "peer_server_name",
    "warmup_efa_segment": "segment_name",
}


@pytest.mark.parametrize("method", SIGNATURES)
def test_signature(method):
    function = getattr(TransferEngine, method)
    full = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in full.parameters.values()][1:]
    spelled = str(inspect.Signature(bare)).strip("()")
    assert spelled == SIGNATURES[method]
    assert function.__doc__.startswith(f"{method}(")
    assert " -> " in function.__doc__.splitlines()[0]


def test_the_class_has_these_methods_only():
    public = {name for name in dir(TransferEngine) if not name.startswith("_")}
    assert public == set(SIGNATURES) | {"TransferOpcode"}


def test_what_is_not_here_is_absent():
    for name in ("RpcInterface", "CoroRPCInterface", "SharedSegment", "create_rpc_client", "ReceivedData"):
        assert not hasattr(mooncake.engine, name)
    for name in ("transfer_write_on_cuda", "batch_transfer_write_on_cuda"):
        assert not hasattr(TransferEngine, name)


def test_support_flags():
    flags = {name: getattr(mooncake.engine, name) for name in dir(mooncake.engine) if name.startswith("SUPPORT_")}
    assert flags == dict.fromkeys(
        ["SUPPORT_CUDA", "SUPPORT_EFA", "SUPPORT_HIP", "SUPPORT_INTRA_NVLINK", "SUPPORT_MNNVL", "SUPPORT_MUSA"], False
    )


def test_opcode():
    assert TransferEngine.TransferOpcode is TransferOpcode
    assert mooncake.engine.Read is TransferOpcode.Read is Read and Write is TransferOpcode.Write
    assert (int(Read), int(Write)) == (0, 1) and Read < Write and [10, 11][Write] == 11
    assert (Write.name, Write.value) == ("Write", 1) and list(TransferOpcode.__members__) == ["Read", "Write"]
    assert (str(Read), repr(Write)) == ("TransferOpcode.Read", "<TransferOpcode.Write: 1>")
    assert TransferOpcode(1) is Write and pickle.loads(pickle.dumps(Write)) is Write
    assert TransferOpcode.__module__ == "mooncake.engine"


def test_notify_values():
    empty = TransferNotify()
    assert (empty.name, empty.msg) == ("", "")
    empty.name, empty.msg = "n", b"m\xff"
    assert (empty.name, empty.msg) == ("n", "m\udcff")
    assert (TransferNotify(msg="b", name="a").name, TransferNotify("a", "b").msg) == ("a", "b")


@pytest.mark.parametrize(
    ("args", "kwargs", "word"),
    [
        (("a",), {}, "arguments"),
        ((), {"msg": "x"}, "msg"),
        (("a", "b", "c"), {}, "3"),
        (("a", "b"), {"msg": "x"}, "msg"),
        ((), {"name": "a", "msg": "b", "other": 1}, "other"),
        ((None, "b"), {}, "name"),
        (("a", 1), {}, "msg"),
    ],
)
def test_notify_refuses(args, kwargs, word):
    with pytest.raises(TypeError, match=word):
        TransferNotify(*args, **kwargs)


def test_inner_engine_is_opaque():
    with pytest.raises(TypeError, match="get_engine"):
        InnerTransferEngine()


@pytest.mark.parametrize(
    "method", ["initialize", "unregister_memory", "allocate_managed_buffer", "transfer_check_status"]
)
def test_positional_only(method):
    named = dict.fromkeys([n.strip() for n in SIGNATURES[method].split(",") if n.strip() != "/"], 1)
    with pytest.raises(TypeError):
        getattr(TransferEngine(), method)(**named)


WRONG = [  # method, arguments, the argument that is wrong
    ("transfer_sync_write", (None, 1, 2, 3), "target_hostname"),
    ("transfer_sync_write", ("a", 1.5, 2, 3), "buffer"),
    ("transfer_sync_write", ("a", 1, -1, 3), "peer_buffer_address"),
    ("transfer_sync_read", ("a", 1, 2, 1 << 64), "length"),
    ("transfer_sync_read", ("a", 1, 2, "3"), "length"),
    ("transfer_sync_write", ("a", 1, 2, 3, None), "transport_hint"),
    ("transfer_sync", ("a", 1, 2, 3, 0), "opcode"),
    ("transfer_sync", ("a", 1, 2, 3, Read, "note"), "notify"),
    ("batch_transfer_sync", ("a", [1], [2], [3], 1), "opcode"),
    ("batch_transfer_sync_write", (1, [1], [2], [3]), "target_hostname"),
    ("batch_transfer_sync_write", ("a", 1, [2], [3]), "buffers"),
    ("batch_transfer_sync_write", ("a", [1], "x", [3]), "peer_buffer_addresses"),
    ("batch_transfer_sync_read", ("a", [1], [2], [3.0]), "lengths"),
    ("batch_transfer_async_write", ("a", [1], [None], [3]), "peer_buffer_addresses"),
    ("batch_transfer_async", ("a", [1], [2], [-3], Write), "lengths"),
    ("transfer_submit_write", ("a", 1, 2, None), "length"),
    ("get_batch_transfer_status", (5,), "batch_ids"),
    ("transfer_check_status", (-1,), "batch_id"),
    ("register_memory", ("x", 1), "buffer_addr"),
    ("register_memory", (1, 1.0), "capacity"),
    ("register_memory", (1, 1, 5), "location"),
    ("unregister_memory", (None,), "buffer_addr"),
    ("batch_register_memory", ([1], [None]), "capacities"),
    ("batch_register_memory", (b"ab", [1, 2]), "buffer_addresses"),
    ("batch_register_memory", ([1], [1], None), "location"),
    ("batch_unregister_memory", ([1.5],), "buffer_addresses"),
    ("get_first_buffer_address", (None,), "segment_name"),
    ("get_local_topology", (5,), "device_name"),
    ("send_probe", (5,), "peer_server_name"),
    ("warmup_efa_segment", (None,), "segment_name"),
    ("allocate_managed_buffer", (-1,), "length"),
    ("free_managed_buffer", (1, "x"), "length"),
    ("write_bytes_to_buffer", (None, b"", 0), "dest_address"),
    ("write_bytes_to_buffer", (1, 5, 0), "data"),
    ("read_bytes_from_buffer", (1, -1), "length"),
    ("initialize", (None, "P2PHANDSHAKE", "tcp", ""), "local_hostname"),
    ("initialize", ("a", "P2PHANDSHAKE", "tcp", 5), "device_name"),
    ("initialize_ext", ("a", "b", "tcp", "", 5), "metadata_type"),
]


@pytest.mark.parametrize(("method", "args", "word"), WRONG)
def test_type_errors_name_the_argument(engine, method, args, word):
    port = engine.get_rpc_port()
    with pytest.raises(TypeError, match=rf"\b{word}\b"):
        getattr(engine, method)(*args)
    assert engine.get_rpc_port() == port, "the engine goes on"


@pytest.mark.parametrize("method", ["transfer_sync_write", "batch_transfer_sync", "register_memory", "send_probe"])
def test_missing_and_unknown_arguments_are_named(engine, method):
    with pytest.raises(TypeError, match="missing"):
        getattr(engine, method)()
    with pytest.raises(TypeError, match="nonsense"):
        getattr(engine, method)(nonsense=1)


def test_before_initialize():
    bare = TransferEngine()
    assert bare.get_rpc_port() == 0 and bare.get_engine() is None and bare.get_engine_ptr() == 0
    assert bare.register_memory(4096, 10) < 0 and bare.batch_register_memory([4096], [10]) < 0
    assert bare.unregister_memory(4096) < 0 and bare.batch_unregister_memory([4096]) < 0
    assert bare.transfer_sync_write("a", 1, 2, 3) == -1 and bare.transfer_sync("a", 1, 2, 3, Read) == -1
    assert bare.batch_transfer_sync_read("a", [1], [2], [3]) == -1
    assert bare.batch_transfer_async_write("a", [1], [2], [3]) == 0 and bare.transfer_submit_write("a", 1, 2, 3) == 0
    assert bare.get_batch_transfer_status([1]) == -1 and bare.transfer_check_status(1) == -1
    assert bare.get_first_buffer_address("a") == 0 and bare.get_notifies() == [] and bare.send_probe("a") != 0
    assert bare.allocate_managed_buffer(10) == 0 and bare.free_managed_buffer(1, 10) < 0
    assert bare.warmup_efa_segment("a") == 0
    assert "initialize" in bare.last_error()


class Index:
    def __index__(self):
        return 64


def test_what_has_index_is_a_number(engine):
    address = engine.allocate_managed_buffer(Index())
    assert address > 0
    assert engine.free_managed_buffer(address, Index()) == 0
