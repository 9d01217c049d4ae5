"""Runs probe.py for one implementation and collects its answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUN_S = 450
"""Bound on one run of one group."""
MOST_ENDS = 40


def answers(python: str, master: Path, group: str, cwd: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """The answer of each case of a group; "ends with SIGxxx" of a case that ends the process."""
    found: dict[str, Any] = {}
    for _ in range(MOST_ENDS):
        skip = [a for case in found if str(found[case]).startswith("ends with") for a in ("--skip", case)]
        process = subprocess.run(
            [python, str(HERE / "probe.py"), group, "--master", str(master), *skip],
            cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=RUN_S, check=False,
        )  # fmt: skip
        begun = None
        for line in process.stdout.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue  # an implementation may write there, too
            if "end" in said:
                return found
            if "begin" in said:
                begun = said["begin"]
            elif "case" in said:
                found[said["case"]], begun = said["answer"], None
        if begun is None or process.returncode >= 0:
            raise AssertionError(f"{python} did not end group {group!r} in case {begun!r}:\n{process.stderr[-4000:]}")
        found[begun] = f"ends with {signal.Signals(-process.returncode).name}"
    raise AssertionError(f"{MOST_ENDS} cases of group {group!r} end {python}")


def one_a_line(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The answers as JSON, with a line for each case."""
    groups = []
    for group, cases in found.items():
        lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(answer)}" for case, answer in cases.items())
        groups.append(f" {json.dumps(group)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(groups) + "\n}\n"


def main() -> None:
    """Writes the answers of the implementation of an interpreter: runner.py PYTHON MASTER FILE [GROUP]..."""
    import cases

    python, master, file, *groups = sys.argv[1:]
    target = Path(file)
    found = json.loads(target.read_text()) if target.exists() else {}
    for group in groups or cases.GROUPS:
        found[group] = answers(python, Path(master), group, Path.cwd(), os.environ)
    target.write_text(one_a_line(found))


if __name__ == "__main__":
    main()
