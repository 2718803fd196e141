"""The commands ``races`` and ``memory``: the order of operations, and tiles over the lines of a program."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..api import load, resolve_profile, verify
from ..errors import Diagnostic, FileError, ParseError, PtoError, PtoWarning
from ..ir import Program
from ..profiles import ARCHITECTURES, PROFILE_NAMES, Profile
from . import options, rank_options
from .options import ACCEPTED, REJECTED, USAGE, Adder

if TYPE_CHECKING:
    from ..order import Finding


def add(command: Adder) -> None:
    """Define the command and its options."""
    sub = command("races", run, "Find operations that nothing orders, waits without end, and lost tokens.")
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("--json", metavar="OUT", help="write the findings as a JSON list")
    sub.add_argument(
        "--sync",
        choices=("auto", "as-written", "inserted", "strict"),
        default="auto",
        help="where the order comes from: the text (as-written), a tool inside each core (inserted), or "
        "the text with barriers between dependent vector instructions (strict); default: as the text looks",
    )
    sub.add_argument(
        "--profile", choices=PROFILE_NAMES, help="default: the program's pto.target_arch, else a2a3"
    )
    sub.add_argument("--arch", choices=ARCHITECTURES, help="as --profile, unless the text names a device")
    sub.add_argument("--inputs", metavar="IN.npz", help="arguments by name; the other arguments are assumed")
    sub.add_argument(
        "--grid",
        type=int,
        metavar="N",
        help="blocks of the launch, which are compared with each other (default: 1, or 2 where blocks wait "
        "for each other)",
    )
    sub.add_argument(
        "--schedules",
        type=int,
        default=0,
        metavar="N",
        help="execute each race in N legal orders of the pipes and show the bits that differ (default: 0)",
    )
    sub.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of orders and generated input (default: 0)"
    )
    rank_options.add_windows(sub)
    options.add_language(sub)
    options.add_examples(
        sub,
        (
            "races k.pto --ranks 4 --shared y,s --context ctx=y",
            "accesses that no signal orders",
        ),
        ("races k.pto", "exit status 0: nothing, 1: findings, 2: unreadable"),
        ("races k.pto --schedules 8", "with the bits that a race changes"),
        ("races k.pto --sync as-written --json out.json", "nothing is inserted; for tools"),
    )


def add_memory(command: Adder) -> None:
    """Define the command ``memory`` and its options."""
    sub = command("memory", memory, "Show the bytes and the lines of each tile in on-chip memory.")
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("--profile", choices=PROFILE_NAMES, help="default: as for races")
    sub.add_argument("--svg", metavar="OUT.svg", help="also write a picture of it")
    options.add_language(sub)
    options.add_examples(
        sub,
        ("memory k.pto", "per buffer the peak, and a bar of lines for every tile"),
        ("memory k.pto --svg memory.svg", "the same as a picture"),
    )


def memory(args: argparse.Namespace) -> int:
    """Print the memory of every function, and values that are overwritten too early; the exit status."""
    try:
        program = load(args.file, language=args.language)
    except (FileError, ParseError) as error:
        print(error if isinstance(error, ParseError) else f"pto-jax memory: error: {error}", file=sys.stderr)
        return USAGE

    from ..analysis.resolve import resolve
    from ..order.memory import Memory
    from ..verifier.capacity import needed_bytes
    from ..verifier.overlaps import overwritten

    profile = resolve_profile(program, args.profile)
    resolved = resolve(program, profile)
    overlaps: list[Diagnostic] = []
    lines: list[str] = []
    try:
        for function in resolved.program.functions:
            least = needed_bytes(resolved, function, profile)
            lines += Memory.of(resolved, function).lines(profile.capacity, least)
            overlaps += overwritten(resolved, function)
    except Exception:
        # A program that is wrong in other ways may have no lifetimes.
        errors = [d for d in verify(program, profile) if d.severity == "error"]
        if not errors:
            raise
        print("\n".join(map(str, errors)), file=sys.stderr)
        return USAGE
    print("\n".join(lines) or f"{args.file}: no tile is in use")
    for finding in overlaps:
        print(finding.render())
    if args.svg is not None:
        from ..pictures import memory as picture

        picture(program, profile).save(args.svg)
    return REJECTED if overlaps else ACCEPTED


def run(args: argparse.Namespace) -> int:
    """Judge a file and print what is found; the exit status."""
    for name in ("grid", "schedules", "seed"):
        least = 1 if name == "grid" else 0
        if getattr(args, name) is not None and getattr(args, name) < least:
            print(
                f"pto-jax races: error: --{name}: got {getattr(args, name)}; allowed: {least} or more",
                file=sys.stderr,
            )
            return USAGE
    if args.ranks is not None or rank_options.is_plan(args.file):
        from . import ranks

        return ranks.races(args)
    rank_options.require_ranks(args)
    try:
        program = load(args.file, language=args.language)
        profile = resolve_profile(program, args.profile, arch=args.arch)
        inputs = _inputs(args, program, profile)
    except (FileError, ParseError) as error:
        for line in str(error).splitlines():
            print(line if isinstance(error, ParseError) else f"pto-jax races: error: {line}", file=sys.stderr)
        return USAGE

    from ..schedules.races import mode_of

    try:
        result = _found(args, program, profile, inputs)
    except PtoError as error:
        print(f"pto-jax races: error: {error}", file=sys.stderr)
        return USAGE
    for finding in result:
        print(finding)
    mode = mode_of(program, profile) if args.sync == "auto" else args.sync
    verdict = f"{len(result)} finding{'' if len(result) == 1 else 's'}" if result else "nothing found"
    print(f"{args.file}: {verdict} ({mode}, {profile.name})")
    if args.json is not None:
        from ..files import write_text

        write_text(args.json, json.dumps([f.as_json() for f in result], indent=2) + "\n")
    return REJECTED if result else ACCEPTED


def _found(
    args: argparse.Namespace, program: Program, profile: Profile, inputs: dict[str, Any] | None
) -> list[Finding]:
    """The findings of a program; warnings are printed."""
    from ..schedules.races import races

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PtoWarning)
        findings = races(
            program,
            profile,
            sync=args.sync,
            inputs=inputs,
            grid=args.grid,
            schedules=args.schedules,
            seed=args.seed,
        )
    for warning in caught:
        print(f"pto-jax races: warning: {warning.message}", file=sys.stderr)
    return findings


def _inputs(args: argparse.Namespace, program: Program, profile: Profile) -> dict[str, Any] | None:
    """Arguments from a file, or generated ones for an execution."""
    scalars: dict[str, Any] = rank_options.given(args)["scalars"]
    if not args.schedules:
        from ..files.arrays import load_arrays

        arrays = load_arrays(args.inputs) if args.inputs is not None else {}
        names = {a.name for f in program.functions for a in f.args} or {*arrays, *scalars}
        for source, values in ((args.inputs, arrays), ("--arg", scalars)):
            for name in values:
                if name not in names:
                    allowed = ", ".join(sorted(names))
                    raise FileError(f"{source}: no argument is called {name!r}", allowed=allowed)
        return arrays | scalars or None

    from ..runtime.array_files import read_inputs
    from ..runtime.kernel import compile as compile_program
    from .run import generate_inputs

    kernel: Any = compile_program(
        program, profile=profile, checks=True, grid=args.grid or 1, warn=False, partial_launch=True
    )
    if args.inputs is not None:
        return {**read_inputs(kernel, args.inputs)[0], **scalars}
    return {**generate_inputs(kernel, args.seed, None), **scalars}
