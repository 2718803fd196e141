"""The commands of ``pto-jax`` and their options.

Modules that need JAX are imported inside the commands that use them.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ArgumentError, nearest, objection, short_list
from ..ir import TEXT_LANGUAGES
from ..profiles import ARCHITECTURES, PROFILE_NAMES
from . import completion, doctor, findings, fuzz, lsp, options, races, rank_options, replay, report, step

if TYPE_CHECKING:
    from ..isa import Instruction


class _Parser(argparse.ArgumentParser):
    """A parser whose messages are of the form of all messages, below a usage line of the command."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._objection(unknown))
        return known, unknown

    def _objection(self, unknown: Sequence[str]) -> str:
        option, _, value = unknown[0].partition("=")
        got = f"got the unknown argument{'s' * (len(unknown) > 1)} {' '.join(unknown)}"
        if not option.startswith("-"):
            return objection(got, "options, see --help")
        names = [name.strip("-") for action in self._actions for name in action.option_strings]
        meant = nearest(option.strip("-"), names)
        meant = f"--{meant}" if meant else ""
        return objection(got, "options, see --help", f"{meant}={value}" if meant and value else meant)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            allowed, meant = short_list(choices, where="see --help"), nearest(value, choices)
            raise argparse.ArgumentError(action, objection(f"got {value!r}", allowed, meant))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if action.type in (int, float):
            number = _number(arg_string, action.type)
            if number is None:
                kind = "an integer" if action.type is int else "a number"
                raise argparse.ArgumentError(action, objection(f"got {arg_string!r}", kind))
            return number
        return super()._get_value(action, arg_string)


def _usage(sub: argparse.ArgumentParser) -> str:
    """One line: what has to be there, and that there are options, which the help lists below."""
    words = [f"{a.option_strings[-1]} {a.metavar}" for a in sub._actions if a.option_strings and a.required]
    formatter = sub._get_formatter()
    words += [formatter._format_args(a, str(a.metavar)) for a in sub._get_positional_actions()]
    return " ".join(["%(prog)s [options]", *words])


def _number(text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    root = _Parser(
        prog="pto-jax", description="Execute, verify and inspect PTO tile programs.", allow_abbrev=False
    )
    root.add_argument("--version", action="version", version=f"pto-jax {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=run, name=name)
        sub.add_argument(
            "--extension",
            action="append",
            default=[],
            metavar="FILE.py",
            help="a file that adds instructions",
        )
        return sub

    def profile(sub: argparse.ArgumentParser, default: str | None = None) -> None:
        text = default or "the program's pto.target_arch, else a2a3"
        sub.add_argument("--profile", choices=PROFILE_NAMES, default=default, help=f"default: {text}")

    sub = command("run", _run, "Execute a program and describe the buffers it wrote.")
    sub.add_argument("file", nargs="?", metavar="FILE", help="a .pto file, or a plan for ranks (.json)")
    sub.add_argument("--example", metavar="NAME", help="a shipped example instead of a file; list: name them")
    sub.add_argument("--entry", metavar="FUNCTION", help="function to execute")
    profile(sub)
    options.add_language(sub)
    sub.add_argument("--numerics", choices=("exact", "fast"), default="exact", help="default: exact")
    sub.add_argument("--inputs", metavar="IN.npz", help="one array per argument; generated when missing")
    sub.add_argument("--outputs", metavar="OUT.npz", help="write every buffer the program wrote")
    sub.add_argument(
        "--sanitize",
        choices=("uses", "strict"),
        help="run the interpreter and report uses of undefined data that reach a result; =strict: every use",
    )
    sub.add_argument("--dump-state", metavar="OUT.npz", help="write the final tiles and memory spaces")
    sub.add_argument(
        "--pictures",
        metavar="DIR",
        help="write a picture (SVG) of every buffer that the program wrote; with --break of all tiles",
    )
    sub.add_argument("--seed", type=int, default=0, metavar="N", help="seed of generated input (default: 0)")
    sub.add_argument("--grid", type=int, metavar="N", help="blocks to execute (default: 1, or the example's)")
    options.flag(sub, "--partial-launch", "execute another number of blocks than is needed")
    sub.add_argument("--max-steps", type=int, metavar="N", help="maximum iterations of a while loop")
    sub.add_argument(
        "--trace",
        choices=("instructions", "micro"),
        help="print executed instructions; =micro: with the operations of the first lanes",
    )
    sub.add_argument("--trace-limit", type=int, default=1000, metavar="N", help="lines (default: 1000)")
    sub.add_argument("--trace-lanes", type=int, default=4, metavar="N", help="lanes with =micro (default: 4)")
    sub.add_argument(
        "--break",
        dest="stop",
        metavar="[FILE:]LINE[:COUNT]",
        help="stop before the operation on a line, the COUNT-th time, and write the state",
    )

    rank_options.add_options(sub)
    options.add_examples(
        sub,
        ("run k.pto --ranks 4 --shared y,s --context ctx=y", "on four processors with symmetric windows"),
        ("run plan.json", "kernels that every rank executes in their order"),
        ("run --example softmax", "a shipped program on generated input"),
        ("run k.pto --inputs in.npz --outputs out.npz", "one array per argument, by name"),
        ("run k.pto --trace", "every instruction: shapes, valid regions, range, NaNs"),
        ("run k.pto --break 42:3", "stop before line 42 the third time, write the state"),
        ("run k.pto --pictures out", "a picture of every buffer that is written"),
        ("run k.pto --sanitize", "uses of undefined data"),
    )

    sub = command("diff", _diff, "Run two programs on the same generated inputs and compare every buffer.")
    sub.add_argument("before", metavar="BEFORE", help="a .pto file, or a folder with --corpus or --series")
    sub.add_argument("after", nargs="?", metavar="AFTER")
    sub.add_argument("more", nargs="*", metavar="DUMP", help="with --series: the next dumps")
    options.flag(sub, "--corpus", "compare all programs of two folders, those of the same path")
    options.flag(
        sub,
        "--series",
        "find the first of some dumps (files, folders, or a folder of them) that differs from dump 1",
    )
    options.flag(
        sub,
        "--sync",
        "compare the order (flags, events, barriers) in two versions of a program, or in two folders",
    )
    sub.add_argument(
        "--ulp",
        action="append",
        default=[],
        metavar="[NAME=]N",
        help="allowed difference of a buffer, or of all, in units in the last place; NaNs are then equal",
    )
    options.flag(
        sub,
        "--open",
        "count differences of elements that BEFORE leaves open (they follow from undefined data); "
        "they are no failures",
    )
    options.flag(sub, "--exhaustive", "then try every value of sources whose elements have one or two bytes")
    sub.add_argument("--json", metavar="OUT", help="write the verdict on every program as JSON")
    sub.add_argument("--junit", metavar="OUT.xml", help="write the verdicts as JUnit")
    sub.add_argument(
        "--workers", type=int, metavar="W", help="processes for --corpus (default: one per core)"
    )
    sub.add_argument("--count", type=int, default=16, metavar="N", help="inputs to try (default: 16)")
    sub.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the inputs (default: 0)")
    sub.add_argument("--inputs", metavar="IN.npz", help="compare on this input instead")
    profile(sub)
    sub.add_argument("--numerics", choices=("exact", "fast"), default="exact", help="default: exact")
    sub.add_argument("--grid", type=int, default=1, metavar="N", help="blocks to execute (default: 1)")
    options.flag(sub, "--partial-launch", "execute another number of blocks than is needed")
    sub.add_argument(
        "--arg", action="append", default=[], metavar="NAME=N", help="value of a scalar argument"
    )
    sub.add_argument("--entry", metavar="FUNCTION", help="function to execute, of both programs")
    options.add_language(sub)
    sub.add_argument(
        "--language-after", choices=TEXT_LANGUAGES, help="that of AFTER (default: as --language)"
    )
    sub.add_argument("--failures", default=".", metavar="DIR", help="where failure folders go (default: .)")

    rank_options.add_windows(sub, scalars=False)

    options.add_examples(
        sub,
        ("diff before.pto after.pto --count 100", "a compiler pass"),
        ("diff ring.pto after.pto --ranks 4 --shared y,s", "the same on four processors"),
        ("diff a.pto a.pto --language 2026-04 --language-after 2026-08", "one text under two versions"),
        ("diff kernel.pto kernel.cpp", "a source and the C++ that an assembler emitted for it"),
        ("diff --corpus before/ after/ --junit verdicts.xml", "folders of programs of the same paths"),
        ("diff --corpus tiles/ expanded/ --open", "tile programs and their micro-operations"),
        ("diff --series dumps/", "the first dump that is wrong"),
        ("diff --sync old.cpp new.cpp", "order lost and gained; exit status 1: the new one has findings"),
        ("diff --sync old/ new/ --json out.json", "the same for folders of two assemblers"),
    )

    sub = command("verify", _verify, "Check programs against a hardware profile.")
    sub.add_argument("files", nargs="+", metavar="FILE")
    profile(sub)
    options.flag(sub, "--portable", "accept only rules that hold on every profile")
    sub.add_argument("--arch", choices=ARCHITECTURES, help="as --profile, unless the program names a device")
    sub.add_argument(
        "--level", type=options.build_level, help="build level 1, 2 or 3 (level1 ...); 3 places all tiles"
    )
    options.flag(sub, "--auto-sync", "a tool inserts the synchronisation")
    sub.add_argument("--memory", metavar="OUT.svg", help="write a picture of on-chip memory, of one FILE")
    options.flag(sub, "--strict", "warnings reject; on a2a3 dependent vector instructions need a barrier")
    sub.add_argument(
        "--format",
        choices=findings.FORMATS,
        default="text",
        help="format of the diagnostics: text, annotations of GitHub workflows, JSON, SARIF (default: text)",
    )
    sub.add_argument(
        "--json", action="store_const", const="json", dest="format", help="the same as --format json"
    )
    options.add_language(sub)

    options.add_examples(
        sub,
        ("verify k.pto --profile a5", "exit status 0: accepted, 1: rejected"),
        ("verify --portable kernels/*.pto", "rules that hold on every profile"),
        ("verify k.pto --strict", "warnings reject, too"),
        ("verify k.pto --memory memory.svg", "a picture of on-chip memory"),
        ("verify k.pto --format sarif", "for tools"),
    )

    sub = command("fmt", _fmt, "Print a program, optionally in another spelling.")
    sub.add_argument("file", nargs="?", metavar="FILE")
    sub.add_argument("--example", metavar="NAME", help="a shipped example instead of a file")
    sub.add_argument("--form", choices=("as", "ssa", "dps", "generic"), help="syntax of the instructions")
    options.add_language(sub)

    options.add_examples(
        sub,
        ("fmt k.pto --form ssa", "as | ssa | dps"),
        ("fmt --example softmax > softmax.pto", "a file for verify, cost, races and memory"),
    )

    sub = command("conformance", _conformance, "Run test vectors and count results per instruction.")
    sub.add_argument("paths", nargs="*", metavar="PATH", help="vector file, or a folder of them")
    sub.add_argument(
        "--st",
        metavar="DIR",
        help="run the assembler's system tests in a folder (their own Python scripts are executed) and "
        'folders of raw files with a case.json: {"program": "k.pto", "inputs": {"x": "x.bin", "n": 8}, '
        '"expected": {"out": "golden.bin"}}; an expected file may be {"file": F, "rtol": R, "atol": A}',
    )
    sub.add_argument("--only", metavar="TEXT", help="with --st: tests and cases whose name contains TEXT")
    sub.add_argument(
        "--python",
        metavar="FILE",
        help="with --st: interpreter of their scripts, with the packages they need",
    )
    profile(sub, default="cpu_sim")
    sub.add_argument("--json", metavar="OUT", help="write every result as JSON")
    sub.add_argument(
        "--executor",
        choices=("engine", "oracle"),
        default="engine",
        help="executor under test (default: engine)",
    )

    options.add_examples(
        sub,
        ("conformance vectors/", "recorded results, yours or the simulator's"),
        ("conformance --st test/tilelang_st --only tadd", "the assembler's system tests as they are"),
    )

    sub = command(
        "isa",
        _isa,
        "Manual: instructions, tile types, types, grammar, profiles, events; all instructions without NAME.",
    )
    sub.add_argument("instruction", nargs="?", metavar="NAME")
    for page, what in (
        ("changes", "changes between versions of the text language"),
        ("contradictions", "decisions that public test suites contradict, with both sources"),
    ):
        sub.add_argument(f"--{page}", dest="page", action="store_const", const=page, help=what)
    options.flag(sub, "--json", "print JSON")

    options.add_examples(
        sub,
        ("isa tcvt", "one instruction, with or without pto."),
        ("isa tile", "grammar, tile, types, profiles, events"),
        ("isa --changes", "changes between versions of the language"),
    )

    sub = command("cost", _cost, "Estimated cycles per instruction and per pipe.")
    sub.add_argument("files", nargs="+", metavar="FILE", help=".pto files; several are ranked")
    sub.add_argument(
        "--model",
        choices=("doc_formula", "analytic_legacy", "cce_stub", "fit", "tables", "a5_fit"),
        help="cycle model (default: the first that describes the profile; of several files tables, a5_fit)",
    )
    profile(sub)
    sub.add_argument("--entry", metavar="FUNCTION", help="function the program starts with")
    options.add_language(sub)
    sub.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=N",
        help="value of a scalar argument, which sizes and loop bounds may depend on",
    )
    sub.add_argument(
        "--timeline",
        metavar="OUT",
        help="write the pipes over time: a picture (.svg), or a trace for Perfetto (.json)",
    )
    options.flag(sub, "--json", "print JSON")
    sub.add_argument("--ranks", type=int, help=argparse.SUPPRESS)

    options.add_examples(
        sub,
        ("cost k.pto --profile a5", "cycles per instruction and pipe"),
        ("cost k.pto --timeline pipes.svg", "the pipes over time"),
        ("cost k.pto --arg rows=40", "with a value that loop bounds depend on"),
        ("cost a.pto b.pto", "the cheapest first"),
    )

    for add in (
        step.add,
        fuzz.add,
        replay.add,
        replay.add_emit,
        report.add,
        replay.add_shrink,
        doctor.add,
        lsp.add,
        races.add,
        races.add_memory,
    ):
        add(command)
    completion.add(command, parser)
    for sub in commands.choices.values():
        sub.usage = _usage(sub)
    return root


def _run(args: argparse.Namespace) -> int:
    from ..examples import ON_RANKS
    from . import ranks
    from .run import run

    _require_program(args)
    watching = args.trace is not None or args.stop is not None
    watch = options.Watch(args.trace, args.trace_limit, args.trace_lanes, args.stop) if watching else None
    run_options = options.of_command(options.RunOptions, args, watch=watch, **rank_options.given(args))
    on_ranks = run_options.ranks is not None or rank_options.is_plan(run_options.file)
    on_ranks = on_ranks or run_options.example in ON_RANKS
    if not on_ranks:
        rank_options.require_ranks(args, schedule=None, moves="issue", sync="auto")
    (ranks.run if on_ranks else run)(run_options)
    return options.ACCEPTED


def _require_program(args: argparse.Namespace) -> None:
    if (args.file is None) == (args.example is None):
        got = "no program" if args.file is None else f"two programs, {args.file} and {args.example}"
        fix = "--example add_relu_convert" if args.file is None else str(args.file)
        raise ArgumentError(f"got {got}", allowed="either a FILE or --example NAME", fix=fix)


def _diff(args: argparse.Namespace) -> int:
    windows = rank_options.given(args) if args.ranks is not None else {}
    if args.ranks is None:
        rank_options.require_ranks(args)
    scalars = windows.pop("scalars") if windows else dict(map(options.scalar, args.arg))
    after = args.language_after or args.language
    bounds = dict(map(options.ulp_bound, args.ulp))
    more = {
        "scalars": scalars,
        "ulp": bounds,
        "more": tuple(args.more),
        "language_after": after,
        **windows,
    }
    chosen = options.of_command(options.DiffOptions, args, **more)
    if chosen.sync:
        # Compares texts and executes nothing, so that it needs no JAX.
        from .diff_sync import diff_sync as compare
    else:
        from .diff import diff as compare
    return options.ACCEPTED if compare(chosen) else options.REJECTED


def _verify(args: argparse.Namespace) -> int:
    from . import verify

    return verify.run(args)


def _fmt(args: argparse.Namespace) -> int:
    from ..api import load
    from ..examples import example
    from ..files import write_text
    from ..isa.history import as_written
    from ..text import print_program

    _require_program(args)
    program = load(args.file or example(args.example).path, language=args.language)
    # Text for other tools: written as it is, not as a terminal may see it.
    write_text("-", print_program(as_written(program), form=args.form).rstrip("\n") + "\n")
    return options.ACCEPTED


def _conformance(args: argparse.Namespace) -> int:
    from .conformance import conformance

    return conformance(args)


def _isa(args: argparse.Namespace) -> int:
    from ..isa import added
    from ..manual import manual, sessions

    def python(instruction: "Instruction") -> str:
        if instruction.name not in added():
            return sessions().get(instruction.name, "")
        from .examples import session

        return session(instruction)

    print(manual(args.page or args.instruction, "json" if args.json else "text", python))
    return options.ACCEPTED


def _cost(args: argparse.Namespace) -> int:
    from ..api import load
    from ..cost import cost, rank

    if args.ranks is not None:
        raise ArgumentError("--ranks: costs are those of one rank, without its waits", allowed="no --ranks")
    programs = {file: load(file, language=args.language) for file in args.files}
    arguments = dict(options.scalar(text) for text in args.arg)
    if len(args.files) > 1:
        ranking = rank(programs, args.profile, args.model, entry=args.entry, arguments=arguments)
        print(json.dumps(ranking.to_json(), indent=2) if args.json else ranking)
        return options.ACCEPTED
    ((file, program),) = programs.items()
    priced = cost(program, args.profile, args.model, entry=args.entry, arguments=arguments)
    print(priced.to_json() if args.json else f"{file}: {priced}")
    if args.timeline is not None:
        from ..pictures import timeline

        picture = timeline(program, args.profile, args.model, entry=args.entry, arguments=arguments)
        picture.save(args.timeline)
    return options.ACCEPTED
