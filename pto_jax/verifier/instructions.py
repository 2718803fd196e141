"""The instructions of a program against their declarations."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from ..analysis import lattices, resolve
from ..errors import Diagnostic
from ..ir import PRESENT, Op
from ..isa.check import Scratch, Valid, check_op, hidden_scratch
from ..profiles import Profile

#: All that the rules for an instruction see, apart from names and places.
_Signature: TypeAlias = tuple[object, ...]


class InstructionRules:
    """The declared rules on the instructions of one program, at a profile and a level.

    Programs have few different instructions: where nothing was wrong with one, nothing is wrong with another
    one of its signature.
    """

    def __init__(self, resolved: resolve.ResolvedProgram, profile: Profile, level: int | None) -> None:
        self.resolved = resolved
        self.profile = profile
        self.level = level
        #: The bytes that the instructions of legal signatures overwrite without naming them.
        self._legal: dict[_Signature, Scratch | None] = {}

    def check(self, op: Op, known: lattices.OperandFacts) -> tuple[list[Diagnostic], Scratch | None]:
        """What is wrong with an instruction, and the bytes that it overwrites without naming them."""
        signature = _signature(op, known)
        if signature in self._legal:
            return [], self._legal[signature]
        resolved = self.resolved.of(op)
        overwritten = hidden_scratch(op, self.profile, known.valid, resolved.bound)
        found = self._findings(resolved, known)
        if not found:
            self._legal[signature] = overwritten
        return found, overwritten

    def _findings(self, resolved: resolve.ResolvedOp, known: lattices.OperandFacts) -> list[Diagnostic]:
        """What is wrong by the sizes that the types of an instruction state.

        What only the constants of the text break breaks when it is executed: the assembler accepts it.
        """
        found = self._objections(resolved, known, {})
        for finding in self._objections(resolved, known, known.valid) if known.valid else ():
            if finding not in found:
                message = f"{finding.message} (by constants; an error where it is executed)"
                found.append(replace(finding, severity="warning", message=message))
        return found

    def _objections(
        self, resolved: resolve.ResolvedOp, known: lattices.OperandFacts, valid: Mapping[str, Valid]
    ) -> list[Diagnostic]:
        """What the declaration of an instruction objects to, with further valid regions."""
        return check_op(
            resolved.op,
            self.profile,
            valid=valid,
            constants=known.numbers,
            shapes=known.extents,
            layouts=known.layouts,
            types=False,
            bound=resolved.bound,
            language=self.resolved.program.language or PRESENT,
            level=self.level,
        )


def _signature(op: Op, known: lattices.OperandFacts) -> _Signature:
    """What tells an instruction of a program from others that the same rules hold for.

    Types and attributes count by identity: they live as long as the program, and the reader gives those of
    statements that say the same one object.
    """
    values = (*op.ins, *op.outs, *op.results)
    names = [v.name for v in values]
    first: dict[str, int] = {}
    return (
        op.name,
        id(op.attributes),
        op.implied,
        op.groups,
        len(op.ins),
        len(op.outs),
        tuple([id(v.type) for v in values]),
        tuple([first.setdefault(name, at) for at, name in enumerate(names)]),
        *(
            tuple(map(facts.get, names)) if facts else None
            for facts in (known.numbers, known.valid, known.extents, known.layouts)
        ),
    )
