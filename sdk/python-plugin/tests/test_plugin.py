"""The manifest and the dataclass of the settings say the same."""

import json
from dataclasses import dataclass

import pytest

from mooncake_plugin import Plugin


@dataclass
class Config:
    count: int = 7


def manifest(**properties):
    head = {"mooncake_plugin_manifest": 1, "kind": "alloc", "name": "x", "version": "0.1.0", "api": [1]}
    return json.dumps(head | {"config_schema": {"properties": properties}})


def test_they_agree():
    made = Plugin(manifest(count={"default": 7}), Config, lambda c: c)
    assert (made.id, made.binary, made.api) == ("alloc/x", "mooncake-plugin-alloc-x", [1])
    assert made.create(b'{"count": 8}') == Config(8)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (manifest(), 'only Config has the setting "count"'),
        (manifest(count={}, other={}), 'only the manifest has the setting "other"'),
        (manifest(count={"default": 8}), 'the default of "count" is 7, the manifest says 8'),
        (manifest(count={}).replace("[1]", "[9]"), r"contract versions \[9\]"),
        (manifest(count={}).replace('"alloc"', '"transport"'), "a kind of evict, alloc, tier"),
        (None, "not one of format 1"),
    ],
)
def test_they_differ(text, says):
    with pytest.raises(ValueError, match=says):
        Plugin(text, Config, lambda c: c)
