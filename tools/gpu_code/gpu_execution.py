"""Executing a GPU program on this machine: its instructions in the order that XLA scheduled them.

Arrays are bytes here: what a kernel does with its buffers is in its code. Loops and conditionals are
followed; of library calls only products of integers are computed, others are refused.
"""

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.gpu_code.gpu_host import Host
from tools.gpu_code.gpu_program import BYTES, Program, Step, layout, read, shapes
from tools.gpu_code.gpu_target import Code
from tools.gpu_code.gpu_translation import Kernel, Refused

#: The bytes of an array; of a tuple, its members.
Buffer: TypeAlias = "NDArray[np.uint8] | tuple[Buffer, ...]"

#: Longer loops take minutes here.
MAX_TRIPS = 4096
#: By how many units the coarse reciprocal of a GPU may be off in the last of its 20 places, as executed here.
COARSE = (0, -1, 1)


class Executor:
    """Executes generated code; equal code on equal arguments once.

    What it has executed is kept until it is told to :meth:`forget`.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Code, bytes], list[list[NDArray[np.uint8]]] | Refused] = {}

    def results(self, code: Code, arguments: Sequence[NDArray[Any]]) -> list[list[NDArray[np.uint8]]]:
        """The bytes of the results: once, or for every reading of a coarse reciprocal. Raises Refused."""
        digest = blake2b()
        for a in arguments:
            digest.update(np.ascontiguousarray(a).tobytes())
        key = code, digest.digest()
        if key not in self._known:
            self._known[key] = _executed(code, arguments)
        known = self._known[key]
        if isinstance(known, Refused):
            raise known
        return known

    def forget(self) -> None:
        """Drop what was executed: its memory, for code that is not to be expected again."""
        self._known.clear()


def _executed(code: Code, arguments: Sequence[NDArray[Any]]) -> list[list[NDArray[np.uint8]]] | Refused:
    try:
        execution = Execution(read(code.hlo), code.llvm)
        readings = COARSE if execution.host.is_coarse else COARSE[:1]
        return [execution.run(arguments, coarse) for coarse in readings]
    except Refused as refusal:
        return refusal


class Execution:
    """A program with its kernels."""

    def __init__(self, program: Program, modules: Sequence[str]) -> None:
        self.program, self.host = program, Host(modules, _grids(program))
        self._names = _kernel_names(program, self.host)

    def run(self, arguments: Sequence[NDArray[Any]], coarse: int = 0) -> list[NDArray[np.uint8]]:
        """The bytes of the results."""
        self.host.perturb(coarse)
        buffers = [np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8).copy() for a in arguments]
        return _flat(self._computation(self.program.entry, buffers))

    def _computation(self, name: str, arguments: Sequence[Buffer]) -> Buffer:
        values: dict[str, Buffer] = {}
        result: Buffer = ()
        for step in self.program.computations[name]:
            values[step.name] = result_ = self._step(name, step, values, arguments)
            result = result_ if step.is_root else result
        return result

    def _step(
        self, computation: str, step: Step, values: dict[str, Buffer], arguments: Sequence[Buffer]
    ) -> Buffer:
        operands = [values[n] for n in step.operands if n in values]
        match step.operation:
            case "parameter":
                return arguments[int(step.arguments)]
            case "constant":
                return constant(step)
            case "bitcast":
                return operands[0]
            case "tuple":
                return tuple(operands)
            case "get-tuple-element":
                index = re.search(r"index=(\d+)", step.attributes)
                assert index is not None
                return operands[0][int(index.group(1))]
            case "copy" if step.name not in self._names:
                return np.array(operands[0])
            case "while":
                return self._loop(step, operands[0])
            case "call":
                return self._computation(step.computation("to_apply"), operands)
            case "conditional":
                which = _scalar(operands[0], step)
                return self._computation(step.branches[which], [operands[1 + which]])
        if step.name in self._names:
            return self._launch(step, operands)
        if step.operation == "custom-call":
            types = {s.name: s.type for s in self.program.computations[computation]}
            return product(step, [types[n] for n in step.operands], [_flat(o)[0] for o in operands])
        inside, members = self._sorting(step)
        if inside is not None:
            return self._sort(step, inside, [operands[i] if i is not None else () for i in members])
        raise Refused(step.operation)

    def _sorting(self, step: Step) -> tuple[Step | None, list[int | None]]:
        """The sort that a step is, and which operand of the step each of its arrays is; None: none."""
        if step.operation == "sort":
            return step, list(range(len(step.operands)))
        steps = self.program.computations.get(_called(step), ())
        numbers = {s.name: int(s.arguments) for s in steps if s.operation == "parameter"}
        sort = next((s for s in steps if s.operation == "sort" and s.is_root), None)
        return sort, [numbers.get(n) for n in sort.operands] if sort is not None else []

    def _sort(self, step: Step, inside: Step, operands: Sequence[Buffer]) -> Buffer:
        """Kernels of a sort are named after it and sort its results in place, which begin as its operands.

        A result that begins as no operand holds numbers of places, which the kernel makes.
        """
        own = re.sub(r"\W", "_", inside.name)
        numbered = ((re.fullmatch(rf"{own}(?:__(\d+))?", name), name) for name in self.host.kernels)
        launched = [name for _, name in sorted((int(m[1] or 0), name) for m, name in numbered if m)]
        if not launched:
            raise Refused("sort")
        sizes = [prod(d) * width for _, d, width in shapes(step.type)]
        results = [
            np.array(_flat(o)[0]) if _flat(o) else np.zeros(size, np.uint8)
            for o, size in zip(operands, sizes, strict=True)
        ]
        buffers = {id(b): b for o in operands for b in _flat(o)}
        for name in launched:
            kernel = self.host.kernels[name]
            if kernel.uses[: len(buffers)] != ("unused",) * len(buffers):
                raise Refused("a sort that reads its operands")
            if len(kernel.uses) != len(buffers) + len(results):
                raise Refused(f"a sort of {len(kernel.uses)} buffers")
            self.host.run(name, [*buffers.values(), *results])
        return tuple(results) if step.type.startswith("(") else results[0]

    def _loop(self, step: Step, state: Buffer) -> Buffer:
        body, condition = step.computation("body"), step.computation("condition")
        for trip in range(MAX_TRIPS + 1):
            if step.trips is not None and trip == step.trips:
                return state
            if step.trips is None and not _flat(self._computation(condition, [state]))[0][0]:
                return state
            state = self._computation(body, [state])
        raise Refused(f"a loop of more than {MAX_TRIPS} trips")

    def _launch(self, step: Step, operands: Sequence[Buffer]) -> Buffer:
        """A kernel takes its operands' buffers, XLA's own each once, then those of its results.

        A result that is written over an operand has a buffer too, which is not used.
        """
        kernel = self.host.kernels[self._names[step.name]]
        sizes = [prod(d) * width for _, d, width in shapes(step.type)]
        every = [b for o in operands for b in _flat(o)]
        unique = every if step.operation == "custom-call" else list({id(b): b for b in every}.values())
        results = [np.zeros(size, np.uint8) for size in sizes]
        inside = _written_over(kernel, unique, sizes)
        buffers = [np.array(b) if i in inside else b for i, b in enumerate(unique)]
        self.host.run(kernel.name, [*buffers, *results])
        for place, number in inside.items():
            results[number] = buffers[place]
        return tuple(results) if step.type.startswith("(") else results[0]


def _written_over(
    kernel: Kernel, operands: Sequence[NDArray[np.uint8]], sizes: Sequence[int]
) -> dict[int, int]:
    """Results that are written over operands: position of the operand -> number of the result."""
    if len(kernel.uses) != len(operands) + len(sizes):
        raise Refused(f"a kernel of {len(kernel.uses)} buffers for {len(operands)} + {len(sizes)} arrays")
    offsets: dict[int, int] = {}
    free = [i for i, use in enumerate(kernel.uses[: len(operands)]) if use == "written"]
    for number, size in enumerate(sizes):
        if kernel.uses[len(operands) + number] == "unused":
            places = [i for i in free if operands[i].nbytes == size and i not in offsets]
            if not places:
                raise Refused("a result without a buffer")
            offsets[places[0]] = number
    return offsets


def _triton(step: Step) -> str | None:
    """The name of the Triton kernel that a library call is."""
    name = re.search(r'\bname = "(\w+)"', step.attributes) if step.operation == "custom-call" else None
    return name[1] if name is not None and "__gpu$xla.gpu.triton" in step.attributes else None


def _grids(program: Program) -> dict[str, int]:
    """Blocks of the Triton kernels by name, where only one dimension has several.

    XLA's own have a block for each tile of the result, the first one where there are several.
    """
    blocks = {}
    for step in program.steps():
        name, sizes = _triton(step), re.findall(r"\bgrid_[xyz] = (\d+)", step.attributes)
        tile = re.search(r'"output_tiles":\[\{"sizes":\[([^\]]*)\]', step.attributes)
        if name is not None and sizes[1:] == ["1", "1"]:
            blocks[name] = int(sizes[0])
        elif step.operation == "fusion" and tile is not None:
            extents = map(int, re.findall(r"\d+", tile[1]))
            blocks[_own(step)] = prod(
                -(-n // m) for n, m in zip(shapes(step.type)[0][1], extents, strict=True)
            )
    return blocks


def _own(step: Step) -> str:
    return re.sub(r"\W", "_", step.name)


def _kernel_names(program: Program, host: Host) -> dict[str, str]:
    """The kernel of every launched instruction; equal computations share one."""
    names: dict[str, str] = {}
    shared: dict[str, str] = {}
    for step in program.steps():
        own = _triton(step) or _own(step)
        body = _body(program, step)
        if own in host.kernels:
            names[step.name] = own
            shared.setdefault(body, own)
        elif step.operation == "fusion" and body in shared:
            names[step.name] = shared[body]
    return names


def _body(program: Program, step: Step) -> str:
    """A fused computation without the names in it."""
    if step.operation != "fusion":
        return step.name
    place: dict[str, int] = {}
    lines = []
    for inner in program.computations[step.computation("calls")]:
        place[inner.name] = len(place)
        operands = [place.get(n, -1) for n in inner.operands]
        constant = inner.arguments if inner.operation in ("constant", "parameter") else ""
        attributes = re.sub(r", (metadata|frontend_attributes)=\{.*?\}(?=,|$)", "", inner.attributes)
        lines.append(f"{inner.type} {inner.operation} {operands} {constant} {attributes}")
    return "\n".join(lines)


def constant(step: Step) -> NDArray[np.uint8]:
    """The bytes of a constant, where XLA has written all of it."""
    ((name, dims, width),) = shapes(step.type)
    kind = {"p": "?", "s": f"i{width}", "u": f"u{width}", "f": f"f{width}"}.get(name[0])
    words = re.findall(r"[^\s{},]+", step.arguments)
    if kind is None or name in BYTES.keys() - {"pred"} or len(words) != prod(dims):
        raise Refused(f"constant {step.type}")
    if kind == "?":
        values: list[float] = [w in ("true", "1") for w in words]
    else:
        values = [float(w) if kind[0] == "f" else int(w) for w in words]
    return np.frombuffer(np.array(values, kind).tobytes(), np.uint8)


def _called(step: Step) -> str:
    return step.computation("calls") if step.operation == "fusion" else ""


def _scalar(buffer: Buffer, step: Step) -> int:
    """Which branch of a conditional a flag or number selects."""
    (flag,) = _flat(buffer)
    if flag.nbytes == 1:
        return 0 if flag[0] else 1
    return min(max(int(flag.view(np.int32)[0]), 0), len(step.branches) - 1)


def _flat(buffer: Buffer) -> list[NDArray[np.uint8]]:
    return [b for member in buffer for b in _flat(member)] if isinstance(buffer, tuple) else [buffer]


#: The library's products.
_TARGETS = ("__cublas$lt$matmul", "__cublas$gemm")
_SIDES = ("lhs", "rhs")


def product(
    step: Step, types: Sequence[str], operands: Sequence[NDArray[np.uint8]]
) -> tuple[NDArray[np.uint8], ...]:
    """The bytes of the results of a library call: a product of 8-bit integers modulo 2^32, and no workspace.

    ``types`` are those of the operands. Whatever else a library computes is refused.
    """
    target = re.search(r'custom_call_target="([^"]+)"', step.attributes)
    settings = re.search(r"\bbackend_config=(\{.*\})", step.attributes)
    (name, dims, _), *_ = shapes(step.type)
    if target is None or target[1] not in _TARGETS or settings is None or name != "s32" or len(types) != 2:
        raise Refused("custom-call")
    config = json.loads(settings[1])["gemm_backend_config"]
    if (config["alpha_real"], config["beta"], config["epilogue"]) != (1, 0, "DEFAULT"):
        raise Refused("a product with more than sums")
    numbers = config["dot_dimension_numbers"]
    batches, contracted = (
        [[int(i) for i in numbers.get(f"{side}_{kind}_dimensions", ())] for side in _SIDES]
        for kind in ("batch", "contracting")
    )
    x, y = (
        _ordered(_logical(t, o), b, c)
        for t, o, b, c in zip(types, operands, batches, contracted, strict=True)
    )
    total = np.matmul(x, y.swapaxes(-1, -2)).astype(np.uint32).reshape(dims)
    stored = total.transpose(layout(_first(step.type)))
    rest = [np.zeros(int(np.prod(d)), np.uint8) for _, d, _ in shapes(step.type)[1:]]
    return np.frombuffer(np.ascontiguousarray(stored).tobytes(), np.uint8).copy(), *rest


def _first(type_: str) -> str:
    """The type of the first array."""
    match = re.search(r"\w+\[[\d,]*\](\{[^}]*\})?", type_)
    assert match is not None
    return match[0]


def _logical(type_: str, operand: NDArray[np.uint8]) -> NDArray[np.int64]:
    """An operand's numbers in the order of its dimensions, as 64-bit integers."""
    ((name, dims, width),) = shapes(type_)
    if name not in ("s8", "u8"):
        raise Refused(f"a product of {name}")
    order = layout(type_)
    stored = operand.view(f"{'i' if name[0] == 's' else 'u'}{width}").reshape([dims[i] for i in order])
    return stored.transpose(np.argsort(order)).astype(np.int64)


def _ordered(x: NDArray[np.int64], batch: Sequence[int], contracted: Sequence[int]) -> NDArray[Any]:
    """[batch, free, contracted]; free dimensions become one, and so do the others."""
    free = [i for i in range(x.ndim) if i not in (*batch, *contracted)]
    sizes = [int(np.prod([x.shape[i] for i in group])) for group in (batch, free, contracted)]
    return x.transpose([*batch, *free, *contracted]).reshape(sizes)
