"""Loading: when it happens, and what is said where it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

STATE = """
def state():
    threads = os.listdir("/proc/self/task")
    files = [f for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)]
    maps = open("/proc/self/maps").read()
    return len(threads), len(files), "libmooncake" in maps
"""


def test_importing_loads_nothing(script: Callable[..., str]) -> None:
    assert "ok" in script(
        STATE
        + """
before = state()
native = load(folder, name)
assert state() == before == (1, before[1], False), (state(), before)
assert native.library() == os.path.join(folder, "libmooncake.so")
# What needs no library loads none.
assert native.loaded() is False
assert native.last_error(1) == ""
native.close_all(); native.store_free(1); native.engine_free(1)
native.memory_read(0, 0)
for wrong in ((), (1,), (1, 2.0)):
    try: native.store_unregister(*wrong)
    except TypeError: pass
    else: raise AssertionError
assert state() == before
# The first call that needs it does.
assert native.store_new() == 1
assert native.loaded() is True
assert state()[2]
print("ok")
"""
    )


def test_many_threads_load_it_once(script: Callable[..., str]) -> None:
    assert "ok" in script(
        """
import threading
native = load(folder, name)
start, handles = threading.Barrier(8), []
def first():
    start.wait()
    handles.append(native.store_new())
threads = [threading.Thread(target=first) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert sorted(handles) == list(range(1, 9)), handles
print("ok")
"""
    )


FAILS = """
native = load(folder, name)
for _ in range(2):  # and again the same
    try:
        native.store_new()
    except ImportError as e:
        assert e.name == "mooncake" and e.path == native.library(), (e.name, e.path)
        assert native.library() in str(e), e
        text = str(e)
    else:
        raise AssertionError("loaded")
    assert not native.loaded()
native.store_free(1); native.close_all()
print(text)
"""


def test_missing(script: Callable[..., str], extension_folder: Path) -> None:
    text = script(FAILS, extension_folder)
    assert "cannot open shared object file" in text
    assert "The package was installed without it." in text
    assert "make pydev" in text


def test_a_library_that_comes_later_is_loaded(
    script: Callable[..., str], extension_folder: Path, fake_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "late"
    shutil.copytree(extension_folder, folder)
    more = (
        f"import shutil; shutil.copy({str(fake_folder / 'libmooncake.so')!r}, folder); assert native.store_new() == 1"
    )
    script(FAILS + more, folder)


def test_damaged(script: Callable[..., str], extension_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(extension_folder, folder)
    (folder / "libmooncake.so").write_bytes(b"not a library" * 100)
    assert "It was built for another kind of machine, or is damaged." in script(FAILS, folder)


def test_another_abi(script: Callable[..., str], build_fake: Callable[..., Path]) -> None:
    text = script(FAILS, build_fake("-DFAKE_ABI=77"))
    assert "its calls are of version 77, not " in text
    assert "Library and extension are of different builds." in text


def test_a_missing_function(script: Callable[..., str], build_fake: Callable[..., Path]) -> None:
    text = script(FAILS, build_fake("-Dmck_engine_probe=mck_engine_no_probe"))
    assert "undefined symbol: mck_engine_probe" in text
    assert "Library and extension are of different builds." in text


def test_no_thread_local_memory_is_left(script: Callable[..., str], build_fake: Callable[..., Path]) -> None:
    text = script(FAILS, build_fake("-DFAKE_TLS=1048576"))
    assert "static TLS block" in text
    assert "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=" in text


def test_the_c_library_is_too_old(script: Callable[..., str], build_fake: Callable[..., Path], tmp_path: Path) -> None:
    """A library that wants a version of the C library that is not there."""
    folder = tmp_path / "old"
    shutil.copytree(build_fake(), folder)
    library = folder / "libmooncake.so"
    data = library.read_bytes()
    if b"GLIBC_2.2.5" not in data:
        pytest.skip("the versions of this machine's symbols are others")
    # Versions are compared by a hash: with that of the text below, the text is looked up.
    old, new = b"GLIBC_2.2.5", b"GLIBC_9.9.9"
    data = data.replace(old, new).replace(elf_hash(old), elf_hash(new))
    library.write_bytes(data)
    text = script(FAILS, folder)
    assert "GLIBC_9.9.9" in text
    assert "The C library of this system is older" in text


def elf_hash(name: bytes) -> bytes:
    h = 0
    for c in name:
        h = (h << 4) + c
        g = h & 0xF0000000
        h = (h ^ (g >> 24)) & ~g & 0xFFFFFFFF
    return h.to_bytes(4, "little")
