"""A target or a client of test/netem over the class TransferEngine, of whichever package is installed.

Takes the JSON of a member as its argument. Prints a line of JSON when it is ready and one for each line of
its standard input; ends with its input.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time

from mooncake.engine import TransferEngine

REQUESTS = 8
REPEAT = 1 << 20


def pattern(seed: str, size: int) -> bytes:
    """Bytes that only this seed gives."""
    block = random.Random(seed).randbytes(min(REPEAT, size))
    return (block * (size // len(block) + 1))[:size]


class Member:
    def __init__(self, told: dict) -> None:
        self.told = told
        self.each = REQUESTS * told["Size"]
        self.size = self.each * (told["Clients"] if told["Role"] == "target" else 1)
        self.memory = mmap.mmap(-1, self.size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.engine = TransferEngine()
        for name, code in (
            ("initialize", self.engine.initialize(told["Host"], "P2PHANDSHAKE", told["Transport"], "")),
            ("register_memory", self.engine.register_memory(self.address, self.size)),
        ):
            if code != 0:
                raise SystemExit(f"{name} returned {code}")

    def ready(self) -> dict:
        if self.told["Role"] != "target":
            return {}
        for client in range(self.told["Clients"]):
            self.memory[client * self.each : (client + 1) * self.each] = pattern(f"read/{client}", self.each)
        segment = f"{self.told['Host']}:{self.engine.get_rpc_port()}"
        return {"Peer": {"Segment": segment, "Addr": self.address}}

    def differing(self, offset: int, seed: str) -> int:
        """How many requests' bytes differ from those of the seed."""
        want, size = pattern(seed, self.each), self.told["Size"]
        return sum(
            self.memory[offset + at : offset + at + size] != want[at : at + size] for at in range(0, self.each, size)
        )

    def do(self, command: str) -> dict:
        clients, number = self.told["Clients"], self.told["Number"]
        if command == "check":
            wrong = sum(self.differing(i * self.each, f"write/{i}") for i in range(clients))
            return {"Requests": clients * REQUESTS, "Wrong": wrong}
        if command == "prepare":
            self.memory[:] = pattern(f"write/{number}", self.each)
            return {}
        peer, size = self.told["Peer"], self.told["Size"]
        move = self.engine.batch_transfer_sync_write if command == "write" else self.engine.batch_transfer_sync_read
        offsets = range(0, self.each, size)
        begin = time.monotonic()
        code = move(
            peer["Segment"],
            [self.address + at for at in offsets],
            [peer["Addr"] + number * self.each + at for at in offsets],
            [size] * REQUESTS,
        )
        seconds = time.monotonic() - begin
        if code != 0:  # One answer for all.
            return {"Requests": REQUESTS, "Failed": {str(code): REQUESTS}, "Seconds": seconds}
        wrong = self.differing(0, f"read/{number}") if command == "read" else 0
        return {"Requests": REQUESTS, "Wrong": wrong, "Seconds": seconds}


def main() -> None:
    # Libraries may print to the standard output; answers go to a descriptor of their own.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    member = Member(json.loads(sys.argv[1]))
    print(json.dumps(member.ready()), file=out)
    for line in sys.stdin:
        print(json.dumps(member.do(line.strip())), file=out)
    out.flush()
    os._exit(0)  # Without farewells over the link.


main()
