"""A corpus of kernels before and after a pass that has bugs: all are seen, most are located."""

import random
import re
from pathlib import Path

import pytest

from pto_jax.devices.exchange import program_text, save_inputs
from pto_jax.validation.files import Comparing, Verdict, compare_all
from pto_jax.validation.jobs import pairs
from tests.campaign.passes.planting import CHANGES, Planted, kernel, plant, renamed

SEED = 11


def corpus(folder: Path, kernels: int, bugs: int) -> dict[str, Planted]:
    """Kernels before and after; the first ``bugs`` that can have one have a bug."""
    planted: dict[str, Planted] = {}
    rng = random.Random(SEED)
    changes, index, written = list(CHANGES), 0, 0
    while written < kernels:
        case, name = kernel(SEED, index), f"k{index:03d}.pto"
        index += 1
        if case is None:
            continue
        changes.append(changes.pop(0))
        tried = (plant(case, change, rng) for change in changes if len(planted) < bugs)
        made = next((one for one in tried if one is not None), None)
        if made is not None:
            planted[name] = made
        text = program_text(case)
        for part, content in zip(
            ("before", "after"), made.texts if made else (text, renamed(text)), strict=True
        ):
            (folder / part).mkdir(exist_ok=True, parents=True)
            (folder / part / name).write_text(content)
        save_inputs((folder / "before" / name).with_suffix(".npz"), case)
        written += 1
    return planted


def located(verdict: Verdict, bug: Planted) -> bool:
    """Whether the instruction that is named is the one that was changed."""

    def line(place: str) -> int:
        found = re.search(r":(\d+): ", place)
        return int(found[1]) if found else 0

    return line(verdict.after) in bug.after or line(verdict.before) in bug.before


def judged(
    folder: Path, planted: dict[str, Planted], count: int
) -> tuple[list[str], list[str], list[Verdict]]:
    """Bugs that were not seen, those that were seen at another place, and all verdicts."""
    jobs, _ = pairs(folder / "before", folder / "after")
    verdicts = compare_all(jobs, Comparing(count=count), 1, lambda verdict: None)
    by_name = {v.name: v for v in verdicts}
    unseen = [n for n in planted if not by_name[n].is_failure]
    elsewhere = [n for n in planted if n not in unseen and not located(by_name[n], planted[n])]
    return unseen, elsewhere, verdicts


@pytest.mark.nightly
@pytest.mark.slow
def test_some_bugs_of_passes_are_seen_and_located(tmp_path: Path) -> None:
    planted = corpus(tmp_path, 12, 8)
    unseen, elsewhere, verdicts = judged(tmp_path, planted, 6)
    assert unseen == [] and len(elsewhere) <= 1
    assert {v.kind for v in verdicts if v.name not in planted} == {"equal"}


@pytest.mark.slow
@pytest.mark.nightly
def test_fifty_bugs_of_passes_are_seen_and_located(tmp_path: Path) -> None:
    planted = corpus(tmp_path, 200, 50)
    unseen, elsewhere, verdicts = judged(tmp_path, planted, 20)
    assert len(planted) == 50 and unseen == [] and len(elsewhere) <= 5
    assert {v.kind for v in verdicts if v.name not in planted} == {"equal"}
