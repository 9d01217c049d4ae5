"""The log: one JSON object a line to standard error, which the host makes its own."""

from __future__ import annotations

import datetime
import json
import logging
import sys

_NAMES = {logging.DEBUG: "DEBUG", logging.INFO: "INFO", logging.WARNING: "WARN", logging.ERROR: "ERROR"}
MAX_LINE = 15 << 10
"""The host cuts longer lines."""


class Lines(logging.Formatter):
    """Attributes are given as `extra={"attrs": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        level = max((n for n in _NAMES if n <= record.levelno), default=logging.DEBUG)
        when = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        out = {"time": when.isoformat(), "level": _NAMES[level], "msg": record.getMessage()}
        out.update(getattr(record, "attrs", {}))
        if record.exc_info:
            out["traceback"] = self.formatException(record.exc_info)[-4096:]
        return json.dumps(out, default=str)[:MAX_LINE]


def logger(level: str) -> logging.Logger:
    """Make the log at a level of the host: DEBUG, INFO, WARN or ERROR."""
    log = logging.getLogger("mooncake")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    log.handlers = [handler]
    log.propagate = False
    log.setLevel({name: n for n, name in _NAMES.items()}.get(level.upper(), logging.INFO))
    return log
