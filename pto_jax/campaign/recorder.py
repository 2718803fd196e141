"""What becomes of a failure: it is shrunk, its folder is written, its cause is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .judge import Outcome
from .targets import Target


@dataclass(frozen=True)
class Record:
    """What a store keeps of a failure beside the outcome; failures of one ``cause`` belong together."""

    instruction: str = ""
    cause: str = ""
    folder: str | None = None


class Recorder(Protocol):
    """Keeps a failure that was found with two machines."""

    def __call__(self, outcome: Outcome, reference: Target, tested: Target) -> Record: ...


def forget(outcome: Outcome, reference: Target, tested: Target) -> Record:
    """A recorder that keeps nothing but the outcome's own words."""
    return Record(cause=f"{outcome.kind}: {outcome.message.splitlines()[0] if outcome.message else ''}")
