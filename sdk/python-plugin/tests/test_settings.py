"""Settings are decoded strictly, and a mistake is named."""

from dataclasses import dataclass, field

import pytest

from mooncake_plugin import Code, PluginError
from mooncake_plugin.settings import decode, schema


@dataclass
class Config:
    on: bool = True
    size: int = field(default=4, metadata={"minimum": 1, "maximum": 8})
    how: str = field(default="fast", metadata={"enum": ["fast", "safe"]})
    count: int = 7
    share: float = 0.5

    def validate(self):
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}, must be from 0 to 1")


def test_defaults():
    assert (
        decode(Config, b"", "evict/x")
        == decode(Config, b" \n", "evict/x")
        == decode(Config, b"{}", "evict/x")
        == Config()
    )


def test_the_schema_is_what_is_accepted():
    said = schema(Config)
    assert said["additionalProperties"] is False
    assert said["properties"]["size"] == {"type": "integer", "default": 4, "minimum": 1, "maximum": 8}
    assert said["properties"]["share"] == {"type": "number", "default": 0.5}


def test_what_is_given_counts():
    assert decode(Config, b'{"count": 9, "share": 1}', "evict/x") == Config(count=9, share=1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"size": 9}', "size is 9, must be 1 to 8"),
        (b'{"how": "slow"}', 'how is "slow", must be one of ["fast", "safe"]'),
        (b'{"cuont": 1}', 'unknown setting "cuont"; did you mean "count"?'),
        (b'{"count": true}', "count is true, want a whole number"),
        (b'{"on": 1}', "on is 1, want true or false"),
        (b'{"count": 1.5}', "count is 1.5, want a whole number"),
        (b'{"share": 2}', "share is 2.0, must be from 0 to 1"),
        (b"[1]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"share": NaN}', "NaN is not JSON"),
        (b'{"share": 1' + b"0" * 400 + b"}", "share is too large for a number"),
        (b'{"on": ' + b"[" * 500_000, "nested too deeply"),
        (b'{"on": ' + b" " * (1 << 20) + b"true}", "at most 1048576 are allowed"),
    ],
)
def test_mistakes(text, says):
    with pytest.raises(PluginError, match="evict/x: configuration: ") as e:
        decode(Config, text, "evict/x")
    assert says in str(e.value)
    assert e.value.code == Code.INVALID_PARAMS
