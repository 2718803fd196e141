"""Functions of several blocks: branches, followed to where they meet again."""

from functools import partial

from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..ir import Op, Region
from ..isa.structure import BRANCH_IF, FUNCTION_END
from .interpreter import Interpreter, Steps, complete, executes
from .operands import Operand
from .scope import Frame, Scope

#: The first block, and behind the returns of a function: where branches meet that meet in no block.
ENTRY, EXIT = "^", ""
#: Branches after which a machine without a limit of its own stops.
MAX_BRANCHES = 1_000_000


@executes("cf.graph")
def _graph(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    labels = op.attrs["labels"]
    assert isinstance(labels, tuple)
    names = [ENTRY, *(str(label) for label in labels[1:])]
    graph = _Graph(interpreter, op, dict(zip(names, op.regions, strict=True)))
    interpreter.returned = yield from graph.run(ENTRY, (), EXIT, scope, ())


class _Graph:
    """The blocks of one function, by label."""

    def __init__(self, interpreter: Interpreter, op: Op, blocks: dict[str, Region]) -> None:
        self.interpreter, self.op, self.blocks = interpreter, op, blocks
        self.meets = meeting_points({n: successors(b) for n, b in blocks.items()})

    def run(
        self, label: str, given: tuple[Operand, ...], stop: str, scope: Scope, chosen: tuple[str, ...]
    ) -> Steps[tuple[Operand, ...]]:
        """Execute from a block on, up to the block ``stop``; what is handed to that one, or returned.

        ``chosen`` are the blocks whose branches are only decided when the program runs.
        """
        machine = self.interpreter.machine
        limit = machine.max_steps or MAX_BRANCHES
        for _ in range(limit + len(self.blocks)):
            if label == stop:
                return given
            block = self.blocks[label]
            for argument, operand in zip(block.args, given, strict=True):
                scope.bind(argument, operand)
            values = yield from self.interpreter.block(block, scope)
            last, targets = block.ops[-1], successors(block)
            if last.name == FUNCTION_END:
                return values
            if last.name != BRANCH_IF:
                label, given = targets[0], values
                continue
            first = 1 + len(last.group("to0"))
            both, known = (values[1:first], values[first:]), machine.known(values[0])
            if known is not None:
                label, given = targets[0 if known else 1], both[0 if known else 1]
                continue
            if label in chosen:
                raise NotExecutableError(_loop(last))
            join, taken = self.meets[label], (*chosen, label)
            arms = [
                partial(self._arm, to, handed, join, scope, taken)
                for to, handed in zip(targets, both, strict=True)
            ]
            frame = Frame(last, self.interpreter.modes, scope)
            label, given = join, machine.branch(frame, values[0], arms)
        message = f"found more than {limit} branches; allowed: at most that many (max_steps)"
        raise ExecutionError(Diagnostic("error", message, self.op.span, self.op.name, rule="steps"))

    def _arm(
        self, label: str, given: tuple[Operand, ...], stop: str, scope: Scope, chosen: tuple[str, ...]
    ) -> tuple[Operand, ...]:
        """What one side of a branch hands to where both meet."""
        return complete(self.run(label, given, stop, Scope(scope), chosen))


def _loop(branch: Op) -> Diagnostic:
    message = "a loop of branches whose end only execution knows; allowed: scf.while, or eager execution"
    return Diagnostic("error", message, branch.span, branch.name, rule="executable")


def successors(block: Region) -> list[str]:
    """The labels that a block's branch leads to."""
    targets = block.ops[-1].attrs.get("targets") if block.ops else None
    return [str(t) for t in targets] if isinstance(targets, tuple) else []


def meeting_points(graph: dict[str, list[str]]) -> dict[str, str]:
    """For every block the first one that all paths from it lead to; EXIT where there is none.

    >>> meeting_points({"^": ["a", "b"], "a": ["c"], "b": ["c"], "c": []})["^"]
    'c'
    """
    behind = {name: {*graph, EXIT} for name in graph} | {EXIT: {EXIT}}
    changed = True
    while changed:
        changed = False
        for name, targets in graph.items():
            common = set.intersection(*(behind[t] for t in targets or [EXIT])) | {name}
            if behind[name] != common:
                behind[name], changed = common, True
    # The nearest of the blocks behind one has all others of them behind itself.
    return {
        name: next((m for m in behind[name] - {name} if behind[m] == behind[name] - {name}), EXIT)
        for name in graph
    }
