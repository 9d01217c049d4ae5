"""The routes of MooncakeStoreService for objects."""

from typing import Any

from mooncake import _aiohttp
from mooncake._rest import Refused, answer, call, fields, handler, success


class Objects:
    """Part of MooncakeStoreService."""

    store: Any

    @handler("PUT operation failed")
    async def handle_put(self, request: Any) -> Any:
        """PUT /api/put {"key", "value"}: stores the text as UTF-8; an existing key is left as it is."""
        body = await fields(request)
        key, value = body.get("key"), body.get("value")
        if not key or value is None:
            raise Refused(400, "Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str):
            raise Refused(500, "PUT operation failed", detail="key and value must be strings")
        code = await call(self.store.put, key, value.encode())
        if code != 0:
            raise Refused(500, "PUT operation failed", error_code=code)
        return success()

    @handler("GET operation failed")
    async def handle_get(self, request: Any) -> Any:
        """GET /api/get/{key}: the bytes, 404 for an object that is not there, 500 where that cannot be told."""
        key = request.match_info["key"]
        await self._must_exist(key)
        value = await call(self.store.get, key)
        if value is None:
            raise Refused(500, "GET operation failed")
        if not value:  # an empty object, or one that is gone by now, or cannot be read
            await self._must_exist(key)
            size = await call(self.store.get_size, key) if hasattr(self.store, "get_size") else 0
            if isinstance(size, int) and size > 0:
                raise Refused(500, "GET operation failed", detail=f"none of the {size} bytes could be read")
        return _aiohttp.web("MooncakeStoreService").Response(body=value, content_type="application/octet-stream")

    async def _must_exist(self, key: str) -> None:
        there = await call(self.store.is_exist, key)
        if there < 0:
            raise Refused(500, "Exist check failed", error_code=there)
        if there == 0:
            raise Refused(404, "Key not found")

    @handler("Exist check failed")
    async def handle_exist(self, request: Any) -> Any:
        """GET /api/exist/{key}: {"exists": bool}."""
        there = await call(self.store.is_exist, request.match_info["key"])
        if there < 0:
            raise Refused(500, "Exist check failed", error_code=there)
        return answer({"exists": there == 1})

    @handler("Remove operation failed")
    async def handle_remove(self, request: Any) -> Any:
        """DELETE /api/remove/{key}: fails for an object that somebody reads."""
        code = await call(self.store.remove, request.match_info["key"])
        if code != 0:
            raise Refused(500, "Remove operation failed", error_code=code)
        return success()

    @handler("RemoveAll operation failed")
    async def handle_remove_all(self, request: Any) -> Any:
        """DELETE /api/remove_all: removes what nobody reads, and says how many."""
        count = await call(self.store.remove_all)
        if count < 0:
            raise Refused(500, "RemoveAll operation failed", error_code=count)
        return answer({"status": f"success removed {count} keys"})
