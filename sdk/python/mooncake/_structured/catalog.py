"""DataProtoCatalogTransfer: a catalog and a store together. Private; import it from mooncake.dataproto_catalog."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .refs import export_dataproto_ref, import_dataproto_ref

_log = logging.getLogger("mooncake.dataproto_catalog")
_RESULTS = "_mooncake_catalog_results"


class DataProtoCatalogTransfer:
    """Puts fragments with transfer, a MooncakeBundleTransfer, and publishes them in a catalog elsewhere.

    catalog_call(name, *args, **kwargs) calls the method name of the catalog. A publication that fails is called
    again; one that fails then, too, stays pending, and put, append, drain and close try it first. Calls that
    publish or clean up are made one at a time.
    """

    __module__ = "mooncake.dataproto_catalog"

    def __init__(self, transfer: Any, catalog_call: Callable[..., Any]) -> None:
        self.transfer = transfer
        self._catalog_call = catalog_call
        self._pending: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._pending_acks: list[str] = []
        self._pending_results: list[Any] = []
        self._lock = threading.RLock()

    def put(
        self,
        data: Any,
        *,
        partition: str,
        keys: Sequence[str],
        tags: Sequence[Mapping[str, Any]] | None = None,
        **put_kwargs: Any,
    ) -> dict[str, Any]:
        """Stores a batch, a row for each key, and publishes it; the answer of the catalog's publish."""
        from ..dataproto_catalog import names

        wanted = names(keys, "keys")
        with self._lock:
            self._retry()
            put_kwargs.setdefault("type", "dataproto")
            ref = self.transfer.put(data, partition=partition, **put_kwargs)
            if ref.batch_size != len(wanted):
                self.transfer.cleanup_dataproto(ref)
                raise ValueError(f"DataProto batch size {ref.batch_size} does not match {len(wanted)} logical keys")
            handle = export_dataproto_ref(ref)
            how = {"tags": tags, "handle": handle}
            return self._publish(("publish", uuid.uuid4().hex, partition, wanted), how)

    def append(
        self,
        fragment_id: str,
        handle: Mapping[str, Any],
        data: Any,
        *,
        partition: str,
        keys: Sequence[str],
        stage: str,
        **append_kwargs: Any,
    ) -> dict[str, Any]:
        """Stores more fields of a fragment and publishes them. ValueError where handle is not the newest."""
        from ..dataproto_catalog import names, same

        wanted = names(keys, "keys")
        with self._lock:
            self._retry()
            previous = import_dataproto_ref(handle)
            found = self._catalog_call("resolve", partition, wanted, list(previous.field_index))
            now = found["handles"].get(fragment_id)
            if now is None or not same(import_dataproto_ref(now), previous):
                raise ValueError(f"stale DataProto append handle: {fragment_id!r}")
            added = self.transfer.append_dataproto_fields(handle, data, stage=stage, **append_kwargs)
            how = {"previous_handle": handle, "handle": export_dataproto_ref(added)}
            answer = self._publish(("publish_append", uuid.uuid4().hex, fragment_id, partition, wanted), how)
            if "append_rejected" in answer:
                self.transfer.cleanup_dataproto_append(handle, added)
                raise ValueError(answer["append_rejected"])
            return answer

    def resolve(self, partition: str, keys: Sequence[str], fields: Sequence[str] | None = None) -> dict[str, Any]:
        """The catalog's resolve with pin; release_read ends the read."""
        return self._catalog_call("resolve", partition, keys, fields, pin=True)

    def release_read(self, token: int) -> None:
        """Ends a read, and removes what is retired by that."""
        self._clean(self._catalog_call("release_read", token))

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """The catalog's list."""
        return self._catalog_call("list", partition)

    def remove(self, partition: str, keys: Sequence[str]) -> None:
        """Forgets keys, and removes what is retired by that."""
        self._clean(self._catalog_call("remove", partition, keys))

    def attach_results(self, output: Any, results: Sequence[Any]) -> None:
        """Keeps results, whose memory output uses, until release_result(output)."""
        if not results:
            return
        setattr(output, _RESULTS, list(results))

    def release_result(self, output: Any) -> None:
        """Gives back the memory of the results attached to output."""
        self.discard_results(getattr(output, _RESULTS), strict=True)
        setattr(output, _RESULTS, [])

    def discard_results(self, results: Sequence[Any], *, strict: bool = False) -> None:
        """Gives back the memory of results. One that is in use is tried again later; with strict it is an error."""
        for i, result in enumerate(results):
            try:
                self.transfer.release_result(result)
            except Exception:
                if strict:
                    raise
                _log.warning("the memory of result %d cannot be given back yet", i, exc_info=True)
                self._pending_results.append(result)

    def drain(self) -> None:
        """Forgets all keys, takes no more, and removes all managed fragments."""
        with self._lock:
            self._retry()
            self._clean(self._catalog_call("drain"))

    def close(self) -> None:
        """Finishes what is pending; RuntimeError where that fails."""
        with self._lock:
            self._retry()
            pending, self._pending_results = self._pending_results, []
            self.discard_results(pending, strict=True)

    def _publish(self, call: tuple[Any, ...], how: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._catalog_call(*call, **how)
        except Exception:  # noqa: BLE001 - whatever the call of the host raises
            _log.warning("a publication in the DataProto catalog failed; it is called again", exc_info=True)
            try:
                answer = self._catalog_call(*call, **how)
            except (TypeError, ValueError):
                if call[0] == "publish":  # the catalog refused it, and a third try would not help
                    self.transfer.cleanup_dataproto(how["handle"])
                raise
            except Exception:
                self._pending.append((call, how))
                raise
        self._done(call[1], answer)
        return answer

    def _done(self, operation: str, answer: Mapping[str, Any]) -> None:
        try:
            self._catalog_call("ack_publication", operation)
        except Exception:  # noqa: BLE001
            _log.warning("the DataProto catalog keeps the answer of operation %s for now", operation, exc_info=True)
            self._pending_acks.append(operation)
        self._clean(answer)

    def _clean(self, answer: Mapping[str, Any]) -> None:
        """Removes retired fragments. One that cannot be removed stays retired in the catalog and comes again."""
        removed = []
        with self._lock:
            for handle in answer.get("retired_handles", ()):
                try:
                    self.transfer.cleanup_dataproto(handle)
                except Exception:  # noqa: BLE001
                    _log.warning("a retired DataProto fragment cannot be removed yet", exc_info=True)
                else:
                    removed.append(handle)
            if removed:
                self._catalog_call("ack_retired", removed)

    def _retry(self) -> None:
        for acknowledged in list(self._pending_acks):
            self._catalog_call("ack_publication", acknowledged)
            self._pending_acks.remove(acknowledged)
        for item in list(self._pending):
            call, how = item
            try:
                answer = self._catalog_call(*call, **how)
            except Exception as e:
                raise RuntimeError(
                    f"failed to publish pending DataProto fragment for {len(self._pending)} item(s)"
                ) from e
            self._pending.remove(item)
            self._done(call[1], answer)
