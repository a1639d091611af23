"""From the script of a captured case to that of a `ScriptedServer`."""

from __future__ import annotations

import base64
import json
from typing import Any

from .scripted_server import Fault, Reply
from .vectors import FOLDER


def replies(case: dict[str, Any]) -> list[Reply]:
    """The answers of `case`, in order. What came late there comes at once here."""
    return [_reply(entry, case) for entry in case["responses"]]


def _reply(entry: dict[str, Any], case: dict[str, Any]) -> Reply:
    if "body_file" in entry:
        body = (FOLDER / "frames" / entry["body_file"]).read_bytes()
        assert len(body) == entry["body_length"]
    else:
        body = base64.b64decode(entry.get("body_base64", ""))
    fault = Fault(entry["fault"]) if "fault" in entry else None
    fault_after = entry.get("fault_after", 0)
    if "dispatcher" in case and "body_delay_s" in entry:
        # The one delay that outlasts its client's patience.
        fault, fault_after = Fault.STALL_MID_BODY, len(body) // 2
    return Reply(
        status=entry["status"],
        headers=entry["headers"],
        body=body,
        chunks=_chunks(entry.get("chunks"), len(body)),
        fault=fault,
        fault_after=fault_after,
    )


def _chunks(plan: Any, length: int) -> list[int] | None:
    if isinstance(plan, dict):
        return [1] * min(plan["one_byte_chunks"], length)
    return None if plan is None else [int(size) for size in plan]


def told(case: dict[str, Any], key: str) -> str | None:
    """The text that the last answer of `case` has under `key`, be it JSON or CBOR."""
    entry = case["responses"][-1]
    body = entry.get("body_decoded")
    if "body_text" in entry:
        try:
            body = json.loads(entry["body_text"])
        except ValueError:
            return None
    value = body.get(key) if isinstance(body, dict) else None
    return value if isinstance(value, str) else None
