"""The mooncake console script and ``python -m mooncake``: every verb of the binary."""

from typing import NoReturn

from mooncake import _binary


def main() -> NoReturn:
    """Becomes mooncake with the arguments of this process."""
    _binary.execute("mooncake")


if __name__ == "__main__":
    main()
