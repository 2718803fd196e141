"""Lane-wise instructions of users: from a function on numbers to entries in the tables of every package.

Files that add instructions are loaded in this process and in those that it starts.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import errors, isa
from ..errors import ArgumentError, FileError
from ..ir import DType, dtype
from ..isa import common, declare
from ..isa.declare import Instruction
from ..isa.semantics import EXACT, REAL, Accuracy, Formula, Range, within
from ..lowering import numerics, region, rules as lowering_rules
from ..oracle import step as oracle_rules
from ..oracle.numbers import Array, decode, encode
from ..oracle.step import Step
from ..profiles import PROFILE_NAMES, ProfileName
from ..sanitizer import step, step as shadow_rules
from ..sanitizer.step import Rule as ShadowRule

_TABLES = (lowering_rules.RULES, oracle_rules.RULES, shadow_rules.SHADOW_RULES)


def register(
    declaration: Instruction,
    jax: lowering_rules.Rule,
    numpy: oracle_rules.Rule,
    shadow: shadow_rules.Rule | None = None,
) -> Instruction:
    """Add an instruction with its rules, and give its declaration back.

    ``jax(context, inputs)`` gives the words of each destination, as rules of :mod:`pto_jax.lowering` do;
    ``numpy(step)`` writes them, as rules of :mod:`pto_jax.oracle` do; ``shadow(step)`` says which bits of
    them are defined. Without one, a lane is defined where that lane of every source is.

    Raises ArgumentError where the name is taken or no name of an instruction, or where a lane of the
    destination depends on other lanes and there is no ``shadow``.

    >>> from dataclasses import replace
    >>> from pto_jax import isa, oracle, ops
    >>> declared = replace(isa.instructions()["tneg"], name="tminus", intrinsic="TMINUS")
    >>> added = register(declared, lowering_rules.RULES["tneg"], oracle_rules.RULES["tneg"])
    >>> import numpy as np
    >>> ops.tminus(np.ones((1, 8), np.float32))
    Tile(vec 1x8xf32, [[-1 -1 ... -1 -1]])
    >>> unregister("tminus")
    """
    if shadow is None and not declaration.lane_wise:
        raise errors.ArgumentError(
            f"{declaration.name}: no shadow rule; it may be left out where a lane of the destination comes "
            "from that lane of the sources (lanes='same')"
        )
    isa.add(declaration, isa.instructions)
    name = declaration.name
    lowering_rules.RULES[name] = jax
    oracle_rules.RULES[name] = numpy
    shadow_rules.SHADOW_RULES[name] = shadow or step.lanewise
    return declaration


def unregister(name: str) -> None:
    """Take an added instruction out of every table, for tests and notebooks.

    Kernels that were compiled before keep their results. Raises ArgumentError for a name that no added
    instruction has; :func:`register` has an example of a removal.

    >>> import pto_jax as pto
    >>> try:
    ...     unregister("tadd")
    ... except pto.ArgumentError as error:
    ...     print(error)
    got the instruction 'tadd'; allowed: those that were added: none
    """
    if name not in isa.added():
        names = ", ".join(isa.added()) or "none"
        raise errors.ArgumentError(f"got the instruction {name!r}", allowed=f"those that were added: {names}")
    isa.remove(name)
    REAL.pop(name, None)
    for table in _TABLES:
        table.pop(name, None)


#: Element types per profile, or those of every profile.
Types = Sequence[str] | Mapping[ProfileName, Sequence[str]]


def instruction(  # noqa: PLR0913 - keywords
    name: str,
    summary: str,
    semantics: str,
    *,
    sources: Sequence[str] = ("src",),
    scalars: Sequence[str] = (),
    types: Types,
    jax: Callable[..., Any],
    numpy: Callable[..., Any],
    ulp: int = 0,
    measured: Range | None = None,
    shadow: ShadowRule | None = None,
    intrinsic: str = "",
    cycles: declare.Cycles | None = None,
    source: str = "an extension",
) -> declare.Instruction:
    """Add a lane-wise instruction: each lane of ``dst`` from that lane of the tiles, and from scalars.

    ``sources`` names all operands that are read, in the order of the text; those in ``scalars`` are scalars
    of the element type, the others tiles of it, with the destination's physical lanes. ``types`` are the
    element types, by profile or the same for all.

    ``jax`` and ``numpy`` compute the same function twice, independently: arrays in, one array out. Floats are
    float64 arrays that hold the operands exactly (float32 under fast numerics); the result is rounded once,
    to nearest even, to the element type. Integers are arrays of their own type, which wrap. Tiles have the
    shape [rows, cols], scalars broadcast with it.

    ``ulp`` is how far float results of the two may be apart (0: they are equal bit by bit); ``measured``
    gives the magnitudes of operands on which ``pto-jax report --ulp`` measures that. ``shadow`` says which
    bits are defined (default: a lane is where that lane of every source is). ``intrinsic`` is the name in
    C++ (default: the name in capitals), ``cycles`` what the model ``doc_formula`` counts.

    Raises ArgumentError for a name that is taken, unknown element types, and scalars that are no sources.

    >>> import jax.numpy as jnp, numpy as np, pto_jax as pto
    >>> hypot = pto.extension.instruction(
    ...     "thypot", "Length of the hypotenuse.", "dst[i,j] = sqrt(src0[i,j]^2 + src1[i,j]^2)",
    ...     sources=("src0", "src1"), types=("f32",), ulp=1,
    ...     jax=lambda a, b: jnp.sqrt(a * a + b * b), numpy=np.hypot,
    ... )
    >>> float(pto.ops.thypot(np.full((1, 8), 3, np.float32), np.full((1, 8), 4, np.float32)).array[0, 0])
    5.0
    >>> pto.extension.unregister("thypot")
    """
    unknown = [s for s in scalars if s not in sources]
    if unknown:
        raise ArgumentError(f"{name}: got the scalar {unknown[0]!r}", allowed=", ".join(sources))
    table = _types(name, types)
    tiles = [declare.Operand(s, "in", "scalar" if s in scalars else "tile") for s in sources]
    floats = {d for row in table.values() for (d,) in row if dtype(d).is_float}
    accuracy: Accuracy = EXACT
    if ulp:
        ranges = (measured,) * len(sources) if measured else ()
        accuracy = within(dict.fromkeys(sorted(floats), ulp), *ranges)
    declaration = common.tile_instruction(
        name,
        summary,
        semantics,
        (common.DST, *tiles),
        table,
        cls="tile_scalar" if scalars else "elementwise",
        sources=(source,),
        formulas=(Formula(f"{name}({', '.join(sources)})"),),
        accuracy=accuracy,
        intrinsic=intrinsic,
        cycles=cycles,
    )
    register(declaration, _lowered(jax, tuple(sources)), _interpreted(numpy, tuple(sources)), shadow)
    REAL[name] = numpy
    return declaration


def _types(name: str, types: Types) -> dict[ProfileName, tuple[tuple[str, ...], ...]]:
    """The rows of the declaration's type table, with canonical names."""
    by_profile = types if isinstance(types, Mapping) else dict.fromkeys(PROFILE_NAMES, types)
    unknown = [p for p in by_profile if p not in PROFILE_NAMES]
    if unknown:
        raise ArgumentError(f"{name}: got the profile {unknown[0]!r}", allowed=", ".join(PROFILE_NAMES))
    return {p: tuple((dtype(d).name,) for d in listed) for p, listed in by_profile.items()}


def _lowered(function: Callable[..., Any], sources: tuple[str, ...]) -> lowering_rules.Rule:
    """The rule of the lowering: numbers of the operands in, words out."""

    def rule(context: lowering_rules.Context, inputs: lowering_rules.Inputs) -> Mapping[str, Any]:
        a = context.arithmetic()
        numbers = [region.number(context, inputs, n) for n in sources]
        result: numerics.Num
        if isinstance(a, numerics.Integer):
            result = jnp.asarray(function(*numbers)).astype(a.dtype.numpy)
        else:
            result = a.evaluate(function, *numbers)
        return region.computed(context, inputs, result)

    return rule


def _interpreted(function: Callable[..., Any], sources: tuple[str, ...]) -> Callable[[Step], None]:
    """The rule of the interpreter."""

    def values(words: Array, d: DType) -> Array:
        numbers = decode(words, d)
        return numbers.astype(np.float64) if d.is_float else numbers

    def rule(step: Step) -> None:
        d = step.dtype()
        with np.errstate(all="ignore"):
            result = np.asarray(function(*(values(step.words(n), d) for n in sources)))
        step.store(encode(result if d.is_float else result.astype(d.numpy), d))

    return rule


#: Names the files that processes of a campaign load as well.
VARIABLE = "PTO_JAX_EXTENSIONS"


def load(file: str | Path) -> None:
    """Execute a Python file that adds instructions, once; processes that this one starts do so too.

    Raises FileError where there is no such file, ArgumentError where it ends with an error.

    >>> import pto_jax as pto
    >>> try:
    ...     pto.extension.load("nowhere.py")
    ... except pto.FileError as error:
    ...     print(error)
    nowhere.py: no such file
    """
    path = Path(file).resolve()
    name = f"pto_jax_extension_{path.stem}"
    module_before = sys.modules.get(name)
    if module_before is not None and module_before.__file__ == str(path):
        return
    if not path.is_file():
        raise FileError(f"{file}: no such file")
    # The suffix of a file has no say in how it is read.
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line(error, path)
        raise ArgumentError(f"{file}{line}: {type(error).__name__}: {error}") from error
    if str(path) not in loaded():
        os.environ[VARIABLE] = os.pathsep.join([*loaded(), str(path)])


def load_from_environment() -> None:
    """Load the files that the process which started this one has loaded.

    >>> load_from_environment()
    """
    for file in loaded():
        load(file)


def loaded() -> tuple[str, ...]:
    """Paths of the files that this process and those it starts load.

    >>> loaded()
    ()
    """
    return tuple(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))


def _line(error: BaseException, path: Path) -> str:
    """``:LINE`` where an error has its place in a file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    trace, place = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            place = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return place
