"""Builds a plugin: one executable file, named as the host looks for it.

    python -m mooncake_plugin.build [FOLDER]

FOLDER holds one package with a manifest.json, whose function `main` is the program. The file is a zip
archive that Python runs, behind a first line that names the interpreter: that of the virtual environment
in which this module runs, where the libraries are. The manifest lies in the archive as it is, not
compressed, so that the host finds it in the bytes of the file without running it. The archive has the
plugin's package and this one: the host may run a sealed copy of it, with nothing beside it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import sys
import zipfile

from .protocol import _compiled

# The kernel reads no more of the first line.
MAX_FIRST_LINE = 255


def archive(package: pathlib.Path) -> bytes:
    """Pack the plugin and this package; the same input gives the same bytes."""
    here = pathlib.Path(__file__).resolve().parent
    files = {f"{here.name}/{f.name}": f.read_bytes() for f in here.glob("*.py")}
    files[f"{here.name}/protocol.binpb"] = _compiled()
    for f in package.rglob("*"):
        if f.is_file() and "__pycache__" not in f.parts:
            files[f"{package.name}/{f.relative_to(package).as_posix()}"] = f.read_bytes()
    files["__main__.py"] = f"from {package.name} import main\n\nmain()\n".encode()
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w") as z:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            kind = zipfile.ZIP_STORED if name.endswith("manifest.json") else zipfile.ZIP_DEFLATED
            z.writestr(info, files[name], kind)
    return buf.getvalue()


def build(folder: pathlib.Path, out: pathlib.Path, interpreter: str) -> pathlib.Path:
    """Build into the folder `out` and return the file."""
    manifests = sorted(folder.glob("*/manifest.json"))
    if len(manifests) != 1:
        raise SystemExit(f"{folder} has {len(manifests)} packages with a manifest.json, want one")
    manifest = json.loads(manifests[0].read_text())
    # -I: nothing of the environment or of the working directory is imported.
    first = f"#!{interpreter} -I\n".encode()
    if len(first) > MAX_FIRST_LINE or " " in interpreter:
        raise SystemExit(
            f"the interpreter {interpreter} does not fit into a first line: make a virtual environment elsewhere"
        )
    body = archive(manifests[0].parent)
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"mooncake-plugin-{manifest['kind']}-{manifest['name']}"
    # A new file under the old name: a host that runs the old one is not disturbed.
    fresh = target.with_suffix(".new")
    fresh.write_bytes(first + body)
    fresh.chmod(0o755)
    os.replace(fresh, target)
    return target


def main() -> None:
    """Build as the flags say."""
    p = argparse.ArgumentParser(prog="python -m mooncake_plugin.build", description="Build a plugin of Mooncake.")
    p.add_argument("folder", type=pathlib.Path, nargs="?", default=pathlib.Path(), help="folder of the module")
    p.add_argument("--out", type=pathlib.Path, help="folder for the program (default: FOLDER/bin)")
    p.add_argument("--python", default=sys.executable, help="interpreter that runs the program (default: this one)")
    a = p.parse_args()
    sys.stdout.write(f"{build(a.folder.resolve(), a.out or a.folder / 'bin', a.python)}\n")


if __name__ == "__main__":
    main()
