"""What the handlers of MooncakeStoreService share: answers, bodies, and arguments."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mooncake import _aiohttp

logger = logging.getLogger(__name__)

MAX_GRACE = 3600  # seconds
_MAX_IDS = 4096

Handler = Callable[[Any], Awaitable[Any]]


class Refused(Exception):
    """A request that is answered with an error: a status, and the text of it."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.body = {"error": text, **more}


class Service(Protocol):
    """What handlers use of the service they are part of."""

    store: Any
    config: Any
    current_mode: str
    mounted_segment_ids: list[str]
    last_mount_info: dict[str, Any]
    _state_lock: asyncio.Lock


def answer(body: Any, status: int = 200) -> Any:
    """answer(body, status: int = 200) -> aiohttp.web.Response"""
    return _aiohttp.web("MooncakeStoreService").Response(
        status=status, text=json.dumps(body), content_type="application/json"
    )


def success(**more: Any) -> Any:
    """success(**more) -> aiohttp.web.Response"""
    return answer({"status": "success", **more})


def handler(failed: str) -> Callable[[Callable[[Any, Any], Awaitable[Any]]], Any]:
    """handler(failed: str)

    Makes a coroutine a handler whose every failure is an answer: what it refuses as it says, and what
    it does not expect as 500 with the text ``failed``.
    """

    def wrap(serve: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def served(self: Any, request: Any) -> Any:
            try:
                return await serve(self, request)
            except Refused as err:
                return answer(err.body, err.status)
            except Exception as err:
                status = getattr(err, "status", 500)  # aiohttp's own errors have one: 413 for a large body
                if status >= 500:
                    logger.exception("store service: %s", failed)
                return answer({"error": f"{failed}: {err}", "detail": str(err)}, status)

        served.__name__, served.__doc__ = serve.__name__, serve.__doc__
        return served

    return wrap


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """call(function, *args)

    Calls the store in a thread, so that a slow call keeps no other request waiting.
    """
    return await asyncio.to_thread(function, *args)


async def fields(request: Any, malformed: int = 500) -> dict[str, Any]:
    """fields(request, malformed: int = 500) -> dict[str, Any]

    The body's JSON object; Refused with the status ``malformed`` for anything else.
    """
    try:
        body = await request.json()
    except ValueError as err:
        raise Refused(malformed, f"Invalid JSON body: {err}", detail=str(err)) from err
    if not isinstance(body, dict):
        raise Refused(malformed, "Invalid JSON body", detail="it must be an object")
    return body


def whole(body: dict[str, Any], name: str, least: int, text: str) -> int:
    """whole(body, name: str, least: int, text: str) -> int

    A whole number that is not below ``least``; Refused with 400 and the text for another.
    """
    value = body.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < least or value >= 1 << 63:
        raise Refused(400, text)
    return value


def grace(body: dict[str, Any]) -> int:
    """grace(body) -> int

    grace_period_seconds, 0 where it is not given.
    """
    text = f"Invalid grace_period_seconds: must be an integer from 0 to {MAX_GRACE}"
    seconds = whole(body, "grace_period_seconds", 0, text)
    if seconds > MAX_GRACE:
        raise Refused(400, text)
    return seconds


def segment_ids(body: dict[str, Any]) -> list[str]:
    """segment_ids(body) -> list[str]

    segment_ids, a list of strings or one string.
    """
    ids = body.get("segment_ids")
    if isinstance(ids, str) and ids:
        ids = [ids]
    if not isinstance(ids, list) or not ids or len(ids) > _MAX_IDS or not all(isinstance(i, str) for i in ids):
        raise Refused(400, f"Missing segment_ids: must be 1 to {_MAX_IDS} strings")
    return ids


def where(service: Service, body: dict[str, Any]) -> tuple[str, str]:
    """where(service, body) -> tuple[str, str]

    protocol and location of memory to mount.
    """
    protocol, location = body.get("protocol") or service.config.protocol, body.get("location") or ""
    if not isinstance(protocol, str) or not isinstance(location, str):
        raise Refused(400, "Invalid parameters: protocol and location must be strings")
    return protocol, location
