"""The mooncake_client console script: a client that serves other processes of this host."""

from typing import NoReturn

from mooncake import _binary


def main() -> NoReturn:
    """Becomes mooncake_client with the arguments of this process."""
    _binary.execute("mooncake_client")


if __name__ == "__main__":
    main()
