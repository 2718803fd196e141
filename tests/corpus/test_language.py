"""How much of the present language is read: samples, test programs and system tests of a checkout.

PTO_CORPUS names a checkout of August 2026 or later. Files that are judged otherwise than their builds say
stand in ``REMAINING`` with the reason; ``-s`` prints the others with the first message of each.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.corpus.language import (
    LIT,
    SAMPLES,
    SYSTEM_TESTS,
    Build,
    Verdict,
    judge,
    lit_builds,
    sample_builds,
    system_test_build,
)
from tests.corpus.reasons import same_reason

_ROOT = Path(os.environ.get("PTO_CORPUS", ""))
_PRESENT = bool(os.environ.get("PTO_CORPUS")) and (_ROOT / SYSTEM_TESTS).is_dir()
#: Counts of the checkout, and how many of them have to be judged right.
SAMPLE_FLOOR, ACCEPTED_FLOOR, WRONGLY_ACCEPTED, SYSTEM_FLOOR = 721, 478, 7, 190

#: Files that are judged wrong and have no reason in the table yet.
UNEXPLAINED = 0
#: What messages about code that is not part of tile programs say.
OUTSIDE = ("which is not executed", "not part of tile programs")

pytestmark = pytest.mark.skipif(
    not _PRESENT, reason="PTO_CORPUS does not name a PTOAS checkout of August 2026 (test/tilelang_st)"
)


@dataclass(frozen=True)
class Row:
    """One file: what is wrong with it ("" for nothing), a program that does not read back, and a rejection
    for another reason than the one that its build names.
    """

    name: str
    wrong: str
    unlike: str = ""
    other: str = ""


def _row(path: Path, root: str, verdicts: list[Verdict], wrong: str) -> Row:
    unlike = next((v.message for v in verdicts if not v.stage and v.message), "")
    return Row(str(path.relative_to(_ROOT / root)), wrong, unlike)


def _other(build: Build, verdict: Verdict) -> str:
    """A rejection that says something else than the assembler does, "" for none."""
    if not build.fails or not verdict.stage or same_reason(build.error, verdict):
        return ""
    return f"{build.error[:100]} - {verdict.rule}: {verdict.message}"


def _wrong(build: Build, verdict: Verdict) -> str:
    if build.fails:
        return "" if verdict.stage else "accepted"
    return f"{verdict.stage}: {verdict.message}" if verdict.stage else ""


def _files(root: str) -> Iterator[Path]:
    yield from sorted((_ROOT / root).glob("**/*.pto"))


@cache
def samples() -> list[Row]:
    """Every sample; the message is that of its first build."""
    rows = []
    for path in _files(SAMPLES):
        builds = sample_builds(path)
        first = judge(builds[0])
        verdicts, wrong = [first], _wrong(builds[0], first)
        for build in builds[1:] if wrong and first.stage != "parse" else ():
            verdicts.append(judge(build))
            if not _wrong(build, verdicts[-1]):
                wrong = ""
                break
        rows.append(_row(path, SAMPLES, verdicts, wrong))
    return rows


@cache
def test_programs() -> tuple[list[Row], list[Row]]:
    """Files with builds that accept, and files with builds that reject."""
    accepting: list[Row] = []
    rejecting: list[Row] = []
    for path in _files(LIT):
        judged = [(b, judge(b)) for b in lit_builds(path)]
        for fails, rows in ((False, accepting), (True, rejecting)):
            chosen = [(b, v) for b, v in judged if b.fails == fails]
            wrong = next((w for w in (_wrong(b, v) for b, v in chosen) if w), "")
            if chosen:
                other = next((o for o in (_other(b, v) for b, v in chosen) if o), "")
                rows.append(replace(_row(path, LIT, [v for _, v in chosen], wrong), other=other))
    return accepting, rejecting


test_programs.__test__ = False  # type: ignore[attr-defined]


@cache
def system_tests() -> list[Row]:
    """The system tests' kernels."""
    rows = []
    for path in _files(SYSTEM_TESTS):
        build = system_test_build(path)
        verdict = judge(build)
        rows.append(_row(path, SYSTEM_TESTS, [verdict], _wrong(build, verdict)))
    return rows


def _report(title: str, rows: list[Row]) -> int:
    """Print what is wrong; how many files are right."""
    right = [r for r in rows if not r.wrong]
    print(f"\n{title}: {len(right)} of {len(rows)}")
    for row in rows:
        if row.wrong:
            print(f"  {row.name}: {row.wrong}")
    kinds = Counter(r.wrong.split(":")[0] for r in rows if r.wrong)
    print(f"  ({', '.join(f'{n} {kind}' for kind, n in kinds.items()) or 'all right'})")
    return len(right)


def test_samples() -> None:
    assert _report("samples accepted", samples()) >= SAMPLE_FLOOR


def test_accepting_runs() -> None:
    assert _report("test programs accepted", test_programs()[0]) >= ACCEPTED_FLOOR


def test_rejecting_runs() -> None:
    rows = test_programs()[1]
    assert len(rows) - _report("test programs rejected", rows) <= WRONGLY_ACCEPTED


def test_rejections_have_the_reason_that_their_test_names() -> None:
    other = {row.name: row.other for row in test_programs()[1] if row.other}
    listed = "\n  ".join(f"{name}: {why}" for name, why in other.items())
    print(f"\n{len(other)} rejected for another reason:\n  {listed}")
    assert other.keys() == OTHER_REASON.keys()


def test_system_tests() -> None:
    assert _report("system tests accepted", system_tests()) >= SYSTEM_FLOOR


def test_what_is_accepted_reads_back() -> None:
    rows = [*samples(), *test_programs()[0], *test_programs()[1], *system_tests()]
    unlike = [f"{r.name}: {r.unlike}" for r in rows if r.unlike]
    assert not unlike, "\n".join(unlike)


def test_remaining_files_have_their_reasons() -> None:
    accepting, rejecting = test_programs()
    groups = {"samples": samples(), "accepting": accepting, "rejecting": rejecting, "system": system_tests()}
    wrong = {f"{group}/{row.name}": row.wrong for group, rows in groups.items() for row in rows if row.wrong}
    stale = sorted(REMAINING.keys() - wrong.keys())
    assert not stale, "judged right by now: " + ", ".join(stale)
    open_ = sorted(n for n, why in wrong.items() if n not in REMAINING and not any(o in why for o in OUTSIDE))
    print(f"\n{len(open_)} files without a reason:\n  " + "\n  ".join(open_))
    assert len(open_) <= UNEXPLAINED


_OPTIONS = "tests an option of the assembler, whatever the program"
_REGIONS = "valid regions may differ: the overview of the ISA, which is before the assembler, has a warning"
_SPELLINGS = "f8E4M3 and f8E4M3FN are one element type here, which block-scaled products take"
_SIGNLESS = "i8 and si8 are one element type here, which converting pipes give"
_SEED_PAGE = "the page of trowexpandadd has no scratch for blocks of rows on any chip, the assembler on A2/A3"
_QUANTISED = "a pair of element types that no quantisation mode of the headers has"
_FILLED_SCALES = "fills of 8-bit floats have no values of their own: the headers have none"
_SCALES = "f32 in a scaling tile: headers move one row of 64-bit words, the assembler has a template"
_EMPTY = "an empty valid region is legal in products of rows as of matrices: the assembler takes the latter"
_PRODUCT = "mat tiles in a product, which the assembler rejects too"

#: Files that are not judged as their builds say, each with its reason. Those whose first message says that
#: they are not part of tile programs need none.
REMAINING: dict[str, str] = {
    "accepting/mgather_mscatter_base_a3_emitc.pto": (
        "a scatter without coalesce: valid columns of its indices decide there, physical ones in the headers"
    ),
    "accepting/textract_tinsert_low_precision_a5_emitc.pto": _QUANTISED,
    "accepting/trowexpandadd_tmp_emitc.pto": _SEED_PAGE,
    "accepting/tstore_fp_insert_sync_effects.pto": _QUANTISED,
    "rejecting/bufid_sync_a5_auto.pto": _OPTIONS,
    "rejecting/fixpipe_frontend_verify_additional_invalid.pto": _SIGNLESS,
    "rejecting/issue708_zero_valid_tgemv_invalid.pto": _EMPTY,
    "rejecting/plan_memory_impl_invalid_level3.pto": _OPTIONS,
    "rejecting/tadds_validrow_mismatch.pto": _REGIONS,
    "rejecting/tgemv_mx_emitc.pto": _SPELLINGS,
    "rejecting/tgemv_mx_variants_emitc.pto": _SPELLINGS,
    "samples/Gemvmx/gemvmx-pto.pto": _FILLED_SCALES,
    "samples/MatmulMxLowPrecision/matmul_mx_low_precision-pto.pto": _FILLED_SCALES,
    "samples/Movfp/movfp_fixpipe_reuse-pto.pto": "a load into a scaling tile; headers fill it from L1 only",
    "samples/TquantMx/tquant_mx.pto": "one row of a tile is stored to 16 rows; headers copy rows to rows",
    "system/testcase/tload_mat/tload_mat.pto": _PRODUCT,
    "system/testcase/tmov2scale/tmov2scale.pto": _SCALES,
    "system/testcase/tmov_fp/tmov_fp.pto": _SCALES,
    "system/testcase/tstore_acc2gm/tstore_acc2gm.pto": _PRODUCT,
}

#: Files that are rejected, but for another reason than the one that they test.
OTHER_REASON: dict[str, str] = {
    "alloc_tile_addr_alignment_invalid.pto": "built at a level without addresses, which is told first",
    "retired_memref_bridge_ops_invalid.pto": "pto.bind_tile, which is still read, has no operands",
    "tmov_x2zz_invalid.pto": "scratch that is the source itself also has too few bytes, which is told first",
}
