"""The client of deploy/compose.yaml, on a pool of this machine."""

from pathlib import Path

import pytest
from processes import free_port
from procs import Package
from restservice import Master, Rest
from test_tools_rest import HAS_STORE

CLIENT = Path(__file__).parents[4] / "deploy" / "client.py"


@pytest.mark.skipif(not HAS_STORE, reason="libmooncake.so is not built: make pydev")
def test_the_client_puts_and_gets(package: Package) -> None:
    master = Master(package)
    Rest.program(package, master)
    done = package.run(str(CLIENT), **master.env(MOONCAKE_LOCAL_HOSTNAME="127.0.0.1"))
    assert (done.returncode, done.stdout) == (0, "hello from the pool\n"), done.stderr


@pytest.mark.skipif(not HAS_STORE, reason="libmooncake.so is not built: make pydev")
def test_without_a_master_it_says_so(package: Package) -> None:
    done = package.run(
        str(CLIENT),
        MOONCAKE_MASTER=f"127.0.0.1:{free_port()}",
        MOONCAKE_LOCAL_HOSTNAME="127.0.0.1",
        MOONCAKE_STORE_MAX_WAIT_TIME="1s",
    )
    assert done.returncode == 1
    assert "is the master at" in done.stderr
