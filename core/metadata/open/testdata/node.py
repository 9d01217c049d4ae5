"""A node of upstream's Python package, driven over stdin and stdout.

Arguments: local name, metadata service, and an RDMA device or nothing for TCP. It prints the port of its handshake daemon and
the address of its buffer, then answers each name on stdin with the address of the first
buffer of that node, 0 where there is none.
"""
import ctypes
import mmap
import os
import sys

device = sys.argv[3]
if not device:
    os.environ["MC_FORCE_TCP"] = "1"
from mooncake.engine import TransferEngine  # noqa: E402

engine = TransferEngine()
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # The engine writes to stdout as well.
if engine.initialize(sys.argv[1], sys.argv[2], "rdma" if device else "tcp", device) != 0:
    sys.exit("initialize failed")
memory = mmap.mmap(-1, 1 << 16)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if engine.register_memory(address, len(memory)) != 0:
    sys.exit("register_memory failed")
print(engine.get_rpc_port(), address, file=out, flush=True)
for line in sys.stdin:
    print(engine.get_first_buffer_address(line.strip()), file=out, flush=True)
