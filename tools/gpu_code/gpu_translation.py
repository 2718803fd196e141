"""LLVM code of GPU kernels as code for this machine: the device's parts are replaced.

Thread and block numbers become parameters, NVVM's intrinsics LLVM's of the same meaning. Shared memory
becomes global variables, of one block at a time, barriers those of :mod:`.gpu_threads`, and a shuffle an
exchange between two threads. What has no known meaning here is refused. Constants of LLVM's newer text form
are spelled as every version reads them: as bits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools.gpu_code.gpu_threads import BARRIERS, entry

#: NVVM intrinsics and LLVM's of the same meaning: nearest even, subnormals kept.
_SAME = {
    "fabs.f": "fabs.f32", "fabs.d": "fabs.f64", "fabs.f32": "fabs.f32", "fabs.f64": "fabs.f64",
    "round.f": "roundeven.f32", "round.d": "roundeven.f64", "floor.f": "floor.f32", "floor.d": "floor.f64",
    "ceil.f": "ceil.f32", "ceil.d": "ceil.f64", "trunc.f": "trunc.f32", "trunc.d": "trunc.f64",
    "fma.rn.f": "fma.f32", "fma.rn.d": "fma.f64", "sqrt.rn.f": "sqrt.f32", "sqrt.rn.d": "sqrt.f64",
}  # fmt: skip
#: Intrinsics that are a few plain instructions.
_PLAIN = {
    f"{name}.rn.{letter}": f"define {kind} @nv_{name}_rn_{letter}({kind} %a, {kind} %b) {{\n"
    f" %r = f{name} {kind} %a, %b\n ret {kind} %r\n}}\n"
    for name in ("add", "mul", "div")
    for letter, kind in (("d", "double"), ("f", "float"))
} | {
    "rcp.rn.d": "define double @nv_rcp_rn_d(double %a) {\n %r = fdiv double 1.0, %a\n ret double %r\n}\n",
    "d2i.hi": "define i32 @nv_d2i_hi(double %a) {\n %b = bitcast double %a to i64\n %c = lshr i64 %b, 32\n"
    " %d = trunc i64 %c to i32\n ret i32 %d\n}\n",
    "d2i.lo": "define i32 @nv_d2i_lo(double %a) {\n %b = bitcast double %a to i64\n"
    " %d = trunc i64 %b to i32\n ret i32 %d\n}\n",
    "lohi.i2d": "define double @nv_lohi_i2d(i32 %l, i32 %h) {\n %a = zext i32 %l to i64\n"
    " %b = zext i32 %h to i64\n %c = shl i64 %b, 32\n %d = or i64 %a, %c\n"
    " %e = bitcast i64 %d to double\n ret double %e\n}\n",
    # The documented coarse reciprocal: the upper 32 bits of the operand, and of the result, which is off by
    # @coarse in its last place.
    "rcp.approx.ftz.d": "@coarse = global i64 0\n"
    "define double @nv_rcp_approx_ftz_d(double %a) {\n %b = bitcast double %a to i64\n"
    " %c = and i64 %b, -4294967296\n %d = bitcast i64 %c to double\n %e = fdiv double 1.0, %d\n"
    " %f = bitcast double %e to i64\n %g = and i64 %f, -4294967296\n %h = load i64, ptr @coarse\n"
    " %i = add i64 %g, %h\n %j = bitcast i64 %i to double\n ret double %j\n}\n",
}
#: The lane that a shuffle reads, from its own lane and the distance or the lane of the warp that is told;
#: one beyond the warp reads itself.
_SHUFFLES = {
    "down": " %other = add i32 %t, %distance\n",
    "up": " %other = sub i32 %t, %distance\n",
    "bfly": " %other = xor i32 %t, %distance\n",
    "idx": " %first = and i32 %t, -32\n %lane = and i32 %distance, 31\n %other = or i32 %first, %lane\n",
}
#: Reductions over a warp: how two numbers become one.
_REDUCTIONS = {
    name: f" %both = call i32 @llvm.{function}.i32(i32 %so_far, i32 %next)\n"
    for name, function in {"min": "smin", "max": "smax", "umin": "umin", "umax": "umax"}.items()
} | {name: f" %both = {name} i32 %so_far, %next\n" for name in ("add", "and", "or", "xor")}
_BARRIERS = BARRIERS + "".join(
    f"""define i32 @pto_shuffle_{name}(i32 %t, i32 %v, i32 %distance) {{
 %own = getelementptr [1024 x i32], ptr @pto_exchange, i32 0, i32 %t
 store i32 %v, ptr %own
 call void @pto_warp_barrier(i32 %t)
{other} %changed = xor i32 %other, %t
 %same = icmp ult i32 %changed, 32
 %from = select i1 %same, i32 %other, i32 %t
 %place = getelementptr [1024 x i32], ptr @pto_exchange, i32 0, i32 %from
 %r = load i32, ptr %place
 call void @pto_warp_barrier(i32 %t)
 ret i32 %r
}}
"""
    for name, other in _SHUFFLES.items()
)
_WARP_REDUCTIONS = {
    name: f"""define i32 @pto_reduce_{name}(i32 %t, i32 %v) {{
entry:
 %own = getelementptr [1024 x i32], ptr @pto_exchange, i32 0, i32 %t
 store i32 %v, ptr %own
 call void @pto_warp_barrier(i32 %t)
 %first = and i32 %t, -32
 br label %lane
lane:
 %i = phi i32 [ 1, %entry ], [ %i1, %lane ]
 %so_far = phi i32 [ %v, %entry ], [ %both, %lane ]
 %turned = xor i32 %i, %t
 %within = and i32 %turned, 31
 %from = or i32 %first, %within
 %place = getelementptr [1024 x i32], ptr @pto_exchange, i32 0, i32 %from
 %next = load i32, ptr %place
{combine} %i1 = add i32 %i, 1
 %more = icmp slt i32 %i1, 32
 br i1 %more, label %lane, label %done
done:
 call void @pto_warp_barrier(i32 %t)
 ret i32 %both
}}
"""
    for name, combine in _REDUCTIONS.items()
}
_HEAD = re.compile(r"define ptx_kernel void @\"?([^\"(]+)\"?\((.*?)\) (?:local_unnamed_addr )?#\d+")


def _transfers(bits: int, count: int) -> str:
    """Functions that load and store some integers side by side, always or on a condition."""
    one, end = f"i{bits}", " ret void\n}\n"
    several = one if count == 1 else f"{{ {', '.join([one] * count)} }}"
    words = ", ".join(f"{one} %v{i}" for i in range(count))
    places = [f" %p{i} = getelementptr {one}, ptr %p, i32 {i}\n" for i in range(count)]
    stores = (f" store {one} %v{i}, ptr %p{i}\n" for i in range(count))
    name = f"{bits}_{count}"
    return (
        f"define {several} @pto_load_{name}(ptr %p) {{\n %v = load {several}, ptr %p, align 1\n"
        f" ret {several} %v\n}}\n"
        f"define {several} @pto_load_if_{name}(ptr %p, i1 %c) {{\n br i1 %c, label %go, label %end\ngo:\n"
        f" %v = load {several}, ptr %p, align 1\n ret {several} %v\nend:\n"
        f" ret {several} zeroinitializer\n}}\n"
        f"define void @pto_store_{name}({words}, ptr %p) {{\n{''.join(places)}{''.join(stores)}{end}"
        f"define void @pto_store_if_{name}({words}, ptr %p, i1 %c) {{\n br i1 %c, label %go, label %end\n"
        f"go:\n call void @pto_store_{name}({words}, ptr %p)\n br label %end\nend:\n{end}"
    )


_TRANSFERS = {
    f"{bits}_{count}": _transfers(bits, count) for bits in (8, 16, 32, 64) for count in (1, 2, 4, 8)
}


class Refused(Exception):
    """Code that cannot be executed here; the text says why."""


@dataclass(frozen=True)
class Kernel:
    """A kernel's name, whether its parameters are read, written or unused, blocks, and threads of a block.

    The threads of a ``cooperative`` one meet at barriers.
    """

    name: str
    uses: tuple[str, ...]
    blocks: int
    threads: int
    cooperative: bool

    @property
    def symbol(self) -> str:
        """The function that it becomes."""
        return "kernel_" + re.sub(r"\W", "_", self.name)


def kernels(text: str, grids: Mapping[str, int] | None = None) -> list[Kernel]:
    """The kernels of a module, with the launch dimensions that the ranges of its registers state.

    Where they state none, ``grids`` has the number of blocks by kernel; raises Refused if it has not.
    """
    ranges = dict(re.findall(r"^!(\d+) = !\{i32 0, i32 (\d+)\}", text, re.M))
    required = dict(re.findall(r"^attributes #(\d+) = .*\"nvvm\.reqntid\"=\"(\d+),1,1\"", text, re.M))
    result = []
    for part in re.split(r"(?=^define )", text, flags=re.M):
        head = _HEAD.match(part)
        if head is None:
            continue
        bounds = dict(re.findall(r"sreg\.([\w.]+)\(\), !range !(\d+)", part))
        unknown = set(re.findall(r"read\.ptx\.sreg\.([\w.]+)\(", part.split("\ndeclare")[0])) - {
            "tid.x",
            "ctaid.x",
        }
        if unknown:
            raise Refused(f"register {', '.join(sorted(unknown))}")
        blocks, threads = (int(ranges[bounds[r]]) if r in bounds else 1 for r in ("ctaid.x", "tid.x"))
        if "ctaid.x" not in bounds and "sreg.ctaid.x(" in part and head[1] not in (grids or {}):
            raise Refused("an unknown number of blocks")
        blocks = (grids or {}).get(head[1], blocks)
        attribute = re.search(r"#(\d+)", part[head.end() - 8 :])
        if attribute is not None and threads == 1:
            threads = int(required.get(attribute[1], 1))
        uses = tuple(map(_use, re.split(r",\s*(?=ptr )", head[2])))
        meets = any(word in part for word in ("barrier.cta", "barrier0", "shfl", "bar.warp", "redux"))
        result.append(Kernel(head[1], uses, blocks, threads, meets))
    return result


def _use(parameter: str) -> str:
    return "read" if "readonly" in parameter else "unused" if "readnone" in parameter else "written"


def translated(text: str, found: Sequence[Kernel]) -> str:
    """A module for this machine: functions ``run_SYMBOL``, whose last parameter is the first thread."""
    text = re.sub(r"target (datalayout|triple) = .*\n", "", text)
    text = re.sub(r" ?addrspace\(\d\)", "", text)
    text = re.sub(r"addrspacecast \(ptr (\S+) to ptr\)", r"\1", text)
    text = re.sub(r"addrspacecast ptr (\S+) to ptr ?", r"bitcast ptr \1 to ptr ", text)
    text = re.sub(r".*@llvm\.nvvm\.griddepcontrol\.\w+\(\).*\n", "", text)
    # What a launch gives Triton's kernels: shared memory of any size.
    text = re.sub(
        r"= external (local_unnamed_addr )?global \[0 x i8\]", "= global [262144 x i8] zeroinitializer", text
    )
    if re.search(r"^@.* = external ", text, re.M):
        raise Refused("external data")
    text = respelled(text)
    # What else is known of instructions; newer LLVM writes some of it in another way.
    text = re.sub(r"^.*@llvm\.experimental\.noalias\.scope\.decl\(.*\n", "", text, flags=re.M)
    text = re.sub(r", ![a-z][\w.]* !\d+", "", text)
    text = re.sub(r"^![\w.]+ = .*\n?", "", text, flags=re.M)
    text = re.sub(r"\) (local_unnamed_addr )?#\d+", ")", text)
    text = re.sub(r"^attributes #\d+ = .*\n", "", text, flags=re.M)
    text = _as_functions(_without_assembly(text), found)
    text, used = _intrinsics(text)
    called = [f for name, f in _WARP_REDUCTIONS.items() if f"@pto_reduce_{name}(" in text]
    called += [f for name, f in _TRANSFERS.items() if re.search(rf"@pto_(load|store)(_if)?_{name}\(", text)]
    meeting = [k for k in found if k.cooperative]
    parts = [text, *(_PLAIN[name] for name in used), *called, *([_BARRIERS] if meeting else ())]
    parts += [*map(_run, found), *(entry(k.symbol, len(k.uses)) for k in meeting)]
    return "".join(parts)


def _without_assembly(text: str) -> str:
    """The inline assembly that Triton writes for loads, stores and fused steps, as LLVM's instructions."""
    text = text.replace(r";\0A\09", "; ")
    call = r"(?:tail )?call "
    fused = r'float asm "fma\.rn\.f32 \$0, \$1, \$2, \$3;", "=f,f,f,f"'
    text = re.sub(call + fused, "call float @llvm.fma.f32", text)
    load = r'(\S+|\{ [^}]* \}) asm sideeffect "(?:mov\.u\d+ \$\d+, 0x0; )+(@\$\d+ )?ld'
    store = r'(void) asm sideeffect "(@\$\d+ )?st'
    kind = r"\.global(?:\.v(\d))?\.b(\d+) "
    from_place, to_place = r"\{[^}]*\}, \[ \$\d+ \+ 0 \]", r"\[ \$\d+ \+ 0 \], \{[^}]*\}"
    for name, start, end in (("load", load, from_place), ("store", store, to_place)):

        def function(match: re.Match[str], name: str = name) -> str:
            condition = "_if" if match[2] else ""
            return f"call {match[1]} @pto_{name}{condition}_{match[4]}_{match[3] or 1}"

        text = re.sub(rf'{call}{start}{kind}{end};", "[^"]*"', function, text)
    if " asm " in text:
        raise Refused(f"inline assembly {text.partition(' asm ')[2].partition(',')[0]}")
    return text


def _as_functions(text: str, found: Sequence[Kernel]) -> str:
    """Kernels as functions whose last parameters are the numbers of the thread and of the block."""
    symbols = {k.name: k.symbol for k in found}

    def head(match: re.Match[str]) -> str:
        return f"define void @{symbols[match[1]]}({match[2]}, i32 %pto_thread, i32 %pto_number)"

    text = re.sub(r"define ptx_kernel void @\"?([^\"(]+)\"?\((.*?)\)(?= *\{)", head, text)
    call = r"(?:tail )?call (?:noundef )?(?:range\([^)]*\) )?"
    text = re.sub(call + r"i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.x\(\)", "add i32 %pto_thread, 0", text)
    text = re.sub(call + r"i32 @llvm\.nvvm\.read\.ptx\.sreg\.ctaid\.x\(\)", "add i32 %pto_number, 0", text)
    barrier = r"void @llvm\.nvvm\.barrier(?:\.cta\.sync\.aligned\.all\(i32 0\)|0\(\))"
    text = re.sub(call + barrier, "call void @pto_barrier()", text)
    text = re.sub(
        call + r"void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\)",
        "call void @pto_warp_barrier(i32 %pto_thread)",
        text,
    )
    reduction = r"i32 @llvm\.nvvm\.redux\.sync\.(\w+)\((i32 \S+), i32 -1\)"
    text = re.sub(call + reduction, r"call i32 @pto_reduce_\1(i32 %pto_thread, \2)", text)
    shuffle = r"i32 @llvm\.nvvm\.shfl\.sync\.(down|up|bfly|idx)\.i32\(i32 -1, (i32 \S+), (i32 \S+), i32 \d+\)"
    return re.sub(call + shuffle, r"call i32 @pto_shuffle_\1(i32 %pto_thread, \2, \3)", text)


def _intrinsics(text: str) -> tuple[str, list[str]]:
    """The module with intrinsics replaced, and which functions of :data:`_PLAIN` it calls."""
    # Newer LLVM has the rounding as an argument, of which 1 is to nearest.
    for width, letter in (("32", "f"), ("64", "d")):
        new = rf"@llvm\.nvvm\.f(add|mul|div)\.f{width}\((.*), (?:/\*.*?\*/ )?i32 1\)"
        text = re.sub(new, rf"@llvm.nvvm.\1.rn.{letter}(\2)", text)
    for name, same in _SAME.items():
        text = re.sub(rf"@llvm\.nvvm\.{re.escape(name)}\(", f"@llvm.{same}(", text)
    used = []
    for name in _PLAIN:
        text, count = re.subn(rf"@llvm\.nvvm\.{re.escape(name)}\(", f"@nv_{name.replace('.', '_')}(", text)
        used += [name] if count else []
    lines, seen = [], set[str]()
    for line in text.splitlines():
        declared = re.match(r"declare .*@([\w.]+)\(", line)
        if declared is not None:
            if declared[1].startswith(("nv_", "llvm.nvvm.")) or declared[1] in seen:
                continue
            seen.add(declared[1])
        lines.append(line)
    text = "\n".join(lines) + "\n"
    unknown = sorted(set(re.findall(r"@(llvm\.nvvm\.[\w.]+|__nv_\w+|vprintf|__assertfail)\(", text)))
    if unknown:
        raise Refused(", ".join(unknown))
    return text, used


def _run(kernel: Kernel) -> str:
    """All threads of all blocks one after another, or one of a cooperative kernel, with the others."""
    names = ", ".join(f"ptr %p{i}" for i in range(len(kernel.uses)))
    last = f"add i32 %first, {1 if kernel.cooperative else kernel.threads}"
    meet = "call void @pto_barrier()" if kernel.cooperative else ""
    return f"""define void @run_{kernel.symbol}({names}, i32 %first) {{
entry:
  %last = {last}
  br label %block
block:
  %b = phi i32 [ 0, %entry ], [ %b1, %next ]
  br label %thread
thread:
  %t = phi i32 [ %first, %block ], [ %t1, %thread ]
  call void @{kernel.symbol}({names}, i32 %t, i32 %b)
  %t1 = add i32 %t, 1
  %more = icmp slt i32 %t1, %last
  br i1 %more, label %thread, label %next
next:
  {meet}
  %b1 = add i32 %b, 1
  %again = icmp slt i32 %b1, {kernel.blocks}
  br i1 %again, label %block, label %done
done:
  ret void
}}
"""


def respelled(text: str) -> str:
    """The module with every float constant as bits."""
    text = re.sub(r"\bf0x([0-9A-F]{16})\b", r"0x\1", text)
    text = re.sub(r"\bhalf f0x([0-9A-F]{4})\b", r"half 0xH\1", text)
    text = re.sub(r"\bbfloat f0x([0-9A-F]{4})\b", r"bfloat 0xR\1", text)
    text = re.sub(r"\bf0x([0-9A-F]{8})\b", lambda m: _as_double(m.group(1)), text)
    return "\n".join(_spelled(line) for line in text.split("\n"))


def _as_double(word: str) -> str:
    """A float constant as the bits of the double of its value."""
    value = np.frombuffer(bytes.fromhex(word), ">f4")[0]
    return f"0x{int(np.float64(value).view(np.uint64)):016X}"


_NUMBER = re.compile(
    r"\b(?P<kind>double|float|half|bfloat|i\d+|ptr)\b"
    r"|(?<![\w%@.])(?P<sign>[+-]?)(?:(?P<nan>q?nan)(?:\(0x(?P<payload>[0-9A-Fa-f]+)\))?"
    r"|(?P<value>inf|\d+\.\d+(?:e[+-]?\d+)?))(?![\w.])"
)
#: Fraction bits of a type, and how far they are shifted in a double.
_FRACTION = {"double": (52, 0), "float": (23, 29)}
#: How bits of a narrow type begin, its fraction bits, and its infinity.
_NARROW = {"half": ("0xH", 10, 0x7C00), "bfloat": ("0xR", 7, 0x7F80)}


def _spelled(line: str) -> str:
    """Decimal constants, infinities and NaNs of a line as bits, rounded to the type named before them."""
    if "=" not in line and "store" not in line and "ret" not in line:
        return line
    kind = "double"

    def one(match: re.Match[str]) -> str:
        nonlocal kind
        if match["kind"]:
            kind = match["kind"]
        if match["kind"]:
            return match[0]
        if kind in _NARROW and (match["nan"] or match["value"] == "inf"):
            start, fraction, infinity = _NARROW[kind]
            quiet = int(match["payload"] or "0", 16) | 1 << (fraction - 1) if match["nan"] else 0
            return f"{start}{(match['sign'] == '-') << 15 | infinity | quiet:04X}"
        if kind not in _FRACTION:
            return match[0]
        fraction, shift = _FRACTION[kind]
        sign = (match["sign"] == "-") << 63
        if match["nan"]:
            payload = int(match["payload"] or "0", 16) | 1 << (fraction - 1)
            return f"0x{sign | 0x7FF << 52 | payload << shift:016X}"
        value = np.float64(match["value"]) if kind == "double" else np.float64(np.float32(match["value"]))
        return f"0x{sign | int(value.view(np.uint64)):016X}"

    return _NUMBER.sub(one, line)
