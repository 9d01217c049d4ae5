"""The sizing helper: its Python calls, and that the program says the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from procs import Package

from mooncake.hicache_sizing import BudgetSummary, evaluate_budget, parse_size

GIB = 1 << 30


def budget(tp: int, cache: int, segment: int, arena: int, available: int | None) -> BudgetSummary:
    return evaluate_budget(
        tp_size=tp,
        hicache_size_bytes=cache,
        global_segment_size_bytes=segment,
        arena_pool_size_bytes=arena,
        available_bytes=available,
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8gb", 8 * GIB),
        ("2MB", 2 << 20),
        ("1.5tb", 3 << 39),
        ("1_024", 1024),
        ("7", 7),
        ("1kib", 1024),
        ("0", 0),
        ("2.5b", 2),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


BAD_SIZES = ["", "gb", "eight-gigabytes", "1 gb", "-1", "1.gb", ".5gb", "1pb", "1bb", "1e3", "8388608tb", "\u0661gb"]


@pytest.mark.parametrize("text", BAD_SIZES)
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("available", "status", "code"),
    [
        (None, "planning_only", 0),
        (0, "insufficient_for_baseline", 2),
        (288 * GIB - 1, "insufficient_for_baseline", 2),
        (288 * GIB, "baseline_fits_arena_may_fallback", 1),
        (512 * GIB - 1, "baseline_fits_arena_may_fallback", 1),
        (512 * GIB, "clean_arena_budget_available", 0),
    ],
)
def test_states(available: int | None, status: str, code: int) -> None:
    summary = budget(4, 64 * GIB, 8 * GIB, 56 * GIB, available)
    assert (summary.status, summary.exit_code) == (status, code)
    assert (summary.baseline_per_rank_bytes, summary.baseline_total_bytes) == (72 * GIB, 288 * GIB)
    assert (summary.clean_arena_per_rank_bytes, summary.clean_arena_total_bytes) == (128 * GIB, 512 * GIB)


@pytest.mark.parametrize("args", [(0, 1, 1, 1, 1), (-1, 1, 1, 1, 1), (1, -1, 1, 1, 1), (2, 1 << 62, 0, 0, None)])
def test_what_cannot_be_judged(args: tuple[int, int, int, int, int | None]) -> None:
    with pytest.raises(ValueError, match=r"tp_size|sizes"):
        budget(*args)


@given(st.integers(1, 64), *[st.integers(0, 1 << 45)] * 3, st.none() | st.integers(0, 1 << 50))
def test_more_pages_never_make_it_worse(tp: int, cache: int, segment: int, arena: int, available: int | None) -> None:
    order = ["insufficient_for_baseline", "baseline_fits_arena_may_fallback", "clean_arena_budget_available"]
    summary = budget(tp, cache, segment, arena, available)
    if available is None:
        assert summary.status == "planning_only"
        return
    more = budget(tp, cache, segment, arena, available + 1)
    assert order.index(more.status) >= order.index(summary.status)


SAME = [
    (tp, cache, segment, arena, available)
    for tp, cache, segment, arena in [
        ("1", "80gb", "48gb", "0"),
        ("4", "64gb", "8gb", "56gb"),
        ("3", "1.3gib", "700_000k", "0.1tb"),
        ("2", "9007199254740993", "1.000000001gb", "2.5b"),
    ]
    for available in ("96gb", "320gb", "512gb", "16tib")
]


@pytest.mark.parametrize(("tp", "cache", "segment", "arena", "available"), SAME)
def test_the_program_judges_the_same(
    package: Package, tp: str, cache: str, segment: str, arena: str, available: str
) -> None:
    done = package.run(
        "-m", "mooncake.hicache_sizing", "-o", "json",
        "--tp-size", tp, "--hicache-size", cache, "--global-segment-size", segment,
        "--arena-pool-size", arena, "--available-hugetlb", available,
    )  # fmt: skip
    theirs = json.loads(done.stdout)
    ours = budget(int(tp), *(parse_size(text) for text in (cache, segment, arena, available)))
    assert done.returncode == ours.exit_code
    assert {name: theirs[name] for name in vars(ours)} == vars(ours)


@pytest.mark.parametrize("text", BAD_SIZES)
def test_the_program_refuses_the_same(package: Package, text: str) -> None:
    done = package.run(
        "-m", "mooncake.hicache_sizing", "--tp-size", "1", f"--hicache-size={text}", "--global-segment-size", "1gb"
    )
    assert done.returncode == 64
    assert done.stderr.startswith("error: ")


def test_the_text_has_its_lines(package: Package) -> None:
    flags = ["--tp-size", "4", "--hicache-size", "64gb", "--global-segment-size", "8gb", "--available-hugetlb", "1tb"]
    done = package.run("-m", "mooncake.hicache_sizing", *flags)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Mooncake HiCache HugeTLB sizing summary"
    for label in (
        "tp-size:", "hicache-size:", "global-segment-size:", "arena-pool-size:", "hugepage-size:", "available HugeTLB:",
        "baseline floor / rank:", "baseline floor / total:", "clean arena / rank:", "clean arena / total:",
        "Status:", "Meaning:", "Note:",
    ):  # fmt: skip
        assert any(line.startswith(label) for line in lines), label
    assert "288.00 GiB" in done.stdout
