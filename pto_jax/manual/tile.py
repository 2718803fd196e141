"""The page on tile types."""

from ..ir import CONV_RANKS, F16, F32, FRACTALS, I8, BLayout, Compact, Loc, Pad, SLayout, TileType
from ..isa.rules.tile_legality import TYPE_RULES
from .topics import Part, Topic, program, table

_LAYOUT_USE = {
    "ND": "rows one after the other; what vec instructions take",
    "DN": "columns one after the other; columns of numbers (16x1)",
    "NZ": "boxes down the columns, row_major inside; left (a5, cpu_sim), mat, acc",
    "ZN": "boxes along the rows, col_major inside; right",
    "ZZ": "boxes along the rows, row_major inside; left (a2a3), scaleleft",
    "NN": "boxes down the columns, col_major inside; scaleright",
}


def _words(cls: type) -> str:
    return ", ".join(m.name.lower() for m in cls)  # type: ignore[attr-defined]


def _layouts() -> list[str]:
    rows = []
    for blayout in BLayout:
        for slayout in SLayout:
            name = TileType(F32, 16, 64, blayout=blayout, slayout=slayout).layout
            rows.append([name, blayout.name.lower(), slayout.name.lower(), _LAYOUT_USE[name]])
    return table(["name", "blayout", "slayout", "order of the elements, and where it is used"], rows)


def _boxes() -> list[str]:
    rows = []
    for fractal in FRACTALS:
        for slayout in (SLayout.ROW_MAJOR, SLayout.COL_MAJOR):
            boxes = [
                "x".join(map(str, TileType(d, 1, 1, slayout=slayout, fractal=fractal).box))
                for d in (F32, F16, I8)
            ]
            rows.append([str(fractal), slayout.name.lower(), *boxes])
    return table(["fractal", "slayout", "f32", "f16", "i8"], rows)


TOPIC = Topic(
    "tile",
    "Tile types: spellings, parameters, layouts, valid regions.",
    (
        Part(
            "In short",
            [
                "A tile is rows x cols elements in an on-chip memory. Physical sizes are static; the valid "
                "region, its leading v_row x v_col part, may be given at run time.",
                "Four spellings of one type: all parameters by key, as programs print it; place and "
                "dimensions; the positional one of the documentation; dimensions alone.",
            ],
            "prose",
        ),
        Part("Spellings", [program("tile_spellings")], "program"),
        Part(
            "Parameters",
            [
                f"loc, or the first word: {_words(Loc)} (default vec; capacities: `pto-jax isa profiles`)",
                "dtype: an element type (`pto-jax isa types`)",
                "rows, cols: physical sizes, static and positive",
                "v_row, v_col, or valid=ROWSxCOLS: the valid region; ? where alloc_tile's valid_row and "
                "valid_col give it at run time (default: all rows and columns)",
                f"blayout: {_words(BLayout)} (default row_major): order of rows or of boxes",
                f"slayout: {_words(SLayout)} (default none_box): order inside boxes",
                f"fractal: {', '.join(map(str, FRACTALS))} (default 512): bytes of a box: matrix operands, "
                "accumulators, MX scales",
                f"pad: {_words(Pad)} or 0 to {max(Pad)} (default null): what loads put beside the data",
                f"compact: {_words(Compact)} (default null)",
                "Without a key, after the sizes: blayout, slayout, fractal, pad. Valid sizes have a key.",
            ],
        ),
        Part("Valid regions", [program("valid_regions")], "program"),
        Part("Layouts", _layouts(), "table"),
        Part("Rows x columns of a box", _boxes(), "table"),
        Part(
            "A number per row",
            [
                "Rows of a row_major tile are whole blocks of 32 bytes, so 16 numbers, one per row, are a "
                "col_major column. Reductions write such columns, trowexpand* read them. Lane-wise "
                "instructions of a2a3 and a5 take row_major tiles: treshape names the same bytes as a row.",
            ],
            "prose",
        ),
        Part("A column as a row", [program("column_as_row")], "program"),
        Part("Matrix operands", [program("matrix_operands")], "program"),
        Part("Rules", [f"{r.name}: {r.statement}" for r in TYPE_RULES]),
        Part(
            "Convolution tiles",
            [
                "!pto.conv_tile<mat, 1x2x8x8x16xf16, layout=nc1hwc0>: a flat tile with a layout of its own: "
                + ", ".join(layout.name.lower() for layout in CONV_RANKS),
                "padding=LxRxTxB is left, right, top and bottom; filter, stride, dilation and fmap are "
                "height and width, as in filter=3x2.",
                "Its array is one row of all elements in the order of the dimensions, [1, 2048] here.",
            ],
        ),
    ),
    ("tile_buf", "tiles", "layout", "layouts", "blayout", "slayout", "fractal", "valid", "conv_tile"),
)
