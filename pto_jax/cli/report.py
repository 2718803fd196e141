"""The command ``report``: what a campaign's store says, as text, JSON and a page."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from ..errors import ArgumentError
from .options import Adder, add_examples, flag

if TYPE_CHECKING:
    from ..cases.ulp import Histograms


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("report", _report, "Summarise a campaign: failures, coverage, rate.")
    sub.add_argument("store", nargs="?", metavar="STORE", help="a file that pto-jax fuzz --store wrote")
    sub.add_argument("--html", metavar="OUT.html", help="write one self-contained page")
    sub.add_argument("--json", metavar="OUT.json", help="write the same as JSON")
    sub.add_argument("--known", metavar="OUT", help="write the failure groups as a baseline for fuzz --known")
    add_examples(
        sub,
        ("report run.db --html run.html", "coverage, causes, ULPs"),
    )
    flag(sub, "--ulp", "also measure this engine's accuracy; needs no store")


def _report(args: argparse.Namespace) -> int:
    from ..campaign.report.html import page
    from ..campaign.report.model import Contents, read, report
    from ..campaign.report.text import text
    from ..failures.folders import write_known
    from ..files import write_text

    store = _store(args)
    contents = Contents("", {}) if store is None else read(store)
    result = report(contents, _measured() if args.ulp else None)
    if args.html:
        write_text(args.html, page(result))
    if args.json:
        write_text(args.json, json.dumps(result.plain(), indent=1) + "\n")
    if args.known:
        write_known(args.known, (c.cause for c in result.causes))
    print(text(result))
    return 0


def _store(args: argparse.Namespace) -> str | None:
    """The store to report, None where only accuracy is measured."""
    if args.store is None and not args.ulp:
        raise ArgumentError("got no STORE", allowed="a file that pto-jax fuzz --store wrote, or --ulp")
    store: str | None = args.store
    return store


def _measured() -> dict[str, Histograms]:
    from ..campaign.report.measure import measure

    return {numerics: measure(numerics) for numerics in ("exact", "fast")}
