"""The command ``verify``."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from ..api import load, resolve_profile, verify
from ..errors import ArgumentError, Diagnostic, FileError, ParseError
from ..ir import PRESENT, Program
from ..isa.history import left_out
from ..profiles import PROFILES
from .findings import as_json, github, placed, sarif
from .options import ACCEPTED, REJECTED, USAGE


def run(args: argparse.Namespace) -> int:
    """Verify the files and print what is found; the exit status."""
    if args.memory is not None and len(args.files) > 1:
        raise ArgumentError(f"--memory: got {len(args.files)} files", allowed="one")
    status = ACCEPTED
    everything: list[tuple[str, Diagnostic]] = []
    for file in args.files:
        try:
            findings, verdict = _findings(args, file)
        except FileError as error:
            print(f"pto-jax verify: error: {error}", file=sys.stderr)
            status = USAGE
            continue
        everything += ((file, d) for d in findings)
        if args.format == "text":
            for diagnostic in findings:
                print(placed(diagnostic, file))
            if verdict:
                print(verdict)
        if any(d.severity == "error" for d in findings):
            status = max(status, REJECTED)
        if args.memory is not None:
            _draw(args, file, findings)
    if args.format == "github":
        for file, diagnostic in everything:
            print(github(diagnostic, file))
    elif args.format in ("json", "sarif"):
        print(as_json(everything) if args.format == "json" else sarif(everything))
    return status


def _draw(args: argparse.Namespace, file: str, findings: list[Diagnostic]) -> None:
    """Write the picture of on-chip memory, or the reason why there is none to standard error."""
    from ..pictures.memory import SHOWN, memory

    errors = Counter(d.rule for d in findings if d.severity == "error")
    if rules := [f"{n} of {rule or 'the syntax'}" for rule, n in errors.items() if rule not in SHOWN]:
        text = ", ".join(sorted(SHOWN))
        message = f"got errors ({', '.join(rules)}); allowed: no errors, or those of {text}"
        print(f"pto-jax verify: {args.memory} is not written: {message}", file=sys.stderr)
        return
    program = load(file, language=args.language)
    memory(program, resolve_profile(program, args.profile, arch=args.arch)).save(args.memory)


def _findings(args: argparse.Namespace, file: str) -> tuple[list[Diagnostic], str]:
    """What is wrong with a program, and the verdict in a line; of one that cannot be read the first error."""
    try:
        program = load(file, language=args.language)
    except ParseError as error:
        return list(error.diagnostics), ""
    build = {"arch": args.arch, "level": args.level, "auto_sync": args.auto_sync, "strict": args.strict}
    result = verify(program, args.profile, portable=args.portable, **build)
    count = Counter(d.severity for d in result)
    target = resolve_profile(program, args.profile, arch=args.arch).name
    modes = [name for name in ("portable", "strict") if getattr(args, name)]
    said = ", ".join([target, *modes])
    verdict = "rejected" if count["error"] else "accepted"
    verdict = f"{file}: {verdict} ({said}): {count['error']} errors, {count['warning']} warnings"
    return list(result), "\n".join([verdict, *_notes(program, target, args.language)])


def _notes(program: Program, profile: str, language: str | None) -> Iterator[str]:
    """A line about attributes that are left out, where nothing says in which version of the language."""
    said = language is not None or program.language != PRESENT
    omissions = [] if said else list(left_out(program, PROFILES[profile]))
    if omissions:
        more = f" (and {len(omissions) - 1} more)" if len(omissions) > 1 else ""
        yield f"{omissions[0].op.span}: note: {omissions[0]}{more}"
