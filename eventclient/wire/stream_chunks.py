"""The body of a write of several stream chunks: ``u32be length, chunk``, over and over.

Source: `@workflow/world-vercel` 5.0.0-beta.50, `vercel-workflow` 0.12.0.
"""

from __future__ import annotations

from typing import Final

from .codec import MalformedError
from .spec import LENGTH_BYTES

HEADER_STREAM_MULTI: Final = "X-Stream-Multi"
"""``true``: the body is several chunks. Without it, the body is one."""
HEADER_STREAM_DONE: Final = "X-Stream-Done"
"""``true``: the stream ends here."""
MAX_CHUNKS_PER_WRITE: Final = 1000


def decode_chunks(body: bytes) -> list[bytes]:
    """The chunks of a body, in order; an empty body has none.

    Raises:
        MalformedError: the body ends inside a chunk, or has more than `MAX_CHUNKS_PER_WRITE` of them.
    """
    chunks: list[bytes] = []
    at = 0
    while at < len(body):
        if len(chunks) == MAX_CHUNKS_PER_WRITE:
            raise MalformedError(f"there are more than {MAX_CHUNKS_PER_WRITE} chunks")
        start = at + LENGTH_BYTES
        end = start + int.from_bytes(body[at:start], "big")
        if start > len(body) or end > len(body):
            raise MalformedError(f"the body ends inside chunk {len(chunks)}")
        chunks.append(body[start:end])
        at = end
    return chunks
