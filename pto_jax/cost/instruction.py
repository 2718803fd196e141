"""Cost of one instruction by its name, element type and sizes."""

from collections.abc import Mapping
from types import MappingProxyType

from .. import errors, isa, profiles
from ..ir import DType, LayoutName, dtype as dtype_called
from ..isa import ALIASES
from . import analytic_legacy, cce_stub, doc_formula, vfsim
from .fitted import A5_FIT_MODEL, FIT_MODEL, TABLES_MODEL
from .work import Figure, Model, Size, Work, no_data

#: The models by name; of those that describe a profile the first one is the default.
MODELS: Mapping[str, Model] = MappingProxyType(
    {
        m.name: m
        for m in (
            doc_formula.MODEL,
            analytic_legacy.MODEL,
            cce_stub.MODEL,
            FIT_MODEL,
            TABLES_MODEL,
            A5_FIT_MODEL,
            vfsim.MODEL,
        )
    }
)
#: Layouts as the pages call them.
_LAYOUTS: Mapping[str, LayoutName] = {
    **{name: name for name in ("ND", "DN", "NZ", "ZN", "ZZ", "NN")},
    "RowMajor": "ND",
    "ColMajor": "DN",
    "Zigzag": "NZ",
}
_COVERED = frozenset(name for m in MODELS.values() for name in m.instructions)


def model_called(name: str | None, profile: profiles.Profile | None = None) -> Model:
    """The model called ``name``; without one the first that describes the profile, if any does."""
    if name is None:
        fitting = (m for m in MODELS.values() if profile is not None and profile.name in m.profiles)
        return next(fitting, doc_formula.MODEL)
    model = MODELS.get(name) if isinstance(name, str) else None
    if model is None:
        raise errors.ArgumentError(f"unknown cost model {name!r}", allowed=", ".join(MODELS))
    return model


def estimate(  # noqa: PLR0913 - keywords
    instruction: str,
    dtype: str | DType,
    valid_row: Size,
    valid_col: Size,
    *,
    layout: str = "ND",
    model: str = "doc_formula",
    profile: str | profiles.Profile | None = None,
    rows: Size | None = None,
    cols: Size | None = None,
    k: Size = 1,
    route: str = "",
    static: bool = True,
    binary: bool = False,
    block: Size = 64,
    lists: int = 1,
    source: str | DType | None = None,
) -> Figure:
    """What a model says about one execution of an instruction.

    ``rows`` and ``cols`` are the physical sizes (the valid ones when not given), ``k`` the reduced size of
    a product of ``valid_row`` x ``k`` by ``k`` x ``valid_col``, ``route`` the ends of a transfer as in
    ``GM->Vec``, ``source`` the element type that a conversion to ``dtype`` starts from; all sizes
    are in elements and may be arrays. ``profile`` asks for a hardware profile; a model of another one answers
    that it has no data. ArgumentError for an unknown instruction, type, layout, model
    or profile.

    >>> figure = estimate("tadd", "f32", 16, 64)
    >>> str(figure), figure.path.name
    ('2575 cycles (doc_formula)', 'CONTINUOUS')
    >>> str(estimate("tcvt", "f32", 16, 64, model="fit"))
    'no data (fit): fit has no figure for tcvt'
    """
    cost_model = model_called(model)
    if layout not in _LAYOUTS:
        raise errors.ArgumentError(f"unknown layout {layout!r}", allowed=", ".join(_LAYOUTS))
    work = Work(
        instruction_called(instruction),
        dtype_called(dtype),
        valid_row,
        valid_col,
        valid_row if rows is None else rows,
        valid_col if cols is None else cols,
        _LAYOUTS[layout],
        k,
        route,
        static,
        binary,
        block,
        lists,
        None if source is None else dtype_called(source),
    )
    return figure_of(cost_model, work, None if profile is None else profiles.profile(profile))


def cycles(  # noqa: PLR0913 - keywords
    instruction: str,
    dtype: str | DType,
    valid_row: Size,
    valid_col: Size,
    layout: str = "ND",
    model: str = "doc_formula",
    *,
    rows: Size | None = None,
    cols: Size | None = None,
    k: Size = 1,
    route: str = "",
) -> Size:
    """The cycles of one execution: a number, or an array where sizes are arrays.

    Arguments as those of :func:`estimate`. An instruction, element type or route that the model does not
    cover is an ArgumentError, never 0.

    >>> cycles("tadd", "f32", 16, 64)
    2575
    >>> cycles("tmatmul", "f16", 40, 60, k=50, model="cce_stub")
    54
    """
    figure = estimate(
        instruction,
        dtype,
        valid_row,
        valid_col,
        layout=layout,
        model=model,
        rows=rows,
        cols=cols,
        k=k,
        route=route,
    )
    if figure.cycles is None:
        raise errors.ArgumentError(f"no cycles: {figure.note}")
    return figure.cycles


def figure_of(model: Model, work: Work, profile: profiles.Profile | None) -> Figure:
    """The model's answer, or that it does not describe the profile."""
    if profile is not None and profile.name not in model.profiles:
        covered = ", ".join(model.profiles)
        return no_data(model.name, f"{model.name} describes {covered}; it has no data for {profile.name}")
    return model.estimate(work)


def instruction_called(name: str) -> str:
    """The canonical name of an instruction."""
    key = name.lower().removeprefix("pto.")
    key = ALIASES.get(key, key)
    if key not in _COVERED and key not in isa.instructions():
        raise errors.ArgumentError(f"got the instruction {name!r}", allowed="those that `pto-jax isa` lists")
    return key
