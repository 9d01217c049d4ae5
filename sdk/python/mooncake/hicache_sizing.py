"""How many huge pages an inference engine with a hierarchical cache needs on one machine.

Each rank takes its host cache and its segment (the baseline), and for a clean start its arena.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from mooncake import _binary

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)", re.ASCII)
_UNITS = {"": 0, "b": 0} | {
    letter + rest: power for power, letter in enumerate("kmgt", start=1) for rest in ("", "b", "ib")
}
_LIMIT = 1 << 63

PLANNING_ONLY = "planning_only"
INSUFFICIENT = "insufficient_for_baseline"
BASELINE_FITS = "baseline_fits_arena_may_fallback"
CLEAN_BUDGET = "clean_arena_budget_available"
_EXIT_CODES = {PLANNING_ONLY: 0, INSUFFICIENT: 2, BASELINE_FITS: 1, CLEAN_BUDGET: 0}


@dataclass(frozen=True)
class BudgetSummary:
    """The verdict. Sizes are in bytes; available_bytes is None where it is not known."""

    status: str
    exit_code: int
    tp_size: int
    available_bytes: int | None
    baseline_per_rank_bytes: int
    baseline_total_bytes: int
    clean_arena_per_rank_bytes: int
    clean_arena_total_bytes: int


def parse_size(text: str) -> int:
    """Bytes out of a number and, without a blank between, a unit out of b, k, m, g, t, the latter also
    as kb or kib and so on, in any case and all multiples of 1024. Underscores are ignored; a
    fraction of a byte is cut off. Raises ValueError for anything else, and for 8 EiB and more.
    """
    match = _SIZE.fullmatch(text.strip().lower().replace("_", ""))
    if match is None:
        raise ValueError(f"invalid size: {text!r} (a number and a unit, such as 64gb, 1.5gib or 2mb)")
    number, unit = match.groups()
    if unit not in _UNITS:
        raise ValueError(f"unsupported size unit in {text!r} (b, k, kb, kib, m, mb, mib, g, gb, gib, t, tb, tib)")
    scale = 1024 ** _UNITS[unit]
    size = float(number) * scale if "." in number else int(number) * scale
    if size >= _LIMIT:
        raise ValueError(f"size {text!r} is larger than 8 EiB")
    return int(size)


def evaluate_budget(
    *,
    tp_size: int,
    hicache_size_bytes: int,
    global_segment_size_bytes: int,
    arena_pool_size_bytes: int,
    available_bytes: int | None,
) -> BudgetSummary:
    """-> BudgetSummary

    Compares what tp_size ranks take with what the machine has; None for not known. Raises ValueError
    for no ranks, for a size that is negative, and for totals of 8 EiB and more.
    """
    if tp_size <= 0:
        raise ValueError("tp_size must be positive")
    if min(hicache_size_bytes, global_segment_size_bytes, arena_pool_size_bytes, available_bytes or 0) < 0:
        raise ValueError("sizes must not be negative")
    baseline = hicache_size_bytes + global_segment_size_bytes
    clean = baseline + arena_pool_size_bytes
    if clean * tp_size >= _LIMIT:
        raise ValueError("the sizes add up to more than 8 EiB")
    if available_bytes is None:
        status = PLANNING_ONLY
    elif available_bytes < baseline * tp_size:
        status = INSUFFICIENT
    elif available_bytes < clean * tp_size:
        status = BASELINE_FITS
    else:
        status = CLEAN_BUDGET
    return BudgetSummary(
        status=status,
        exit_code=_EXIT_CODES[status],
        tp_size=tp_size,
        available_bytes=available_bytes,
        baseline_per_rank_bytes=baseline,
        baseline_total_bytes=baseline * tp_size,
        clean_arena_per_rank_bytes=clean,
        clean_arena_total_bytes=clean * tp_size,
    )


def main() -> NoReturn:
    """Becomes mooncake-hicache-sizing with the arguments of this process. Exit codes: as in
    BudgetSummary, and 64 for arguments that it cannot read.
    """
    _binary.execute("mooncake-hicache-sizing")


if __name__ == "__main__":
    main()
