"""The page on element types, pointers, views and scalars."""

from ..ir import I1, INDEX, TILE_DTYPES, AddressSpace, DType, GlobalLayout
from ..profiles import PROFILES
from ..text.type_text import print_dtype
from ..text.types import MAX_RANK, OPAQUE
from .topics import Part, Topic, program, table


def _row(d: DType) -> list[str]:
    raw = d.bits == 4 or (d.numpy == d.word and not d.is_integer)
    exists = ["yes" if p.has_dtype(d) else "-" for p in PROFILES.values()]
    return [d.name, print_dtype(d), str(d.bits), f"{d.word} (raw bits)" if raw else str(d.numpy), *exists]


TOPIC = Topic(
    "types",
    "Element types, pointers, views of global memory, scalars.",
    (
        Part(
            "Element types of tiles",
            table(["name", "printed as", "bits", "array type", *PROFILES], [_row(d) for d in TILE_DTYPES]),
            "table",
        ),
        Part(
            "Notes",
            [
                "Which types an instruction takes stands on its page, per profile.",
                "i32 of a scalar may stand for u32 where it meets a tile of u32; ui32 says which is meant.",
                "Types of 4 bits are two elements to a byte in global memory, the first in the low bits.",
            ],
        ),
        Part(
            "Types in programs",
            [
                "!pto.tile_buf<vec, 16x64xf32>: a tile (`pto-jax isa tile`)",
                "!pto.ptr<f32>: a pointer into global memory; !pto.ptr<f32, SPACE> with SPACE one of "
                + ", ".join(s.name.lower() for s in AddressSpace if s != AddressSpace.ZERO),
                "!pto.multi_tile_buf<vec, 16x64xf32, count=2>: tiles of one type, used in turn",
                "!pto.local_array<4x8xf32>, !pto.struct<f16, !pto.struct<i8>>: scalars that a core keeps",
                f"!pto.tensor_view<128x?xf32>: a tensor in global memory of rank 1 to {MAX_RANK}",
                "!pto.partition_tensor_view<16x64xf32>: a window of a tensor",
                f"{INDEX}: sizes, offsets and loop variables; {I1}: a truth value",
                "i8 to i64, ui8 to ui64, f16, bf16, f32: scalars",
                "memref<16x64xf32, #pto.address_space<vec>>: a buffer of older programs",
                "vector<4xi16>: what a few instructions return beside tiles",
                "without data: " + ", ".join(f"!pto.{name}" for name in OPAQUE),
            ],
        ),
        Part("Views", [program("views")], "program"),
        Part(
            "Layouts of views",
            ["{layout = #pto.layout<NAME>}, NAME one of: " + ", ".join(g.name.lower() for g in GlobalLayout)],
        ),
    ),
    ("type", "dtype", "dtypes", "ptr", "tensor_view", "partition_tensor_view", "view", "scalar", "index"),
)
