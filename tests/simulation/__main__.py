"""The simulation as a command: many seeds, or one with its trace."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from .plan import Kind
from .running import Report, run_seed

BLOCK = 250


def run_block(first: int, count: int, kind: Kind | None) -> tuple[Counter[str], list[str]]:
    """The counts and the failures, in words, of `count` seeds from `first` on."""
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        report = run_seed(seed, kind)
        counts.update(report.counts)
        if report.violations:
            failures.append(str(report))
    return counts, failures


def main() -> int:
    """0 when all holds, 1 when something does not."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument(
        "--kind", type=Kind, choices=list(Kind), help="the kind of server, instead of the seed's"
    )
    parser.add_argument("--trace", action="store_true", help="print the trace, also of a seed that holds")
    parser.add_argument(
        "--keep-going", action="store_true", help="do not end at the first block with failures"
    )
    asked = parser.parse_args()
    if asked.seed is not None:
        return _one(run_seed(asked.seed, asked.kind), is_traced=asked.trace)
    began = time.monotonic()
    counts: Counter[str] = Counter()
    failed = 0
    starts = range(asked.first, asked.first + asked.seeds, BLOCK)
    sizes = [min(BLOCK, asked.first + asked.seeds - start) for start in starts]
    with ProcessPoolExecutor(asked.processes) as pool:
        for start, (some, failures) in zip(
            starts, pool.map(run_block, starts, sizes, repeat(asked.kind)), strict=True
        ):
            counts.update(some)
            for failure in failures:
                print(failure, flush=True)
            failed += len(failures)
            print(f"seeds up to {start + BLOCK - 1}: {failed} failed", file=sys.stderr, flush=True)
            if failed and not asked.keep_going:
                pool.shutdown(cancel_futures=True)
                break
    for name, count in sorted(counts.items()):
        print(f"{count:10}  {name}")
    print(f"{time.monotonic() - began:.0f} s, {failed} seeds failed")
    return 1 if failed else 0


def _one(report: Report, *, is_traced: bool) -> int:
    if is_traced and not report.violations:
        print(*report.trace.lines(), sep="\n")
    print(report if report.violations else f"seed {report.plan.seed} ({report.plan.kind}): all holds")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
