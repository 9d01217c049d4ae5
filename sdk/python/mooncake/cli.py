"""The mooncake_master console script: the pool's master."""

from typing import NoReturn

from mooncake import _binary


def main() -> NoReturn:
    """Becomes mooncake_master with the arguments of this process."""
    _binary.execute("mooncake_master")


if __name__ == "__main__":
    main()
