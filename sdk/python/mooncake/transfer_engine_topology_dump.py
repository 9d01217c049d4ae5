"""Prints which network devices of this machine a node would use for which memory."""

import argparse
import os
import subprocess
import sys

from mooncake import _absent, _binary

_CUSTOM = "MC_CUSTOM_TOPO_JSON"
_TIMEOUT = 60.0  # seconds

__getattr__ = _absent.attributes("transfer_engine_topology_dump")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """The arguments of the program, or of argv."""
    parser = argparse.ArgumentParser(
        prog="transfer_engine_topology_dump",
        description="Print the topology matrix of this machine: the devices for each kind of memory, nearest first. "
        "'mooncake topology' shows more.",
    )
    parser.add_argument("--device-name", default="", help="only these RDMA devices, separated by commas")
    parser.add_argument(
        "--backend",
        choices=("auto", "te", "tent"),
        default="auto",
        help="auto and te mean the transfer engine; tent is not part of this package",
    )
    parser.add_argument("--use-custom-topo", action="store_true", help=f"the matrix in the file that {_CUSTOM} names")
    parser.add_argument("--custom-topo-json", metavar="PATH", help="the matrix in this file")
    return parser.parse_args(argv)


def _fail(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 1


def main(argv: list[str] | None = None) -> int:
    """Writes one line to standard output and returns 0, or says on standard error what went wrong and returns 1."""
    args = parse_args(argv)
    if args.backend == "tent":
        return _fail("this package has no TENT backend; use --backend te")
    custom = args.custom_topo_json
    if custom is None and args.use_custom_topo:
        custom = os.environ.get(_CUSTOM, "")
        if not custom:
            return _fail(f"--use-custom-topo needs {_CUSTOM}; set it to a file, or give --custom-topo-json PATH")
    # Without either flag the machine decides, whatever the environment says.
    env = {name: value for name, value in os.environ.items() if name != _CUSTOM}
    command = ["topology", "-o", "matrix", "--device-name", args.device_name]
    if custom is not None:
        if not os.path.isfile(custom):
            return _fail(f"no topology: {custom!r} is not a file")
        command += ["--custom-topo-json", custom]
    try:
        done = _binary.capture(command, env, _TIMEOUT)
    except (_binary.BinaryMissing, OSError, subprocess.TimeoutExpired) as err:
        return _fail(f"no topology: {err}")
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        return _fail(f"no topology: '{' '.join(command)}' ended with {done.returncode}")
    mode = "discover" if custom is None else f"custom ({custom})"
    print(f"Local topology [te/{mode}]: {done.stdout.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
