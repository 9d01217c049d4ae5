#!/usr/bin/env python3
"""Builds the plugin: one executable file, named as the host looks for it.

The file is a zip archive that Python runs, behind a first line that names the interpreter:
that of the virtual environment in which this script runs, where the libraries are. The
manifest lies in the archive as it is, not compressed, so that the host finds it in the
bytes of the file without running it. Everything that is in the file comes from the file:
the host may run a sealed copy of it, with nothing beside it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = ("mooncake/plugin/v1/plugin.proto", "mooncake/evict/v1/evict.proto")
# The kernel reads no more of the first line.
MAX_FIRST_LINE = 255


def generate(protos: pathlib.Path, out: pathlib.Path) -> None:
    """Generate Python from the published .proto files into `out`."""
    from grpc_tools import protoc

    args = ["protoc", f"-I{protos}", f"--python_out={out}", f"--grpc_python_out={out}"]
    if protoc.main([*args, *(str(protos / p) for p in PROTOS)]) != 0:
        raise SystemExit(f"cannot generate code from the .proto files in {protos}")
    # Packages of their own, so that none of the same name elsewhere takes their place.
    for p in PROTOS:
        for folder in pathlib.PurePath(p).parents:
            if folder.name:
                (out / folder / "__init__.py").touch()


def archive(generated: pathlib.Path) -> bytes:
    """Pack manifest, program and generated code; the same input gives the same bytes."""
    files = {"__main__.py": HERE / "main.py", "python_lru/manifest.json": HERE / "manifest.json"}
    for package in ("mooncake_plugin", "python_lru"):
        files.update({f"{package}/{f.name}": f for f in (HERE / package).glob("*.py")})
    files.update({str(f.relative_to(generated)): f for f in generated.rglob("*.py")})
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w") as z:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            kind = zipfile.ZIP_STORED if name.endswith("manifest.json") else zipfile.ZIP_DEFLATED
            z.writestr(info, files[name].read_bytes(), kind)
    return buf.getvalue()


def build(out: pathlib.Path, protos: pathlib.Path, interpreter: str) -> pathlib.Path:
    """Build into the folder `out` and return the file."""
    manifest = json.loads((HERE / "manifest.json").read_text())
    # -I: nothing of the environment or of the working directory is imported.
    first = f"#!{interpreter} -I\n".encode()
    if len(first) > MAX_FIRST_LINE or " " in interpreter:
        raise SystemExit(
            f"the interpreter {interpreter} does not fit into a first line: make a virtual environment elsewhere"
        )
    with tempfile.TemporaryDirectory() as tmp:
        generate(protos, pathlib.Path(tmp))
        body = archive(pathlib.Path(tmp))
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
    p = argparse.ArgumentParser(description="Build mooncake-plugin-evict-python-lru.")
    p.add_argument("--out", type=pathlib.Path, default=HERE / "dist", help="folder for the program (default: dist)")
    p.add_argument(
        "--proto", type=pathlib.Path, default=HERE / "../../sdk/proto", help="folder with the published .proto files"
    )
    p.add_argument("--python", default=sys.executable, help="interpreter that runs the program (default: this one)")
    a = p.parse_args()
    sys.stdout.write(f"{build(a.out, a.proto.resolve(), a.python)}\n")


if __name__ == "__main__":
    main()
