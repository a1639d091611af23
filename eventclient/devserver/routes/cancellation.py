"""Many runs cancelled with one request."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from eventclient.devserver.account import Account, account_of
from eventclient.devserver.admission import is_identifier
from eventclient.devserver.engine import Engine
from eventclient.devserver.requests import CODE_INVALID_REQUEST, read_map, refusal
from eventclient.devserver.ruling import STATUSES
from eventclient.devserver.store import RunQuery, Store
from eventclient.model.lifecycle import Refusal
from eventclient.wire import spec
from eventclient.wire.codec import encode_value
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Written

from .route import API_PREFIX, Route

logger = logging.getLogger("eventclient.devserver")

MAX_RUNS: Final = 500
"""Most runs of one request. Source: `@workflow/world` 5.0.0-beta.37."""
CODE_INTERNAL_ERROR: Final = "internal-error"

_SUMMARY: Final[Mapping[str, str]] = {
    "cancelled": "cancelled",
    "already_cancelled": "alreadyCancelled",
    "not_cancellable": "notCancellable",
    "not_found": "notFound",
    "failed": "failed",
}
"""What one run met -> where the summary counts it. Source: `@workflow/world` 5.0.0-beta.37."""


class CancellationRoutes:
    """One route.

    Args:
        engine: cancels the runs, each by itself: what one meets does not touch the others.
        store: opened.
    """

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine = engine
        self._store = store

    def table(self) -> list[Route]:
        """The route."""
        return [Route("POST", f"{API_PREFIX}/v4/runs/cancel", "bulk-cancel", self.cancel)]

    async def cancel(self, request: web.Request) -> web.Response:
        """One result for each run, in the order asked for."""
        body = await read_map(request)
        run_ids = _read_run_ids(body)
        posted = PostedEvent("run_cancelled", _read_reason(body), b"")
        account = account_of(request)
        # Together they share commits.
        results = await asyncio.gather(*(self._cancel(run_id, posted, account) for run_id in run_ids))
        counts = Counter(result["outcome"] for result in results)
        summary = {name: counts[outcome] for outcome, name in _SUMMARY.items()}
        answer = {"summary": {"requested": len(run_ids), **summary}, "results": results}
        return web.Response(body=encode_value(answer), content_type=spec.CBOR_CONTENT_TYPE)

    async def _cancel(self, run_id: str, posted: PostedEvent, account: Account) -> dict[str, Any]:
        if not is_identifier(run_id):
            return {"runId": run_id, "outcome": "not_found"}
        try:
            outcome = await self._outcome(run_id, posted, account)
        except Exception:
            logger.exception("run %s could not be cancelled", run_id)
            outcome = {"outcome": "failed", "code": CODE_INTERNAL_ERROR, "retryable": True}
        return {"runId": run_id, **outcome}

    async def _outcome(self, run_id: str, posted: PostedEvent, account: Account) -> dict[str, Any]:
        result = await self._engine.create(run_id, posted)
        account.tell(posted, result)
        if isinstance(result, Written):
            return {"outcome": "cancelled"}
        listed = await self._store.read_runs(RunQuery(run_id=run_id))
        if not listed:
            return {"outcome": "not_found"}
        if result.status != STATUSES[Refusal.CONFLICT]:
            return {"outcome": "failed", "code": result.code, "retryable": False}
        status = listed[0].entity.status
        if status == "cancelled":
            return {"outcome": "already_cancelled"}
        return {"outcome": "not_cancellable", "status": status}


def _read_run_ids(body: Mapping[str, Any]) -> list[str]:
    run_ids = body.get("runIds")
    if not isinstance(run_ids, list) or not all(isinstance(run_id, str) for run_id in run_ids):
        raise refusal(CODE_INVALID_REQUEST, "runIds is no list of run ids")
    if not 1 <= len(run_ids) <= MAX_RUNS:
        raise refusal(CODE_INVALID_REQUEST, f"runIds has {len(run_ids)} ids, not 1 to {MAX_RUNS}")
    if len(set(run_ids)) < len(run_ids):
        raise refusal(CODE_INVALID_REQUEST, "runIds holds an id twice")
    return run_ids


def _read_reason(body: Mapping[str, Any]) -> dict[str, Any]:
    reason = body.get("cancelReason")
    if reason is None:
        return {}
    if not isinstance(reason, str) or len(reason) > spec.MAX_CANCEL_REASON_CHARS:
        limit = spec.MAX_CANCEL_REASON_CHARS
        raise refusal(CODE_INVALID_REQUEST, f"cancelReason is no text of at most {limit} characters")
    return {"cancelReason": reason}
