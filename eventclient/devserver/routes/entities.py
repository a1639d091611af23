"""Runs, steps and hooks as they are: one by id, lists, a hook by its token, a run when it has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from eventclient.clock import Clock
from eventclient.devserver.account import account_of
from eventclient.devserver.listing import (
    HOOKS,
    RUNS,
    STEPS,
    entity_response,
    list_response,
    read_part,
)
from eventclient.devserver.long_polls import LongPolls
from eventclient.devserver.requests import CODE_INVALID_REQUEST, RefusalError, read_segment, refusal
from eventclient.devserver.ruling import no_run
from eventclient.devserver.store import HookQuery, RunQuery, StepQuery, Store
from eventclient.model.entities import Hook, Run
from eventclient.model.lifecycle import RunState, is_releasable, is_retained, run_state
from eventclient.wire.replies import Refused

from .route import API_PREFIX, Route

HOOK_RESUME_DEDUP_VERSION: Final = 1
"""What every look-up of a token attests: a resume id is delivered once. Never stored with the hook.
Source: `@workflow/world` 5.0.0-beta.37."""
_MAX_WAIT_DIGITS: Final = 9
_SAME_ID_LIMIT: Final = 100
"""Hook ids are unique within their runs; so many namesakes are looked at for one that can be resumed."""


class EntityRoutes:
    """Routes that read entities.

    Args:
        store: opened.
        polls: the waits for runs to end.
        clock: tells which tokens are still retained.
    """

    def __init__(self, store: Store, polls: LongPolls, clock: Clock) -> None:
        self._store = store
        self._polls = polls
        self._clock = clock

    def table(self) -> list[Route]:
        """The routes."""
        runs, hooks = f"{API_PREFIX}/v2/runs", f"{API_PREFIX}/v2/hooks"
        return [
            Route("GET", runs, "runs", self.list_runs),
            Route("GET", f"{runs}/{{runId}}", "run", self.get_run),
            Route("GET", f"{runs}/{{runId}}/status", "run-status", self.get_status),
            Route("GET", f"{runs}/{{runId}}/steps", "steps", self.list_steps),
            Route("GET", f"{runs}/{{runId}}/steps/{{stepId}}", "step", self.get_step),
            Route("GET", hooks, "hooks", self.list_hooks),
            Route("GET", f"{hooks}/by-token", "hook-by-token", self.get_hook_by_token),
            Route("GET", f"{hooks}/{{hookId}}", "hook", self.get_hook),
        ]

    # -- runs ----------------------------------------------------------------------------------

    async def list_runs(self, request: web.Request) -> web.Response:
        part = read_part(request, RUNS)
        status = request.query.get("status") or None
        if status is not None and status not in set(RunState) - {RunState.ABSENT}:
            raise refusal(CODE_INVALID_REQUEST, "status is no status of a run")
        workflow_name = request.query.get("workflowName") or None
        query = RunQuery(**part.arguments(), workflow_name=workflow_name, status=status)
        return list_response(request, part.page(await self._store.read_runs(query)))

    async def get_run(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        return entity_response(request, _found(await self._polls.read_run(run_id), run_id))

    async def get_status(self, request: web.Request) -> web.Response:
        """The run once it has ended, or when the wait is over: a run that goes on is an answer too."""
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        run = await self._polls.wait(run_id, _read_wait(request), request.transport)
        return entity_response(request, _found(run, run_id))

    # -- steps ---------------------------------------------------------------------------------

    async def list_steps(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        part = read_part(request, STEPS)
        listed = await self._store.read_steps(StepQuery(**part.arguments(), run_id=run_id))
        return list_response(request, part.page(listed))

    async def get_step(self, request: web.Request) -> web.Response:
        run_id, step_id = read_segment(request, "runId"), read_segment(request, "stepId")
        account_of(request).run_id = run_id
        listed = await self._store.read_steps(StepQuery(run_id=run_id, step_id=step_id))
        if not listed:
            raise RefusalError(Refused(404, "step-not-found", f"run {run_id} has no step {step_id}"))
        return entity_response(request, listed[0].entity)

    # -- hooks ---------------------------------------------------------------------------------

    async def list_hooks(self, request: web.Request) -> web.Response:
        run_id = request.query.get("runId") or None
        account_of(request).run_id = run_id
        part = read_part(request, HOOKS)
        page = part.page(await self._store.read_hooks(HookQuery(**part.arguments(), run_id=run_id)))
        there = [hook for hook in page.entities if await self._is_there(hook)]
        return list_response(request, replace(page, entities=tuple(there)))

    async def get_hook(self, request: web.Request) -> web.Response:
        hook_id = read_segment(request, "hookId")
        query = HookQuery(hook_id=hook_id, descending=True, limit=_SAME_ID_LIMIT)
        hook = await self._first(query)
        if hook is None:
            raise RefusalError(Refused(404, "hook-not-found", f"there is no hook {hook_id}"))
        account_of(request).run_id = hook.run_id
        return entity_response(request, hook)

    async def get_hook_by_token(self, request: web.Request) -> web.Response:
        for token in _read_tokens(request):
            hook = await self._first(HookQuery(token=token))
            if hook is not None:
                account_of(request).run_id = hook.run_id
                capabilities = {"hookResumeDedupVersion": HOOK_RESUME_DEDUP_VERSION}
                attested = hook.model_copy(update={"resume_capabilities": capabilities})
                return entity_response(request, attested)
        raise RefusalError(Refused(404, "hook-not-found", "there is no hook with this token"))

    async def _first(self, query: HookQuery) -> Hook | None:
        for listed in await self._store.read_hooks(query):
            if await self._is_there(listed.entity):
                return listed.entity
        return None

    async def _is_there(self, hook: Hook) -> bool:
        """Whether a hook can still be found. One whose token was retained beyond the end of its run is
        kept until somebody else takes the token, and not to be seen once the retention is over."""
        now = self._clock.wall()
        if hook.token_retention_until is None or is_retained(hook, now):
            return True
        return not is_releasable(hook, run_state(await self._polls.read_run(hook.run_id)), now)


def _found(run: Run | None, run_id: str) -> Run:
    if run is None:
        raise RefusalError(no_run(run_id))
    return run


def _read_wait(request: web.Request) -> float:
    """How many seconds to wait; 0 when the query does not say."""
    text = request.query.get("waitMs", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_WAIT_DIGITS):
        raise refusal(CODE_INVALID_REQUEST, "waitMs is no whole number of milliseconds")
    return int(text) / 1000


def _read_tokens(request: web.Request) -> list[str]:
    """What the token in the query may be, the likeliest first.

    The Python client does not escape it, so a plus sign stands for itself; in a query as forms make it, it
    stands for a space. Source: `vercel-workflow` 0.12.0, `@workflow/world-vercel` 5.0.0-beta.50.
    """
    for pair in request.rel_url.raw_query_string.split("&"):
        name, _, raw = pair.partition("=")
        if name == "token" and raw:
            return list(dict.fromkeys((unquote(raw), unquote(raw.replace("+", " ")))))
    raise refusal(CODE_INVALID_REQUEST, "the query names no token")
