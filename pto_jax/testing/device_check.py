"""Check of a device: every instruction on it against the NumPy interpreter.

``python -m pto_jax.testing.device_check [--seed N] [--device gpu|cpu] [--only NAME...] [--jobs N]``
runs one legal operation per declaration, type row and profile on random bit patterns as
``jit(vmap(kernel))``, and compares every lane bit for bit (within the declared ULP bound where there is
one; a NaN equals every NaN, and how often NaN bits differ is printed). Then float32 add, multiply, divide
and square root, and multiply followed by add, on 2^20 lanes against NumPy. Exit status: 0 equal,
1 something differs, 2 wrong use.
"""

# JAX assigns the class Device to a name, which pyright takes for a variable.
# pyright: reportInvalidTypeForm=false
from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .. import isa
from ..api import parse
from ..errors import ArgumentError, brief
from ..ir import F32, DType
from ..isa.samples.operations import Sample, legal_samples
from ..profiles import PROFILES, Profile
from ..runtime.kernel import compile
from ..vectors.compare import is_nan, number, ulp_distance
from . import differential

TILE = (32, 64)
#: 512 tiles of 32x64 are 2^20 lanes.
TILES = 512
SHOWN = 20


@dataclass
class Outcome:
    """What the comparison of one case, or the sum of many, found."""

    lanes: int = 0
    different: int = 0
    ulp: int = 0
    nan: int = 0
    nan_bits: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add what another comparison found."""
        self.lanes += other.lanes
        self.different += other.different
        self.ulp = max(self.ulp, other.ulp)
        self.nan += other.nan
        self.nan_bits += other.nan_bits
        self.failures += other.failures

    def compare(self, what: str, d: DType, got: NDArray[Any], expected: NDArray[Any], ulp: int = 0) -> None:
        """Count one array of raw words and keep its first difference."""
        bad = differential.differing(d, got, expected, ulp)
        self.lanes += bad.size
        self.different += int(bad.sum())
        if d.is_float:
            nan = is_nan(d, got) & is_nan(d, expected)
            self.nan += int(nan.sum())
            self.nan_bits += int((nan & (got != expected)).sum())
            if ulp:
                near = ~(is_nan(d, got) | is_nan(d, expected))
                self.ulp = max(self.ulp, int(ulp_distance(d, got[near], expected[near]).max(initial=0)))
        if bad.any():
            at = tuple(map(int, np.argwhere(bad)[0]))
            values = ", wanted ".join(f"{int(w):#x} ({number(d, int(w))})" for w in (got[at], expected[at]))
            self.failures.append(f"{what}: {bad.sum()} of {bad.size} lanes differ, first {at}: {values}")


def check_sample(sample: Sample, profile: Profile, seed: int, device: jax.Device) -> Outcome:
    """One operation on the device and in the interpreter. An exception is a failure of the operation."""
    try:
        return _compare(differential.make_case(sample, profile, seed), device)
    except Exception as error:
        # One operation that the device's compiler refuses must not hide the results of the others.
        return Outcome(failures=[f"{differential.label(sample)} [{profile.name}]: {brief(error)}"])


def _compare(case: differential.Case, device: jax.Device) -> Outcome:
    outcome = Outcome()
    with jax.default_device(device):
        batch = jax.jit(jax.vmap(lambda tiles: case.kernel(**tiles)))(differential.arguments(case.given))
    for index in range(differential.BATCH):
        what = f"{case.label} [{case.profile.name}], batch {index}"
        for name, expected in case.reference(index).items():
            d = case.dtype(name)
            outcome.compare(
                what, d, differential.result_words(d, batch[name], index), expected, case.ulp(name)
            )
    return outcome


@dataclass(frozen=True)
class Exactness:
    """A float32 formula as a program of instructions and in NumPy.

    ``naive`` shows what jitting the NumPy formula would give.
    """

    name: str
    text: str
    formula: Callable[..., Any]
    naive: bool = False


def _declared(name: str) -> Callable[..., Any]:
    """The formula of an instruction's first overload, on its operands."""

    def value(*operands: Any) -> Any:
        instruction = isa.instructions()[name]
        form = instruction.forms[0]
        formula = instruction.formula(form)
        assert formula is not None
        return formula.evaluate(dict(zip(form, operands, strict=True)))

    return value


_T = "!pto.tile<f32, {}, {}>".format(*TILE)
# Instructions by name: these are the programs whose results are compared.
EXACTNESS = (
    Exactness("tadd", f"%d = tadd %a, %b : {_T}", _declared("tadd")),
    Exactness("tmul", f"%d = tmul %a, %b : {_T}", _declared("tmul")),
    Exactness("tdiv", f"%d = tdiv %a, %b : {_T}", _declared("tdiv")),
    Exactness("tsqrt", f"%d = tsqrt %a : {_T}", _declared("tsqrt")),
    Exactness(
        "tmul -> tadd",
        f"%p = tmul %a, %b : {_T}\n%d = tadd %p, %c : {_T}",
        lambda a, b, c: a * b + c,
        naive=True,
    ),
)


def float_operands(seed: int, count: int, tiles: int = TILES) -> list[NDArray[np.float32]]:
    """Operands that reach every exponent: random bits, special values, subnormals, ordinary numbers."""
    rng = np.random.default_rng(seed)
    shape = (tiles, *TILE)
    operands = []
    for _ in range(count):
        words = differential.random_words(rng, F32, shape)
        tiny = words & np.uint32(0x80FFFFFF)
        ordinary = rng.standard_normal(shape).astype(np.float32).view(np.uint32)
        kind = rng.integers(0, 8, (tiles, 1, 1))
        words = np.where(kind < 1, tiny, np.where(kind < 4, ordinary, words))
        operands.append(words.view(np.float32))
    return operands


def check_exactness(
    check: Exactness, seed: int, device: jax.Device, tiles: int = TILES
) -> tuple[Outcome, str]:
    """A formula on many lanes: the outcome, and what the operands exercised."""
    kernel = compile(parse(check.text), profile="a2a3", warn=False)
    operands = float_operands(seed, len(kernel.arguments), tiles)
    with np.errstate(all="ignore"):
        expected = check.formula(*operands)
    outcome = Outcome()
    with jax.default_device(device):
        got = jax.jit(jax.vmap(lambda *args: kernel(*args)["d"].words))(*operands)
        naive = jax.jit(check.formula)(*operands) if check.naive else None
    outcome.compare(check.name, F32, np.asarray(got), expected.view(np.uint32))
    tiny = np.finfo(np.float32).tiny
    note = f"{int(((np.abs(expected) < tiny) & (expected != 0)).sum())} subnormal results"
    if naive is not None:
        other = differential.differing(F32, np.asarray(naive).view(np.uint32), expected.view(np.uint32))
        note += f"; naive jitted jnp differs in {int(other.sum())}"
    return outcome, note


def samples(names: Sequence[str] = ()) -> Iterator[tuple[Sample, Profile]]:
    """Every legal sample of the instructions (all that compute on tiles by default)."""
    for name, instruction in isa.instructions().items():
        if differential.computes(instruction) and (not names or name in names):
            for profile in PROFILES.values():
                for sample in legal_samples(instruction, profile):
                    yield sample, profile


def check_names(names: Sequence[str]) -> None:
    """Raise ArgumentError for a name given to ``--only`` that is no instruction on tiles."""
    known = [name for name, i in isa.instructions().items() if differential.computes(i)]
    for name in names:
        if name not in known:
            raise ArgumentError(f"--only {name}: got no such instruction", allowed=", ".join(known))


def quick_samples(profile: Profile) -> Iterator[Sample]:
    """One legal operation of the first instruction of every class that computes, and one conversion."""
    shown: set[object] = set()
    for instruction in isa.instructions().values():
        kind = "conversion" if instruction.converts else instruction.cls
        if kind not in shown and instruction.executable and differential.computes(instruction):
            sample = next(iter(legal_samples(instruction, profile)), None)
            if sample is not None:
                shown.add(kind)
                yield sample


def select_device(platform: str | None) -> jax.Device:
    """The first device of a platform, by default JAX's default device."""
    try:
        device: jax.Device = jax.devices(platform)[0]
    except RuntimeError as error:
        raise ArgumentError(f"--device {platform}: JAX has no such device here ({error})") from None
    return device


def run(
    seed: int, device: jax.Device, names: Sequence[str] = (), jobs: int = 1, tiles: int = TILES
) -> Outcome:
    """Run all checks and print what they find."""
    print(f"device: {device.platform} ({device.device_kind}), JAX {jax.__version__}, seed {seed}")
    started = time.monotonic()
    total = _declarations(list(samples(names)), seed, device, jobs)
    for check in EXACTNESS:
        outcome, note = check_exactness(check, seed, device, tiles)
        total.add(outcome)
        print(f"f32 {check.name}: {outcome.lanes} lanes, {outcome.different} differ ({note})")
    for failure in total.failures[:SHOWN]:
        print(f"DIFFERS {failure}")
    if len(total.failures) > SHOWN:
        print(f"... and {len(total.failures) - SHOWN} more")
    verdict = f"FAILED: {len(total.failures)} results differ" if total.failures else "passed"
    print(f"{verdict}: {total.lanes} lanes, {total.different} differ ({time.monotonic() - started:.0f} s)")
    return total


def _declarations(
    work: Sequence[tuple[Sample, Profile]], seed: int, device: jax.Device, jobs: int
) -> Outcome:
    total, by_profile = Outcome(), {name: Outcome() for name in PROFILES}
    nan_bits: dict[str, int] = {}
    # Compilation releases the interpreter lock, so threads share it out; the order of results is kept.
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda item: check_sample(item[0], item[1], seed, device), work)
        for (sample, profile), outcome in zip(work, _progress(outcomes, len(work)), strict=True):
            by_profile[profile.name].add(outcome)
            total.add(outcome)
            if outcome.nan_bits:
                name = sample.instruction.name
                nan_bits[name] = nan_bits.get(name, 0) + outcome.nan_bits
    for name, outcome in by_profile.items():
        those = [s for s, p in work if p.name == name]
        count = len({s.instruction.name for s in those})
        print(
            f"{name}: {count} instructions, {len(those)} operations, {outcome.lanes} lanes, "
            f"{outcome.different} differ, at most {outcome.ulp} ULP where a bound is declared"
        )
    listed = ", ".join(f"{name} {n}" for name, n in sorted(nan_bits.items())) or "none"
    print(f"NaN lanes: {total.nan}; with other NaN bits than the interpreter: {total.nan_bits} ({listed})")
    return total


def _progress(outcomes: Iterable[Outcome], count: int) -> Iterator[Outcome]:
    for done, outcome in enumerate(outcomes, 1):
        if sys.stderr.isatty() and (done % 10 == 0 or done == count):
            print(f"\r{done} of {count} operations", end="" if done < count else "\n", file=sys.stderr)
        yield outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pto_jax.testing.device_check",
        description="Compare a JAX device with the reference interpreter, bit for bit.",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the operands (default: 0)")
    parser.add_argument("--device", choices=("gpu", "cpu"), help="default: JAX's default device")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="only these instructions")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="threads (default: one per core)"
    )
    args = parser.parse_args(argv)
    try:
        check_names(args.only)
        if args.seed < 0 or args.jobs < 1:
            raise ArgumentError(
                f"got --seed {args.seed} --jobs {args.jobs}", allowed="a seed of 0 or more, 1 job or more"
            )
        device = select_device(args.device)
    except ArgumentError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    return 1 if run(args.seed, device, args.only, args.jobs).failures else 0


if __name__ == "__main__":
    sys.exit(main())
