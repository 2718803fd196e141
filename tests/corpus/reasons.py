"""Whether a text is rejected for the reason that its test names, by what the assembler's messages say."""

import re

from tests.corpus.language import Verdict

#: Words of the assembler's message, and rules or words of ours that say the same. The first row whose words
#: are in a message counts.
_TABLE = r"""
explicit tmp|to materialize implicit|both indices and tmp => tmp-given
PlanMemory semantic => overlap
in-child logical reference|transitive cross-child => back-end
match canonical|with interleave=true|interleaved exp|legacy flat exp to use => exp-room|group-shape
interleave to be used only|exp_zz form to use|pinned pto-isa|incomplete final VL => group-shape
shapes for src in MX|compact physical prefix|axis1 flat => group-shape
physical cols to (equal|be)|packed source stride => codes-room|group-shape|(max|scaling)-room
explicit address space|not to have results => allowed: a type
X-to-ZZ tmov form not to use => move-modes
src, dst, and tmp to be distinct => overlap
src/dst/tmp to be vec => location
src to use blayout=row_major => ^layout
\(ZZ box\) => layout-zz
grouped exponent column count|DN-to-ZZ src valid_shape => groups-whole
bytes for ND-to-ZZ => tmp-bytes
compact prefix|physical row stride to equal => exponents-dense
physical capacity to cover align16 => -room
static valid and physical shapes for src/dst => sizes-static
expects tmp when precisionType => tmp-precision
does not accept tmp when => tmp-integers
indices and tmp to have the same|tmp and dst to have the same valid => tmp-region
tmp-form trowexpand to use mode 1 => tmp-mode
tmp shape\[1\] to be at least src valid => tmp-columns
tmp.*(capacity|shape\[.\]) (to be )?at least|tmp\.cols >= dst\.cols => tmp-(size|bytes)
tmp to use row-major layout => ^layout
tmp to have the same element type => tmp-type
tmp to have the same shape as src => tmp-shape
tmp only when src is a tile_buf => operand-kind
addr must be aligned => address-aligned
'?addr'? operand|only( supported)? when --pto-level|reserve_buffer (with|requires) => level
auto reserve_buffer|to be disabled => level
to legalize operation 'pto.subview' => level.*window of the argument
bias overflow => tile-capacity
ranges overlap => overlap
'peer_func' to reference an existing => pipe-peer|peer-function|child modules define
entry functions must return void => entry
recursive function calls => recursion
tileop helpers|section\.simt => not part of tile programs|SIMT code, which is not executed
constant slot => slot
path must end at a scalar => allowed: a scalar
struct|scalar-storable|out of range of|: out of range$|^out of range$ => direct|struct|field
constant step operand => step
unregistered operation => 2026-08 removed
FixpipeRelu|FixpipeQuant => unknown (relu|quant)
unpublished fixpipe attr => pipe-attribute
dir_mask = 1 \(C2V only\) => epilogue
inside a cube kernel => pipe-kernel
split usage|odd split|split = [034]|'split'|statically odd|nosplit|per-sub-core => split|odd|parity|half
slot_num => local-slots|slot-num
slot_size => slot_size
trace to reserve_buffer|requires local_addr to come from => reserved
complete compatible peer init pair|matching aiv_initialize_pipe => pipe-(pair|shape)
16 hardware flag ids => flags
'id' to be unique => second time
at least one tpop_from_aic => nothing pops
to use the same tile type => as of the first pop
to match peer|peer (consumer|producer) pipe init to also => at the other end
tile layout to match acc_push_epilogue => allowed with nz
preceding pto.set_quant => no set_quant
with (scalar|vector) quantization mode => converts by
'id' = 1 to match => is no pipe of
only on A5 target => a5 only
acc_push_epilogue.quant|quant mode requirements => element type
dynamic validShape => valid-dynamic
pipe entry dimension => pipe-slot
multiple of (32|64) when => group
grpAxis only on the X-to-ZZ => group-axis
1D GM view|to have a static shape => flat
dynamic dimensions|every static dimension => extents|dimension 0
same static/dynamic shape signature => shape-equal
GM pointer or GM tensor view|GM address space => points to
gm_workspace and optional used_cores|no gm_workspace => workspace|operands
at least 16 i32 => 16 or more
must be Ptr, TensorView => memref
operand #0 must be 32-bit float => scale-type
operand #1 must be 32-bit => cores
operand #0 must be => memref
may only be used as the pointer operand => integer-pointer
result element type is not supported => pointee
multi_tile_buf count => got count
constant slot => slot
pto.multi_buffer_addrs => multi_buffer_addrs
row_plus_one => slot-type
row-coalesce idx => index-shape|indexes
coalesce => coalesce-given
byte to be in range => attribute-value
byte to be 0 or 1 => byte-exists
conflicting 'byte' => byte-once
does not accept 'mode' => mode
does not support precisionType => precision-exists
exactly one of indexes => mask-given
(requires|must not have) an offset => quant-type
preQuantScalar form to use loc=acc => acc-only
loc=scaling|scaling address space|loc pair|to use loc=|idx to be a GM tensor => location|path
non-row-major layout => parameter-layout
ND, DN, or NZ => tile-layout
to use ND layout => layout
boxed tile|32-byte aligned => tile-(boxes|alignment)
s_fractal_size => tile-fractal
exceeds row => tile-valid
must be positive => rows=
lowerable to TFILLPAD => mat-equal
matmul tile shapes => shapes
physical K shape => k-multiple
\[M, ceil\(K/32\)\] => scale-extents
valid_shape\[.\] to be (1|non-zero) => one-row|non-empty|no-half
match inferred/explicit valid_row => valid-
static element count => window-size
compatible shapes => shape-equal
same valid_shape => valid-equal|region
element (type|size)|dtype|type (to be|pairs)|types|only supported|i64 => type|quant|exist|element|precision
"""
REASONS = tuple(row.partition(" => ")[::2] for row in _TABLE.strip().splitlines())


def same_reason(error: str, verdict: Verdict) -> bool:
    """Whether a rejection says what the assembler's message says; any does where a test names none."""
    ours = next((ours for theirs, ours in REASONS if re.search(theirs, error)), None)
    said = f"{verdict.rule} {verdict.message}"
    return not error or (ours is not None and re.search(ours, said) is not None)
