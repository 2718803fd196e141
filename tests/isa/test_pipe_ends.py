"""Rules on pipes that span operations and functions: both ends, their buffers, and handles."""

import pytest

import pto_jax as pto

VEC = "!pto.tile_buf<vec, 16x16xf32>"
ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
RESERVE = (
    'pto.reserve_buffer {name = "f", size = 4096, location = #pto.address_space<vec>, auto = true} -> i32'
)
IMPORT = 'pto.import_reserved_buffer {name = "f", peer_func = @vector} -> i32'
RING = "{dir_mask = 1, slot_size = 1024}"


def kernels(
    cube: str = f"pto.tpush_to_aiv(%t : {ACC}) {{split = 1}}",
    vector: str = f"%r = pto.tpop_from_aic {{split = 1}} -> {VEC}\npto.tfree_from_aic {{split = 1}}",
    *,
    reserve: str = RESERVE,
    imported: str = IMPORT,
    cube_ring: str = RING,
    cube_kind: str = "cube",
    cube_init: str = "aic",
) -> pto.Program:
    def init(core: str, buffer: str, ring: str) -> str:
        names = f"(c2v_consumer_buf = {buffer} : i32, v2c_consumer_buf = {buffer} : i32)"
        return f"pto.{core}_initialize_pipe {ring} {names}\n"

    return pto.parse(
        f"""module {{
        func.func @cube() attributes {{pto.kernel_kind = #pto.kernel_kind<{cube_kind}>}} {{
          %b = {imported}
          {init(cube_init, "%b", cube_ring)}%t = pto.alloc_tile : {ACC}
          {cube}
          return
        }}
        func.func @vector() attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
          %b = {reserve}
          {init("aiv", "%b", RING)}{vector}
          return
        }}
        }}"""
    )


def errors(program: pto.Program) -> set[str | None]:
    return {d.rule for d in pto.verify(program, profile="a5") if d.severity == "error"}


def test_a_pipe_with_both_sides_is_accepted() -> None:
    assert errors(kernels()) == set()


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (kernels(f"pto.tpush_to_aiv(%t : {ACC}) {{split = 0}}"), "pipe-split"),
        (kernels(cube_ring="{dir_mask = 1, slot_size = 1024, nosplit = true}"), "pipe-split"),
        (kernels(imported=IMPORT.replace('"f"', '"g"')), "pipe-peer"),
        (kernels(imported=IMPORT.replace("@vector", "@nobody")), "pipe-peer"),
        (kernels(cube_kind="vector"), "pipe-kernel"),
        (kernels(f"pto.tpush_to_aiv(%t : {ACC}) {{split = 1}}\n%c = {RESERVE}\n%d = {RESERVE}"), "pipe-once"),
        (kernels(cube_ring="{dir_mask = 4, slot_size = 1024}"), "dir-mask"),
    ],
)
def test_pipes_whose_sides_do_not_fit(program: pto.Program, rule: str) -> None:
    assert errors(program) == {rule}


def lowered(body: str, kind: str = "attributes {pto.kernel_kind = #pto.kernel_kind<cube>}") -> pto.Program:
    return pto.parse(f"func.func @cube(%n: i32) {kind} {{\n{body}\nreturn\n}}")


HANDLE = "{dir_mask = 1, slot_size = 1024, slot_num = 8}"


def test_pipe_handles() -> None:
    ring = f"%p = pto.initialize_l2l_pipe {HANDLE}(%n : i32) -> !pto.pipe"
    given = ring.replace("slot_num = 8", "slot_num = 8, flag_base = 0")
    assert errors(lowered(ring)) == {"pipe-buffer"}
    assert errors(lowered(given)) == set()
    push = f"%t = pto.alloc_tile : {ACC}\npto.tpush(%t, %p : {ACC}, !pto.pipe) {{split = 0}}"
    assert errors(lowered(f"{given}\n{push}")) == set()
    assert errors(lowered(f"{given}\n{push}", "")) == {"pipe-kernel"}
    alone = f"%b = {RESERVE}\n" + ring.replace("%n", "%b")
    assert errors(lowered(alone)) == {"pipe-pair"}
    section = f"{given}\npto.section.cube {{\n{push}\n}}"
    assert errors(lowered(section, "")) == set()


def test_dynamic_pops_need_both_sizes_and_an_open_type() -> None:
    def pop(t: str) -> pto.Program:
        return pto.parse(f"%r = pto.tpop_from_aic(%m, %n) {{split = 0}} -> {t}")

    assert errors(pop("!pto.tile_buf<vec, 16x16xf32, valid=?x?>")) == set()
    assert errors(pop(VEC)) == {"valid-dynamic"}
