"""The transfer_engine_bench console script: measures transfers between two processes."""

from typing import NoReturn

from mooncake import _binary


def main() -> NoReturn:
    """Becomes transfer_engine_bench with the arguments of this process."""
    _binary.execute("transfer_engine_bench")


if __name__ == "__main__":
    main()
