"""What upstream's package stores; golden/objects.json tells which, and how it was captured."""

from __future__ import annotations

import json
from pathlib import Path

_GOLDEN = json.loads((Path(__file__).parent / "golden" / "objects.json").read_text())

METADATA: list[dict] = _GOLDEN["metadata"]
OBJECTS: list[dict] = _GOLDEN["objects"]


def objects_of(case: str) -> dict[str, bytes]:
    """The objects of one case, by key; their keys begin with "k"."""
    return {o["key"]: bytes.fromhex(o["hex"]) for o in OBJECTS if o["case"] == case}
