"""The reference server as a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
_URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")


@asynccontextmanager
async def server_process(*arguments: str) -> AsyncIterator[str]:
    """``eventclient serve`` with `arguments` on a free port, for as long as the block lasts; its URL.

    Raises:
        RuntimeError: it did not start, or did not end as it was told to.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0", "--no-access-log", *arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    told = (await process.stderr.readline()).decode()
    try:
        url = _URL.search(told)
        if url is None:
            raise RuntimeError(f"the server did not start: {told}")
        yield url[0]
    finally:
        if process.returncode is None:
            process.terminate()
        _, rest = await process.communicate()
    if process.returncode != 0 or rest:
        raise RuntimeError(f"the server ended with {process.returncode}: {rest.decode()}")
