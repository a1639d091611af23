"""Fuzzes the request path of the server, following coverage.

    python -m tests.fuzz.coverage_fuzz --inputs 200000

Needs `atheris` (``pip install atheris``), which is no dependency of anything else here. Inputs that reach
new code are kept in a folder, ``--corpus`` or a temporary one, and mutated further. Ends with 1 and the input
on the first that meets what no input may meet; after ``--inputs`` it ends with figures, and with 1 when the
server has grown. With ``--db`` the store is a file, so that nothing of the log is in memory.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

try:
    atheris = importlib.import_module("atheris")
except ImportError:
    sys.exit("coverage_fuzz needs atheris: pip install atheris")

with atheris.instrument_imports(include=["eventclient"]):
    from tests.fuzz.harness import MAX_GROWTH, FindingError, Harness, read_rss_kib
    from tests.fuzz.inputs import make_shot

MAX_INPUT_BYTES = 1024
MAX_GROWTH_KIB = 96 * 1024
"""For a store on a file: what the fuzzer itself keeps of inputs and coverage is in it."""
WARM_UP_COUNT = 2000
REPORT_EVERY = 20_000


class Run:
    """One run: counts, watches memory, and tells at the end."""

    def __init__(self, harness: Harness, corpus: Path, *, is_durable: bool) -> None:
        self._harness = harness
        self._corpus = corpus
        self._is_durable = is_durable
        self._began = time.monotonic()
        self._warm = (0, 0)

    def take(self, data: bytes) -> None:
        harness = self._harness
        try:
            harness.fire(make_shot(data))
        except FindingError as error:
            self._tell()
            print(f"FINDING {error}\nINPUT {data.hex()}", flush=True)
            os._exit(1)
        if harness.count == WARM_UP_COUNT:
            self._warm = (harness.count_objects(), read_rss_kib())
        elif harness.count % REPORT_EVERY == 0:
            self._tell()

    def end(self) -> int:
        """0, or 1 when the server has grown."""
        self._tell()
        objects, rss = self._warm
        if not objects:
            return 0
        now = self._harness.count_objects()
        if now > objects * (1 + MAX_GROWTH):
            print(f"FINDING objects grew from {objects} to {now}", flush=True)
            return 1
        grown = read_rss_kib() - rss
        if self._is_durable and grown > MAX_GROWTH_KIB:
            print(f"FINDING memory grew by {grown} KiB", flush=True)
            return 1
        return 0

    def _tell(self) -> None:
        harness = self._harness
        seconds = time.monotonic() - self._began
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(harness.statuses.items()))
        objects, rss = self._warm
        print(
            f"{harness.count} inputs in {seconds:.0f} s ({harness.count / seconds:.0f}/s); "
            f"corpus {len(list(self._corpus.iterdir()))}; statuses {statuses}; "
            f"objects {objects} -> {harness.count_objects()}, RSS {rss} -> {read_rss_kib()} KiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--corpus", type=Path, help="folder that keeps inputs which reached new code")
    parser.add_argument("--db", type=Path, help="SQLite file to make and attack; without it, memory")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    corpus: Path = options.corpus or Path(tempfile.mkdtemp(prefix="fuzz-corpus-"))
    corpus.mkdir(parents=True, exist_ok=True)
    if options.db is not None and options.db.exists():
        parser.error(f"{options.db} is there already")
    harness = Harness(options.db).__enter__()
    run = Run(harness, corpus, is_durable=options.db is not None)
    arguments = [
        *(
            sys.argv[0],
            f"-max_len={MAX_INPUT_BYTES}",
            f"-seed={options.seed}",
            "-timeout=60",
            "-rss_limit_mb=0",
        ),
        f"-artifact_prefix={corpus.parent}/",
        *("-verbosity=0", "-print_final_stats=0", f"-atheris_runs={options.inputs}", str(corpus)),
    ]
    atheris.Setup(arguments, run.take)
    try:
        atheris.Fuzz()
    except SystemExit as ended:
        if ended.code:
            raise
    sys.exit(run.end())


if __name__ == "__main__":
    main()
