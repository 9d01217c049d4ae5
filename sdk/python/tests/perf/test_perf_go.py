"""The script that measures Python beside Go; its figures are in docs/performance/python.md."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import measure
import pytest
from pools import Pools, build


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Pools]:
    if not shutil.which("go"):
        pytest.skip("Go builds the client to compare with")
    build(tmp_path)
    with Pools(tmp_path) as p:
        yield p


def test_the_script_measures_every_group(pools: Pools) -> None:
    """Each group gives a row for each kind of work, with times of all that take part."""
    small = ((2, 4 << 10),)
    m, own = pools.master(), pools.master(node=False)
    clients = {
        "python": pools.python(m), "own": pools.python(own, "--segment", str(64 << 20)), "dummy": pools.dummy(m),
    }  # fmt: skip
    rows = measure.compare(clients, "python", rounds=1, batches=small)
    assert [r["what"] for r in rows] == ["put 2 x 4 KiB", "get 2 x 4 KiB"]
    for r in rows:
        assert r["seconds"].keys() == clients.keys() and all(s > 0 for s in r["seconds"].values())
        assert r["ratio"].keys() == {"own", "dummy"}


def test_goals_are_of_rows_that_are_measured() -> None:
    """A goal is missed by a row below it, and by no other."""
    rows = {
        g: [{"what": w, "ratio": {who: 0.1}} for (h, w), (who, _) in measure.GOALS.items() if h == g]
        for g, _ in measure.GOALS
    }
    assert len(measure.missed(rows)) == len(measure.GOALS)
    assert measure.missed({"go": [{"what": "put 128 x 1 MiB", "ratio": {"python": 0.91}}]}) == []
