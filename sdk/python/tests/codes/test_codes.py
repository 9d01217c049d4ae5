"""What every call answers where it cannot work, compared with upstream's answers case by case.

testdata/upstream.json has what upstream's wheel answered, differences.py where ours is another on purpose. With
MOONCAKE_UPSTREAM_PYTHON, a Python that has the wheel (see test/interop/doc.go), the wheel is asked again beside ours;
runner.py records its answers anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import INSTALLED, PACKAGE_ROOT, UPSTREAM_PYTHON
from processes import clean_environment

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases
import differences
import runner

RECORDED: dict[str, dict[str, Any]] = json.loads((HERE / "testdata" / "upstream.json").read_text())


def without_ipv6(recorded: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The recorded answers, on a machine without IPv6 only those to cases that were asked there."""
    return {case: answer for case, answer in recorded.items() if case in asked or "::" not in case}


@pytest.mark.parametrize("group", cases.GROUPS)
def test_answers(group: str, programs: Path, tmp_path: Path) -> None:
    path = {} if INSTALLED else {"PYTHONPATH": str(PACKAGE_ROOT)}
    environment = clean_environment(path) | {"MOONCAKE_STORE_MAX_WAIT_TIME": "1s"}  # for what no master is there for
    got = runner.answers(sys.executable, programs / "mooncake_master", group, tmp_path, environment)
    ours = {case: answer for case, answer in differences.answers_of(group).items() if case in RECORDED[group]}
    wanted = without_ipv6(RECORDED[group] | ours, got)
    assert {c: (got.get(c, "not asked"), w) for c, w in wanted.items() if got.get(c, "not asked") != w} == {}
    assert set(got) == set(wanted), "cases that are not recorded"


@pytest.mark.parametrize("group", cases.GROUPS)
def test_recorded_answers(group: str, tmp_path: Path) -> None:
    """The control: the wheel answers as it did when its answers were recorded."""
    if not UPSTREAM_PYTHON:
        pytest.skip("MOONCAKE_UPSTREAM_PYTHON names no Python with upstream's wheel; see test/interop/doc.go")
    master = Path(UPSTREAM_PYTHON).parent / "mooncake_master"
    got = runner.answers(UPSTREAM_PYTHON, master, group, tmp_path, clean_environment())
    wanted = without_ipv6(RECORDED[group], got)
    assert {c: (got.get(c, "not asked"), w) for c, w in wanted.items() if got.get(c, "not asked") != w} == {}


def test_differences_are_differences() -> None:
    """Each names a case that upstream answers otherwise, in some group, and says why and for whom."""
    assert set(RECORDED) == set(cases.GROUPS)
    for d in differences.DIFFERENCES:
        assert d.reason and d.consumer
        for case, answer in d.answers.items():
            recorded = [RECORDED[g][case] for g in d.groups if case in RECORDED[g]]
            assert recorded and all(r != answer for r in recorded), case
