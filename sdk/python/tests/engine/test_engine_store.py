"""One engine for disaggregation and store, as SGLang's HiCache takes it over."""

import gc

import pytest
from enginepeer import Memory, Peer, content, look, start, take

from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore

SIZE = 1 << 20


@pytest.fixture
def own():
    """An engine of the test alone."""
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine


def shared(engine, master, form="positional"):
    """A store on the engine, with 16 MiB for the pool."""
    session = f"127.0.0.1:{engine.get_rpc_port()}"
    store = MooncakeDistributedStore()
    if form == "positional":
        code = store.setup(session, "P2PHANDSHAKE", 16 << 20, 16 << 20, "tcp", "", master.rpc, engine.get_engine())
    else:
        code = store.setup(
            session, "P2PHANDSHAKE", 16 << 20, 16 << 20, "tcp", "", master.rpc, engine=engine.get_engine()
        )
    assert code == 0, store.last_error()
    return store, session


def works(store, key):
    """Puts from registered memory and gets back into it."""
    memory = Memory(2 * SIZE)
    data = content(len(key), SIZE)
    memory.write(0, data)
    assert store.register_buffer(memory.address, 2 * SIZE) == 0
    assert store.batch_put_from([key], [memory.address], [SIZE]) == [0]
    assert store.batch_get_into([key], [memory.address + SIZE], [SIZE]) == [SIZE]
    assert memory.read(SIZE, SIZE) == data
    assert store.unregister_buffer(memory.address) == 0


@pytest.mark.parametrize("form", ["positional", "keyword"])
def test_store_and_transfers_on_one_engine(own, master, form):
    store, session = shared(own, master, form)
    assert store.get_hostname() == session
    works(store, "a")
    memory = Memory(SIZE)
    memory.write(0, content(9, SIZE))
    assert own.register_memory(memory.address, SIZE) == 0
    with Peer() as peer:
        assert peer.do(start, "127.0.0.1") > 0
        here = peer.do(take, SIZE)
        assert peer.call("transfer_sync_read", session, here, memory.address, SIZE) == 0
        assert peer.do(look, here, SIZE) == content(9, SIZE)
    assert own.unregister_memory(memory.address) == 0
    assert store.close() == 0


def test_the_engine_goes_on_without_the_store(own, master):
    store, session = shared(own, master)
    works(store, "b")
    assert store.close() == 0
    del store
    gc.collect()
    assert own.send_probe(session) == 0
    again, _ = shared(own, master)
    works(again, "c")
    assert again.close() == 0


def test_the_store_goes_on_without_the_engine(engine, own, master):
    store, session = shared(own, master)
    del own
    gc.collect()
    works(store, "d")
    assert engine.send_probe(session) == 0
    assert store.close() == 0
    gc.collect()


def test_the_last_one_ends_the_engine(engine, master):
    own = TransferEngine()
    assert own.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    store, session = shared(own, master)
    del own
    gc.collect()
    assert engine.send_probe(session) == 0
    assert store.close() == 0
    assert engine.send_probe(session) != 0


def test_what_is_no_engine_is_refused(own, master):
    store = MooncakeDistributedStore()
    for wrong in (own, 5, object()):
        with pytest.raises(TypeError, match="engine"):
            store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", master.rpc, engine=wrong)
