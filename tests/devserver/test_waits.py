"""Events on a wait of a run that has not ended, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.devserver.api import AT, RUN, Api

LATER = AT + timedelta(seconds=5, milliseconds=7)
STEP: dict[str, Any] = {"stepName": "work", "input": b"devlx"}


async def test_a_wait_is_completed_once(api: Api) -> None:
    await api.running_run()
    created = (await api.post("wait_created", "w", resumeAt=LATER)).value
    assert created["wait"] == {
        "waitId": f"{RUN}-w",
        "runId": RUN,
        "status": "waiting",
        "createdAt": AT,
        "updatedAt": AT,
        "resumeAt": LATER,
        "specVersion": 7,
    }
    assert (await api.post("wait_created", "w", resumeAt=LATER)).status == 409
    completed = (await api.post("wait_completed", "w", at=LATER)).value
    assert completed["wait"]["status"] == "completed"
    assert completed["wait"]["completedAt"] == LATER
    assert (await api.post("wait_completed", "w")).status == 409
    assert (await api.post("wait_created", "w", resumeAt=LATER)).status == 409
    unknown = await api.post("wait_completed", "nobody")
    assert (unknown.status, unknown.code) == (404, "wait-not-found")
    assert len(await api.log()) == 4
