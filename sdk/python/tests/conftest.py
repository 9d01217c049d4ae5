"""Fixtures for all tests of the package: real masters, nodes and interpreters.

The programs are built from this checkout, or come from the folder in MOONCAKE_TEST_PROGRAMS.
The package is the one in this checkout, or the installed one where MOONCAKE_TEST_INSTALLED
is set. Every process is ended when its fixture ends; one that is left fails the run.
"""

from __future__ import annotations

import faulthandler
import fcntl
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE_ROOT = TESTS.parent
REPOSITORY = PACKAGE_ROOT.parent.parent
LONGEST_TEST_S = 600  # more than all that is waited for in one test

sys.path.insert(0, str(TESTS))
if not os.environ.get("MOONCAKE_TEST_INSTALLED"):
    sys.path.insert(0, str(PACKAGE_ROOT))

from processes import PATIENT, WAIT_S, LocalService, Master, Node, Process, clean_environment, secure

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass  # with it the tests that need it are missing
else:
    # The time that an example takes says nothing on a machine that may stand still for a while.
    settings.register_profile("mooncake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("mooncake")

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore

# Settings of a pool would reach the library in this process.
GIVEN_PROGRAMS = os.environ.get("MOONCAKE_TEST_PROGRAMS")
INSTALLED = bool(os.environ.get("MOONCAKE_TEST_INSTALLED"))
LONG = bool(os.environ.get("MOONCAKE_TEST_LONG"))
SECURITY = os.environ.get("MOONCAKE_TEST_SECURITY")
"""The security mode of all processes; their certificates are made for the run."""
UPSTREAM_PYTHON = os.environ.get("MOONCAKE_UPSTREAM_PYTHON")
"""A Python with upstream's wheel, to compare with; see test/interop/doc.go."""
for name in [n for n in os.environ if n not in clean_environment()]:
    del os.environ[name]
os.environ.update(PATIENT)
# Inference engines run with a proxy set, at times; nothing here may go through one.
os.environ["NO_PROXY"] = "*"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: a test that takes long by its nature; make test-all runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests in the folders leak and perf as long, and skips them without MOONCAKE_TEST_LONG."""
    for item in items:
        if {"leak", "perf"} & set(item.path.relative_to(Path(__file__).parent).parts):
            item.add_marker("long")
            if not LONG:
                item.add_marker(pytest.mark.skip(reason="takes long; make test-all runs it"))


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(p) for p in (task / "children").read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended meanwhile
    return found


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails the run where a test left a process behind."""
    before = _children()
    yield
    left = _children() - before
    assert not left, f"tests left processes: {left}"


@pytest.fixture(autouse=True)
def a_test_ends() -> Iterator[None]:
    """Ends the run with the stacks of all threads where a test hangs."""
    faulthandler.dump_traceback_later(LONGEST_TEST_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with mooncake, mooncake_master and mooncake_client."""
    if GIVEN_PROGRAMS:
        return Path(GIVEN_PROGRAMS)
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        return _build(tmp_path_factory.mktemp("programs"))
    folder = tmp_path_factory.getbasetemp().parent / "programs"  # The workers of a run share it; the first one builds.
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder if (folder / "mooncake_client").exists() else _build(folder)


def _build(folder: Path) -> Path:
    command = ["go", "build", "-o", folder / "mooncake", "./cmd/mooncake"]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=600)
    for alias in ("mooncake_master", "mooncake_client"):
        (folder / alias).symlink_to("mooncake")
    return folder


@pytest.fixture(scope="session", autouse=True)
def security(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Sets the security mode of the run, where it has one."""
    if SECURITY:
        secure(SECURITY, request.getfixturevalue("programs") / "mooncake", tmp_path_factory.mktemp("certificates"))


# What was read is leased whatever happens on the machine between two lines of a test.
LONG_LEASES = "--default_kv_lease_ttl=600000"


class Processes:
    """Starts what a test needs and ends it, the last first."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._started: list[Any] = []

    def _keep(self, started: Any) -> Any:
        self._started.append(started)
        return started

    def master(self, *flags: str) -> Master:
        """A master; flags are added to its own."""
        return self._keep(Master(self._programs, self._folder, flags))

    def node(self, master: Master, size: str = "64MB", *flags: str) -> Node:
        """A node with memory for the pool; size is as in --global_segment_size."""
        return self._keep(Node(self._programs, self._folder, master, size, flags))

    def local_service(self, master: Master, size: str = "0", *flags: str) -> LocalService:
        """A mooncake_client for dummy clients."""
        return self._keep(LocalService(self._programs, self._folder, master, size, flags))

    def python(self, code: str, *args: str, **env: str) -> Process:
        """Another interpreter that runs the code, to be talked to by lines."""
        command = [sys.executable, "-u", "-c", code, *args]
        return self._keep(Process(command, self._folder, _with_package(env)))

    def forget_lines(self) -> None:
        """Drops what all of them have written so far."""
        for p in self._started:
            getattr(p, "process", p).lines.clear()

    def stop(self) -> None:
        """Ends everything; the first failure is raised when all have been told."""
        failures = []
        for p in reversed(self._started):
            try:
                p.stop()
            except Exception as e:  # noqa: BLE001
                failures.append(e)
        if failures:
            raise failures[0]


def _with_package(env: dict[str, str]) -> dict[str, str]:
    if INSTALLED:
        return env
    return {"PYTHONPATH": str(PACKAGE_ROOT)} | env


@pytest.fixture
def processes(programs: Path, tmp_path: Path) -> Iterator[Processes]:
    """Starts masters, nodes, local services and interpreters for one test."""
    p = Processes(programs, tmp_path)
    yield p
    p.stop()


@pytest.fixture(scope="module")
def module_processes(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """As processes, for a whole file."""
    p = Processes(programs, tmp_path_factory.mktemp("processes"))
    yield p
    p.stop()


@pytest.fixture
def master(processes: Processes) -> Master:
    """A master of this test alone, with no memory in its pool."""
    return processes.master()


@pytest.fixture
def pool(processes: Processes) -> Master:
    """A master of this test alone, whose pool has the 64 MiB of one node."""
    m = processes.master(LONG_LEASES)
    processes.node(m)
    return m


@pytest.fixture(scope="module")
def shared_pool(module_processes: Processes) -> Master:
    """The master of a pool of 256 MiB for a whole file; use keys of your own (fixture key)."""
    m = module_processes.master(LONG_LEASES)
    module_processes.node(m, "256MB")
    return m


def set_up(
    store: MooncakeDistributedStore,
    master: Master,
    segment: int = 0,
    buffer: int = 16 << 20,
    host: str = "127.0.0.1",
    **more: Any,
) -> int:
    """Calls the positional setup with what tests need."""
    return store.setup(host, "P2PHANDSHAKE", segment, buffer, "tcp", "", master.rpc, **more)


class Stores:
    """Stores of this process, closed when their fixture ends."""

    def __init__(self) -> None:
        self._made: list[MooncakeDistributedStore] = []

    def __call__(
        self,
        master: Master,
        segment: int = 0,
        buffer: int = 16 << 20,
        cls: Callable[[], MooncakeDistributedStore] | None = None,
        **more: Any,
    ) -> MooncakeDistributedStore:
        from mooncake.store import MooncakeDistributedStore

        store = (cls or MooncakeDistributedStore)()
        self._made.append(store)
        assert set_up(store, master, segment, buffer, **more) == 0, store.last_error()
        return store

    def close(self) -> None:
        """Closes them all."""
        for store in self._made:
            store.close()
        self._made.clear()


@pytest.fixture
def make_store() -> Iterator[Stores]:
    """make_store(master, segment=0, buffer=16 MiB, ...) is a store that has been set up."""
    stores = Stores()
    yield stores
    stores.close()


@pytest.fixture(scope="module")
def store(shared_pool: Master) -> Iterator[MooncakeDistributedStore]:
    """A store of the shared pool for a whole file; it contributes nothing itself."""
    stores = Stores()
    yield stores(shared_pool)
    stores.close()


_numbers = itertools.count()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key, or the beginning of keys, that no other test uses."""
    return f"{request.node.name}/{next(_numbers)}"


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run_python(code, *args, **env) runs code in another interpreter, bounded, and gives its outcome."""

    def run(code: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args], cwd=tmp_path, env=clean_environment(_with_package(env)),
            capture_output=True, text=True, timeout=2 * WAIT_S, check=False,
        )  # fmt: skip

    return run
